"""Tables of which far more comes out than is on disk: memory, signals, and what is read of them.

Each file is some kilobytes or megabytes and holds gigabytes. A process of its own reads it, and
says how much memory it took at most and the longest stretch, in processor time, in which no signal
was heard.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lshdb
from lshdb.documents.formats.column_sizes import decoded_bytes, small_batches

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MEGABYTE = 2**20
TEXT = ("some words that come again and again " * 30_000)[:MEGABYTE]
SCRIPT = """
import json, signal, sys, time
from lshdb import read_documents
from lshdb.documents.document import Document
last = [time.process_time()]
longest = [0.0]
def tick(*_):
    now = time.process_time()
    longest[0] = max(longest[0], now - last[0])
    last[0] = now
signal.signal(signal.SIGPROF, tick)
signal.setitimer(signal.ITIMER_PROF, 0.02, 0.02)
counts = [0, 0]
for item in read_documents([sys.argv[1]], **json.loads(sys.argv[2])):
    counts[isinstance(item, Document)] += 1
tick()
signal.setitimer(signal.ITIMER_PROF, 0)
with open("/proc/self/status") as status:
    (peak,) = (int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps([*counts, peak // 1024, longest[0]]))
"""


def references(n: int, text: str) -> Any:
    return arrow.DictionaryArray.from_arrays(
        arrow.array(np.zeros(n, np.int32)), arrow.array([text])
    )


def keyed(n: int, column: Any, name: str = "text") -> Any:
    return arrow.table({"id": arrow.array(np.arange(n)), name: column})


def write_parquet(path: Path, table: Any, **options: Any) -> None:
    parquet.write_table(table, path, compression="zstd", row_group_size=10**9, **options)


def write_plain(path: Path, table: Any, encoding: str | None) -> None:
    how = {} if encoding is None else {"column_encoding": {"text": encoding}}
    with parquet.ParquetWriter(
        path, table.schema, use_dictionary=False, write_statistics=False, compression="zstd",
        write_batch_size=16, **how,
    ) as writer:  # fmt: skip
        writer.write_table(table, row_group_size=10**9)


def write_arrow(path: Path, table: Any, compression: str | None = None) -> None:
    options = arrow.ipc.IpcWriteOptions(compression=compression)
    with arrow.ipc.new_file(path, table.schema, options=options) as writer:
        writer.write_table(table)


def dictionary(path: Path) -> None:
    write_parquet(path, keyed(3_000, references(3_000, TEXT)), store_schema=False)


def typed_dictionary(path: Path) -> None:
    write_parquet(path, keyed(3_000, references(3_000, TEXT)))


def kept_structure(path: Path) -> None:
    meta = arrow.StructArray.from_arrays([references(2_000, TEXT)], ["a"])
    table = keyed(2_000, arrow.array(["x y"] * 2_000)).append_column("meta", meta)
    write_parquet(path, table, store_schema=False)


def one_long_list(path: Path) -> None:
    offsets = np.zeros(20_001, np.int32)
    offsets[-1] = 3_000_000
    tokens = arrow.ListArray.from_arrays(arrow.array(offsets), references(3_000_000, TEXT[:1_000]))
    write_parquet(path, keyed(20_000, tokens), store_schema=False)


def short_then_long(path: Path, encoding: str | None = None) -> None:
    short = arrow.array([f"a b {n}" for n in range(50_000)])
    table = keyed(52_000, arrow.chunked_array([short, *[arrow.array([TEXT] * 200)] * 10]))
    write_plain(path, table, encoding)


def prefixes(path: Path) -> None:
    short_then_long(path, "DELTA_BYTE_ARRAY")


def arrow_dictionary(path: Path) -> None:
    write_arrow(path, keyed(3_000, references(3_000, TEXT)), "zstd")


def arrow_compressed(path: Path) -> None:
    write_arrow(path, keyed(1_500, arrow.array([TEXT] * 1_500)), "zstd")


def arrow_by_its_footer(path: Path) -> None:
    """Where the first message is expected is none, as in files of Polars."""
    arrow_compressed(path)
    data = bytearray(path.read_bytes())
    data[8:16] = b"\4\0\0\0\xf2\xff\xff\xff"
    path.write_bytes(data)


def arrow_list(path: Path) -> None:
    offsets = arrow.array(np.arange(0, 1_500 * 1_001, 1_001, dtype=np.int32))
    tokens = arrow.ListArray.from_arrays(offsets, arrow.array([TEXT[:1_000]] * 1_500_499))
    write_arrow(path, keyed(1_499, tokens.slice(0, 1_499)), "lz4")


def arrow_runs(path: Path) -> None:
    runs = arrow.RunEndEncodedArray.from_arrays(arrow.array([3_000], arrow.int32()), [TEXT])
    write_arrow(path, keyed(3_000, runs))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is asked of /proc")
@pytest.mark.parametrize(
    ("make", "n_documents", "n_rejected"),
    [
        (dictionary, 3_000, 0),
        (typed_dictionary, 3_000, 0),
        (kept_structure, 2_000, 0),
        (one_long_list, 19_999, 1),
        (short_then_long, 52_000, 0),
        (prefixes, 52_000, 0),
        (arrow_dictionary, 3_000, 0),
        (arrow_compressed, 1_500, 0),
        (arrow_by_its_footer, 1_500, 0),
        (arrow_list, 1_499, 0),
        (arrow_runs, 3_000, 0),
    ],
)
@pytest.mark.long(when=lambda make: make in (dictionary, prefixes, arrow_dictionary, arrow_runs))
def test_memory_and_signals(
    make: Callable[[Path], None], n_documents: int, n_rejected: int, tmp_path: Path
) -> None:
    path = tmp_path / f"bomb.{'arrow' if make.__name__.startswith('arrow') else 'parquet'}"
    make(path)
    assert path.stat().st_size < 16 * MEGABYTE
    options = {"keep_fields": ["meta"]} if make is kept_structure else {}
    rejected, documents, peak, silence = measured(path, options)
    assert (documents, rejected) == (n_documents, n_rejected)
    assert peak < 400
    assert silence < 1


def measured(path: Path, options: dict[str, Any]) -> list[Any]:
    """Rejections, documents, MiB at most, and seconds without a signal."""
    root = str(Path(lshdb.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), json.dumps(options)],
        capture_output=True, text=True, check=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path[1:]])},
    )  # fmt: skip
    result: list[Any] = json.loads(done.stdout)
    return result


def test_a_page_that_only_fills_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.parquet"
    table = keyed(300, arrow.array([TEXT[:1] * MEGABYTE] * 300))
    with parquet.ParquetWriter(
        path, table.schema, use_dictionary=False, write_statistics=False, compression="zstd",
        data_page_size=2**31 - 1, write_batch_size=1_000,
    ) as writer:  # fmt: skip
        writer.write_table(table)
    (only,) = lshdb.read_documents([path])
    assert "has a page of 314," in only.reason and "write it with smaller pages" in only.reason


def test_rows_over_the_limit_are_not_made(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, keyed(500, references(500, TEXT * 20)), store_schema=False)
    rows = list(lshdb.read_documents([path], max_document_bytes=10 * MEGABYTE))
    assert len(rows) == 500
    assert {each.reason for each in rows} == {
        "the body has 20,971,524 bytes, more than the limit of 10,485,760"
    }


def test_pieces_have_the_rows_of_the_batch(tmp_path: Path) -> None:
    """Every type that is read in pieces, with nulls, slices and several batches."""
    from lshdb.documents.formats import arrow as reader

    rng = np.random.default_rng(1)
    n = 3_000
    words = [None if rng.random() < 0.1 else "é" * int(rng.integers(40)) for _ in range(n)]
    lists = [None if rng.random() < 0.1 else words[i : i + int(rng.integers(4))] for i in range(n)]
    columns = {
        "a": arrow.array(words),
        "b": arrow.array(words, arrow.large_string()),
        "c": arrow.array(lists),
        "d": arrow.array([None if i % 7 == 0 else bool(i % 3) for i in range(n)]),
        "e": arrow.array([None if i % 5 == 0 else i for i in range(n)], arrow.int16()),
        "f": arrow.array([None if i % 5 == 0 else {"x": i, "y": words[i]} for i in range(n)]),
        "g": arrow.array([None if i % 9 == 0 else [i, i + 1] for i in range(n)],
                         arrow.list_(arrow.float32(), 2)),
        "h": arrow.array([None if i % 4 == 0 else [("k", i), ("l", None)] for i in range(n)],
                         arrow.map_(arrow.string(), arrow.int64())),
        "i": arrow.nulls(n),
        "j": arrow.array([b"%04d" % (i % 10_000) for i in range(n)], arrow.binary(4)),
        "k": arrow.array([[[i], []] for i in range(n)]),
        "l": arrow.ExtensionArray.from_storage(
            arrow.uuid(), arrow.array([b"%016d" % i for i in range(n)], arrow.binary(16))),
        "m": arrow.array(range(n), arrow.timestamp("ns", "UTC")),
    }  # fmt: skip
    table = arrow.table(columns).slice(5)
    for form in (arrow.ipc.new_file, arrow.ipc.new_stream):
        for codec in (None, "lz4", "zstd"):
            path = tmp_path / "a.arrow"
            options = arrow.ipc.IpcWriteOptions(compression=codec)
            with form(path, table.schema, options=options) as writer:
                writer.write_table(table, max_chunksize=1_100)
            for chosen in (list(range(len(columns))), [2, 3, 11]):
                with pytest.MonkeyPatch.context() as patch, path.open("rb") as file:
                    patch.setattr(reader, "_WHOLE_BYTES", 1)
                    batches = list(reader.ipc_batches(file, file.fileno(), chosen))
                assert len(batches) > 6
                pieces = arrow.Table.from_batches(batches)
                pieces.validate(full=True)
                assert pieces.equals(table.select(chosen))


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_damaged_pieces_end_with_a_message(codec: str | None, tmp_path: Path) -> None:
    from lshdb.documents.formats import arrow as reader

    path = tmp_path / "a.arrow"
    write_arrow(path, keyed(500, arrow.array([["one", "two"]] * 500)), codec)
    content = path.read_bytes()
    rng = np.random.default_rng(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_WHOLE_BYTES", 1)
        for _ in range(300):
            damaged = bytearray(content)
            for place in rng.integers(0, len(content), 3):
                damaged[place] = int(rng.integers(256))
            path.write_bytes(damaged)
            assert len(list(lshdb.read_documents([path]))) <= 501


def test_sizes_are_those_of_the_values() -> None:
    texts = arrow.array(["é", None, "abc", "é"])
    for column, sizes in (
        (texts, [6, 4, 7, 6]),
        (texts.dictionary_encode(), [6, 0, 7, 6]),
        (arrow.array([[1.0], [], None, [1.0, 2.0]]), [8, 0, 0, 16]),
        (arrow.ListArray.from_arrays([0, 2, 4], texts.dictionary_encode()), [6, 13]),
        (arrow.array([{"a": "x", "b": 1}]), [13]),
        (arrow.RunEndEncodedArray.from_arrays([3, 4], ["xy", "z"]), [6, 6, 6, 5]),
        (arrow.array([[1, 2], [3, 4]], arrow.list_(arrow.int32(), 2)), [8, 8]),
    ):
        assert decoded_bytes(arrow, column).tolist() == sizes
        assert decoded_bytes(arrow, column.slice(1)).tolist() == sizes[1:]
    many = arrow.record_batch({"text": references(1_000, TEXT)})
    batches = list(small_batches(arrow, [many]))
    assert sum(each.num_rows for each in batches) == 1_000
    assert max(each.num_rows for each in batches) <= 8

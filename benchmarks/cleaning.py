"""A large corpus, deduplicated by one command into a clean file: how fast, and how well.

    python -m benchmarks.cleaning FOLDER [--documents 5000000] [--words 380]
        [--formats jsonl,parquet] [--keep] [--markdown]

``make_corpus`` makes documents of some 2 KB, of which about a tenth is near one before it at 0.8
and above, with a list of all such pairs. ``lshdb dedup`` then writes each format again without
them. Time goes from the start of the process to its end, and MB are those of the file that it
reads. The corpus is made in a process of its own, so that its memory is not counted.

A planted pair is found if one of the two documents is dropped. A dropped document is right if it
and the one that is kept for it are a planted pair. FOLDER needs three times the bytes of the
corpus, and as much again for temporary files, which lie there, too. All is removed at the end, but
with ``--keep`` what was made stays for the next run.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks._steps import run_step
from benchmarks._tables import facts, table
from benchmarks.peers.pairers import PAIRERS

_THRESHOLD = 0.8
_ROWS = 50_000


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    corpus, planted = folder / "corpus.jsonl", folder / "planted.tsv"
    if not planted.exists():
        sizes = ["--documents", str(options.documents), "--words", str(options.words)]
        run_step(["benchmarks/make_corpus.py", str(corpus), str(planted), *sizes], folder / "log")
    print(facts(PAIRERS[:1]), flush=True)
    body = [
        _cleaned(_as(corpus, kind), planted, options.documents)
        for kind in options.formats.split(",")
    ]
    head = ["format", "MB", "s", "processor s", "MB/s", "peak MiB", "kept", "recall", "precision"]
    print(table(head, body, markdown=options.markdown))
    if not options.keep:
        for path in (corpus, corpus.with_suffix(".parquet"), planted, folder / "log"):
            path.unlink(missing_ok=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cleaning", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="for the corpus, and for temporary files")
    parser.add_argument("--documents", type=int, default=5_000_000)
    parser.add_argument("--words", type=int, default=380, help="words a document, about")
    parser.add_argument("--formats", default="jsonl,parquet")
    parser.add_argument("--keep", action="store_true", help="keep what was made, and use it again")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _as(corpus: Path, kind: str) -> Path:
    """Return the corpus in a format; make it if it is not there."""
    path = corpus.with_suffix(f".{kind}")
    if not path.exists():
        program = (
            "from benchmarks.cleaning import to_parquet; to_parquet(*__import__('sys').argv[1:])"
        )
        run_step(["-c", program, str(corpus), str(path)], corpus.with_name("log"))
    return path


def to_parquet(corpus: str, path: str) -> None:
    """Write JSON Lines as Parquet, a row group of some thousand at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("id", pa.string()), ("text", pa.string())])
    with open(corpus, "rb") as lines, pq.ParquetWriter(path, schema) as writer:
        rows = []
        for line in lines:
            rows.append(json.loads(line))
            if len(rows) == _ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pa.Table.from_pylist(rows, schema))


def _cleaned(corpus: Path, planted: Path, documents: int) -> list[str]:
    """Deduplicate a file; return a line of the table."""
    clean, dropped = corpus.with_name(f"clean{corpus.suffix}"), corpus.with_name("dropped.tsv")
    command = ["-m", "lshdb", "dedup", str(corpus), "--output", str(clean), "--overwrite"]
    command += ["--decisions", str(dropped), "--only", "drop", "--format", "tsv"]
    step = run_step(command, corpus.with_name("log"))
    n_bytes = corpus.stat().st_size
    kept_for = {}
    with dropped.open(encoding="utf-8") as lines:
        for line in lines:
            key, _, kept_key, *_ = line.rstrip("\n").split("\t")
            kept_for[key] = kept_key
    n_planted = n_found = n_right = 0
    with planted.open(encoding="ascii") as lines:
        for line in lines:
            key1, key2, similarity = line.split("\t")
            if float(similarity) >= _THRESHOLD:
                n_planted += 1
                n_found += key1 in kept_for or key2 in kept_for
                n_right += kept_for.get(key1) == key2 or kept_for.get(key2) == key1
    for path in (clean, dropped):
        path.unlink()
    return [
        corpus.suffix[1:], f"{n_bytes / 1e6:,.0f}", f"{step.seconds:,.1f}",
        f"{step.processor:,.1f}", f"{n_bytes / 1e6 / step.seconds:,.1f}",
        f"{step.peak / 2**20:,.0f}", f"{documents - len(kept_for):,}",
        f"{n_found / max(1, n_planted):.5f}", f"{n_right / max(1, len(kept_for)):.5f}",
    ]  # fmt: skip


if __name__ == "__main__":
    main()

"""Every reader of bytes from outside, as something to be fuzzed: a case is a string of bytes.

What may come of a case: documents and rejections, an answer, or an LshdbError. What may not: any
other exception, a crash of the process, more than ``MEMORY`` of memory, or no end within
``SECONDS_A_CASE``. The first bytes of a case are choices (the format of a file, which questions),
the rest is what is read; so a fuzzer works on the content itself.

``fuzz_readers.py`` makes cases of good ones by mutations of its own, ``fuzz_atheris.py`` by what
they reach in the code. The index that is damaged is made the same every time, its uuid and times
too, so that bytes are the same case in another process.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import io
import itertools
import json
import random
import shutil
import sqlite3
import struct
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from lshdb import Document, Index, LshdbError, Rejected, read_documents
from lshdb.documents.document import (
    validate_body,
    validate_key,
)
from lshdb.documents.formats.delimited import read_links
from lshdb.documents.formats.jsonl import read_raw_lines
from lshdb.documents.read import peek_documents
from lshdb.documents.registry import COMPRESSIONS
from lshdb.storage.tables.records import CHECKED_TABLES
from tests.choices import Choices

MEMORY = 3 * 2**30
SECONDS_A_CASE = 60

TEXT = "the quick brown fox jumps over the lazy dog and then on to the next one"
LINES = [
    {"id": "a", "text": TEXT},
    {
        "id": 17,
        "text": TEXT + " ünï ﬁ 漢字 \u0000 \u2028 \U0001f600",
        "more": [1.5, None, {"b": [[]]}],
    },
    {"id": "c", "text": ["one", "two", "three", ""]},
    {"id": "../../etc/passwd'; DROP TABLE document; --", "text": ""},
]
JSONL = "".join(json.dumps(line, ensure_ascii=n % 2 == 0) + "\n" for n, line in enumerate(LINES))
CSV = f'\ufeffid,text,more\r\na,{TEXT},1\r\n"b ""q""","two\r\nlines, and a comma",2\r\n\r\nc,,3\r\n'
NUMBERS = np.arange(-6, 6).reshape(4, 3) / 8
URLS = "http://a.com/x/y.html\nhttps://me:pw@B.com:8080/?q=1#f\n//[::1]:80/z\nc.org/%e4%f6\n"
INPUTS = {
    "jsonl": JSONL.encode(),
    "csv": CSV.encode(),
    "tsv": CSV.replace(",", "\t").encode(),
    "text": (TEXT + "\r\n\ufeff\u0000").encode(),
    "urls": URLS.encode(),
}
LINKS = b"a\tb\na\tc\t3\r\n\nb\t\xc3\xbc\t9007199254740992\n" + INPUTS["jsonl"]
PACKS = ("", ".gz", ".zst", "raw .gz", "raw .zst")
"""How a file is compressed; of a raw one the case holds the compressed bytes."""
LIMITS = (1, 10, 200, 64 * 2**20)
TOML = [
    b"format = 1e400", b"[parameters]", b"a = " + b"[" * 5000, b"k = 9" + b"9" * 9000,
    b"database = 'sqlite:///signatures.npy'", b"database = 'postgresql://u:pw@h'",
    b"database = \"sqlite:///\\u0000\"", b"uuid = 1979-05-27", b"bands = true",
    b"database = 'sqlite:///../../x'", b"format = " + b"1" * 100,
]  # fmt: skip
VALUES = [
    "-1", "0", "1", "2", "1000000", "9223372036854775807", "-9223372036854775808", "1.5", "1e300",
    "9e999", "''", "'x'", "'band'", "'document'", "x''", "x'00ff'",
    "CAST(x'ff80' AS TEXT)",
    "NULL", "'[1'", "'nul' || char(0) || 'l'", "zeroblob(70000)",
    "'../../index.toml'", "'2026-01-01 00:00:00.000000'", "x'28b52ffd'", "x'789c'",
]  # fmt: skip
Question = Callable[[Index, list[str]], object]
QUESTIONS: list[Question] = [
    lambda index, texts: [index.query(text, verify=how) for text in texts[:4]
                          for how in ("exact", "signature", "none")],
    lambda index, texts: index.query(key="k0", top=None),
    lambda index, texts: list(index.query_many([("q", text) for text in texts], workers=2)),
    lambda index, texts: [list(index.pairs(verify=how)) for how in ("exact", "signature", "none")],
    lambda index, texts: list(index.pairs(since="last", max_bucket=3)),
    lambda index, texts: list(index.clusters(update=False)),
    lambda index, texts: list(index.clusters(linkage="representative")),
    lambda index, texts: list(index.dedup(keep="longest")),
    lambda index, texts: list(index.neighbors()),
    lambda index, texts: list(index.join(index)),
    lambda index, texts: index.explain("k0", "k12"),
    lambda index, texts: [index.show(key) for key in ("k0", "tokens", "k1")],
    lambda index, texts: index.stats(max_bucket=2),
    lambda index, texts: index.batches(),
    lambda index, texts: index.check(),
    lambda index, texts: index.sql("SELECT * FROM document JOIN batch USING (batch_id)").rows,
    lambda index, texts: list(index.sql("SELECT * FROM bucket").rows),
    lambda index, texts: index.add([("new", texts[0]), ("k0", texts[5]), ("k2", texts[2])]),
    lambda index, texts: index.remove(["k3", "k4"]),
    lambda index, texts: index.edge_state(),
]  # fmt: skip

Case = tuple[bytes, bytes]
"""A good case: the choices, and the content that is read."""


class _Still(datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime(2026, 1, 1, tzinfo=UTC)


class Fuzzer:
    """The targets, and a folder that they work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seeds: dict[str, list[Case]] = {}
        rng = random.Random(0)
        words = [f"w{number}" for number in range(60)]
        texts = [" ".join(rng.choices(words, k=30)) for _ in range(12)]
        self.texts = texts + [text + " more" for text in texts[:6]] + texts[:3]

    @functools.cached_property
    def base(self) -> Path:
        """The index that is damaged, in copies."""
        path, texts = self.folder / "base.lshdb", self.texts
        with (
            mock.patch("lshdb.storage.tables.records.datetime", _Still),
            mock.patch("uuid.uuid4", lambda: uuid.UUID(int=1)),
            Index.create(path, k=2, bands=32, rows=2, threshold=0.5) as index,
        ):
            for start in range(0, len(texts), 5):
                index.add([(f"k{start + n}", t) for n, t in enumerate(texts[start : start + 5])])
            index.add([("k1", texts[1] + " replaced"), ("tokens", ["a", "b", "c"])])
            index.update_clusters()
            index.remove(["k7"])
        return path

    @functools.cached_property
    def exported(self) -> Path:
        """An export of it."""
        path = self.folder / "base.export"
        with Index.open(self.base) as index:
            index.export(path)
        return path

    def run(self, target: str, data: bytes) -> None:
        """Run one case; what it raises is a finding."""
        with contextlib.suppress(LshdbError):
            TARGETS[target][0](self, Choices(data))

    def seeds(self, target: str) -> list[Case]:
        """Good cases, or nearly, that a fuzzer starts from."""
        if target not in self._seeds:
            self._seeds[target] = TARGETS[target][1](self)
        return self._seeds[target]

    # Inputs

    def documents(self, choices: Choices) -> None:
        """``read_documents``, plain, compressed, and compressed with damage."""
        kind, pack, limit = choices.pick([*INPUTS]), choices.pick(PACKS), choices.pick(LIMITS)
        path = self._input(f"in.{'txt' if kind in ('text', 'urls') else kind}", pack, choices)
        for item in read_documents([path], input_format=kind, max_document_bytes=limit):
            assert isinstance(item, Document | Rejected)
            if isinstance(item, Document):
                assert validate_key(item.key) is None and validate_body(item.body) is None
            else:
                assert item.source.isprintable() and item.reason.isprintable(), item

    def _document_seeds(self) -> list[Case]:
        kinds = enumerate(INPUTS.values())
        numbers = itertools.product(kinds, enumerate(PACKS), range(len(LIMITS)))
        return [
            (bytes([kind, pack, limit]), _packed(content, name) if "raw" in name else content)
            for (kind, content), (pack, name), limit in numbers
        ]

    def vectors(self, choices: Choices) -> None:
        """``.npy`` and ``.npz`` as input, and as a file of keys."""
        kind, pack = choices.pick(("npy", "npz")), choices.pick(PACKS)
        limit, is_keys = choices.pick(LIMITS), choices.number(4) == 3
        path = self._input(f"in.{kind}", pack, choices)
        options: dict[str, Any] = {}
        if is_keys:
            options["keys"], path = path, self.folder / "rows.npy"
            np.save(path, NUMBERS)
        for body in ("vector", "bits"):
            _, items = peek_documents([path], body=body, max_document_bytes=limit, **options)
            for item in items:
                if isinstance(item, Document):
                    assert validate_key(item.key) is None
                    assert item.body.ndim == 1 and item.body.dtype.isnative
                    item.body.sum()
                else:
                    assert item.source.isprintable() and item.reason.isprintable(), item

    def _vector_seeds(self) -> list[Case]:
        arrays = [
            NUMBERS, NUMBERS.astype(">f4"), NUMBERS.astype("<f2").copy(order="F"), NUMBERS > 0,
            np.arange(12, dtype="u1").reshape(4, 3), np.array(["a", "ü", "c", "d"]), np.arange(4),
        ]  # fmt: skip
        seeds = []
        for number, array in enumerate(arrays):
            for kind, save in enumerate((np.save, np.savez, np.savez_compressed)):
                file = io.BytesIO()
                named = {"x": array, "id": np.arange(4)}
                save(file, array) if kind == 0 else save(file, **named)  # type: ignore[operator]
                pack = number % len(PACKS) if kind == 0 else 0
                head = bytes([min(kind, 1), pack, 3, 3 * (number > 4)])
                content = file.getvalue()
                raw = "raw" in PACKS[pack]
                seeds.append((head, _packed(content, PACKS[pack]) if raw else content))
        return seeds

    def links(self, choices: Choices) -> None:
        """``read_links`` and the lines of ``dedup --filter``, which hand on every byte."""
        pack, limit = choices.pick(PACKS), choices.pick((1, 50, 10**6))
        path = self._input("links", pack, choices)
        with contextlib.suppress(LshdbError):
            for _ in read_links(path):
                pass
        given = b"".join(line.data for line in read_raw_lines(path, limit=limit))
        content = path.read_bytes()
        is_packed = not pack and any(one.begins(content) for one in COMPRESSIONS.values())
        assert "raw" in pack or is_packed or given == _unpacked(content, pack)

    def _link_seeds(self) -> list[Case]:
        numbers = itertools.product(enumerate(PACKS), range(3))
        return [
            (bytes([pack, limit]), _packed(LINKS, name) if "raw" in name else LINKS)
            for (pack, name), limit in numbers
        ]

    def _input(self, name: str, pack: str, choices: Choices) -> Path:
        """What is left of a case, as a file."""
        path = self.folder / (name + pack.removeprefix("raw "))
        content = choices.rest()
        path.write_bytes(content if "raw" in pack else _packed(content, pack))
        return path

    # Indexes

    def toml(self, choices: Choices) -> None:
        """``index.toml``."""
        asked = [choices.pick(QUESTIONS) for _ in range(2)]
        path = self._copied()
        (path / "index.toml").write_bytes(choices.rest())
        self._ask(path, asked)

    def _toml_seeds(self) -> list[Case]:
        good = (self.base / "index.toml").read_bytes()
        lines = [line for line in good.splitlines()[2:] if line]
        swapped = [good.replace(line, other) for line in lines for other in TOML]
        return [(bytes([n % 20, 0]), content) for n, content in enumerate([good, *swapped])]

    def npy(self, choices: Choices) -> None:
        """The signature file: header alone, or header, rows and length."""
        asked = [choices.pick(QUESTIONS) for _ in range(4)]
        path, is_whole = self._copied(), choices.number(2)
        file = path / "signatures.npy"
        file.write_bytes(choices.rest() + (b"" if is_whole else file.read_bytes()[128:]))
        self._ask(path, asked)

    def _npy_seeds(self) -> list[Case]:
        good = (self.base / "signatures.npy").read_bytes()
        asked = [bytes((first + n) % 20 for n in range(4)) for first in range(0, 20, 4)]
        return [(one + b"\0", good[:128]) for one in asked] + [(one + b"\1", good) for one in asked]

    def rows(self, choices: Choices) -> None:
        """Rows of ``index.db`` with other values and types, those of the posting runs too."""
        asked = [choices.pick(QUESTIONS) for _ in range(6)]
        path = self._copied()
        database = sqlite3.connect(path / "index.db", isolation_level=None)
        with contextlib.closing(database):
            database.text_factory = bytes  # what is garbled may be no UTF-8
            database.execute("PRAGMA ignore_check_constraints=ON")
            for _ in range(choices.pick((1, 1, 2, 5))):
                _garble(database, choices)
        self._ask(path, asked)

    def _row_seeds(self) -> list[Case]:
        rng = random.Random(0)
        return [(rng.randbytes(60), b"") for _ in range(60)]

    def export(self, choices: Choices) -> None:
        """The files of an export; the manifest is brought up to date with one that is changed."""
        name = choices.pick(sorted(path.name for path in self.exported.iterdir()))
        asked = [choices.pick(QUESTIONS) for _ in range(2)]
        is_counted, content = choices.number(4), choices.rest()
        folder, made = self.folder / "copy.export", self.folder / "made.lshdb"
        for path in (folder, made):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.exported, folder)
        (folder / name).write_bytes(content)
        manifest = folder / "index.json"
        if name != manifest.name:
            said = json.loads(manifest.read_bytes())
            digest = hashlib.blake2b(content, digest_size=32).hexdigest()
            said["files"][name] = {"bytes": len(content), "blake2b": digest}
            if is_counted and name.endswith(".jsonl"):
                said["counts"][name.removesuffix(".jsonl")] = len(io.BytesIO(content).readlines())
            manifest.write_text(json.dumps(said))
        try:
            index = Index.from_export(folder, made)
        except LshdbError:
            assert not made.exists()
            raise
        with index:
            _answer(index, asked, self.texts)

    def _export_seeds(self) -> list[Case]:
        paths = sorted(self.exported.iterdir())
        numbers = itertools.product(enumerate(paths), range(0, 20, 5))
        return [(bytes([n, ask, ask + 2, 1]), path.read_bytes()) for (n, path), ask in numbers]

    def _copied(self) -> Path:
        path = self.folder / "copy.lshdb"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.base, path)
        return path

    def _ask(self, path: Path, asked: list[Question]) -> None:
        with Index.open(path) as index:
            _answer(index, asked, self.texts)


TARGETS: dict[
    str, tuple[Callable[[Fuzzer, Choices], None], Callable[[Fuzzer], list[Case]]]
] = {
    "documents": (Fuzzer.documents, Fuzzer._document_seeds),
    "vectors": (Fuzzer.vectors, Fuzzer._vector_seeds),
    "links": (Fuzzer.links, Fuzzer._link_seeds),
    "toml": (Fuzzer.toml, Fuzzer._toml_seeds),
    "npy": (Fuzzer.npy, Fuzzer._npy_seeds),
    "rows": (Fuzzer.rows, Fuzzer._row_seeds),
    "export": (Fuzzer.export, Fuzzer._export_seeds),
}  # fmt: skip


def _answer(index: Index, asked: list[Question], texts: list[str]) -> None:
    for question in asked:
        with contextlib.suppress(LshdbError):
            question(index, texts)


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _packed(content: bytes, pack: str) -> bytes:
    if pack.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    return _zstd().compress(content) if pack.endswith(".zst") else content


def _unpacked(content: bytes, pack: str) -> bytes:
    if pack.endswith(".gz"):
        return gzip.decompress(content)
    return _zstd().decompress(content) if pack.endswith(".zst") else content


def _garble(database: sqlite3.Connection, choices: Choices) -> None:
    """Do something to a row, as far as the schema lets it."""
    tables = [
        name.decode()
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY name"
        )
    ]
    table = choices.pick(tables)
    columns = [row[1].decode() for row in database.execute(f"PRAGMA table_info({table})")]
    column = choices.pick(columns)
    count = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    first = database.execute(
        f"SELECT {columns[0]} FROM {table} ORDER BY 1 LIMIT 1 OFFSET ?",
        (choices.number(count or 1),),
    ).fetchone()
    where = "WHERE 1 OR ? IS 0" if choices.rarely(5) else f"WHERE {columns[0]} IS ?"
    if choices.rarely(10):
        statement, values = f"DELETE FROM {table} {where}", []
    else:
        value, values = _value(choices)
        statement = f"UPDATE OR REPLACE {table} SET {column} = {value}"
        if table in CHECKED_TABLES and column != "checksum" and not choices.rarely(4):
            statement += ", checksum = 0"  # not known, so the value is met where it is used
        statement += f" {where}"
    with contextlib.suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
        database.execute(statement, (*values, first[0] if first else None))


def _value(choices: Choices) -> tuple[str, list[object]]:
    """An expression of SQL, and what is bound in it."""
    match choices.number(8):
        case 0:
            return "?", [int.from_bytes(choices.take(8), "little", signed=True)]
        case 1:
            return "?", [struct.unpack("<d", choices.take(8).ljust(8, b"\0"))[0]]
        case 2:
            return "CAST(? AS TEXT)", [choices.take(choices.number(40))]
        case 3:
            return "?", [choices.take(choices.number(40))]
        case _:
            return choices.pick(VALUES), []

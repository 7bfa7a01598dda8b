"""Fuzz every reader of bytes from outside: any damage ends in an LshdbError, or does no harm.

    python tests/fuzz_readers.py --seconds 600
    python tests/fuzz_readers.py --target rows --seed 1 --case 4711   # one again, as a failure says

A case is a good input with something done to it, made from the target, the seed and its number
alone. What may come of it: documents and rejections, an answer, or an LshdbError. What may not: any
other exception, a crash of the process, more than ``MEMORY`` of memory, or no end within
``SECONDS_A_CASE``. The work is done in a child process, so that a crash is reported too.

Nothing here is collected by pytest; ``tests/fault/test_fuzzing.py`` runs it for a moment, keeps
what it found, and shows that it notices a reader that is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import gzip
import io
import itertools
import json
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from lshdb import Document, Index, LshdbError, Rejected, read_documents
from lshdb.documents import validate_body, validate_key

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
URLS = "http://a.com/x/y.html\nhttps://me:pw@B.com:8080/?q=1#f\n//[::1]:80/z\nc.org/%e4%f6\n"
SEEDS = {
    "jsonl": JSONL.encode(),
    "csv": CSV.encode(),
    "tsv": CSV.replace(",", "\t").encode(),
    "text": (TEXT + "\r\n\ufeff\u0000").encode(),
    "urls": URLS.encode(),
}
SPLICES = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b'"', b"'", b",", b"\t", b"{", b"}", b"[", b"]", b":", b"\\",
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\\ud800", b"\\u0000",
    b"[" * 100_000, b'{"a":' * 5_000, b"9" * 5_000, b"1e999", b"-0", b"NaN", b"null", b"true",
    b"x" * 70_000, b"\n" * 2_000, b'","' * 500, b"%00", b"http://", b"\xe2\x80\xae",
]  # fmt: skip


def mutated(rng: random.Random, content: bytes) -> bytes:
    """Good bytes with one thing or some done to them."""
    data = bytearray(content)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + rng.randrange(30)] = b""
            case 2:
                data[at:at] = rng.choice(SPLICES)
            case 3:
                data[at:at] = data[: rng.randrange(len(data) + 1)]
            case 4:
                del data[at:]
            case 5:
                data[at : at + 4] = rng.randbytes(rng.randrange(8))
            case _:
                data[at : at + 1] = rng.choice(SPLICES)
    return bytes(data)


class Fuzzer:
    """The targets, and a folder that they work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = random.Random(0)
        words = [f"w{number}" for number in range(60)]
        texts = [" ".join(rng.choices(words, k=30)) for _ in range(12)]
        self.texts = texts + [text + " more" for text in texts[:6]] + texts[:3]

    @functools.cached_property
    def base(self) -> Path:
        """The index that is damaged, in copies."""
        path, texts = self.folder / "base.lshdb", self.texts
        with Index.create(path, k=2, bands=32, rows=2, threshold=0.5) as index:
            for start in range(0, len(texts), 5):
                index.add([(f"k{start + n}", t) for n, t in enumerate(texts[start : start + 5])])
            index.add([("k1", texts[1] + " replaced"), ("tokens", ["a", "b", "c"])])
            index.update_clusters()
            index.remove(["k7"])
        return path

    def case(self, target: str, seed: int, number: int) -> None:
        """Run one case; what it raises is a finding."""
        rng = random.Random(f"{target} {seed} {number}")
        TARGETS[target](self, rng)

    # Inputs

    def documents(self, rng: random.Random) -> None:
        """``read_documents``, plain, compressed, and compressed with damage."""
        kind = rng.choice([*SEEDS])
        content = mutated(rng, SEEDS[rng.choice([kind, kind, *SEEDS])])
        name = f"in.{'txt' if kind in ('text', 'urls') else kind}"
        pack = rng.choice(["", "", ".gz", ".zst"])
        if pack:
            content = _packed(content, pack)
            content = mutated(rng, content) if rng.random() < 0.7 else content
        path = self.folder / (name + pack)
        path.write_bytes(content)
        limit = rng.choice((1, 10, 200, 64 * 2**20))
        for item in read_documents([path], input_format=kind, max_document_bytes=limit):
            assert isinstance(item, Document | Rejected)
            if isinstance(item, Document):
                assert validate_key(item.key) is None and validate_body(item.body) is None
            else:
                assert item.source.isprintable() and item.reason.isprintable(), item

    def links(self, rng: random.Random) -> None:
        """``read_links`` and the lines of ``dedup --filter``, which hand on every byte."""
        from lshdb.documents.links import read_links
        from lshdb.documents.raw import read_raw_lines

        content = mutated(
            rng, b"a\tb\na\tc\t3\r\n\nb\t\xc3\xbc\t9007199254740992\n" + SEEDS["jsonl"]
        )
        pack = rng.choice(["", ".gz", ".zst"])
        path = self.folder / f"links{pack}"
        path.write_bytes(_packed(content, pack) if pack else content)
        for _ in read_links(path):
            pass
        given = b"".join(
            line.data for line in read_raw_lines(path, limit=rng.choice((1, 50, 10**6)))
        )
        assert given == content

    # Indexes

    def toml(self, rng: random.Random) -> None:
        """``index.toml``."""
        path = self._copied() / "index.toml"
        content = path.read_bytes()
        if rng.random() < 0.5:
            content = content.replace(
                rng.choice(content.splitlines()[2:]),
                rng.choice(
                    [b"format = 1e400", b"[parameters]", b"a = " + b"[" * 5000,
                     b"k = 9" + b"9" * 9000,
                     b"database = 'sqlite:///signatures.npy'", b"database = 'postgresql://u:pw@h'",
                     b"database = \"sqlite:///\\u0000\"", b"uuid = 1979-05-27", b"bands = true",
                     b"database = 'sqlite:///../../x'", b"format = " + b"1" * 100]
                ),
            )  # fmt: skip
        path.write_bytes(mutated(rng, content))
        self._ask(path.parent, rng, most=2)

    def npy(self, rng: random.Random) -> None:
        """The signature file: header, rows, length."""
        path = self._copied() / "signatures.npy"
        content = path.read_bytes()
        cut = rng.choice((128, 128, len(content)))
        path.write_bytes(mutated(rng, content[:cut]) + content[cut:])
        self._ask(path.parent, rng, most=4)

    def rows(self, rng: random.Random) -> None:
        """Rows of ``index.db`` with other values and types."""
        path = self._copied()
        database = sqlite3.connect(path / "index.db", isolation_level=None)
        with contextlib.closing(database):
            database.text_factory = bytes  # what is garbled may be no UTF-8
            database.execute("PRAGMA ignore_check_constraints=ON")
            for _ in range(rng.choice((1, 1, 2, 5))):
                _garble(database, rng)
        self._ask(path, rng, most=6)

    def _copied(self) -> Path:
        path = self.folder / "copy.lshdb"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(self.base, path)
        return path

    def _ask(self, path: Path, rng: random.Random, *, most: int) -> None:
        with contextlib.suppress(LshdbError), Index.open(path) as index:
            for question in rng.sample(QUESTIONS, most):
                with contextlib.suppress(LshdbError):
                    question(index, self.texts)


def _packed(content: bytes, pack: str) -> bytes:
    if pack == ".gz":
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as file:
            file.write(content)
        return out.getvalue()
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    packed: bytes = zstd.compress(content)
    return packed


VALUES = [
    "-1", "0", "1", "2", "1000000", "9223372036854775807", "-9223372036854775808", "1.5", "1e300",
    "9e999", "''", "'x'", "'posting_run_9'", "'document'", "x''", "x'00ff'",
    "CAST(x'ff80' AS TEXT)",
    "NULL", "'[1'", "'nul' || char(0) || 'l'", "zeroblob(70000)", "randomblob(16)",
    "'../../index.toml'", "'2026-01-01 00:00:00.000000'", "x'28b52ffd'", "x'789c'",
]  # fmt: skip


def _garble(database: sqlite3.Connection, rng: random.Random) -> None:
    """Do something to a row, as far as the schema lets it."""
    tables = [
        name.decode()
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
            "ORDER BY name"
        )
    ]
    table = rng.choice(tables)
    columns = [row[1].decode() for row in database.execute(f"PRAGMA table_info({table})")]
    column, value = rng.choice(columns), rng.choice(VALUES)
    if value.startswith("randomblob"):
        value = f"x'{rng.randbytes(16).hex()}'"
    count = database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    first = database.execute(
        f"SELECT {columns[0]} FROM {table} ORDER BY 1 LIMIT 1 OFFSET ?",
        (rng.randrange(count or 1),),
    ).fetchone()
    where = f"WHERE {columns[0]} IS ?" if rng.random() < 0.8 else "WHERE 1 OR ? IS 0"
    statement = f"UPDATE OR REPLACE {table} SET {column} = {value} {where}"
    if rng.random() < 0.1:
        statement = f"DELETE FROM {table} {where}"
    with contextlib.suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
        database.execute(statement, (first[0] if first else None,))


QUESTIONS: list[Callable[[Index, list[str]], object]] = [
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

TARGETS: dict[str, Callable[[Fuzzer, random.Random], None]] = {
    "documents": Fuzzer.documents,
    "links": Fuzzer.links,
    "toml": Fuzzer.toml,
    "npy": Fuzzer.npy,
    "rows": Fuzzer.rows,
}


def cases(
    targets: list[str], seed: int, *, first: int, seconds: float
) -> Iterator[tuple[str, int, int]]:
    """(target, seed, number), the targets in turn, until the time is over."""
    end = time.monotonic() + seconds
    for number in itertools.count(first):
        for target in targets:
            if time.monotonic() >= end:
                return
            yield target, seed, number


def repeat_command(target: str, seed: int, number: int) -> str:
    return f"python tests/fuzz_readers.py --target {target} --seed {seed} --case {number}"


def _child(targets: list[str], seed: int, *, first: int, seconds: float, journal: Path) -> int:
    import logging

    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    counts = dict.fromkeys(targets, 0)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, open(journal, "w") as log:
        fuzzer = Fuzzer(Path(folder))
        for case in cases(targets, seed, first=first, seconds=seconds):
            log.seek(0)
            log.write(f"{case[0]} {case[2]:<12}\n")
            log.flush()
            faulthandler.dump_traceback_later(SECONDS_A_CASE, exit=True)
            with contextlib.suppress(LshdbError):
                fuzzer.case(*case)
            counts[case[0]] += 1
        faulthandler.cancel_dump_traceback_later()
    print("  ".join(f"{target} {count:,}" for target, count in counts.items()))
    return 0


def fuzz(targets: list[str], seed: int, *, first: int = 0, seconds: float) -> tuple[str, str]:
    """Run cases in a child: what it says, and the command that repeats the case that failed."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        journal = Path(folder) / "journal"
        arguments = ["--target", *targets, "--seed", str(seed), "--first", str(first)]
        done = subprocess.run(
            [sys.executable, __file__, *arguments, "--seconds", str(seconds), "--child", journal],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.strip(), ""
        target, number = journal.read_text().split() if journal.exists() else ("none", "0")
        said = done.stderr.strip() or f"the process ended with {done.returncode}"
        return said, repeat_command(target, seed, int(number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", nargs="+", choices=[*TARGETS], default=[*TARGETS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--case", type=int, help="run this case alone, here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case is not None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            fuzzer = Fuzzer(Path(folder))
            for target in given.target:
                with contextlib.suppress(LshdbError):
                    fuzzer.case(target, given.seed, given.case)
        return 0
    options: dict[str, Any] = {"first": given.first, "seconds": given.seconds}
    if given.child is not None:
        return _child(given.target, given.seed, journal=given.child, **options)
    said, command = fuzz(given.target, given.seed, **options)
    print(said)
    if command:
        print(f"\nagain: {command}")
    return 1 if command else 0


if __name__ == "__main__":
    sys.exit(main())

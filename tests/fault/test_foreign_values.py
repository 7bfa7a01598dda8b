"""An index or an export that a stranger made: any value in any field, and each checksum is right.

Every field of ``index.toml``, of the tables, of the headers of row and order files, of manifests,
of the tables of exports and of the logs of Delta has other types and sizes in turn. Every command
answers then, or says in a line what is wrong: no traceback, no hang, no memory without end.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import random
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Document, Index
from lshdb.storage.tables.records import CHECKED_TABLES, row_checksum
from tests.conftest import family_corpus
from tests.fault.complaints import Complaining
from tests.fault.strange_rows import columns

pytestmark = pytest.mark.sqlite("edits the file of SQLite")

DEEP = 10_000

VALUES: list[Any] = [
    None, -1, 0, 7, 2**31, 2**33, 2**62, 2**63 - 1, -(2**63), 0.5, 1e308, float("inf"), "", "x",
    "-1", "9" * 5_000, "[" * DEEP, '{"a": 1, "a": 2}', "null", "2026-01-01 00:00:00.000000",
    "9999-99-99 00:00:00", "\0\x1b[31m\u202e", "x" * 200_000, b"", b"\xff\xfe", b"\0" * 5_000,
    b"\x28\xb5\x2f\xfd",
]  # fmt: skip
PARAMETERS = [
    "-1", "0", "1", "2", "7", "255", "65536", "1000000000", "9223372036854775807", "0.5", "1e308",
    "inf", "nan", "true", '""', '"x"', '"jaccard"', "[]", "[1]", '["a"]', "{}", "9" * 5_000,
    "[" * DEEP, "[" * 900 + "]" * 900, '"' + "x" * 200_000 + '"',
]  # fmt: skip
"""As TOML has them; JSON has other names for two."""
TOML = [
    "", "x", "format = 2\nformat = 2", "[parameters]\n[parameters]", "a = " + "[" * DEEP,
    "a." * DEEP + "b = 1", "[" + "a." * DEEP + "b]", "\0", "\ufeff", "format = 1979-05-27",
    "format = " + "9" * 5_000, "[[parameters]]", "parameters = 1", "database = 'sqlite:///../y'",
    "database = 'postgresql+psycopg://u:secret@localhost:1/x'", "database = 'sqlite:////dev/zero'",
    "database = 5", "uuid = 5", "format = 3", "format = -1", "format = true", "\udcff",
]  # fmt: skip
"""The whole file, or what its first line of that name becomes."""
TYPES = [
    "'<u4'", "'|O'", "'<f8'", "[('a', '<u2')]", "5", "None", "'V1000000000'", "'<U2000000000'",
    "'<u2,' * 9", "'>u2'",
]  # fmt: skip
SHAPES = [
    "()", "(-1, COLUMNS)", "(4611686018427387904, COLUMNS)", "(1e308, COLUMNS)", "(ROWS,)",
    "(ROWS, COLUMNS, 1)", "'x'", "(True, COLUMNS)", f"({'9' * 30}, COLUMNS)", "(0, COLUMNS)",
    "(ROWS, -COLUMNS)", "None",
]  # fmt: skip
HEADERS = [
    *(f"{{'descr': {type_}, 'fortran_order': False, 'shape': (ROWS, COLUMNS), }}"
      for type_ in TYPES),
    *(f"{{'descr': 'TYPE', 'fortran_order': False, 'shape': {shape}, }}" for shape in SHAPES),
    "{'descr': 'TYPE', 'fortran_order': True, 'shape': (ROWS, COLUMNS), }",
    "{'descr': 'TYPE', 'fortran_order': 5, 'shape': (ROWS, COLUMNS), }",
    "{'descr': 'TYPE', 'descr': '|O', 'fortran_order': False, 'shape': (ROWS, COLUMNS), }",
    "{'descr': 'TYPE', 'fortran_order': False, 'shape': (ROWS, COLUMNS), 'more': 1, }",
    "{}", "[]", "", "x", "(" * DEEP, "{" * DEEP, "9" * 60_000, "-" * DEEP + "1",
    "__import__('os').abort()",
]  # fmt: skip
ENTRIES: list[Any] = [
    None, -1, 0, 7, 1.5, 1e308, 2**63, 10**30, True, "", "x", "../../x", "\0\x1b[31m", [], [1], {},
    {"a": {}}, "x" * 200_000, float("nan"),
]  # fmt: skip
"""Of JSON; ``DEPTH`` stands for what is nested too deep for Python's own writer."""
DEPTH = "what is nested deep"

COMMANDS = """
stats X
query X --text TEXT
query X --key KEY
query X NEW
pairs X
pairs X --since last
pairs X --passages
clusters X
dedup X
dedup X KNOWN -o OUT/kept.jsonl
neighbors X
show X KEY
explain X KEY f000-1
batches X
cursors X
sql X COUNT
check X
check X --quick
recall X
report X -o OUT/report.html
tune X
join X X
export X -o OUT/jsonl
export X -o OUT/parquet --format parquet
export X -o OUT/delta --format delta
copy X OUT/copy.lshdb
reindex X OUT/other.lshdb --k 3
upgrade X
add X NEW
pairs X --since @press --advance
remove X f001-1
expire X --older-than 365d
merge X OTHER
reband X --threshold 0.6
compact X
check X --repair
""".strip().splitlines()
REPAIR = ("check X --repair", "check X")
"""Of an index that no command has changed before."""
IMPORT = ("import E OUT/made.lshdb", "check OUT/made.lshdb")


class Case(NamedTuple):
    """A value in a field: what the case is called, how it comes in, and the commands for it."""

    name: str
    put: Callable[[Path], None]
    commands: tuple[str, ...] = tuple(COMMANDS)


class Untried(Exception):
    """The value does not go into this place."""


# ------------------------------------------------------------------------- how a value comes in


def in_table(table: str, column: str, value: Any) -> Case:
    """In all rows, or where it has to be another in each, in the first; sealed again."""

    def put(root: Path) -> None:
        with contextlib.closing(sqlite3.connect(root / "x.lshdb" / "index.db")) as database:
            database.create_function("sealed", -1, lambda *values: row_checksum(values))
            database.execute("PRAGMA foreign_keys=OFF")
            database.execute("PRAGMA ignore_check_constraints=ON")
            names = [name for other, name in columns(root / "x.lshdb") if other == table]
            values = ", ".join(f'"{name}"' for name in names[:-1])
            for which in ("", f' WHERE "{column}" = (SELECT min("{column}") FROM {table})'):
                with contextlib.suppress(sqlite3.Error):
                    database.execute(f'UPDATE {table} SET "{column}" = ?{which}', (value,))
                    break
            else:
                raise Untried
            if table in CHECKED_TABLES and column != "checksum":
                database.execute(f"UPDATE {table} SET checksum = sealed({values})")
            database.commit()

    return Case(f"{table}.{column} = {value!r:.40}", put)


def as_parameter(name: str, value: str) -> Case:
    """In ``index.toml`` and in the table, which are compared."""

    def put(root: Path) -> None:
        path = root / "x.lshdb"
        as_json = {"inf": "Infinity", "nan": "NaN"}.get(value, value)
        with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
            database.execute("UPDATE parameter SET value = ? WHERE name = ?", (as_json, name))
            database.commit()
        text = (path / "index.toml").read_text()
        text = re.sub(rf"(?m)^{name} = .*$", lambda _: f"{name} = {value}", text)
        (path / "index.toml").write_text(text)

    return Case(f"parameter {name} = {value:.40}", put)


def in_toml(text: str, *, is_whole: bool) -> Case:
    def put(root: Path) -> None:
        path, (name, _, _) = root / "x.lshdb" / "index.toml", text.partition(" = ")
        old = path.read_text()
        new = text if is_whole else re.sub(rf"(?m)^{re.escape(name)} = .*$", lambda _: text, old)
        if new == old:
            new = f"{text}\n{old}"
        path.write_bytes(new.encode(errors="surrogateescape"))

    return Case(f"index.toml {'is' * is_whole} {text!r:.40}", put)


def in_header(pattern: str, about: str, kind: str) -> Case:
    """Of a row file or an order file, whose name has the checksum of all its bytes."""

    def put(root: Path) -> None:
        for file in sorted((root / f"{kind}.lshdb").glob(pattern)):
            content = file.read_bytes()
            old = content[10:128].decode()
            n_rows, n_columns = re.findall(r"\((\d+), ?(\d*)\)", old)[0]
            (type_,) = re.findall(r"'descr': '([^']*)'", old)
            new = about.replace("ROWS", n_rows).replace("COLUMNS", n_columns).encode()
            new = new.replace(b"TYPE", type_.encode()).ljust(117) + b"\n"
            changed = content[:8] + len(new).to_bytes(2, "little") + new + content[128:]
            file.write_bytes(changed)
            if pattern.startswith("orders"):
                first = file.name.rsplit(".", 2)[0]
                file.rename(file.with_name(f"{first}.{zlib.crc32(changed):08x}.npy"))

    return Case(
        f"{pattern} of {kind}: {about:.60}",
        put,
        tuple(re.sub(r"\bX\b", kind.upper(), command) for command in COMMANDS),
    )


def places(entry: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value of what JSON holds."""
    if before:
        yield before
    inside = dict(enumerate(entry)) if isinstance(entry, list) else entry
    for name, inner in inside.items() if isinstance(inside, dict) else ():
        yield from places(inner, (*before, name))


def replaced(entry: Any, way: tuple[Any, ...], value: Any) -> str:
    """The text of JSON with another value at a place."""
    changed = copy.deepcopy(entry)
    owner = changed
    for name in way[:-1]:
        owner = owner[name]
    owner[way[-1]] = value
    return json.dumps(changed).replace(json.dumps(DEPTH), "[" * DEEP + "]" * DEEP)


def reseal(folder: Path, file: Path) -> None:
    """Bring the manifest up to date with a file."""
    manifest = folder / "index.json"
    said = json.loads(manifest.read_bytes())
    content = file.read_bytes()
    digest = hashlib.blake2b(content, digest_size=32).hexdigest()
    said["files"][file.name] = {"bytes": len(content), "blake2b": digest}
    manifest.write_text(json.dumps(said))


def in_json(kind: str, name: str, line: int, way: tuple[Any, ...], value: Any) -> Case:
    """In a line of JSON of an export, or in the whole of a file."""

    def put(root: Path) -> None:
        file = root / kind / name
        lines = file.read_bytes().splitlines() if line >= 0 else [file.read_bytes()]
        lines[line] = replaced(json.loads(lines[line]), way, value).encode()
        file.write_bytes(b"\n".join(lines) + b"\n")
        if kind != "delta" and file.name != "index.json":
            reseal(root / kind, file)

    return Case(f"{kind}/{name}, line {line}: {way} = {value!r:.40}", put, of_export(kind))


def of_export(kind: str) -> tuple[str, ...]:
    return tuple(re.sub(r"\bE\b", kind, command) for command in IMPORT)


def in_column(kind: str, name: str, column: str, values: str) -> Case:
    """Another type of a column of Parquet: of an export, or of a table of Delta."""

    def put(root: Path) -> None:
        file = root / kind / name
        table = pq.read_table(file, partitioning=None)
        place = table.schema.get_field_index(column)
        n = len(table)
        arrays: dict[str, Callable[[], Any]] = {
            "null": lambda: pa.nulls(n),
            "numbers": lambda: pa.array([2**62] * n),
            "negative": lambda: pa.array([-1] * n),
            "floats": lambda: pa.array([float("nan")] * n),
            "texts": lambda: pa.array(["x"] * n),
            "JSON": lambda: pa.array(["[" * DEEP] * n),
            "bytes": lambda: pa.array([b"\xff"] * n),
            "lists": lambda: pa.array([[1]] * n),
            "records": lambda: pa.array([{"a": 1}] * n),
            "nulls of its type": lambda: pa.nulls(n, table.schema.field(place).type),
        }
        changed = table.set_column(place, column, arrays[values]())
        pq.write_table(changed, file)
        if kind != "delta":
            reseal(root / kind, file)
            return
        for log in (root / kind).glob("*/_delta_log/*.json"):
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            for action in lines:
                if file.as_posix().endswith(action.get("add", {}).get("path", "-")):
                    action["add"]["size"] = file.stat().st_size
            log.write_text("".join(json.dumps(action) + "\n" for action in lines))

    return Case(f"{kind}/{name}, {column} as {values}", put, of_export(kind))


KINDS_OF_COLUMN = (
    "null", "numbers", "negative", "floats", "texts", "JSON", "bytes", "lists", "records",
    "nulls of its type",
)  # fmt: skip


@pytest.fixture(scope="module")
def complaining() -> Iterator[Complaining]:
    with Complaining() as process:
        yield process


@pytest.fixture(scope="module")
def sound(
    complaining: Complaining, tmp_path_factory: pytest.TempPathFactory, is_long: bool
) -> Path:
    """A folder with an index of texts, one of vectors, exports, and what commands need besides."""
    root = tmp_path_factory.mktemp("foreign") / "sound"
    root.mkdir()
    corpus = family_corpus(7, families=3)
    with Index.create(root / "x.lshdb", threshold=0.5, k=2, num_perm=32) as index:
        index.add(
            [Document("k", corpus[0][1], "made", {"year": 1999, "by": "me"}), *corpus],
            source="made", night="press",
        )  # fmt: skip
        index.add([("f000-0", corpus[0][1] + " and more"), ("copy", corpus[5][1])])
        index.remove(["f002-1"])
        assert list(index.clusters())
        index.advance("press", 1)
        for kind in ("jsonl", "parquet"):
            index.export(root / kind, format=kind)
    vectors = [(f"v{n}", [float(n % 3), 1.0, n / 7, -1.0]) for n in range(12)]
    with Index.create(root / "v.lshdb", metric="cosine", dim=4, num_perm=64) as index:
        index.add(vectors)
        assert index.check() == []
    with Index.create(root / "other.lshdb", threshold=0.5, k=2, num_perm=32) as index:
        index.add([("theirs", corpus[3][1])])
    lines = [{"id": "n1", "text": corpus[4][1]}, {"id": "n2", "text": "quite other words"}]
    (root / "new.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (root / "known.jsonl").write_text('{"id": "f000-0", "text": "as it was added"}\n')
    (root / "out").mkdir()
    if is_long:
        wrong = complaining.of(root, [words_of("export X -o delta --format delta")])
        assert wrong == [], wrong
    return root


def cases(sound: Path) -> list[Case]:
    """Every value in every field."""
    found = [
        in_table(table, column, value)._replace(commands=commands)
        for table, column in columns(sound / "x.lshdb")
        if table != "parameter"
        for value in VALUES
        for commands in (tuple(COMMANDS), REPAIR)
    ]
    toml = (sound / "x.lshdb" / "index.toml").read_text()
    names = re.findall(r"(?m)^(\w+) = ", toml.partition("[parameters]")[2])
    found += [as_parameter(name, value) for name in names for value in PARAMETERS]
    found += [in_toml(text, is_whole=is_whole) for text in TOML for is_whole in (False, True)]
    found += [
        in_header(pattern, about, kind)
        for kind, pattern in (
            ("x", "signatures*.npy"), ("x", "orders.*.npy"), ("v", "vectors*.npy"),
        )
        for about in HEADERS
    ]  # fmt: skip
    for kind in ("jsonl", "parquet", "delta"):
        for file in sorted((sound / kind).rglob("*.json*")):
            name = str(file.relative_to(sound / kind))
            is_lines = file.suffix == ".jsonl" or kind == "delta"
            is_one_of_many = kind == "delta" and not name.startswith(("commits", "documents"))
            if is_one_of_many or not file.stat().st_size:
                continue
            lines = file.read_bytes().splitlines() if is_lines else [file.read_bytes()]
            for number, line in enumerate(lines[:4] if kind == "delta" else lines[:1]):
                found += [
                    in_json(kind, name, number if is_lines else -1, way, value)
                    for way in places(json.loads(line))
                    for value in (*ENTRIES, DEPTH)
                ]
        for file in sorted((sound / kind).rglob("*.parquet")):
            found += [
                in_column(kind, str(file.relative_to(sound / kind)), column, values)
                for column in pq.read_schema(file).names
                for values in KINDS_OF_COLUMN
            ]
    return found


# --------------------------------------------------------------------------------- what comes out


def words_of(command: str) -> list[str]:
    """The words of a command, with what stands for some of them."""
    stand_for = {
        "X": "x.lshdb", "V": "v.lshdb", "OTHER": "other.lshdb", "NEW": "new.jsonl",
        "KNOWN": "known.jsonl", "TEXT": "some words of a text", "KEY": "f000-0",
        "COUNT": "SELECT * FROM document",
    }  # fmt: skip
    return [stand_for.get(word, word.replace("OUT", "out")) for word in command.split()]


def tried(complaining: Complaining, sound: Path, root: Path, case: Case) -> list[str] | None:
    """What is wrong with a case; None if the value does not go in."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(sound, root)
    try:
        case.put(root)
    except (Untried, OverflowError, UnicodeError, sqlite3.Error):
        return None
    commands = [words_of(command) for command in case.commands]
    wrong = [f"{case.name}: {what}" for what in complaining.of(root, commands)]
    names = {path.name for path in root.iterdir()} - {path.name for path in sound.iterdir()}
    names = {name for name in names if not name.startswith("x.lshdb.quarantine")}
    return wrong + [f"{case.name}: made {name}" for name in names - {"out"}]


FOUND = (
    in_table("document", "batch_id", 2**31)._replace(commands=("report X -o OUT/report.html",)),
    in_table("document", "content_hash", b"")._replace(commands=("compact X",)),
    in_table("document", "signature_id", 2**33)._replace(commands=("check X --repair",)),
    in_table("batch", "batch_id", 2**33)._replace(commands=("report X -o OUT/report.html",)),
    in_table("state", "next_doc_id", 2**40)._replace(commands=("dedup X KNOWN -o OUT/kept.jsonl",)),
    in_json("jsonl", "index.json", -1, ("edges", "hot_buckets"), 2**63),
    in_json("jsonl", "index.json", -1, ("index", "index_bands"), 2**63),
)
"""What the whole of the test below has found."""


@pytest.mark.parametrize("case", FOUND, ids=[case.name for case in FOUND])
def test_foreign_values_that_were_taken(
    complaining: Complaining, sound: Path, tmp_path: Path, case: Case
) -> None:
    case = case._replace(commands=case.commands[:1])
    assert tried(complaining, sound, tmp_path / "root", case) == []


def test_foreign_values(
    complaining: Complaining, sound: Path, tmp_path: Path, is_long: bool
) -> None:
    all_cases = cases(sound)
    rng = random.Random(4)
    if not is_long:
        chosen = rng.sample([case for case in all_cases if case.commands != REPAIR], 4)
        all_cases = [case._replace(commands=tuple(rng.sample(case.commands, 2))) for case in chosen]
    wrong: list[str] = []
    n_tried = 0
    for case in all_cases:
        found = tried(complaining, sound, tmp_path / "root", case)
        n_tried += found is not None
        wrong += found or []
    print(f"{n_tried} of {len(all_cases)} values in fields")
    assert n_tried > len(all_cases) // 2
    assert wrong == []

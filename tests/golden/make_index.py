"""Make the tiny index of a schema: ``python -m tests.golden.make_index``.

Run once for every schema, at the version that writes it. What was made is kept for ever:
``test_indexes.py`` opens each, brings it up to date, and holds its answers against
``answers.json``, which is as old as the first of them. ``format1`` has those of format 1.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from lshdb import Document, Index

FOLDER = Path(__file__).with_name("indexes")
WORDS = [
    "ein", "kleines", "wörterbuch", "für", "sehr", "alte", "prüfungen",
    "mit", "zehn", "oder", "mehr", "wörtern", "im", "text",
]  # fmt: skip


def make_documents() -> list[tuple[str, str | list[str]]]:
    """Families of near-duplicates, copies, tokens, a text without a word, texts not in ASCII."""
    rng = random.Random(20261121)
    documents: list[tuple[str, str | list[str]]] = []
    for family in range(6):
        words = [rng.choice(WORDS) + str(rng.randrange(30)) for _ in range(60)]
        for member in range(3):
            words[rng.randrange(60)] = f"change{member}"
            documents.append((f"family{family}/{member}", " ".join(words)))
    documents.append(("copy", str(documents[0][1]).upper() + "  "))
    documents.append(("tokens", ["ready", "made", "tokens", "as", "they", "are"]))
    documents.append(("empty", "... !"))
    documents.append(("日本", "日本語の文章は文字ごとに単語になります"))
    return documents


def build(path: Path, **place: str) -> None:
    """An index with kept fields, a night and a cursor; a document replaced, one seen again, one
    removed."""
    documents = [
        Document(*document, fields={"place": place})
        for place, document in enumerate(make_documents())
    ]
    with Index.create(path, num_perm=64, threshold=0.7, **place) as index:
        index.add(documents[:12], source="first", night="monday")
        index.advance("press")
        index.add(documents[10:], source="second", night="monday")
        index.add([("family5/2", "something else that is like nothing here at all")])
        index.remove(["family4/2"])
        index.update_clusters()


def pack(paths: list[Path], folder: Path) -> Path:
    """Pack indexes as ``<schema revision>.tar.gz``."""
    with contextlib.closing(sqlite3.connect(paths[0] / "index.db")) as database, database:
        (revision,) = database.execute("SELECT version_num FROM alembic_version").fetchone()
    target = folder / f"{revision}.tar.gz"
    if target.exists():
        sys.exit(f"{target} is there already, and is kept for ever")
    with tarfile.open(target, "x:gz") as archive:
        for path in paths:
            for file in sorted(path.iterdir()):
                if file.suffix in {".toml", ".db", ".npy"} or file.name == "lock":
                    archive.add(file, f"{path.name}/{file.name}")
    return target


def pack_all(names: Iterable[str], build: Callable[[Path, str], None], folder: Path) -> None:
    """Build an index of each name, and pack them together."""
    with tempfile.TemporaryDirectory() as temporary:
        paths = [Path(temporary) / f"{name}.lshdb" for name in names]
        for path in paths:
            build(path, path.stem)
        print(pack(paths, folder))


def main() -> None:
    """Build the index and pack it."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "golden.lshdb"
        build(path)
        print(pack([path], FOLDER))


if __name__ == "__main__":
    main()

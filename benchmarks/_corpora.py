"""Corpora as plain JSONL in a folder, so that no run pays for decompression or bad lines."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

__all__ = ["Corpus", "chunks", "from_file", "from_lines", "generated", "texts_of"]

CHUNK = 5000


@dataclass(frozen=True)
class Corpus:
    """A plain JSONL file and what there is to say about it."""

    name: str
    path: Path
    field: str
    documents: int
    text_bytes: int


def from_file(source: Path, folder: Path, field: str, limit: int | None = None) -> Corpus:
    """Unpack a corpus, or its first documents.

    Lines whose text is no string with a letter or digit in it are left out.
    """
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as lines:
        return _write(source.name, lines, folder, field, limit)


def from_lines(name: str, lines: Iterable[bytes], folder: Path) -> Corpus:
    """Write a corpus that is made here: its lines, as they are."""
    return _write(name, lines, folder, "text")


def generated(folder: Path, documents: int, *, ascii_only: bool) -> Corpus:
    """Make the generated corpus, or its non-ASCII variant."""
    from benchmarks._generated import generate  # with NumPy, which not every contestant needs

    lines = (
        orjson.dumps({"id": str(number), "text": text}) + b"\n"
        for number, text in enumerate(generate(documents, ascii_only=ascii_only))
    )
    return _write(
        "generated, ASCII" if ascii_only else "generated, non-ASCII", lines, folder, "text"
    )


def _write(
    name: str, lines: Iterable[bytes], folder: Path, field: str, limit: int | None = None
) -> Corpus:
    path = folder / f"corpus-{len(list(folder.iterdir()))}.jsonl"
    documents = text_bytes = 0
    with path.open("wb") as output:
        for line in lines:
            if documents == limit:
                break
            try:
                text = orjson.loads(line)[field]
            except (ValueError, KeyError, TypeError):
                continue
            if isinstance(text, str) and any(map(str.isalnum, text)):
                output.write(line.rstrip(b"\r\n") + b"\n")
                documents += 1
                text_bytes += len(text.encode())
    if not documents:
        raise SystemExit(f"{name}: no line has a text in the field {field!r}")
    return Corpus(name, path, field, documents, text_bytes)


def chunks(path: str | Path, field: str) -> Iterator[list[str]]:
    """Texts, a bounded number at a time: the reading that every contestant's time includes."""
    with open(path, "rb") as lines:
        while block := list(itertools.islice(lines, CHUNK)):
            yield [orjson.loads(line)[field] for line in block]


def texts_of(corpus: Corpus) -> Iterator[str]:
    """All texts, one after the other."""
    return itertools.chain.from_iterable(chunks(corpus.path, corpus.field))

"""The corpus of short documents with planted near-duplicates, where a benchmark makes its own."""

from __future__ import annotations

from pathlib import Path

from benchmarks._corpora import Corpus, from_file
from benchmarks.make_corpus import write

__all__ = ["WORDS", "short_corpus", "split"]

WORDS = 25


def short_corpus(
    folder: Path, documents: int, words: int = WORDS, *, scanned: bool = False
) -> tuple[Corpus, Path]:
    """The corpus, and the file of its planted pairs."""
    corpus, pairs = folder / "generated", folder / "planted.tsv"
    write(corpus, pairs, documents, words, scanned=scanned)
    made = from_file(corpus, folder, "text")
    corpus.unlink()
    return made, pairs


def split(path: Path, folder: Path, lines_in_parts: list[int]) -> list[Path]:
    """Cut a file into parts of so many lines each; what is left over is in none."""
    parts = []
    with path.open("rb") as lines:
        for number, count in enumerate(lines_in_parts):
            part = folder / f"{path.stem}-part{number}.jsonl"
            with part.open("wb") as output:
                for _, line in zip(range(count), lines, strict=False):
                    output.write(line)
            parts.append(part)
    return parts

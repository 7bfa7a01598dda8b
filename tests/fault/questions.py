"""What is asked of an index under faults, and whether damage changes an answer."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import lshdb
from lshdb import Index, LshdbError
from tests.conftest import pair_set

__all__ = ["QUESTIONS", "QUESTIONS_OF_ROWS", "answer", "cut_meanwhile", "examine", "flipped"]

Answers = dict[str, Any]


def _query(index: Index, texts: list[str]) -> Any:
    return [
        sorted((hit.key, round(hit.similarity, 9)) for hit in index.query(text, top=None))
        for text in texts
    ]


def _show(index: Index, _texts: list[str]) -> Any:
    keys = [key for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id").rows]
    return [repr(index.show(key)) for key in keys]


QUESTIONS: dict[str, Callable[[Index, list[str]], Any]] = {
    "query": _query,
    "pairs": lambda index, _: sorted(pair_set(index, workers=1)),
    "show": _show,
    "batches": lambda index, _: [repr(batch) for batch in index.batches()],
    "clusters": lambda index, _: [repr(found) for found in index.clusters(update=False)],
    "check": lambda index, _: [f"{finding.where}: {finding.what}" for finding in index.check()],
}

QUESTIONS_OF_ROWS: dict[str, Callable[[Index, list[str]], Any]] = {
    **{question: QUESTIONS[question] for question in ("query", "pairs", "check")},
    "pairs of the last add": lambda index, _: sorted(pair_set(index, since="last", workers=1)),
    "clusters brought up to date": lambda index, _: [repr(found) for found in index.clusters()],
    "join": lambda index, _: sorted(repr(pair) for pair in index.join(index)),
}
"""Questions that read signature rows."""


def answer(path: Path, question: str, texts: list[str]) -> Any:
    """The answer of an index that is opened for it."""
    with Index.open(path) as index:
        return QUESTIONS[question](index, texts)


def examine(path: Path, texts: list[str]) -> Answers:
    """All answers; ``{"refused": why}`` or ``{"bug": trace}`` in place of one that there is not."""
    found: Answers = {}
    for question in QUESTIONS:
        try:
            found[question] = answer(path, question, texts)
        except LshdbError as error:
            found[question] = {"refused": f"{type(error).__name__}: {error.message}"}
        except Exception:
            found[question] = {"bug": traceback.format_exc()}
    return found


def flipped(
    path: Path, texts: list[str], flips: list[tuple[str, int]]
) -> Iterator[tuple[str, int, Answers]]:
    """Flip one bit at a time: (file, bit, the answers that are others, and all of ``check``)."""
    sound = examine(path, texts)
    for name, bit in flips:
        file = path / name
        before = file.read_bytes()
        after = bytearray(before)
        after[bit // 8] ^= 1 << bit % 8
        file.write_bytes(after)
        found = examine(path, texts)
        file.write_bytes(before)
        yield (
            name,
            bit,
            {
                question: each
                for question, each in found.items()
                if question == "check" or each != sound[question]
            },
        )


def cut_meanwhile(path: Path, question: str, texts: list[str], size: int, moment: int) -> Answers:
    """Cut the signature file as the nth of our functions is called: anywhere in opening and asking.

    Returns
    -------
    dict
        ``answer``, and ``calls``, how many there were.
    """
    calls = 0
    ours = os.path.dirname(lshdb.__file__)

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            calls += 1
            if calls == moment:
                os.truncate(path / "signatures.npy", size)

    sys.setprofile(count)
    try:
        with Index.open(path) as index:
            QUESTIONS_OF_ROWS[question](index, texts)
            found = QUESTIONS_OF_ROWS[question](index, texts)
    finally:
        sys.setprofile(None)
    return {"answer": found, "calls": calls}

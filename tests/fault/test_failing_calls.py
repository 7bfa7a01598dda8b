"""Every call that can fail, made to fail: an error of ours, and nothing acknowledged is lost."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fault.soundness import faults_of
from tests.fault.steps import State
from tests.fault.writer import (
    CHANGING,
    CREATE,
    FAIL,
    LOCK,
    MKDIR,
    OPEN,
    PASS,
    READ,
    SHORT,
    TRUNCATE,
    WRITE,
    Outcome,
    WriterProcess,
)

WORK = ("add_batches", "replace", "remove", "cluster")
OPERATIONS: dict[str, tuple[str, ...]] = {
    "create": ("create",),
    "create, add": ("create", "add_few"),
    "add, merge": ("add_batches",),
    "replace": ("replace",),
    "remove": ("remove",),
    "cluster": ("cluster",),
    "remove, compact": ("remove", "compact"),
    "reband": ("reband",),
}
"""Steps each of whose calls fails in its turn; few, as all are done again for each call."""
SPACE = CREATE | WRITE | TRUNCATE | MKDIR
ONCE = {
    "EIO": {"action": FAIL, "kinds": CHANGING | OPEN | LOCK, "error": errno.EIO},
    "ENOSPC": {"action": FAIL, "kinds": SPACE, "error": errno.ENOSPC},
    "EINTR": {"action": FAIL, "kinds": CHANGING | OPEN | LOCK, "error": errno.EINTR},
    "short": {"action": SHORT, "kinds": WRITE},
    "read EIO": {"action": FAIL, "kinds": READ, "error": errno.EIO},
    "read short": {"action": SHORT, "kinds": READ},
    "full": {"action": FAIL, "kinds": SPACE, "error": errno.ENOSPC, "lasting": 1},
}
SLICE = 1
"""How many of each are tried in the ordinary run."""
IN_SHORT = {
    ("EIO", "add, merge"), ("EIO", "create, add"), ("ENOSPC", "replace"), ("EINTR", "remove"),
    ("short", "add, merge"), ("read EIO", "cluster"), ("read short", "replace"), ("full", "remove"),
    ("ENOSPC", "remove, compact"), ("EIO", "reband"),
}  # fmt: skip
"""What is tried in the ordinary run."""


def judged(path: Path, outcome: Outcome) -> list[str]:
    """What is wrong after an error; what may be there depends on what the error says."""
    if outcome.status != 0 or outcome.outcome == "bug":
        return [f"status {outcome.status}, {outcome.result.get('message')}"]
    allowed = outcome.allowed
    is_open = outcome.outcome != "done" and "is not known" in outcome.result["message"]
    # An index that was made and then could not be opened is there, and empty.
    if not is_open and allowed[0] is not None:
        allowed = allowed[:1]
    return [f"{one}; after {outcome.result}" for one in faults_of(path, allowed)]


def prepared_for(
    operation: str, grown: tuple[Path, State], copy_grown: Callable[[], Path]
) -> tuple[State | None, Callable[[], Path]]:
    """What the index holds before an operation, None if there is none, and how to make it anew."""

    def without_index() -> Path:
        path = copy_grown()
        shutil.rmtree(path)
        return path

    return (None, without_index) if "create" in OPERATIONS[operation] else (grown[1], copy_grown)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", ONCE)
@pytest.mark.long(when=lambda kind, operation: (kind, operation) not in IN_SHORT)
def test_the_nth_call_fails(
    kind: str,
    operation: str,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    steps, fault = OPERATIONS[operation], ONCE[kind]
    documents, prepared = prepared_for(operation, grown, copy_grown)
    counting = writer.run(
        prepared(), documents, steps=steps, fault={**fault, "action": PASS, "nth": 0}
    )
    calls = range(1, counting.result["count"] + 1)
    assert len(calls) > 5
    tried = calls if is_long else random.Random(kind).sample(calls, SLICE)
    failed, wrong = 0, []
    for nth in tried:
        path = prepared()
        outcome = writer.run(path, documents, steps=steps, fault={**fault, "nth": nth})
        failed += outcome.outcome != "done"
        found = judged(path, outcome)
        if not found:
            again = writer.run(path, documents, steps=steps)
            found = [f"again: {again.result}"] if again.outcome != "done" else []
            found += faults_of(path, again.allowed[:1])
        wrong += [f"call {nth}: {one}" for one in found]
    print(f"{kind}, {operation}: {failed} of {len(tried)} failing calls were errors")
    assert wrong == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", ["short", "read short"])
def test_every_call_does_half(
    kind: str,
    operation: str,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
) -> None:
    """The system may write and read as little as it likes, so nothing is an error."""
    documents, prepared = prepared_for(operation, grown, copy_grown)
    path = prepared()
    fault = {**ONCE[kind], "nth": 1, "lasting": 1}
    outcome = writer.run(path, documents, steps=OPERATIONS[operation], fault=fault)
    assert (outcome.outcome, outcome.status) == ("done", 0), outcome.result
    assert outcome.result["count"] > 50
    assert faults_of(path, outcome.allowed[:1]) == []


OF_VECTORS = {
    "EIO": {"action": FAIL, "kinds": CHANGING | OPEN, "error": errno.EIO},
    "ENOSPC": {"action": FAIL, "kinds": SPACE, "error": errno.ENOSPC},
    "short": {"action": SHORT, "kinds": WRITE},
    "read EIO": {"action": FAIL, "kinds": READ, "error": errno.EIO},
    "read short": {"action": SHORT, "kinds": READ},
}


@pytest.mark.parametrize("steps", [("add_batches", "replace"), ("remove", "compact")])
@pytest.mark.parametrize("kind", OF_VECTORS)
@pytest.mark.long(when=lambda kind, steps: (kind in ("EIO", "read short")) == ("compact" in steps))
def test_the_nth_call_on_the_vector_file_fails(
    kind: str,
    steps: tuple[str, ...],
    writer: WriterProcess,
    grown_bits: tuple[Path, State],
    copy_grown_bits: Callable[[], Path],
    is_long: bool,
) -> None:
    fault: dict[str, Any] = {**OF_VECTORS[kind], "part": "vectors"}
    work: dict[str, Any] = {"steps": steps, "bits": True}
    counting = {**fault, "action": PASS, "nth": 0}
    calls = writer.run(copy_grown_bits(), grown_bits[1], **work, fault=counting).result["count"]
    assert calls
    tried = range(1, calls + 1) if is_long else [random.Random(kind).randrange(1, calls + 1)]
    wrong = []
    for nth in tried:
        path = copy_grown_bits()
        outcome = writer.run(path, grown_bits[1], **work, fault={**fault, "nth": nth})
        found = judged(path, outcome)
        if not found:
            again = writer.run(path, grown_bits[1], **work)
            found = [f"again: {again.result}"] if again.outcome != "done" else []
            found += faults_of(path, again.allowed[:1])
        wrong += [f"call {nth} of {calls}: {one}" for one in found]
    assert wrong == []


def test_a_limit_on_file_size(
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    """RLIMIT_FSIZE: EFBIG, as Python ignores the signal."""
    for kib in range(1, 400, 7) if is_long else (1, 100, 300):
        path = copy_grown()
        outcome = writer.run(path, grown[1], steps=WORK, file_limit=kib * 1024)
        assert judged(path, outcome) == [], kib
        assert writer.run(path, grown[1], steps=WORK).outcome == "done"


@pytest.mark.parametrize("question", ["query", "pairs", "show", "clusters"])
@pytest.mark.parametrize("kind", ["EIO", "EINTR", "short"])
@pytest.mark.long(when=lambda question, kind: (question == "query") == (kind == "EINTR"))
def test_reading_fails(
    question: str,
    kind: str,
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    is_long: bool,
) -> None:
    """The right answer or an error, never another answer."""
    path = copy_grown()
    task = {"question": question, "texts": [text for text in (grown[1] or {}).values() if text][:5]}
    fault: dict[str, Any] = {
        "EIO": {"action": FAIL, "kinds": READ | OPEN | LOCK, "error": errno.EIO},
        "EINTR": {"action": FAIL, "kinds": READ | OPEN | LOCK, "error": errno.EINTR},
        "short": {"action": SHORT, "kinds": READ},
    }[kind]
    sound = writer.run(path, None, **task, fault={**fault, "action": PASS, "nth": 0}).result
    calls = range(1, sound["count"] + 1)
    for nth in calls if is_long else random.Random(kind).sample(calls, SLICE):
        outcome = writer.run(path, None, **task, fault={**fault, "nth": nth})
        assert outcome.outcome != "bug", (nth, outcome.result["message"])
        if outcome.outcome == "done":
            assert outcome.result["answer"] == sound["answer"], nth


def test_the_command_line_says_what_failed(
    writer: WriterProcess,
    grown: tuple[Path, State],
    copy_grown: Callable[[], Path],
    tmp_path: Path,
    is_long: bool,
) -> None:
    """A message and exit code 1, no traceback, whatever fails."""
    (tmp_path / "a.txt").write_text("some words of a file that is added")
    path = copy_grown()
    command = ["add", str(path), str(tmp_path / "a.txt")]
    counting = {"action": PASS, "kinds": CHANGING, "nth": 0}
    calls = range(
        1, writer.run(path, grown[1], command=command, fault=counting).result["count"] + 1
    )
    for nth in calls if is_long else calls[:: len(calls) // 2]:
        for error in (errno.EIO, errno.ENOSPC):
            fault = {"action": FAIL, "kinds": CHANGING, "nth": nth, "error": error}
            result = writer.run(copy_grown(), grown[1], command=command, fault=fault).result
            assert result["code"] in (0, 1), (nth, result)
            assert "Traceback" not in result["stderr"], (nth, result)
            assert ("error: " in result["stderr"]) == (result["code"] == 1), (nth, result)

"""Readers in processes of their own, while one writer changes all there is to change."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.children.databases import child_path
from tests.fault.history import RULES, SIZE, Step, history
from tests.fault.reader import Numbers
from tests.sizes import set_sizes

ROOT = Path(__file__).parents[2]
READERS = 3
SEED = 20


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sizes(monkeypatch, batch_documents=SIZE, commit_postings=0)
    monkeypatch.setattr("lshdb.ingest.remove._DOCUMENTS_A_BATCH", SIZE)
    monkeypatch.setattr("lshdb.storage.orders.freezing.MOST_SORTED", 1)
    monkeypatch.setattr("lshdb.storage.orders.freezing.MOST_PARTS", 3)


class Writer:
    """Takes the steps of a history, and says before and after each commit which state it is."""

    def __init__(self, index: Index, numbers: Numbers) -> None:
        self._index = index
        self._numbers = numbers
        self._state = 0
        self._moments: list[datetime] = []
        self.steps = Counter[str]()

    def close(self) -> None:
        self._index.close()

    def take(self, step: Step) -> None:
        self._moments.append(datetime.now(UTC))
        last = self._state + len(step.states)
        if step.name == "add":
            self._numbers.begin(self._state + 1)
            self._index.add(step.what, workers=1, on_commit=lambda _: self._committed(last))
        else:
            self._numbers.begin(last)
            if step.name == "remove":
                self._index.remove(step.what)
            elif step.name == "expire":
                self._index.expire(self._moments[step.what])
            elif step.name == "compact":
                self._index.compact()
            elif step.name == "reband":
                Index.reband(self._index.path, **step.what)
                self.close()
                self._index = Index.open(self._index.path)
            else:
                self._index.update_clusters(workers=1)
            self._state = last
            self._numbers.commit(last)
        assert self._state == last, step
        self.steps[step.name] += 1

    def _committed(self, last: int) -> None:
        self._state += 1
        self._numbers.begin(min(self._state + 1, last))
        self._numbers.commit(self._state)


def start_reader(path: Path, numbers: Path, seconds: float, number: int) -> subprocess.Popen[str]:
    what = [str(path), str(numbers), str(SEED), str(seconds), str(number)]
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.fault.reader", *what],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([child_path(), *sys.path])},
    )  # fmt: skip


@pytest.mark.usefixtures("tiny")
def test_every_answer_is_of_one_state(tmp_path: Path, is_long: bool, fault_minutes: float) -> None:
    seconds = fault_minutes * 60 if is_long else 4.0
    path, numbers = tmp_path / "a.lshdb", tmp_path / "numbers"
    writer = Writer(Index.create(path, **vars(RULES)), Numbers(numbers))
    with contextlib.closing(writer):
        steps = history(SEED)
        for _ in range(20):
            writer.take(next(steps))
        readers = [start_reader(path, numbers, seconds, number) for number in range(READERS)]
        end = time.monotonic() + seconds + 60
        while any(reader.poll() is None for reader in readers) and time.monotonic() < end:
            writer.take(next(steps))
    found = [collect(reader) for reader in readers]
    answers = sum((Counter(one["answers"]) for one in found), Counter[str]())
    overtaken, refused = (sum(one[name] for one in found) for name in ("overtaken", "refused"))
    print(f"{dict(writer.steps)}; {answers.total()} answers: {dict(answers)}")
    print(f"a commit during {overtaken}, refused after other bands {refused}")
    for one in found:
        assert one["faults"] == []
    assert answers.total() > 30 and overtaken > 5


def collect(reader: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = reader.communicate(timeout=60)
    assert reader.returncode == 0, err
    result: dict[str, Any] = json.loads(out)
    return result

"""What the tests of reading share: a reader that sorts documents from rejections."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lshdb
from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.read import read_documents

Outcome = tuple[list[Document], list[Rejected]]

MEASURE = """
import resource, sys
from lshdb import read_documents
n = sum(1 for _ in read_documents(sys.argv[1:], body="vector"))
print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
STARTER = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


def peak(path: Path, n: int) -> int:
    """Most memory of a process that reads n vectors; a small one starts it, whose peak it has."""
    command = [sys.executable, "-c", STARTER, sys.executable, "-c", MEASURE, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([_ROOT, *sys.path[1:]])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    count, memory = map(int, done.stdout.split())
    assert count == n
    return memory


_ROOT = str(Path(lshdb.__file__).parents[1])


def _sorted_out(paths: Any, **options: Any) -> Outcome:
    documents: list[Document] = []
    rejected: list[Rejected] = []
    if not isinstance(paths, list):
        paths = [paths]
    for item in read_documents(paths, **options):
        if isinstance(item, Document):
            documents.append(item)
        else:
            assert isinstance(item, Rejected)
            assert item.source.isprintable() and item.source
            assert item.reason.isprintable() and item.reason
            rejected.append(item)
    return documents, rejected


@pytest.fixture(scope="session")
def read() -> Callable[..., Outcome]:
    """Read paths to the end: the documents, and the rejections."""
    return _sorted_out


@pytest.fixture(scope="session")
def read_bytes() -> Callable[..., Outcome]:
    """Read bytes as standard input."""

    def read(content: bytes, **options: Any) -> Outcome:
        return _sorted_out(["-"], stdin=io.BytesIO(content), **options)

    return read


@pytest.fixture(scope="session")
def jsonl() -> Callable[..., bytes]:
    """JSON Lines of n documents with keys ``0`` to ``n - 1``."""

    def make(n: int, text: str = "some words") -> bytes:
        lines = (json.dumps({"id": str(i), "text": f"{text} {i}"}) for i in range(n))
        return "".join(line + "\n" for line in lines).encode()

    return make

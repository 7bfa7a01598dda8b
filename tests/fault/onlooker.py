"""A process of another user, or behind a read-only mount, that reads what this test's user writes.

It holds the answers to all questions open, after the first of each has come, for as long as it is
told; whoever reads the rest of them only then is a slow consumer. Run as
``python -m tests.fault.onlooker UID``, with a line of JSON for each command; see :func:`main`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lshdb import Index, LshdbError, ParameterError
from lshdb.storage.rowfiles.row_file import RowFile
from tests.children.waiting import join_all, killed_late

__all__ = ["NOBODY", "QUESTIONS", "Answers", "Onlooker", "answers", "held"]

NOBODY = 65534
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0

Answers = dict[str, Any]
Question = Callable[[Index, Path, threading.Event, threading.Event], Iterator[Any]]
"""Of an index, with a folder for what it makes; says when it has begun, and waits in the middle."""


def _sql(statement: str) -> Question:
    return lambda index, *_: iter(index.sql(statement).rows)


def _query(index: Index, *_: Any) -> Iterator[Any]:
    texts = list(index.sql("SELECT key FROM document ORDER BY doc_id LIMIT 40").rows)
    documents = [(key, str(index.show(key).body)) for (key,) in texts]
    for key, hits in index.query_many(documents, top=None, workers=1):
        yield key, sorted((hit.key, hit.similarity) for hit in hits)


def _pairs(index: Index, *_: Any) -> Iterator[Any]:
    for pair in index.pairs(workers=1):
        yield pair.key1, pair.key2, pair.similarity


def _grouped(ask: Callable[..., Iterator[Any]], *, update: bool = False) -> Question:
    def rows(index: Index, *_: Any) -> Iterator[Any]:
        try:
            for one in ask(index, update=update):
                yield repr(one)
        except ParameterError as error:
            if "has no verified edges" not in error.message:
                raise
            yield "none"

    return rows


def _check(index: Index, *_: Any) -> Iterator[Any]:
    yield "looked"
    yield from (finding.what for finding in index.check())


def _copy(
    index: Index, folder: Path, begun: threading.Event, go_on: threading.Event
) -> Iterator[Any]:
    """The database is copied behind the row files, and those when everybody else has begun."""

    class Slow(RowFile):
        def copy_to(self, path: Path, n_rows: int) -> None:
            begun.set()
            assert go_on.wait(PATIENCE)
            super().copy_to(path, n_rows)

    with index._store.reading() as snapshot:
        for file in snapshot.generation.files:
            file.__class__ = Slow
    path = folder / "copy.lshdb"
    index.copy(path)
    with Index.open(path) as copy:
        yield from copy.sql("SELECT key, doc_id FROM document").rows
        yield from (finding.what for finding in copy.check())
    shutil.rmtree(path)


def _export(
    index: Index, folder: Path, begun: threading.Event, go_on: threading.Event
) -> Iterator[Any]:
    def wait(*_: object) -> None:
        begun.set()
        assert go_on.wait(PATIENCE)

    path = folder / "export"
    index.export(path, on_progress=wait)
    for file in sorted(path.iterdir()):
        if file.suffix == ".jsonl":
            yield file.name, hashlib.sha256(file.read_bytes()).hexdigest()
    shutil.rmtree(path)


QUESTIONS: dict[str, Question] = {
    "sql of keys": _sql("SELECT key FROM document"),
    "sql of texts": _sql("SELECT key, length(body) FROM document JOIN content USING (doc_id)"),
    "sql of postings": _sql("SELECT band, bucket, signature_id FROM posting"),
    "query": _query,
    "pairs": _pairs,
    "clusters": _grouped(Index.clusters),
    "dedup": _grouped(Index.dedup),
    "neighbors": _grouped(Index.neighbors),
    "check": _check,
    "copy": _copy,
    "export": _export,
}
_ALL_QUESTIONS = QUESTIONS | {
    f"{name} up to date": _grouped(ask, update=True)
    for name, ask in (
        ("clusters", Index.clusters), ("dedup", Index.dedup), ("neighbors", Index.neighbors)
    )
}  # fmt: skip
"""With those that may write."""


class Held:
    """One question whose answer has begun."""

    def __init__(self, name: str, path: Path, folder: Path) -> None:
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._rows: list[Any] = []
        self._error = ""
        self._ask = lambda index: _ALL_QUESTIONS[name](index, folder, self._begun, self._go_on)
        self._path = path
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._begun.wait(PATIENCE), name

    def _run(self) -> None:
        try:
            with Index.open(self._path) as index:
                for row in self._ask(index):
                    self._rows.append(row)
                    self._begun.set()
                    assert self._go_on.wait(PATIENCE)
        except LshdbError as error:
            self._error = f"{type(error).__name__}: {error.message}"
        finally:
            self._begun.set()

    def answer(self) -> Any:
        """What came, by its number of rows and its digest; or the error."""
        self._go_on.set()
        join_all([self._thread], PATIENCE)
        if self._error:
            return self._error
        rows = json.dumps(self._rows).encode()
        return [len(self._rows), hashlib.sha256(rows).hexdigest()]


def held(path: Path, folder: Path, names: list[str]) -> dict[str, Held]:
    """Questions that have begun to be answered, each by an index of its own."""
    return {name: Held(name, path, folder) for name in names}


def answers(path: Path, folder: Path, names: list[str]) -> Answers:
    """The answers of an index to some questions."""
    return {name: Held(name, path, folder).answer() for name in names}


class Onlooker:
    """Another process that reads.

    Parameters
    ----------
    uid : int, optional
        Its user; this one's if none is given.
    mount : (Path, Path), optional
        A folder, and where that process alone sees it, read-only.
    """

    def __init__(self, uid: int | None = None, mount: tuple[Path, Path] | None = None) -> None:
        command = [sys.executable, "-m", "tests.fault.onlooker", "" if uid is None else str(uid)]
        if mount is not None:
            command = [*_unshared(*mount), *command]
        self._process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    def _told(self, **command: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        with killed_late(self._process.pid, 4 * PATIENCE):
            line = self._process.stdout.readline()
        assert line, "the onlooker is gone"
        return json.loads(line)

    def hold(self, path: Path, folder: Path, names: list[str]) -> None:
        """Let it begin to ask."""
        self._told(do="hold", path=str(path), folder=str(folder), names=names)

    def finish(self) -> Answers:
        """The answers that were held."""
        found: Answers = self._told(do="finish")
        return found

    def ask(self, path: Path, folder: Path, names: list[str]) -> Answers:
        """Answers from an index that is opened for them."""
        self.hold(path, folder, names)
        return self.finish()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _unshared(source: Path, place: Path) -> list[str]:
    options = ["-m"] if os.getuid() == 0 else ["-r", "-m"]
    script = 'mount --bind "$0" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
    return ["unshare", *options, "sh", "-c", script, str(source), str(place)]


def can_mount(folder: Path) -> str:
    """Why no folder can be mounted read-only for a child, or nothing."""
    source, place = folder / "source", folder / "place"
    source.mkdir()
    place.mkdir()
    try:
        subprocess.run(
            [*_unshared(source, place), "true"], check=True, capture_output=True, timeout=120
        )
    except FileNotFoundError:
        return "there is no unshare here"
    except subprocess.CalledProcessError as error:
        return f"this user may not mount: {error.stderr.decode().strip()}"
    return ""


def main() -> None:
    uid = sys.argv[1]
    if uid:
        _load_all()  # that user may not be allowed to read the library
        os.setgroups([])
        os.setgid(int(uid))
        os.setuid(int(uid))
    begun: dict[str, Held] = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "hold":
            begun = held(Path(command["path"]), Path(command["folder"]), command["names"])
            said: Any = list(begun)
        else:
            said = {name: one.answer() for name, one in begun.items()}
        print(json.dumps(said), flush=True)


def _load_all() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.lshdb"
        with Index.create(path) as index:
            # Long enough to be compressed, which loads a library.
            index.add([(key, "one two three four five six seven " * 20) for key in "ab"])
            list(index.clusters())
        answers(path, Path(folder), list(QUESTIONS))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()

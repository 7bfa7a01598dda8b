"""One index in a Python program: event loops, abandoned iterators, Ctrl-C, pickles, and its end."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import copy
import gc
import inspect
import json
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import lshdb
from lshdb import Document, Index, LshdbError, TransientIndex
from lshdb.files.temporary_folder import TemporaryFolder
from lshdb.storage.place.lock import WriterLock
from lshdb.storage.rowfiles.row_file import RowFile
from tests.children.databases import child_path
from tests.children.waiting import SECONDS
from tests.conftest import family_corpus
from tests.fault.test_processes import streams

Make = Callable[..., Index]
CORPUS = family_corpus(7, families=5)
TEXT = CORPUS[0][1]


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index(k=2, threshold=0.5)
    index.add(CORPUS, night="monday")
    index.advance("c", 1)
    copy = Document("copy", CORPUS[1][1], fields={"topic": "news"})
    index.add([(CORPUS[0][0], TEXT + " more"), copy])
    list(index.clusters())
    return index


@pytest.fixture
def windows(make_index: Make) -> Index:
    """An index that answers what recurs where."""
    index = make_index("windows.lshdb", k=2, passages=(20, 10))
    index.add(CORPUS)
    return index


def questions(index: Index) -> dict[str, Callable[[], Any]]:
    """Each public method that asks something, taken to its end."""
    key, other = CORPUS[0][0], CORPUS[1][0]
    return {
        "query": lambda: index.query(TEXT),
        "query_many": lambda: list(index.query_many([TEXT, "words"])),
        "explain": lambda: index.explain(key, other),
        "explain_page": lambda: index.explain_page(key, other),
        "diff": lambda: index.diff(key, other),
        "similarity": lambda: index.similarity(key, other),
        "refusal": lambda: index.refusal(TEXT),
        "count_shingles": lambda: index.count_shingles(TEXT),
        "show": lambda: index.show(key),
        "texts": lambda: index.texts([key]),
        "fields": lambda: index.fields([key]),
        "field_names": index.field_names,
        "vote": lambda: index.vote(index.query(TEXT), "topic"),
        "pairs": lambda: list(index.pairs()),
        "pairs since": lambda: list(index.pairs(since="last")),
        "join": lambda: list(index.join(index)),
        "cursors": index.cursors,
        "clusters": lambda: list(index.clusters()),
        "dedup": lambda: list(index.dedup()),
        "neighbors": lambda: list(index.neighbors()),
        "edge_state": index.edge_state,
        "loss": index.loss,
        "recall": lambda: index.recall(sample=5),
        "advise": lambda: index.advise(labels=[(key, other, False)]),
        "batches": index.batches,
        "stats": index.stats,
        "buckets": index.buckets,
        "sql": lambda: list(index.sql("SELECT key FROM document").rows),
        "check": lambda: list(index.check()),
        "params": lambda: index.params,
    }


def questions_of_windows(index: Index) -> dict[str, Callable[[], Any]]:
    """The public methods that ask where passages recur."""
    key, other = CORPUS[0][0], CORPUS[1][0]
    return {
        "passages": lambda: list(index.passages(with_text=True)),
        "query_passages": lambda: index.query_passages(TEXT),
        "explain_passages": lambda: index.explain_passages(key, other),
    }


def questions_of_files(index: Index, folder: Path) -> dict[str, Callable[[], Any]]:
    """Each public method and function that reads files or rows, and what opens an index."""
    texts, links, labels = (folder / name for name in ("a.jsonl", "links.tsv", "labels.tsv"))
    with open(texts, "w") as file:
        file.writelines(json.dumps({"id": key, "text": text}) + "\n" for key, text in CORPUS)
    links.write_text("".join(f"{key}\t{other}\n" for key, _ in CORPUS for other, _ in CORPUS[:9]))
    labels.write_text(f"{CORPUS[0][0]}\t{CORPUS[1][0]}\tno\n")
    rows = [text for _, text in CORPUS]
    return {
        "filter": lambda: list(index.filter(texts)),
        "contract": lambda: list(index.contract(links)),
        "open": lambda: Index.open(index.path).close(),
        "refresh": index.refresh,
        "has_signatures": lambda: index.has_signatures,
        "signatures": lambda: index.signatures[0],
        "lshdb.advise": lambda: lshdb.advise(CORPUS),
        "lshdb.clusters": lambda: list(lshdb.clusters(rows)),
        "lshdb.deduplicate": lambda: lshdb.deduplicate(rows),
        "lshdb.pairs": lambda: list(lshdb.pairs(rows)),
        "lshdb.read_documents": lambda: list(lshdb.read_documents([texts])),
        "lshdb.read_labels": lambda: lshdb.read_labels(labels),
    }


def changes(index: Index, other: Index) -> dict[str, Callable[[], Any]]:
    """Each public method that changes an index; ``other`` is merged into it."""
    return {
        "add": lambda: index.add([(f"n{number}", text) for number, (_, text) in enumerate(CORPUS)]),
        "remove": lambda: index.remove([key for key in ("n1", "n2") if key in index]),
        "advance": lambda: index.advance("c", 1),
        "remove_cursor": lambda: index.remove_cursor("c"),
        "merge": lambda: index.merge(other),
        "upgrade": lambda: Index.upgrade(index.path),
        "update_clusters": index.update_clusters,
        "compact": index.compact,
        "reband": lambda: Index.reband(index.path, threshold=0.5),
        "expire": lambda: index.expire(datetime(2020, 1, 1)),
        "mend_times": index.mend_times,
        "repair": lambda: Index.repair(index.path),
    }


def new_ones(index: Index, path: Path) -> dict[str, Callable[[], Any]]:
    """Each public method that makes something at a path, whole or not at all."""
    return {
        "create": lambda: Index.create(path, threshold=0.5).close(),
        "copy": lambda: index.copy(path),
        "export": lambda: index.export(path),
        "reindex": lambda: index.reindex(path, k=3),
        "report": lambda: index.report(path),
        "from_export": lambda: Index.from_export(path.with_name("export"), path).close(),
        "first add": lambda: _make(path),
        "dedup_files": lambda: index.dedup_files(
            [path.with_name("a.jsonl")], path.with_suffix(".jsonl")
        ),
        "dedup_files without an index": lambda: _clean(path),
    }


def _make(path: Path) -> None:
    with Index.create(path, threshold=0.5, deferred=True) as index:
        index.add(CORPUS)


def _clean(path: Path) -> None:
    with TransientIndex.create(k=2, threshold=0.5) as index:
        index.add(CORPUS)
        index.dedup_files([path.with_name("a.jsonl")], path.with_suffix(".jsonl"))


def clear_whole(path: Path) -> None:
    """Remove what was made: it must be whole, and nothing else may lie beside it."""
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(".")] == []
    if (path / "index.toml").exists():
        with Index.open(path) as made:
            assert made.check() == []
    if path.is_dir():
        assert {"index.toml", "index.json", "index.html"} & {*os.listdir(path)}
        shutil.rmtree(path)
    elif path.exists():
        assert path.read_text().rstrip().endswith("</html>")
        path.unlink()
    clean = path.with_suffix(".jsonl")
    if clean.exists():
        # The last record is similar to none, and kept.
        (*_, last) = clean.read_text().splitlines()
        assert json.loads(last) == {"id": CORPUS[-1][0], "text": CORPUS[-1][1]}
        clean.unlink()


def same(first: Any, second: Any) -> bool:
    return bool(repr(first) == repr(second) and type(first) is type(second))


def test_answers_are_pickled_and_copied(index: Index) -> None:
    for name, ask in questions(index).items():
        answer = ask()
        for again in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
            assert same(again, answer), name
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(index)


def every_error() -> Iterator[type[LshdbError]]:
    kinds = [LshdbError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        if kind.__module__ == "lshdb.errors":
            yield kind


def test_errors_are_pickled(index: Index) -> None:
    """As a pool of processes does, which never ends over one that cannot be made again."""
    for kind in every_error():
        error = kind.__new__(kind)
        Exception.__init__(error, "what happened")
        error.message, error.hint = "what happened", "what to do"
        vars(error).setdefault("name", "num_perm")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and vars(again) == vars(error), kind
    for fail in (
        lambda: index.show("nobody"),
        lambda: Index.open(index.path, num_perm=7),
        lambda: index.query(TEXT, threshold=7),
        lambda: index.add([("k", 1)]),
    ):
        with pytest.raises(LshdbError) as caught:
            fail()
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.hint) == (str(caught.value), caught.value.hint)


@contextlib.contextmanager
def nothing_is_left() -> Iterator[None]:
    """No descriptor, no thread, and no exception that nobody sees."""
    unseen: list[Any] = []
    before = sys.unraisablehook
    sys.unraisablehook = unseen.append
    gc.collect()
    n_files, n_threads = len(os.listdir("/dev/fd")), _thread._count()
    try:
        yield
        gc.collect()
        assert unseen == []
        assert len(os.listdir("/dev/fd")) <= n_files
        wait_for_threads(n_threads)
    finally:
        sys.unraisablehook = before


def test_iterators_that_are_left_begun(index: Index, tmp_path: Path) -> None:
    list(questions(index)["pairs"]())  # connections that stay are open
    for stream in streams(index, tmp_path / "a.jsonl").values():
        next(stream)
    del stream
    with nothing_is_left():
        for stream in streams(index, tmp_path / "a.jsonl").values():
            next(stream)
        del stream
    assert [hit.key for hit in index.query(CORPUS[1][1], top=1)]


def test_an_index_that_nobody_closes(index: Index, tmp_path: Path) -> None:
    def leave() -> None:
        own = Index.open(index.path)
        begun = streams(own, tmp_path / "a.jsonl")
        for stream in begun.values():
            next(stream)
        begun["itself"] = begun  # type: ignore[assignment]  # freed by the collector alone

    leave()
    with nothing_is_left():
        leave()


def test_eight_threads_under_an_event_loop_while_another_adds_and_closes(index: Index) -> None:
    asked = ["query", "pairs", "show", "clusters", "neighbors", "stats", "explain", "sql"]
    own = Index.open(index.path)
    expected = {name: repr(questions(own)[name]()) for name in asked}

    async def ask(name: str, n: int) -> None:
        for _ in range(n):
            answer = await asyncio.to_thread(questions(own)[name])
            assert repr(answer) == expected[name] or name in ("stats", "clusters"), name

    async def leave(n: int) -> None:
        for _ in range(n):  # begun in one thread, and left in another
            await asyncio.to_thread(next, own.pairs())

    async def life() -> None:
        await asyncio.gather(*(ask(name, 6) for name in asked), leave(6))
        late = [asyncio.create_task(ask(name, 50)) for name in asked]
        await asyncio.sleep(0.05)
        await asyncio.to_thread(own.close)
        for outcome in await asyncio.gather(*late, return_exceptions=True):
            assert outcome is None or (isinstance(outcome, LshdbError) and "closed" in str(outcome))

    asyncio.run(life())


class Alarm:
    """Ctrl-C after a while, if what it is meant for has not ended."""

    def __init__(self) -> None:
        self.is_set = False

    def ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_set:
            self.is_set = False
            raise KeyboardInterrupt


def open_without(index: Index) -> list[str]:
    """Close an index; what is open then."""
    index.close()
    gc.collect()
    names = []
    for descriptor in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # of the listing itself
            names.append(os.readlink(f"/dev/fd/{descriptor}"))
    return sorted(names)


def every_method(index: Index, windows: Index, other: Index) -> dict[str, Callable[[], Any]]:
    return {
        **questions(index),
        **questions_of_windows(windows),
        **questions_of_files(index, index.path.parent),
        **changes(index, other),
        **new_ones(index, index.path.with_name("made")),
    }


WITHOUT_STATE = {
    *("aims", "candidate_probability", "choose_bands", "estimate", "kernel_name", "progress"),
    *("published_stop_words", "s_curve", "path"),
}
"""Names of what opens nothing; the rest is interrupted below."""


def test_every_public_name_is_interrupted(index: Index) -> None:
    called = {name.removeprefix("lshdb.") for name in every_method(index, index, index)}
    functions = [name for name in lshdb.__all__ if inspect.isfunction(getattr(lshdb, name))]
    methods = [name for name in dir(Index) if not name.startswith("_")]
    assert {*functions, *methods} - WITHOUT_STATE - called == {"close"}


def wait_for_threads(n_threads: int) -> None:
    """Wait until there are no more than so many; a thread that was told to end takes a moment."""
    latest = time.monotonic() + SECONDS
    while _thread._count() > n_threads:
        assert time.monotonic() < latest, f"{_thread._count()} threads instead of {n_threads}"
        time.sleep(0.01)


# An import that is interrupted leaves its file to Python.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ctrl_c_at_random_moments_of_every_method(
    index: Index, windows: Index, make_index: Make, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses few descriptors, no thread and no temporary file; no index is worse for it.

    What Python cannot raise is the interrupt alone.
    """
    alarm, rng, unseen = Alarm(), random.Random(5), Unseen()
    path, scratch = index.path.with_name("made"), index.path.with_name("scratch")
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    other = make_index("other.lshdb", k=2, threshold=0.5)
    other.add([(f"n{number}", text) for number, (_, text) in enumerate(CORPUS[:9])])
    before = signal.signal(signal.SIGALRM, alarm.ring), sys.unraisablehook
    sys.unraisablehook = unseen
    n_interrupted = 0
    try:
        asked = {name: repr(ask()) for name, ask in questions(index).items()}
        stable = [name for name in asked if name not in ("stats", "check", "loss", "recall")]
        index.export(path.with_name("export"))
        for name, ask in every_method(index, windows, other).items():
            if name not in new_ones(index, path):
                ask()  # what is imported, and stays open, is there
        index.remove([key for key in index if key.startswith("n")])
        before_all = open_without(index)
        n_threads = _thread._count()
        index = Index.open(index.path)
        both = every_method(index, windows, other)
        seconds = dict.fromkeys(both, 0.02)
        for turn in range(4000 if is_long else 60):
            name = rng.choice([*both])
            try:
                alarm.is_set = True
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, seconds[name]))
                both[name]()
                alarm.is_set = False
                seconds[name] *= 0.8
            except KeyboardInterrupt:
                n_interrupted += 1
                seconds[name] *= 1.2
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            clear_whole(path)
            if os.listdir(scratch):
                gc.collect()
                TemporaryFolder().close()  # removes what an interrupted finalizer has left
            assert os.listdir(scratch) == [], name
            if name in changes(index, other):
                index.remove([key for key in index if key.startswith("n")])
            if turn % 20 == 19:
                assert index.check() == [], name
                question = rng.choice([one for one in stable if one not in ("batches", "cursors")])
                questions(index)[question]()
                with Index.open(index.path) as own:
                    assert own.check() == []
                assert questions_of_windows(windows)["passages"]() != []
            if turn % 200 == 39:
                # Python's own finalizers may be interrupted, too: one in many is lost.
                left = open_without(index)
                assert len(left) <= len(before_all) + 16 + n_interrupted // 20, left
                wait_for_threads(n_threads)
                index = Index.open(index.path)
                both = every_method(index, windows, other)
    finally:
        signal.signal(signal.SIGALRM, before[0])
        sys.unraisablehook = before[1]
    print(n_interrupted, "interrupts", len(unseen.places), "in finalizers:", *unseen.places)
    assert unseen.others == []
    assert n_interrupted > (200 if is_long else 3)


class Unseen:
    """What Python could raise nowhere: interrupts, by the finalizer in which they came; others."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.others: list[str] = []

    def __call__(self, unraisable: Any) -> None:
        said = f"{unraisable.exc_value!r} in {unraisable.object!r}"
        (self.places if unraisable.exc_type is KeyboardInterrupt else self.others).append(said)


def test_a_lock_is_given_back_wherever_ctrl_c_comes(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("_write", "acquire"):
        lock = WriterLock(index.path / "lock", 0)
        lock.acquire()
        with monkeypatch.context() as patched:
            patched.setattr(WriterLock, "_write", interrupt)
            if name == "_write":
                with pytest.raises(KeyboardInterrupt):
                    lock.release()
        del lock
        own = WriterLock(index.path / "lock", 0)
        own.acquire()
        own.release()


def test_a_lock_of_a_writer_that_nobody_has_any_more(index: Index) -> None:
    lock = WriterLock(index.path / "lock", 0)
    lock.acquire()
    cycle: list[Any] = [lock]
    cycle.append(cycle)
    gc.disable()
    try:
        del lock, cycle
        own = WriterLock(index.path / "lock", 5)
        own.acquire()
        own.release()
    finally:
        gc.enable()


def test_a_header_that_is_read_while_it_is_written(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of rows becomes a digit longer, and what stands behind it moves."""
    read, n_torn = RowFile._read, iter(range(3))

    def torn(file: RowFile, size: int, offset: int) -> bytes:
        header = read(file, size, offset)
        is_torn = offset == 0 and next(n_torn, None) is not None
        return header[:64] + header[65:] + b" " if is_torn else header

    monkeypatch.setattr(RowFile, "_read", torn)
    with Index.open(index.path) as own:
        assert own.query(TEXT)
    assert next(n_torn, None) is None


PROGRAM = """
import sys, threading, time
from lshdb import Index
index = Index.open(sys.argv[1])
def ask():
    while True:
        list(index.pairs()); index.query("some words of a text"); list(index.neighbors())
def add():
    with Index.open(sys.argv[1]) as own:
        for turn in range(10**6):
            own.add([(f"x{turn % 7}-{i}", f"some words {turn} of a text {i}") for i in range(50)])
for work in [ask] * 6 + [add]:
    threading.Thread(target=work, daemon=True).start()
begun = index.pairs(); next(begun)
time.sleep(float(sys.argv[2]))
"""


def test_the_interpreter_ends_while_threads_are_busy(index: Index, is_long: bool) -> None:
    rng = random.Random(7)
    for _ in range(20 if is_long else 1):
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(index.path), str(rng.uniform(0, 0.4))],
            capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": child_path()},
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        assert index.check() == []


def _answers(path: Path) -> list[str]:
    with Index.open(path) as own:
        return [hit.key for hit in own.query(TEXT)]


@pytest.mark.parametrize("how", ["fork", "forkserver", "spawn"])
@pytest.mark.long(when=lambda how: how != "fork")
def test_pools_of_processes(how: str, index: Index) -> None:
    expected = [hit.key for hit in index.query(TEXT)]
    with multiprocessing.get_context(how).Pool(2) as pool:
        assert pool.map_async(_answers, [index.path] * 4).get(SECONDS) == [expected] * 4
        with pytest.raises(lshdb.IndexNotFoundError):
            pool.map_async(_answers, [index.path / "nothing"]).get(SECONDS)

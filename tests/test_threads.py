"""Work ahead in threads: everything, in order, bounded, and errors in their place."""

from __future__ import annotations

import _thread
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from lshdb import threads
from lshdb.cancel import Stop, Stopped, stop_if_told, until
from lshdb.errors import ParameterError
from lshdb.threads import (
    Lent,
    Workers,
    begin_thread,
    choose_workers,
    collector_paused,
    in_chunks,
    work_ahead,
)
from tests.children.waiting import end_of
from tests.interrupts import a_limit, every_interrupt


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_results_come_in_order(workers: int) -> None:
    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    results = list(work_ahead(work, range(40), workers=workers))
    assert results == [number * number for number in range(40)]


def test_items_are_taken_ahead_but_not_without_bound() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = work_ahead(lambda number: number, items(), workers=3)
    assert [next(results), next(results)] == [0, 1]
    assert 3 < len(taken) <= 9
    results.close()
    assert len(taken) <= 9


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_where_its_result_would(workers: int) -> None:
    def work(number: int) -> float:
        return 1 / (number - 5)

    got = []
    with pytest.raises(ZeroDivisionError):
        for result in work_ahead(work, range(10), workers=workers):
            got.append(result)
    assert len(got) == 5


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_the_items_comes_after_what_was_before_it(workers: int) -> None:
    def items() -> Iterator[int]:
        yield from range(7)
        raise OSError("broke")

    got = []
    with pytest.raises(OSError, match="broke"):
        for chunk in work_ahead(list, in_chunks(items(), 4), workers=workers):
            got += chunk
    assert got == list(range(7))


def test_several_threads_are_at_work() -> None:
    met = threading.Barrier(2, timeout=10)
    assert len(list(work_ahead(lambda _: met.wait(), range(4), workers=2))) == 4


def test_chunks_and_numbers_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(in_chunks(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_chunks([], 2)) == []
    assert choose_workers(3) == 3
    assert choose_workers(None) >= 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 8}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert choose_workers(None) == 3, "those that the process may use"
    monkeypatch.delattr(os, "sched_getaffinity")
    assert choose_workers(None) == 64
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert choose_workers(None) == 1
    with pytest.raises(ParameterError):
        choose_workers(0)


@pytest.mark.parametrize("there_are", [0, 1, 2])
def test_fewer_threads_than_asked_for_do_all_the_same(
    there_are: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under ``ulimit -u`` and ``ulimit -v``."""
    start, started = _thread.start_new_thread, []

    def limited(function: Callable[..., object], arguments: tuple[object, ...]) -> int:
        if len(started) >= there_are:
            raise RuntimeError("can't start new thread")
        started.append(function)
        return start(function, arguments)

    monkeypatch.setattr(_thread, "start_new_thread", limited)
    done = []

    def work(number: int) -> int:
        done.append(number)
        if number == 30:
            raise ZeroDivisionError
        return number * number

    results = work_ahead(work, range(40), workers=4)
    assert [next(results) for _ in range(30)] == [number * number for number in range(30)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert len(started) == there_are
    assert len(done) == len(set(done))


@pytest.mark.parametrize("lives", [0, 1])
def test_threads_that_end_as_they_begin_are_not_waited_for(
    lives: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a new thread has no memory: it was started, and never does a thing."""
    monkeypatch.setattr(threads, "_PATIENCE", 0.02)
    start, started = _thread.start_new_thread, []

    def dying(function: Callable[..., object], arguments: tuple[object, ...]) -> int:
        started.append(function)
        return start(function, arguments) if len(started) <= lives else 0

    monkeypatch.setattr(_thread, "start_new_thread", dying)
    results = work_ahead(lambda number: number * number, range(6), workers=3)
    assert list(results) == [number * number for number in range(6)]
    assert len(started) == 3
    left = work_ahead(lambda number: number, range(20), workers=3)
    assert next(left) == 0
    left.close()


def test_a_thread_without_memory_ends_and_leaves_its_tasks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refusing(threads.Task[int, int]):
        def run(self) -> None:
            if threading.current_thread() is not threading.main_thread():
                raise MemoryError
            super().run()

    monkeypatch.setattr(threads, "_PATIENCE", 0.02)
    monkeypatch.setattr(threads, "Task", Refusing)
    assert list(work_ahead(lambda number: -number, range(5), workers=2)) == [0, -1, -2, -3, -4]
    assert capsys.readouterr().err == ""


def test_leaving_early_stops_work_that_asks() -> None:
    ended = []
    begun = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            begun.wait(20)
            return 0
        begun.set()
        for _ in range(20_000):  # so that it ends, told or not
            stop_if_told()
            time.sleep(0.001)
        ended.append(number)
        return number

    results = work_ahead(work, range(3), workers=2)
    with pytest.raises(KeyboardInterrupt):
        for _ in results:
            results.throw(KeyboardInterrupt)
    assert begun.is_set()
    assert not ended, "nobody told it"


def test_nobody_is_told_to_stop_by_the_end_of_other_work() -> None:
    def inner(number: int) -> int:
        stop_if_told()
        return number

    def outer(number: int) -> int:
        some = work_ahead(inner, range(9), workers=2)
        assert next(some) == 0
        some.close()
        stop_if_told()
        return number

    stop_if_told()
    assert list(work_ahead(outer, range(8), workers=2)) == list(range(8))
    stop_if_told()


@pytest.mark.parametrize("n_threads", [0, 1])
def test_what_was_dropped_may_be_dropped_again(n_threads: int) -> None:
    """A caller drops what it has given up, and so does the end of all."""
    done: list[int] = []
    begin, end = threading.Event(), threading.Event()

    def work(item: int) -> None:
        begin.set()
        end.wait(5)
        done.append(item)

    with Workers(n_threads) as workers:
        tasks = [workers.submit(work, item) for item in range(3)]
        if n_threads:
            assert begin.wait(5)
        for task in tasks[1:]:
            task.drop()
            task.drop()
        end.set()
        tasks[0].drop()
        tasks[0].drop()
    assert done == [0] * n_threads


def test_whoever_waits_for_a_result_does_what_no_thread_has_begun() -> None:
    """The first task ends when the second is done, which the only thread cannot do."""
    begun, done = threading.Event(), threading.Event()

    def first(_: int) -> bool:
        begun.set()
        return done.wait(20)

    with Workers(1) as workers:
        tasks = [workers.submit(first, 0), workers.submit(lambda _: done.set(), 1)]
        assert begun.wait(20)
        assert tasks[0].result(helps=True) is True
        assert tasks[1].result(helps=True) is None


def test_only_errors_of_other_work_wait_until_its_result_is_asked_for() -> None:
    """An interrupt of the thread that waits does not."""
    begun, go_on = threading.Event(), threading.Event()

    def first(_: int) -> None:
        begun.set()
        go_on.wait(20)

    def fail(error: type[BaseException]) -> None:
        go_on.set()
        raise error

    for error in (OSError, KeyboardInterrupt):
        begun.clear()
        go_on.clear()
        with Workers(1) as workers:
            waited_for = workers.submit(first, 0)
            assert begun.wait(20)
            other = workers.submit(fail, error)
            if error is KeyboardInterrupt:
                with pytest.raises(KeyboardInterrupt):
                    waited_for.result(helps=True)
            else:
                waited_for.result(helps=True)
            with pytest.raises(error):
                other.result(helps=True)


def test_an_interrupt_comes_as_one_and_ends_the_work() -> None:
    """Neither as an error of the future's, nor as a wait for work that nobody does."""
    rng, outcomes, armed = random.Random(3), set(), [True]
    n_before = _thread._count()

    def interrupt(*_: object) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    def work(number: int) -> int:
        stop_if_told()
        return number

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with collector_paused():  # an interrupt in a finalizer is nobody's
            for _ in range(1000):
                workers = None  # freed before: Python could not raise an interrupt then
                try:
                    armed[:] = [True]
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 4e-4))
                    with Workers(1) as workers:
                        tasks = [workers.submit(work, number) for number in range(9)]
                        assert [task.result(helps=True) for task in tasks] == [*range(9)]
                    armed.clear()
                except BaseException as error:
                    outcomes.add(type(error))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    stop_if_told()  # this thread is told nothing that was meant for one of those
    assert outcomes == {KeyboardInterrupt}
    until = time.monotonic() + 10
    while _thread._count() > n_before and time.monotonic() < until:
        time.sleep(0.001)
    assert _thread._count() <= n_before


def squares_of_tasks(*, helps: bool) -> list[int]:
    def square(number: int) -> int:
        stop_if_told()
        time.sleep(0.001)
        return number * number

    with Workers(1) as workers:
        tasks = [workers.submit(square, number) for number in range(3)]
        return [task.result(helps=helps) for task in tasks]


def squares_with_lent() -> list[int]:
    lent = Lent([7])

    def square(number: int) -> int:
        with lent.one():
            time.sleep(0.001)
            return number * number

    return list(work_ahead(square, range(3), workers=2))


@pytest.mark.parametrize(
    "squares",
    [
        partial(squares_of_tasks, helps=True),
        partial(squares_of_tasks, helps=False),
        squares_with_lent,
    ],
)
def test_an_interrupt_at_every_place(squares: Callable[[], list[int]]) -> None:
    """Nobody waits for ever, and every thread ends."""
    n_before = _thread._count()
    with collector_paused():
        for interrupt in every_interrupt():
            with a_limit(10):
                with interrupt:
                    assert squares() == [0, 1, 4]
                while _thread._count() > n_before:
                    time.sleep(0.0005)
    assert interrupt.place > 50


def test_who_waits_for_what_an_interrupt_lost_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_PATIENCE", 0.001)
    lent, stop = Lent([7]), Stop()
    with lent.one() as lost, a_limit(10), until(stop):
        assert lost == 7
        stop.is_told = True
        with pytest.raises(Stopped), lent.one():
            raise AssertionError("two have one thing")
    with lent.one() as again:
        assert again == 7


def test_the_collector_may_find_an_iterator_in_a_thread_that_works_for_it() -> None:
    """It would wait for the end of its own work."""
    left, collected, n_before = threading.Event(), [], _thread._count()

    def work(number: int) -> int:
        if number == 1:
            assert left.wait(10)
            gc.collect()
            collected.append(number)
        return number

    def leave() -> None:
        results = work_ahead(work, range(3), workers=2)
        assert next(results) == 0
        cycle: list[object] = [results]
        cycle.append(cycle)

    with collector_paused(), a_limit(10):
        leave()
        left.set()
        while _thread._count() > n_before:
            time.sleep(0.001)
    assert collected == [1]


def test_a_fork_waits_for_no_thread_of_its_parent() -> None:
    begun, go = threading.Event(), threading.Event()

    def work(number: int) -> int:
        begun.set()
        assert os.getpid() != parent or go.wait(60)
        return number

    parent = os.getpid()
    with Workers(1) as workers:
        task = workers.submit(work, 7)
        assert begun.wait(60)
        child = os.fork()
        if not child:
            result = 1
            try:
                result = task.result(helps=True)
                workers.__exit__()
            finally:
                os._exit(result)
        assert end_of(child, 20) == 7
        go.set()
        assert task.result(helps=False) == 7


def test_a_thread_is_begun_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    assert begin_thread(lambda: done.append(1)).wait(60) and done == [1]
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: 1)  # it has no memory to begin
    assert not begin_thread(lambda: done.append(2)).wait(0.01)

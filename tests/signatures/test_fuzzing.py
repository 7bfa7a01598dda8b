"""The fuzzing of the kernel runs, and notices a kernel that is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb.kernel import compiled
from tests import fuzz_kernel
from tests.fuzz_kernel import TARGETS, Failed, Mismatch, command, fuzz, run_input

ROOT = Path(__file__).parents[2]
kernel = compiled


class WrongKernel:
    """The kernel, but for one function."""

    def __init__(self, name: str, wrong: Callable[..., object]) -> None:
        self._name = name
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        right = getattr(kernel, name)
        if name != self._name:
            return right
        return lambda *arguments: self._wrong(right, *arguments)


def flip_a_bit(right: Callable[..., None], *arguments: Any) -> None:
    """Of the last number written by functions whose last argument is what they write."""
    right(*arguments)
    if arguments[-1].size:
        arguments[-1].flat[-1] ^= 1


def write_past_the_end(right: Callable[..., None], *arguments: Any) -> None:
    right(*arguments)
    whole = arguments[-1]
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    whole.view(np.uint8).flat[-1] = 0


def refuse_nothing(right: Callable[..., object], *arguments: Any) -> object:
    try:
        return right(*arguments)
    except (ValueError, TypeError, OverflowError):
        return None


def lose_a_hash(right: Callable[..., bytes], *arguments: Any) -> bytes:
    return right(*arguments)[8:]


def one_too_many(right: Callable[..., int], *arguments: Any) -> int:
    return right(*arguments) + 1


def swap_sides(right: Callable[..., tuple[int, int, int]], *arguments: Any) -> tuple[int, ...]:
    common, left_size, right_size = right(*arguments)
    return common, right_size, left_size


def leave_a_blank(right: Callable[..., list[str | None]], *arguments: Any) -> list[str | None]:
    return [text and text + " " for text in right(*arguments)]


def leave_all_to_the_reference(right: Callable[..., list[str | None]], *arguments: Any) -> object:
    return [text if text and text.isascii() else None for text in right(*arguments)]


def test_some_fuzzing_finds_nothing() -> None:
    """So many inputs, and not so many seconds: a sanitizer or a busy machine makes it slow."""
    done, outcomes = fuzz(kernel, seed=20, seconds=60, most=50)
    assert 10 < outcomes <= done


def test_every_target_can_be_reached_and_ends_well() -> None:
    for number, target in enumerate(TARGETS):
        name, _ = run_input(kernel, bytes([number]) * 60)
        assert name == target.__name__


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("sign_contents", flip_a_bit),
        ("sign_contents", write_past_the_end),
        ("sign_contents", refuse_nothing),
        ("shingle_text", lose_a_hash),
        ("shingle_text", refuse_nothing),
        ("shingle_texts", lose_a_hash),
        ("shingle_texts", refuse_nothing),
        ("compare_sets", flip_a_bit),
        ("compare_sets", refuse_nothing),
        ("sketch", flip_a_bit),
        ("sketch", refuse_nothing),
        ("sample_weights", flip_a_bit),
        ("sample_weights", write_past_the_end),
        ("sample_weights", refuse_nothing),
        ("walsh_hadamard", refuse_nothing),
        ("bucket_keys", flip_a_bit),
        ("bucket_keys", write_past_the_end),
        ("compare_rows", flip_a_bit),
        ("compare_rows", refuse_nothing),
        ("compare_bits", flip_a_bit),
        ("compare_bits", refuse_nothing),
        ("count_in_rows", flip_a_bit),
        ("count_in_rows", write_past_the_end),
        ("count_in_rows", refuse_nothing),
        ("rank_counts", flip_a_bit),
        ("rank_counts", write_past_the_end),
        ("rank_counts", one_too_many),
        ("count_common", one_too_many),
        ("compare_texts", swap_sides),
        ("normalise", leave_a_blank),
        ("normalise", leave_all_to_the_reference),
        ("cut_grams", lose_a_hash),
        ("align_words", lose_a_hash),
    ],
)
def test_a_wrong_kernel_is_noticed(
    name: str, wrong: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What refuses nothing is noticed by one target in dozens, so only that one is asked then."""
    double = WrongKernel(name, wrong)
    if wrong is refuse_nothing:
        chosen = tuple(one for one in fuzz_kernel.templates() if one[0] == name)
        monkeypatch.setattr(fuzz_kernel, "TARGETS", (fuzz_kernel.fuzz_refusals,))
        monkeypatch.setattr(fuzz_kernel, "templates", lambda: chosen)
    with pytest.raises(Failed) as failed:
        fuzz(double, seed=21, seconds=600)
    data = failed.value.data
    assert command(data) in str(failed.value)
    with pytest.raises(Mismatch):
        run_input(double, data)
    run_input(kernel, data)


def test_an_input_that_kills_the_process_is_reported() -> None:
    script = """
import os, signal, sys
from lshdb.kernel import compiled

from tests import fuzz_kernel
kernel = compiled
class Deadly:
    __file__ = "deadly"
    def __getattr__(self, name):
        if name == "count_common":
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(kernel, name)
fuzz_kernel.compiled = Deadly()
sys.argv[1:] = ["--seconds", "30", "--seed", "4"]
sys.exit(fuzz_kernel.main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "seed 4" in done.stdout
    assert "CRASHED with signal SIGKILL\nrun it again: python tests/fuzz_kernel.py --input " in (
        done.stdout
    )
    data = bytes.fromhex(done.stdout.split()[-1])
    assert run_input(kernel, data)[0] in ("fuzz_count_common", "fuzz_refusals")

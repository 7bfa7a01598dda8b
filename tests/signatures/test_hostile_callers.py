"""Callers that nobody should be: other threads and interpreters, looks at what is half made."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lshdb.kernel import compiled, lookup_tables

ROOT = Path(__file__).parents[2]
SECONDS = 1.5
kernel = compiled


def another_kernel() -> ModuleType:
    """The kernel's module once more, from the same file."""
    spec = importlib.util.spec_from_file_location("compiled", kernel.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count_wrong(right: Callable[[], bool], disturb: Callable[[], object]) -> int:
    """How often something is not right while another thread disturbs it."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            disturb()

    thread = threading.Thread(target=go_on)
    thread.start()
    end, wrong = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        wrong += not right()
    stop.set()
    thread.join()
    return wrong


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return done.stdout


def test_a_call_keeps_the_instructions_that_it_began_with() -> None:
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 2**64, 20_000, dtype=np.uint64)
    lengths, numbers = np.full(4000, 5, dtype=np.int64), lookup_tables.constants("fss", 128, 1)

    def sketched() -> bytes:
        rows = np.empty((4000, 128), dtype=np.uint16)
        kernel.sketch(hashes, lengths, 0, 128, numbers, rows)
        return rows.tobytes()

    names = []
    for name in ("plain", "avx2", "avx512"):
        try:
            names.append(kernel.use_level(name))
        except ValueError:
            continue
    kernel.use_level()
    expected, turn = sketched(), itertools.cycle(names)
    try:
        wrong = count_wrong(lambda: sketched() == expected, lambda: kernel.use_level(next(turn)))
    finally:
        kernel.use_level()
    assert wrong == 0


def test_importing_the_kernel_again_disturbs_nobody() -> None:
    text = "กขคงจ中文字典天地人 " * 400
    expected = kernel.shingle_text(text, 0, 1, True)
    wrong = count_wrong(
        lambda: bool(kernel.shingle_text(text, 0, 1, True) == expected), another_kernel
    )
    assert wrong == 0


def test_the_kernel_in_another_interpreter() -> None:
    """One with its own lock from Python 3.12 on; it comes and goes, and this one goes on."""
    output = run(f"""
import importlib.util, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

script = '''
import importlib.util
def load():
    spec = importlib.util.spec_from_file_location("compiled", {kernel.__file__!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
text = "to be or not to be 中文 กขค " * 20
expected = load().shingle_text(text, 0, 1, True)
for _ in range(100):
    kernel = load()
    for name in ("plain", None):
        kernel.use_level(name)
        assert kernel.shingle_text(text, 0, 1, True) == expected
'''
exec(script)

def work():
    interpreter = interpreters.create()
    failed = interpreters.run_string(interpreter, script)
    interpreters.destroy(interpreter)
    print("failed\\n" if failed else "well\\n", end="", flush=True)

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
exec(script)
""")
    assert output == "well\n" * 3


def test_results_are_seen_by_nobody_before_they_are_all_there() -> None:
    """A list with empty places ends the process as soon as somebody looks at what is in it."""
    run("""
import gc
import numpy as np
from lshdb.kernel import compiled, lookup_tables


kernel = compiled
table, memo, asked = np.zeros(0x110000, np.uint64), np.zeros(0x20000, np.uint64), []

def fill(block):
    asked.append([each for each in gc.get_objects() if type(each) is list and len(each) == 3333])
    for each in asked[-1]:
        repr(each[-1])
    table[block * 256 : block * 256 + 256] = 0x6101

texts = ["\\xe9"] * 3332 + ["\\u4e2d"]
assert kernel.normalise(texts, True, table, fill, memo, str) == ["a"] * 3333
assert len(asked) == 2
assert all(each is texts for found in asked for each in found)
""")


def test_tokens_are_seen_by_nobody_before_they_are_all_there() -> None:
    """The same for the tuple that keeps the tokens of a list, whatever its class goes over."""
    run("""
import gc
import numpy as np
from lshdb.kernel import compiled, lookup_tables


class Tokens(list):
    def __iter__(self):
        for place, token in enumerate(list.__iter__(self)):
            for each in gc.get_objects():
                if type(each) is tuple and len(each) == 3333:
                    repr(each[-1])
            yield token

kernel = compiled
rows, counts = np.zeros((2, 8), dtype=np.uint16), np.zeros(2, dtype=np.int64)
tokens = [f"t{number}" for number in range(3333)]
numbers = lookup_tables.constants("fss", 8, 1)
kernel.sign_contents([tokens, Tokens(tokens)], 0, 1, False, 0, 8, numbers, rows, counts)
assert counts.tolist() == [3333, 3333] and (rows[0] == rows[1]).all()
""")


def test_sizes_whose_product_is_no_number_are_refused() -> None:
    """2^52 lengths times 4,096 slots would be rows of 0 bytes, in 64 bits."""
    memory = np.ones(4, dtype=np.int64)
    lengths = (ctypes.c_char * 2**55).from_address(memory.ctypes.data)  # more than there are
    numbers, nothing = np.zeros(8192, dtype=np.uint64), np.zeros(0, dtype=np.uint16)
    with pytest.raises(ValueError, match="rows has 0 bytes"):
        kernel.sketch(numbers[:0], lengths, 0, 4096, numbers, nothing)

"""Fuzz every reader of bytes from outside: any damage ends in an LshdbError, or does no harm.

    python tests/fuzz_readers.py --seconds 600
    python tests/fuzz_readers.py --target rows --seed 1 --case 4711   # one again, as a failure says

A case is a good one of ``fuzz_targets.py`` with something done to it, made from the target, the
seed and its number alone; what may come of it is said there. The work is done in a child process,
so that a crash is reported too. ``fuzz_atheris.py`` goes deeper and needs atheris.

Nothing here is collected by pytest; ``tests/fault/test_fuzzing.py`` runs it for a moment, keeps
what it found, and shows that it notices a reader that is wrong.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz_targets import MEMORY, SECONDS_A_CASE, TARGETS, Fuzzer

SPLICES = [
    b"", b"\0", b"\n", b"\r", b"\r\n", b'"', b"'", b",", b"\t", b"{", b"}", b"[", b"]", b":", b"\\",
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\\ud800", b"\\u0000",
    b"[" * 100_000, b'{"a":' * 5_000, b"9" * 5_000, b"1e999", b"-0", b"NaN", b"null", b"true",
    b"x" * 70_000, b"\n" * 2_000, b'","' * 500, b"%00", b"http://", b"\xe2\x80\xae",
]  # fmt: skip


def mutated(rng: random.Random, content: bytes) -> bytes:
    """Good bytes with one thing or some done to them."""
    data = bytearray(content)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at : at + rng.randrange(30)] = b""
            case 2:
                data[at:at] = rng.choice(SPLICES)
            case 3:
                data[at:at] = data[: rng.randrange(len(data) + 1)]
            case 4:
                del data[at:]
            case 5:
                data[at : at + 4] = rng.randbytes(rng.randrange(8))
            case _:
                data[at : at + 1] = rng.choice(SPLICES)
    return bytes(data)


def made(fuzzer: Fuzzer, target: str, seed: int, number: int) -> bytes:
    """One case: a good one whose choices and content are changed, or one of them."""
    rng = random.Random(f"{target} {seed} {number}")
    head, content = rng.choice(fuzzer.seeds(target))
    share = rng.choice((0.0, 0.2, 1.0))
    head = bytes(rng.randrange(256) if rng.random() < share else byte for byte in head)
    return head + mutated(rng, content)


def cases(
    targets: list[str], seed: int, *, first: int, seconds: float
) -> Iterator[tuple[str, int, int]]:
    """(target, seed, number), the targets in turn, until the time is over."""
    end = time.monotonic() + seconds
    for number in itertools.count(first):
        for target in targets:
            if time.monotonic() >= end:
                return
            yield target, seed, number


def repeat_command(target: str, seed: int, number: int) -> str:
    return f"python tests/fuzz_readers.py --target {target} --seed {seed} --case {number}"


def _child(targets: list[str], seed: int, *, first: int, seconds: float, journal: Path) -> int:
    import logging

    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    counts = dict.fromkeys(targets, 0)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, open(journal, "w") as log:
        fuzzer = Fuzzer(Path(folder))
        for case in cases(targets, seed, first=first, seconds=seconds):
            log.seek(0)
            log.write(f"{case[0]} {case[2]:<12}\n")
            log.flush()
            faulthandler.dump_traceback_later(SECONDS_A_CASE, exit=True)
            fuzzer.run(case[0], made(fuzzer, *case))
            counts[case[0]] += 1
        faulthandler.cancel_dump_traceback_later()
    print("  ".join(f"{target} {count:,}" for target, count in counts.items()))
    return 0


def fuzz(targets: list[str], seed: int, *, first: int = 0, seconds: float) -> tuple[str, str]:
    """Run cases in a child: what it says, and the command that repeats the case that failed."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        journal = Path(folder) / "journal"
        arguments = ["--target", *targets, "--seed", str(seed), "--first", str(first)]
        done = subprocess.run(
            [sys.executable, __file__, *arguments, "--seconds", str(seconds), "--child", journal],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout.strip(), ""
        target, number = journal.read_text().split() if journal.exists() else ("none", "0")
        said = done.stderr.strip() or f"the process ended with {done.returncode}"
        return said, repeat_command(target, seed, int(number))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", nargs="+", choices=[*TARGETS], default=[*TARGETS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--case", type=int, help="run this case alone, here")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case is not None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            fuzzer = Fuzzer(Path(folder))
            for target in given.target:
                fuzzer.run(target, made(fuzzer, target, given.seed, given.case))
        return 0
    options: dict[str, Any] = {"first": given.first, "seconds": given.seconds}
    if given.child is not None:
        return _child(given.target, given.seed, journal=given.child, **options)
    said, command = fuzz(given.target, given.seed, **options)
    print(said)
    if command:
        print(f"\nagain: {command}")
    return 1 if command else 0


if __name__ == "__main__":
    sys.exit(main())

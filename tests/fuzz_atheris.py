"""Fuzz every reader of bytes from outside by coverage: inputs that reach new code are gone on with.

    pip install '.[fuzz]'
    python tests/fuzz_atheris.py --target documents --seconds 300
    python tests/fuzz_atheris.py --target documents --input fuzz-findings/crash-...   # one again

The targets, the good cases to start from, and what may come of a case are those of
``fuzz_targets.py``. lshdb's Python is instrumented; atheris (libFuzzer) makes the cases in a child
process, so that one that kills it, takes ``MEMORY`` or does not end is a finding too. A finding is
kept as a file, and printed with the command that repeats it, which needs no atheris. ``--corpus``
keeps the inputs that reached something, for the next run to begin with.

Nothing here is collected by pytest, and nothing depends on atheris; ``tests/fault/test_atheris.py``
runs each target for a moment where it is installed.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import importlib.util
import logging
import pkgutil
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

LONGEST_INPUT = 100_000
FINDINGS = ("crash-*", "timeout-*", "oom-*")
"""What libFuzzer calls the files that it writes of inputs with which a run ended."""


def _instrumented() -> None:
    """Import lshdb but for its command line, instrumented; much of it is imported late."""
    import atheris

    with atheris.instrument_imports(include=["lshdb", "tomllib"]):
        import lshdb

        for module in pkgutil.walk_packages(lshdb.__path__, "lshdb."):
            if not module.name.startswith(("lshdb.cli", "lshdb.__main__", "lshdb._migrations")):
                importlib.import_module(module.name)


def _child(target: str, work: Path, corpus: Path, seconds: int, seed: int) -> None:
    """Fuzz until the time is over or something is found; libFuzzer ends the process."""
    import atheris

    _instrumented()
    from tests.fuzz_targets import MEMORY, SECONDS_A_CASE, Fuzzer

    logging.disable()
    fuzzer = Fuzzer(work)
    for number, (head, content) in enumerate(fuzzer.seeds(target)):
        (corpus / f"seed-{number:04}").write_bytes(head + content)
    options = [
        f"-artifact_prefix={work}/",
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS_A_CASE}",
        f"-rss_limit_mb={MEMORY >> 20}",
        f"-max_len={LONGEST_INPUT}",
        f"-seed={seed}",
        "-keep_seed=1",  # good cases of one target differ little in what they reach
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: fuzzer.run(target, data))
    atheris.Fuzz()


def fuzz(target: str, *, seconds: int, seed: int, corpus: Path | None, keep: Path) -> int:
    """Fuzz one target in a child; what is found is kept, and printed with a command.

    Returns
    -------
    int
        1 where something was found, or the child ended otherwise than by its time.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        work, corpus = Path(folder), corpus or Path(folder, "corpus")
        corpus.mkdir(parents=True, exist_ok=True)
        arguments = ["--target", target, "--seconds", str(seconds), "--seed", str(seed)]
        arguments += ["--corpus", str(corpus), "--child", str(work)]
        done = subprocess.run([sys.executable, __file__, *arguments], check=False)
        found = sorted(path for pattern in FINDINGS for path in work.glob(pattern))
        for path in found:
            keep.mkdir(parents=True, exist_ok=True)
            kept = shutil.copy(path, keep)
            print(f"\nagain: python tests/fuzz_atheris.py --target {target} --input {kept}")
        if done.returncode and not found:
            print(f"\n{target}: the process ended with {done.returncode} and left no input")
    return 1 if found or done.returncode else 0


def repeat(target: str, path: Path) -> None:
    """Run one input, here and without atheris; a finding comes out as what it is."""
    from tests.fuzz_targets import SECONDS_A_CASE, Fuzzer

    faulthandler.enable()
    faulthandler.dump_traceback_later(SECONDS_A_CASE, exit=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        Fuzzer(Path(folder)).run(target, path.read_bytes())
    faulthandler.cancel_dump_traceback_later()
    print("nothing is wrong with this input")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder of inputs, to begin with and to add to")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="for findings")
    parser.add_argument("--input", type=Path, help="run this input alone")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.input is None and importlib.util.find_spec("atheris") is None:
        print("this needs atheris: pip install atheris", file=sys.stderr)
        return 2
    options = {"seconds": given.seconds, "seed": given.seed}
    if given.child is not None:  # nothing of lshdb may be imported before it is instrumented
        _child(given.target, given.child, given.corpus, **options)
    from tests.fuzz_targets import TARGETS

    if given.target not in TARGETS:
        parser.error(f"there is no target {given.target!r}; there are {', '.join(TARGETS)}")
    if given.input is not None:
        repeat(given.target, given.input)
        return 0
    return fuzz(given.target, corpus=given.corpus, keep=given.keep, **options)


if __name__ == "__main__":
    sys.exit(main())

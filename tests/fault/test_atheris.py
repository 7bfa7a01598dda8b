"""Fuzzing by coverage runs for a moment where atheris is installed, and notices what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children.databases import child_path
from tests.fuzz_targets import TARGETS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "fuzz_atheris.py"
WRONG = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import atheris
with atheris.instrument_imports(include=["lshdb"]):
    from lshdb.documents.formats import jsonl
jsonl._no_json = lambda line, error: 1 / 0
import runpy
sys.argv[0] = {str(SCRIPT)!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([child_path(), *sys.path]), **environment},
        timeout=600,
    )


@pytest.mark.parametrize("target", [*TARGETS])
def test_a_moment_of_every_target(target: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    done = run(SCRIPT, "--target", target, "--seconds", "1", "--keep", tmp_path / "found")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
    assert not (tmp_path / "found").exists()


def test_a_wrong_reader_is_noticed_and_its_input_is_one_again(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    wrong, work, corpus = tmp_path / "wrong.py", tmp_path / "work", tmp_path / "corpus"
    wrong.write_text(WRONG)
    work.mkdir()
    corpus.mkdir()
    arguments = ["--target", "documents", "--seconds", "60"]
    done = run(wrong, *arguments, "--corpus", corpus, "--child", work)
    assert done.returncode != 0 and "ZeroDivisionError" in done.stdout + done.stderr
    (found,) = work.glob("crash-*")
    again = run(wrong, "--target", "documents", "--input", found)
    assert again.returncode != 0 and "ZeroDivisionError" in again.stderr
    sound = run(SCRIPT, "--target", "documents", "--input", found)
    assert sound.returncode == 0 and "nothing is wrong" in sound.stdout


def test_what_the_child_found_is_kept_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the child is; here one that leaves an input and ends as libFuzzer does."""
    from tests import fuzz_atheris

    def child(command: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        Path(command[command.index("--child") + 1], "timeout-17").write_bytes(b"seventeen")
        return subprocess.CompletedProcess(command, 70)

    monkeypatch.setattr(fuzz_atheris.subprocess, "run", child)
    keep = tmp_path / "found"
    assert fuzz_atheris.fuzz("links", seconds=1, seed=1, corpus=None, keep=keep) == 1
    assert (keep / "timeout-17").read_bytes() == b"seventeen"
    said = capsys.readouterr().out
    assert f"python tests/fuzz_atheris.py --target links --input {keep / 'timeout-17'}" in said


def test_without_atheris(tmp_path: Path) -> None:
    absent = tmp_path / "absent.py"
    absent.write_text(
        "import importlib.util, runpy, sys\n"
        "importlib.util.find_spec = lambda name: None\n"
        f"sys.argv[0] = {str(SCRIPT)!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = run(absent, "--target", "documents")
    assert done.returncode == 2 and "pip install atheris" in done.stderr
    assert run(SCRIPT, "--target", "nothing").returncode == 2

"""``lshdb demo``: on the real library once, and on small ones for the rest."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.cli.conftest import BASE, NEAR, OTHER, Run, environment, sound


def commands(out: str) -> list[str]:
    """The commands that a demo proposes, the last lines it prints."""
    return [line.strip() for line in out.split("commands to try next:")[1].splitlines() if line]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo")
    from tests.cli.conftest import MODULE

    done = subprocess.run(
        [*MODULE, "demo"],
        cwd=folder,
        env=environment(COLUMNS="100"),
        capture_output=True,
        text=True,
        check=False,
    )
    return folder, done


def test_the_standard_library(real: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    folder, done = real
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[\d,]+ pairs of files are near-duplicate,", done.stdout, re.MULTILINE)
    assert re.search(r"encodings/cp\d+\.py +encodings/cp\d+\.py +0\.9\d\d\d  exact", done.stdout)
    assert "clusters; the 10 largest:" in done.stdout
    assert f"the index is {folder}/demo.lshdb" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.split("the index is")[0].splitlines()[2:])
    assert "making the index ./demo.lshdb" in done.stderr


def test_the_commands_it_proposes_work(
    real: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = real
    proposed = commands(done.stdout)
    assert [re.findall(r"lshdb (\w+) ", command)[0] for command in proposed] == [
        "query", "pairs", "sql", "report", "serve",
    ]  # fmt: skip
    for command in proposed[:3]:
        tried = subprocess.run(
            command, shell=True, cwd=folder, env=environment(), capture_output=True, check=False
        )
        assert tried.returncode == 0, (command, tried.stderr)
        assert tried.stdout.count(b"\n") > 1, command


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A standard library of a few files."""
    path = tmp_path / "lib"
    files: dict[str, bytes] = {
        "a.py": BASE.encode(),
        "b.py": NEAR.encode(),
        "sub/c.py": BASE.encode(),
        "sub/latin.py": b"# \xe9",
        "sub/empty.py": b"",
        "sub/data.txt": OTHER.encode(),
        "site-packages/d.py": BASE.encode(),
        "dist-packages/d.py": BASE.encode(),
        "sub/__pycache__/e.py": BASE.encode(),
    }
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(path)})
    return path


def test_what_counts_as_the_library(run: Run, tmp_path: Path, library: Path) -> None:
    path = tmp_path / "it's a demo.lshdb"
    first = run("demo", path)
    with Index.open(path) as index:
        keys = {key for (key,) in index.sql("SELECT key FROM document").rows}
    assert keys == {"a.py", "b.py", "sub/c.py", "sub/empty.py"}
    assert f"5 files of {library}" in first.stdout
    assert "1 file is not UTF-8 and left out" in first.stdout
    assert "3 pairs of files are near-duplicate, at similarity 0.8" in first.stdout
    assert "1 of them is an exact copy" in first.stdout
    assert "a.py, b.py, sub/c.py" in first.stdout
    assert "'\"'\"'s a demo.lshdb' --key b.py" in first.stdout
    assert sound(path)


def test_again_changes_nothing(run: Run, tmp_path: Path, library: Path) -> None:
    path = tmp_path / "demo.lshdb"
    first, second = run("demo", path), run("demo", path)
    assert "added 4" in first.stdout
    assert "added 0, unchanged 4" in second.stdout
    assert first.stdout.split("\n\n")[1:] == second.stdout.split("\n\n")[1:]


def test_an_index_of_other_parameters_is_added_to(run: Run, tmp_path: Path, library: Path) -> None:
    path = tmp_path / "demo.lshdb"
    run("init", path, "--threshold", "0.5", "--no-text")
    out = run("demo", path).stdout
    assert "at similarity 0.5 or more" in out and "  signature\n" in out


def test_nothing_alike(run: Run, tmp_path: Path, library: Path) -> None:
    for name in ("b.py", "sub/c.py"):
        (library / name).unlink()
    out = run("demo", tmp_path / "demo.lshdb").stdout
    assert "0 pairs of files are near-duplicate" in out
    assert len(commands(out)) == 5 and "--key a.py" in out


def test_no_library(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path / "absent")})
    assert "no source files" in run("demo", tmp_path / "demo.lshdb", code=1).stderr
    assert not (tmp_path / "demo.lshdb").exists()


def test_a_bar_and_a_table_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], real: tuple[Path, Any]
) -> None:
    folder, _ = real
    code, shown = on_terminal("demo", folder / "demo.lshdb", columns=80)
    assert code == 0
    assert "━" in shown and " %" in shown and " stored" in shown
    assert "\x1b[1mkey1" in shown

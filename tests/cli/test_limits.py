"""``--max-document-bytes``, and other input that would not fit in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import MEASURED, MODULE, Run, environment, jsonl

LONG = "x" * 500


def test_too_long_is_rejected_with_its_place_and_the_rest_goes_on(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl([("a", "short"), ("b", LONG), ("c", "short")]))
    (tmp_path / "b.csv").write_text(f'id,text\nd,short\ne,"{LONG}\n{LONG}"\nf,short\n')
    (tmp_path / "c.txt").write_text(LONG)
    (tmp_path / "d.txt").write_text("short")
    paths = [tmp_path / name for name in ("a.jsonl", "b.csv", "c.txt", "d.txt")]
    index = tmp_path / "a.lshdb"
    done = run("add", index, *paths, "--max-document-bytes", 400, code=5)
    assert "added 5," in done.stderr and "rejected 3;" in done.stderr
    reports = done.stderr.splitlines()[1:]
    for report, place in zip(reports, ("a.jsonl:2: ", "b.csv:3: ", "c.txt: "), strict=True):
        assert report.startswith(str(tmp_path / place)) and "limit of 400" in report
    queried = run("query", index, *paths, "--max-document-bytes", 400, code=5)
    assert queried.stderr.count("limit of 400") == 3
    assert "rejected 0;" in run("add", index, *paths).stderr


def test_the_filter_passes_long_lines_on_and_says_so(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(jsonl([("a", "one two three four five six"), ("b", LONG)]))
    run("add", tmp_path / "a.lshdb", file)
    done = run("dedup", tmp_path / "a.lshdb", "--filter", file, "--max-document-bytes", 100)
    assert done.stdout == file.read_text()
    assert done.stderr.splitlines()[-1] == (
        "1 of those are longer than --max-document-bytes (100) and were passed on unread"
    )


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1e6"])
def test_the_limit_is_a_whole_number(run: Run, tmp_path: Path, value: str) -> None:
    assert "max-document-bytes" in run("add", tmp_path / "a", "x", "--max-document-bytes", value,
                                       code=2).stderr  # fmt: skip


@pytest.mark.parametrize("kind", ["jsonl", "csv", "text"])
def test_a_line_that_does_not_end(kind: str, tmp_path: Path) -> None:
    """120 MB in one line, in a process that may have no more than it has with nothing to read."""
    program = (
        "import sys\n"
        "out = sys.stdout.buffer\n"
        "out.write(b'id,text\\n' if sys.argv[1] == 'csv' else b'')\n"
        "for _ in range(120): out.write(b'x' * 1_000_000)\n"
        "out.write(b'\\n')\n"
        'out.write(b\'a,b\\n\' if sys.argv[1] == \'csv\' else b\'{"id":"a","text":"b"}\\n\')\n'
    )
    peaks = []
    for source in ("pass", program):
        feeder = subprocess.Popen(
            [sys.executable, "-c", source, kind], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        command = [*MODULE, "add", "a.lshdb", "-", "--input", kind, "--max-document-bytes", "65536"]
        done = subprocess.run(
            [*MEASURED, *command],
            stdin=feeder.stdout,
            capture_output=True,
            env=environment(),
            cwd=tmp_path,
            check=False,
        )
        assert feeder.stdout is not None
        feeder.stdout.close()
        feeder.wait()
        peaks.append(int(done.stderr.split()[-1]))
    assert b"limit of 65,536" in done.stderr and done.returncode == 5
    assert (b"added 1," in done.stderr) == (kind != "text")
    assert peaks[1] < peaks[0] + 40 * 1024  # kibibytes


def test_keys_to_remove_are_no_longer_than_keys(run: Run, index_path: Path) -> None:
    stdin = "base\n" + "x" * 3000 + "\n"
    done = run("remove", index_path, "-", stdin=stdin, code=2)
    assert "line 2 of standard input is longer than any key" in done.stderr
    with Index.open(index_path) as index:
        assert index.stats().documents == 4


def test_a_list_of_stop_tokens_without_end(run: Run, tmp_path: Path) -> None:
    done = run("init", tmp_path / "a", "--unit", "url", "--stop-tokens", "/dev/zero", code=2)
    assert "/dev/zero has more than 1,048,576 bytes" in done.stderr
    assert not (tmp_path / "a").exists()


def test_an_index_toml_without_end(run: Run, index_path: Path) -> None:
    (index_path / "index.toml").unlink()
    (index_path / "index.toml").symlink_to("/dev/zero")
    done = run("stats", index_path, code=1)
    assert "index.toml: it is a symbolic link; a regular file was expected" in done.stderr


def test_an_index_toml_that_is_a_pipe(run: Run, index_path: Path) -> None:
    (index_path / "index.toml").unlink()
    os.mkfifo(index_path / "index.toml")
    assert "index.toml: it is a named pipe" in run("stats", index_path, code=1).stderr

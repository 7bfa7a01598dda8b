"""``--max-document-bytes``, and other input that would not fit in memory."""

from __future__ import annotations

import importlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click.testing
import pytest

from lshdb import Index
from lshdb.cli._group import cli
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
    assert "added 5" in done.stderr and "rejected 3;" in done.stderr
    reports = [line for line in done.stderr.splitlines() if "limit of 400" in line]
    for report, place in zip(reports, ("a.jsonl:2: ", "b.csv:3: ", "c.txt: "), strict=True):
        assert report.startswith(str(tmp_path / place))
    queried = run("query", index, *paths, "--max-document-bytes", 400, code=5)
    assert queried.stderr.count("limit of 400") == 3
    assert ", rejected " not in run("add", index, *paths).stderr


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
    assert (b"added 1" in done.stderr) == (kind != "text")
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


LIMITED = (
    "import resource, sys; "
    "resource.setrlimit(getattr(resource, sys.argv[1]), (int(sys.argv[2]),) * 2); "
    "sys.argv[:3] = []; import runpy; runpy.run_module('lshdb', run_name='__main__')"
)


def limited(
    limit: str, value: int, *command: object, **surroundings: str
) -> subprocess.CompletedProcess[str]:
    """A command that may take so much of something; it must not end with a traceback."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, limit, str(value), "lshdb", *map(str, command)],
        capture_output=True, text=True, check=False, env=environment(**surroundings), timeout=900,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.sqlite("files that are opened")
def test_too_many_open_files_are_no_damage(index_path: Path, tmp_path: Path, is_long: bool) -> None:
    (tmp_path / "more.jsonl").write_text('{"id": "more", "text": "words"}\n')
    commands = (
        ("stats", index_path), ("pairs", index_path), ("query", index_path, "--key", "d0"),
        ("add", index_path, tmp_path / "more.jsonl"), ("check", index_path),
    )  # fmt: skip
    said = set()
    trials = list(itertools.product((4, 6, 8, 9, 11, 13), commands))
    for most, command in trials if is_long else trials[::4]:  # each command, each limit
        done = limited("RLIMIT_NOFILE", most, *command)
        assert done.returncode != 4, (most, command, done.stderr)
        assert "restore" not in done.stderr, (most, command, done.stderr)
        if "index.db: unable" in done.stderr or "signatures.npy" in done.stderr:
            assert "raise the limit, as with ulimit -n" in done.stderr
        said.add("ulimit -n" in done.stderr)
    assert said == {True, False}
    assert limited("RLIMIT_NOFILE", 256, "check", index_path).returncode == 0


@pytest.mark.parametrize("mebibytes", [140, 150, 160, 180, 200, 220, 240, 282, 290, 300, 2000])
@pytest.mark.long(when=lambda mebibytes: mebibytes not in (150, 180, 200, 282, 2000))
def test_little_memory_is_said(index_path: Path, tmp_path: Path, mebibytes: int) -> None:
    """Threads have stacks, which take their part of the limit first."""
    documents = tmp_path / "more.jsonl"
    documents.write_text(jsonl((f"m{number}", f"words {number}") for number in range(3_000)))
    done = limited("RLIMIT_AS", mebibytes * 2**20, "add", "--workers", "8", index_path, documents)
    # Libraries that are loaded with no memory left may end the process: OpenBLAS aborts, which has
    # a buffer a core, and zstd's module breaks in the least. The index is sound whatever ended it.
    by_libraries = [-signal.SIGABRT, -signal.SIGSEGV] if mebibytes < 200 else [-signal.SIGABRT]
    assert done.returncode in (0, 1, *by_libraries), done.stderr
    assert done.returncode != 1 or "memory" in done.stderr
    with Index.open(index_path) as index:
        assert index.check() == []
        assert index.stats().documents in (4, 3_004)


def without_threads() -> list[str]:
    """What goes before a command that shall have no second thread; the system gives root any."""
    if not shutil.which("prlimit") or not shutil.which("setpriv"):
        pytest.skip("there is no prlimit or setpriv here (util-linux)")
    other = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    other += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]  # reads this Python
    command = [*(["setpriv", *other] if os.getuid() == 0 else []), "prlimit", "--nproc=1"]
    program = "import _thread; _thread.start_new_thread(print, ())"
    tried = subprocess.run([*command, sys.executable, "-c", program], capture_output=True)
    if tried.returncode == 0 or b"can't start new thread" not in tried.stderr:
        pytest.skip("threads cannot be forbidden here")
    return command


@pytest.mark.sqlite("a server of its own needs threads, too")
def test_no_second_thread_is_no_interrupt(index_path: Path, tmp_path: Path, is_long: bool) -> None:
    """OpenBLAS sends SIGINT to a process that cannot have its threads."""
    prefix = without_threads()
    (tmp_path / "more.jsonl").write_text(jsonl((f"m{n}", f"words {n}") for n in range(300)))
    made = tmp_path / "made"
    made.mkdir()
    for folder in (tmp_path, made, index_path, *index_path.iterdir()):
        folder.chmod(0o777)
    more, new = tmp_path / "more.jsonl", made / "new.lshdb"
    commands = (
        ("add", "--workers", 4, index_path, more), ("stats", index_path), ("pairs", index_path),
        ("clusters", index_path), ("dedup", index_path), ("query", index_path, more),
        ("check", index_path), ("compact", index_path), ("reband", index_path, "--threshold", 0.5),
        ("copy", index_path, new), ("remove", index_path, "m1"), ("tune", more), ("--version",),
        ("export", index_path, "-o", made / "e"),
    )  # fmt: skip
    for words in commands if is_long else commands[::2]:
        done = subprocess.run(
            [*prefix, *MODULE, *map(str, words)],
            capture_output=True, text=True, check=False, cwd=made, env=environment(),
        )  # fmt: skip
        assert done.returncode == 0, (words, done.returncode, done.stderr)
    program = (
        "import sys, lshdb\n"
        "with lshdb.Index.open(sys.argv[1]) as index: print(sum(1 for _ in index.pairs()))"
    )
    for variables in ({}, {"OPENBLAS_NUM_THREADS": "8"}):
        subprocess.run(
            [*prefix, sys.executable, "-c", program, index_path],
            check=True, env=environment(**variables),
        )  # fmt: skip


@pytest.mark.sqlite("a server of its own needs threads, too")
def test_a_command_that_needs_a_thread_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("lshdb.cli.guide.command.callback", none)
    done = run("guide", code=1)
    assert "gives this process no further thread" in done.stderr and "ulimit -u" in done.stderr


@pytest.mark.parametrize(
    "lines",
    [
        'database = "postgresql+psycopg://bob:S3cr3t@localhost/x"',
        'database_password = "S3cr3t"',
        'threshold = "postgresql://bob:S3cr3t@localhost/x"',
        '[database]\nurl = "postgresql+psycopg://bob:S3cr3t@localhost/x"',
        '[other]\npassword = "S3cr3t"',
        'x = "postgresql://bob:S3cr3t@localhost/x',
        "seed = { password = 'S3cr3t' }",
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_password_in_index_toml_is_not_shown(
    index_path: Path, tmp_path: Path, lines: str, is_first: bool
) -> None:
    toml = index_path / "index.toml"
    text = toml.read_text()
    name = lines.partition(" = ")[0]
    text = "".join(line for line in text.splitlines(True) if not line.startswith(f"{name} = "))
    toml.write_text(lines + "\n" + text if is_first else text + lines + "\n")
    (tmp_path / "more.jsonl").write_text('{"id": "more", "text": "words"}\n')
    for command in (
        ("stats", index_path), ("check", index_path), ("check", "--repair", index_path),
        ("upgrade", index_path), ("add", index_path, tmp_path / "more.jsonl"),
        ("copy", index_path, tmp_path / "copy.lshdb"), ("sql", index_path, "SELECT 1"),
    ):  # fmt: skip
        done = click.testing.CliRunner().invoke(cli, list(map(str, command)))
        assert isinstance(done.exception, SystemExit | None)
        assert "S3cr3t" not in done.output + done.stderr
        assert "Traceback" not in done.stderr


MEGABYTES = 6
TEXTS = {
    "letters": "".join(map(chr, range(97, 123))),
    "letters and one emoji": "\U0001f600",
    "letters and one letter of plane 2": "\U00020000",
    "Han": "".join(map(chr, range(0x4E00, 0x5200))),
    "one letter again": "a",
    "words": "ab cd efghi jkl ",
    "lines": "ab\ncde\nf\n",
    "marks": "\u0301\u0316",
}


def peak_of_add(folder: Path, text: str, *options: str) -> int:
    """Bytes."""
    file = folder / "t.txt"
    file.write_text(text, encoding="utf-8")
    index = folder / f"{len(list(folder.iterdir()))}.lshdb"
    done = subprocess.run(
        [*MEASURED, *MODULE, "add", str(index), str(file), *options],
        capture_output=True, text=True, env=environment(), cwd=folder, check=True,
    )  # fmt: skip
    return int(done.stderr.split()[-1]) * 1024


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        ("letters", "char"),
        ("letters", "byte"),
        ("letters and one emoji", "char"),
        ("letters and one letter of plane 2", "char"),
        ("Han", "word"),
        ("one letter again", "char"),
        ("words", "word"),
        ("words", "token"),
        ("lines", "line"),
        ("marks", "word"),
    ],
)
@pytest.mark.long(when=lambda kind, unit: unit in ("byte", "token") or kind.endswith("emoji"))
def test_a_byte_of_a_document_takes_at_most_so_many_of_memory(
    kind: str, unit: str, tmp_path: Path
) -> None:
    """Without pieces 6 MB of letters take 250 MB as characters; promised are 24 bytes for each."""
    rng = random.Random(kind)
    size = MEGABYTES * 1_000_000
    if kind.startswith("letters"):  # of which nearly all shingles are different
        letters = bytes(97 + byte % 26 for byte in range(256))
        text = rng.randbytes(size).translate(letters).decode() + TEXTS[kind][-1]
    else:
        text = "".join(rng.choices(TEXTS[kind], k=size // 4))
        text *= size // len(text.encode())
    size = len(text.encode())
    least = peak_of_add(tmp_path, "a short text", "--unit", unit)
    peak = peak_of_add(tmp_path, text, "--unit", unit)
    assert peak - least <= 24 * size + 64 * 2**20


def test_a_text_that_normalising_would_make_too_long_is_rejected_before(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit of a thousand bytes in place of 64 MiB: 31 characters of 33 bytes each."""
    module = importlib.import_module("lshdb.shingling.normalise")
    monkeypatch.setattr(module, "MOST_NORMALISED", 1000)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/good.txt").write_text("good words here", encoding="utf-8")
    (tmp_path / "texts/long.txt").write_text("\ufdfa" * 31, encoding="utf-8")
    (tmp_path / "texts/short.txt").write_text("\ufdfa" * 30, encoding="utf-8")
    index = tmp_path / "a.lshdb"
    done = run("add", index, tmp_path / "texts", code=5)
    assert "added 2" in done.stderr and "rejected 1;" in done.stderr
    assert (
        "long.txt: normalised, the text has more bytes than the limit of 1,000 "
        "(64 MiB, or twice the bytes of the text)\n"
    ) in done.stderr
    asked = run("query", index, tmp_path / "texts/long.txt", code=1)
    assert "more bytes than the limit of 1,000" in asked.stderr
    monkeypatch.undo()
    run("add", index, tmp_path / "texts")
    monkeypatch.setattr(module, "MOST_NORMALISED", 1000)
    run("check", index)  # what is in an index stays readable
    run("pairs", index, "--verify", "exact")

"""The program as a whole: help, version, launchers, imports, exit codes, pipes, signals, bugs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import click.testing
import pytest

import lshdb
from lshdb import Index, LshdbError
from lshdb.cli._group import COMMANDS, GROUPS, cli
from tests.cli.conftest import BASE, DOCUMENTS, MODULE, ROOT, Run, environment, jsonl


def test_help_lists_every_command(run: Run) -> None:
    out = run("--help").stdout
    listed = re.findall(r"^  ([a-z]+) +[A-Z].*\.$", out.partition("Begin with:")[0], re.MULTILINE)
    assert listed == list(COMMANDS)
    titles = re.findall(r"^(\w.*):$", out, re.MULTILINE)
    assert titles == [*GROUPS, "Begin with", "Options"]
    assert run("help").stdout == run("-h").stdout == out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Run, name: str) -> None:
    out = run(name, "--help").stdout
    assert out.startswith(f"Usage: lshdb {name} ")
    assert run("help", name).stdout == out


def test_every_option_of_every_command_is_explained() -> None:
    context = click.Context(cli, info_name="lshdb")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None and command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, (name, parameter.name)


def test_help_imports_neither_numpy_nor_a_command() -> None:
    program = (
        "import sys\n"
        "from lshdb.cli._group import COMMANDS, cli\n"
        "cli(['--help'], prog_name='lshdb', standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stderr.split())
    assert "lshdb.cli._output" in modules
    assert not {"numpy", "sqlalchemy", *(f"lshdb.cli.{name}" for name in COMMANDS)} & modules


def test_version(run: Run) -> None:
    expected = f"lshdb {lshdb.__version__}, format 2, kernel {lshdb.kernel_name()}\n"
    assert run("--version").stdout == expected


@pytest.mark.parametrize(
    "command", [MODULE, [sys.executable, str(ROOT / "cli.py")]], ids=["module", "cli.py"]
)
def test_launchers(process: Callable[..., Any], index_path: Path, command: list[str]) -> None:
    done = process("query", index_path, "--text", BASE, "--top", 1, command=command)
    assert (done.returncode, done.stdout) == (0, b"text\tbase\t1.000000\texact\n")
    assert process("nonsense", command=command).returncode == 2


def test_no_arguments_show_the_help(run: Run) -> None:
    assert "Begin with:" in run(code=2).stderr


@pytest.mark.sqlite("Postgres needs psycopg, and what that imports")
def test_what_a_query_imports(index_path: Path) -> None:
    """A cold query has 0.3 s; each of the modules left out would take a good part of it."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "import json\n"
        "from lshdb.cli._group import cli\n"
        "try:\n"
        "    cli(sys.argv[1:], prog_name='lshdb')\n"
        "except SystemExit as end:\n"
        "    print(json.dumps(sorted(set(sys.modules) - before)), file=sys.stderr)\n"
        "    raise\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "query", index_path, "--text", BASE],
        env=environment(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.count(b"\n") == 3
    modules = json.loads(done.stderr)
    top = {name.partition(".")[0] for name in modules}
    foreign = top - sys.stdlib_module_names - {"lshdb", "zstandard", "__mp_main__"}
    assert {name for name in foreign if not name.startswith("_")} <= {
        "click", "mmh3", "numpy", "orjson",
    }  # fmt: skip
    slow = {
        "asyncio", "concurrent", "csv", "ctypes.util", "difflib", "email", "gzip", "http",
        "importlib.metadata", "logging", "multiprocessing", "socket", "ssl", "subprocess",
        "tempfile", "unittest", "xml", "lshdb.params.options", "lshdb.cli._creation_options",
    }  # fmt: skip
    assert not slow & set(modules)
    commands = set(modules) & {f"lshdb.cli.{name}" for name in COMMANDS}
    assert commands == {"lshdb.cli.query"}
    assert not {"lshdb.cli._table", "lshdb.cli._long_work", "lshdb.ingest.add"} & set(modules)


def test_a_night_imports_nothing_for_files_without_an_index(
    index_path: Path, tmp_path: Path
) -> None:
    """``add --pairs`` and ``pairs`` of an index; 10 ms of the start of each went there."""
    (tmp_path / "a.jsonl").write_text(jsonl(DOCUMENTS))
    program = (
        "import sys\n"
        "from lshdb.cli._group import cli\n"
        "index, file = sys.argv[1:]\n"
        "for args in (['add', index, file, '--pairs', 'last'], ['pairs', index]):\n"
        "    cli(args, prog_name='lshdb', standalone_mode=False)\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, index_path, tmp_path / "a.jsonl"],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    modules = done.stderr.split()
    assert "lshdb.search.pairs" in modules
    assert not [name for name in modules if name.startswith("lshdb.transient")]


def test_a_query_compiles_no_pattern_of_texts(index_path: Path) -> None:
    """That of words takes 3 ms, and the kernel cuts texts without it."""
    program = (
        "import re, sys\n"
        "compile, compiling = re.compile, set()\n"
        "def noted(*pattern, **flags):\n"
        "    compiling.add(sys._getframe(1).f_globals['__name__'])\n"
        "    return compile(*pattern, **flags)\n"
        "re.compile = noted\n"
        "from lshdb.cli._group import cli\n"
        "try:\n"
        "    cli(sys.argv[1:], prog_name='lshdb')\n"
        "finally:\n"
        "    print(*compiling, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "query", index_path, "--text", "na\u00efve " + BASE],
        env=environment(),
        capture_output=True,
        check=True,
    )
    compiling = done.stderr.decode().split()
    assert "lshdb.cli._cells" in compiling, "what is noted"
    assert [name for name in compiling if name.startswith("lshdb.shingling")] == []


@pytest.mark.parametrize(
    "command",
    [("stats",), ("pairs",), ("query", "--text", "a"), ("show", "a"), ("batches",),
     ("explain", "a", "b"), ("join", "b"),
     ("sql", "SELECT 1"), ("check",), ("upgrade",)],
)  # fmt: skip
def test_no_index(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = run(command[0], tmp_path / "absent.lshdb", *command[1:], code=1)
    assert result.stderr.splitlines() == [
        f"error: there is no index at {tmp_path}/absent.lshdb",
        f"hint: check the path; lshdb add {tmp_path}/absent.lshdb FILE makes one",
    ]


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("query",), ("pairs", "x", "--nonsense"), ("--nonsense",), ("show", "x")],
)
def test_usage_errors_look_like_all_others(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, code=2)
    first, second = result.stderr.splitlines()
    assert first.startswith("error: ") and second.startswith("hint: ") and "see lshdb" in second


def test_a_reader_who_has_seen_enough(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add((f"a-rather-long-key-{number:040d}", BASE) for number in range(200))
    for form in ("tsv", "csv", "jsonl", "table"):
        child = start("pairs", tmp_path / "a.lshdb", "--format", form)
        assert child.stdout and child.stderr
        assert child.stdout.readline()
        child.stdout.close()
        assert child.wait(timeout=60) == 141
        assert child.stderr.read() == b""


def test_a_reader_who_has_gone_before_anything_came(index_path: Path) -> None:
    """What is still held back when the pipe breaks must not be written at the very end either."""
    (index_path.parent / "bad.jsonl").write_text(jsonl([("q", BASE)]) + "no json\n")
    bad = ("query", str(index_path.parent / "bad.jsonl"))  # ends by another way: exit code 5
    for command in (("stats",), ("pairs",), ("batches",), bad):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [*MODULE, command[0], str(index_path), *command[1:]],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
        os.close(writer)
        assert done.returncode == 141, command
        assert b"pipe" not in done.stderr and b"Traceback" not in done.stderr
        assert command == bad or done.stderr == b""


def test_a_full_disk_is_said(index_path: Path, run: Run) -> None:
    for command in (("pairs",), ("stats",), ("sql", "SELECT 1"), ("batches",)):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*MODULE, command[0], str(index_path), *command[1:]],
                stdout=full,
                stderr=subprocess.PIPE,
                env=environment(),
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            b"error: standard output: No space left on device",
            b"hint: make room there, or name another place",
        ]
        file = run(*command[:1], index_path, *command[1:], "-o", "/dev/full", code=1)
        assert file.stderr.splitlines()[-2:] == [
            "error: /dev/full: No space left on device",
            "hint: make room there, or name another place",
        ]


def test_ctrl_c_on_a_long_add(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    child = start("add", "a.lshdb", "-", stdin=subprocess.PIPE)
    assert child.stdin and child.stdout and child.stderr
    child.stdin.write(jsonl((str(number), BASE) for number in range(50)).encode())
    child.stdin.flush()
    assert child.stderr.readline().startswith(b"making the index")
    assert select_writer(tmp_path / ".a.lshdb.new", child)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=30) == 130
    assert child.stderr.read() in {
        b"interrupted\n",  # while the index was made
        b"interrupted; nothing was committed\n",
    }
    assert child.stdout.read() == b""
    assert list(tmp_path.iterdir()) == []


def select_writer(path: Path, child: subprocess.Popen[bytes]) -> bool:
    """Wait until a process is writing to an index: its number stands in the lock file."""
    import time

    for _ in range(600):
        if (path / "lock").read_text().startswith(f"{child.pid} "):
            return True
        time.sleep(0.05)
    return False


def test_a_mistake_of_the_system_has_no_traceback(
    run: Run, index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, words in (
        (PermissionError(13, "Permission denied", "some/file"), "some/file: Permission denied"),
        (OSError("disk quota"), "disk quota"),
        (
            MemoryError(),
            "out of memory\nhint: end other programs, or raise the limit (ulimit -v)",
        ),
        (
            MemoryError("Unable to allocate 38.1 MiB for an array with shape (5000000,)"),
            "out of memory: 38.1 MiB more were asked for\n"
            "hint: end other programs, or raise the limit (ulimit -v)",
        ),
        (LshdbError("x" * 200_000), "x" * 5_000 + " ..."),
    ):

        def fail(_: Index, error: BaseException = error, **_more: object) -> None:
            raise error

        monkeypatch.setattr(Index, "stats", fail)
        assert run("stats", index_path, code=1).stderr == f"error: {words}\n"


def test_a_bug_keeps_its_traceback(index_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Index, **_more: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Index, "stats", fail)
    with pytest.raises(ZeroDivisionError):
        click.testing.CliRunner().invoke(cli, ["stats", str(index_path)], catch_exceptions=False)


@pytest.mark.parametrize("is_first", [False, True])
def test_what_is_to_be_called_at_the_end_is_called(index_path: Path, is_first: bool) -> None:
    """Modules are not taken apart, but nobody who waits for the end of the process is forgotten."""
    program = (
        "import atexit, os, sys, threading, time\n"
        "import lshdb.cli.launch\n"
        "at_once = os._exit\n"
        "os._exit = lambda code: (os.write(1, b'at once\\n'), at_once(code))\n"
        "at_end = atexit.register\n"
        "if sys.argv.pop(1) == 'True': at_end(lambda: os.write(1, b'first\\n'))\n"
        "ended = threading.Event()\n"
        "def slow():\n"
        "    ended.wait()\n"
        "    time.sleep(0.1)\n"
        "    os.write(1, b'thread\\n')\n"
        "import lshdb.cli._group as group\n"
        "run = group.run\n"
        "def with_more(**more):\n"
        "    at_end(lambda: os.write(1, b'later\\n'))\n"
        "    threading.Thread(target=slow).start()\n"
        "    try:\n"
        "        return run(**more)\n"
        "    finally:\n"
        "        ended.set()\n"
        "group.run = with_more\n"
        "lshdb.cli.launch.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(is_first), "sql", str(index_path), "SELECT 7 AS n"],
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    rest = "first" if is_first else "at once"
    assert done.stdout.splitlines() == ["7", "thread", "later", rest]


def test_standard_output_may_be_closed(index_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" >&-', "sh", *MODULE, "stats", str(index_path)],
        stderr=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == b"error: standard output is closed\n"


@pytest.mark.sqlite("a query of Postgres takes NumPy")
def test_a_query_for_one_text_or_key_imports_neither_numpy_nor_what_reads_files(
    tmp_path: Path,
) -> None:
    path, text = tmp_path / "a.lshdb", "to be or not to be, that is the question"
    with Index.create(path) as index:
        index.add([("a", text), ("b", text + " he")])
    for asked in (["--text", text], ["--key", "b"], ["--text", text, "--verify", "signature"]):
        script = (
            "import sys; from lshdb.cli._group import run; "
            f"sys.argv = {['lshdb', 'query', str(path), *asked]!r}; run(); "
            "print(*sys.modules, sep='\\n', file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout.count("\n") >= 1, done.stderr
        modules = set(done.stderr.split())
        assert not {"numpy", "sqlalchemy", "lshdb.documents.read", "lshdb.search.nearest"} & modules

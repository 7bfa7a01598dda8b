"""``--advance`` behind pipes, sockets and files: a cursor moves if the reader took everything."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.cli._delivery import delivered
from tests.cli.conftest import MODULE, environment, jsonl
from tests.conftest import family_corpus

CORPUS = family_corpus(7, families=30)
COMMANDS = ["pairs", "clusters", "neighbors", "dedup", "add"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add(CORPUS)
        index.advance("m", 0)
    return path


def position(path: Path) -> int:
    with Index.open(path) as index:
        (cursor,) = index.cursors()
        return cursor.batch_id


def words(path: Path, command: str = "pairs") -> list[str]:
    if command == "add":
        feed = path.parent / "feed.jsonl"
        feed.write_text(jsonl([("new", CORPUS[0][1])]))
        return [*MODULE, command, str(path), str(feed), "--pairs", "@m", "--advance"]
    more = ["--against"] if command == "dedup" else []
    return [*MODULE, command, str(path), "--since", "@m", "--advance", *more]


def ends(kind: str) -> tuple[int, int]:
    """Open a pipe or a socket."""
    if kind == "pipe":
        return os.pipe()
    one, other = socket.socketpair()
    return one.detach(), other.detach()


@contextlib.contextmanager
def asked(path: Path, output: int, command: str = "pairs") -> Iterator[subprocess.Popen[bytes]]:
    """A command whose answer goes to ``output``, which is then only the command's."""
    with subprocess.Popen(
        words(path, command), stdout=output, stderr=subprocess.DEVNULL, env=environment()
    ) as process:
        os.close(output)
        yield process


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_wants_one_line_leaves_the_cursor(path: Path, command: str) -> None:
    """It may take all of a short answer but the last byte, as ``head`` does, and need any time."""
    reader, writer = os.pipe()
    with asked(path, writer, command) as process:
        taken = os.read(reader, 2**16)
        os.close(reader)
        assert process.wait(60) == 141
    assert taken and not taken.endswith(b"\n")
    assert position(path) == 0


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("is_read", [True, False])
def test_the_last_byte_waits_until_the_others_are_taken(kind: str, is_read: bool) -> None:
    reader, writer = ends(kind)
    outcome: list[object] = []

    def answer() -> None:
        try:
            with open(writer, "wb") as file, delivered(file) as delivery:
                for line in (b"one\n", b"two\n"):
                    delivery.write(line)
            outcome.append("delivered")
        except BrokenPipeError:
            outcome.append("broken")

    thread = threading.Thread(target=answer)
    thread.start()
    assert os.read(reader, 2**16) == b"one\ntwo"
    if is_read:
        assert os.read(reader, 2**16) == b"\n"
    else:
        os.close(reader)
    thread.join(60)
    assert outcome == ["delivered" if is_read else "broken"]
    if is_read:
        assert os.read(reader, 2**16) == b""
        os.close(reader)


def test_an_answer_and_its_notes_may_go_into_one_pipe(path: Path) -> None:
    both = subprocess.run(
        words(path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(), check=True
    ).stdout.splitlines()
    assert len(both) == 184 and both[-1] == b"183 pairs"
    assert position(path) == 1


@pytest.mark.parametrize(("reads", "code", "batch"), [("head -n 1", 141, 0), ("cat", 0, 1)])
def test_a_named_output_may_be_a_pipe(path: Path, reads: str, code: int, batch: int) -> None:
    command = f"{' '.join(words(path))} -o >({reads} > /dev/null)"
    done = subprocess.run(["bash", "-c", command], env=environment(), check=False)
    assert done.returncode == code
    assert position(path) == batch


def test_head_itself(path: Path) -> None:
    lines = subprocess.run(
        ["bash", "-c", f'{" ".join(words(path))} | head -n 1; echo "${{PIPESTATUS[0]}}"'],
        stdout=subprocess.PIPE,
        env=environment(),
        check=True,
    ).stdout.splitlines()
    assert len(lines) == 2 and lines[1] == b"141"
    assert position(path) == 0


@pytest.mark.parametrize("kind", ["pipe", "socket"])
@pytest.mark.parametrize("end", ["takes everything", "takes nothing", "takes a part", "dies"])
def test_the_cursor_waits_for_its_reader(path: Path, kind: str, end: str) -> None:
    reader, writer = ends(kind)
    with asked(path, writer) as process:
        taken = b""
        if end != "takes nothing":
            taken = os.read(reader, 20 if end == "takes a part" else 8192)
        if end == "takes everything":
            while part := os.read(reader, 8192):
                taken += part
            assert process.wait(60) == 0
        elif end == "dies":
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 143
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.5)
        os.close(reader)
        if end.startswith("takes") and end != "takes everything":
            assert process.wait(60) == 141
    assert position(path) == (1 if end == "takes everything" else 0)
    assert bool(taken) == (end != "takes nothing")


def test_a_program_that_passes_everything_on_moves_it(path: Path, tmp_path: Path) -> None:
    command = " ".join(words(path))
    subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | tee {tmp_path}/a | sort > {tmp_path}/b"],
        env=environment(),
        check=True,
    )
    assert (tmp_path / "a").read_bytes().count(b"\n") == (tmp_path / "b").read_bytes().count(b"\n")
    assert position(path) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_moves_it_and_a_full_disk_does_not(path: Path, tmp_path: Path, command: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words(path, command), stdout=full, env=environment(), check=False)
    assert done.returncode == 1
    assert position(path) == 0
    with open(tmp_path / "answer", "wb") as file:
        subprocess.run(words(path, command), stdout=file, env=environment(), check=True)
    with Index.open(path) as index:
        assert position(path) == index.batches()[-1].batch_id > 0


def test_a_terminal_moves_it(path: Path) -> None:
    controller, terminal = pty.openpty()
    began = time.monotonic()
    with asked(path, terminal) as process:
        with contextlib.suppress(OSError):  # its end, on Linux
            while os.read(controller, 8192):
                pass
        assert process.wait(60) == 0
    os.close(controller)
    assert time.monotonic() - began < 30
    assert position(path) == 1

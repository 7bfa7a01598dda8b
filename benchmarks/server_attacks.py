"""How long a neighbour waits for ``/health`` while others attack ``lshdb serve``.

    python -m benchmarks.server_attacks [--seconds 6] [--attack NAME ...]

A server is started on an index of its own, on 127.0.0.1 and a free port. A neighbour asks
``/health`` over a new connection each time, ten times a second or as fast as it is answered, while
one attack after the other runs. Each attack is bounded: at most 300 sockets, and a few seconds.
Attacker, neighbour and server share the machine, so the first line, of no attack, belongs to it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from lshdb import Index

Attack = Callable[[tuple[str, int], threading.Event], None]

MIB = 2**20
FORM = b"text=x" + b"&a=1" * (4 * MIB - 64)
JSON = b'{"vector": [' + b"[]," * (5 * MIB) + b"0]}"


def head(path: str, length: int, kind: str) -> bytes:
    """Return the head of a request with a body."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def post_and_wait(place: tuple[str, int], request: bytes, stop: threading.Event) -> None:
    """Send a request again and again, and wait for each answer."""
    while not stop.is_set():
        with contextlib.suppress(OSError), socket.create_connection(place, timeout=60) as sock:
            sock.sendall(request)
            while sock.recv(65536) and not stop.is_set():
                pass
        stop.wait(0.02)


def nothing(_place: tuple[str, int], stop: threading.Event) -> None:
    """Leave the server alone."""
    stop.wait()


def form_bombs(place: tuple[str, int], stop: threading.Event) -> None:
    """Send a form of 16 MiB with 4 million fields."""
    post_and_wait(place, head("/", len(FORM), "application/x-www-form-urlencoded") + FORM, stop)


def json_bombs(place: tuple[str, int], stop: threading.Event) -> None:
    """Send 15 MiB of JSON with 5 million lists."""
    post_and_wait(place, head("/api/query", len(JSON), "application/json") + JSON, stop)


def half_open(place: tuple[str, int], stop: threading.Event) -> None:
    """Hold 300 sockets that have sent the beginning of a head; open others for those closed."""
    sockets: list[socket.socket] = []
    while not stop.is_set():
        alive = []
        for sock in sockets:
            try:
                is_closed = sock.recv(1, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                is_closed = False
            except OSError:
                is_closed = True
            if is_closed:
                sock.close()
            else:
                alive.append(sock)
        sockets = alive
        while len(sockets) < 300 and not stop.is_set():
            with contextlib.suppress(OSError):
                sock = socket.create_connection(place, timeout=5)
                sock.sendall(b"GET / HT")
                sockets.append(sock)
        stop.wait(0.05)
    for sock in sockets:
        sock.close()


def gone_clients(place: tuple[str, int], stop: threading.Event) -> None:
    """Ask ten times at once for what is similar to a text of 8 MiB, and go before the answers."""
    words = " ".join("".join(random.choices("abcdefgh", k=6)) for _ in range(8 * MIB // 7))
    body = b"text=" + words.replace(" ", "+").encode()
    request = head("/", len(body), "application/x-www-form-urlencoded") + body
    while not stop.is_set():
        with contextlib.ExitStack() as opened:
            for _ in range(10):
                with contextlib.suppress(OSError):
                    sock = opened.enter_context(socket.create_connection(place, timeout=5))
                    sock.sendall(request)
            stop.wait(0.2)


ATTACKS: dict[str, Attack] = {
    "none": nothing,
    "form": form_bombs,
    "json": json_bombs,
    "half-open": half_open,
    "gone": gone_clients,
}


@contextlib.contextmanager
def server(path: Path) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """Start a server; give its process and its address."""
    command = [sys.executable, "-m", "lshdb", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline() if process.stdout is not None else ""
        url = urlsplit(line.split()[-1])
        try:
            yield process, (url.hostname or "", url.port or 0)
        finally:
            process.kill()


def ask_health(place: tuple[str, int], patience: float) -> tuple[float, bool]:
    """Ask once; return the seconds that it took, and whether the answer was 200."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(*place, timeout=patience)
    try:
        connection.request("GET", "/health")
        is_well = connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        is_well = False
    finally:
        connection.close()
    return time.perf_counter() - begun, is_well


def measure(path: Path, attack: Attack, seconds: float) -> tuple[list[float], int, int, int]:
    """Return the times of the neighbour's answers, failures, and MiB at most and at the end."""
    with server(path) as (process, place):
        stop = threading.Event()
        attacker = threading.Thread(target=attack, args=(place, stop))
        attacker.start()
        times: list[float] = []
        failed = 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            taken, is_well = ask_health(place, 60)
            times.append(taken)
            failed += not is_well
            time.sleep(max(0.0, 0.1 - taken))
        stop.set()
        attacker.join()
        highest, _ = memory(process.pid)
        time.sleep(1)
        return times, failed, highest, memory(process.pid)[1]


def memory(pid: int) -> tuple[int, int]:
    """Return the MiB that a process had at most, and has now; 0 where /proc is not."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        values = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
        return int(values["VmHWM"]) // 1024, int(values["VmRSS"]) // 1024
    return 0, 0


def main() -> None:
    """Measure each attack with a server of its own, and print a line for it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="how long each attack lasts")
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="by default all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.lshdb"
        with Index.create(path, threshold=0.5) as index:
            index.add((f"d{n}", f"some words of the document number {n}") for n in range(1000))
        print("attack      asked  failed     p50 ms     p99 ms     max ms   MiB max   MiB after")
        for name in options.attack or ATTACKS:
            times, failed, highest, after = measure(path, ATTACKS[name], options.seconds)
            times.sort()
            p50, p99 = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
            print(
                f"{name:<10} {len(times):>6} {failed:>7} {p50 * 1e3:>10.1f} {p99 * 1e3:>10.1f} "
                f"{times[-1] * 1e3:>10.1f} {highest:>9} {after:>11}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""The examples of README.md and docs/: every fenced block, what it is, and how it is run.

A block of a language in ``RUN`` has a comment above it that says what becomes of it:

``<!-- session: NAME -->``
    Commands behind ``$`` and what they print. ``cat FILE`` shows a file, and makes it. Sessions of
    one name on a page share a folder. ``...`` stands for anything within a line.
``<!-- session in postgres: NAME -->``
    The same, with a service file ``press`` and a schema of its own.
``<!-- session with a standby: NAME -->``
    The same, with the services ``press``, ``standby`` and ``spare``: a server, its standby, and
    another server.
``<!-- session as root: NAME -->``
    The same, in a folder where other users can go.
``<!-- session with pgbouncer: NAME -->``
    The same, with a server whose socket is in ``/run/postgresql``, and ``/run/pgbouncer``.
``<!-- python: NAME -->``
    Run as it stands; blocks of one name on a page share their names and a folder. What it prints
    is the block under ``<!-- output -->`` that follows; without one it prints nothing.
``<!-- python with spark: NAME -->``
    The same, all of a page together, with a session of Spark as ``spark`` (``tests/spark``).
``<!-- python with a peer: NAME -->``
    The same, if the package NAME is installed.
``<!-- sql: NAME -->``
    A statement for an index of texts.
``<!-- not run: REASON -->``
    Not run, and why.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["KINDS", "PAGES", "ROOT", "RUN", "Block", "block", "blocks", "groups"]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = {"console", "python", "pycon", "sql"}
KINDS = {
    "session",
    "session in postgres",
    "session with a standby",
    "session as root",
    "session with pgbouncer",
    "python",
    "python with spark",
    "python with a peer",
    "sql",
    "not run",
    "output",
}

_FENCE = re.compile(r"^([ ]*)(`{3,})(\w*).*\n((?:.*\n)*?)\1\2[ ]*$", re.MULTILINE)
_MARK = re.compile(r"<!-- ([a-z ]+?)(?:: (.+?))? -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Attributes
    ----------
    kind, name : str
        Of the comment above it; empty where there is none.
    output : str
        What a block of Python prints.
    """

    page: str
    line: int
    language: str
    kind: str
    name: str
    text: str
    output: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    page = path.read_text()
    found: list[Block] = []
    for fence in _FENCE.finditer(page):
        mark = _MARK.search(page[: fence.start()])
        kind, name = (mark[1], mark[2] or "") if mark else ("", "")
        block = Block(
            path.relative_to(ROOT).as_posix(),
            page.count("\n", 0, fence.start()) + 1,
            fence[3],
            kind,
            name,
            textwrap.dedent(fence[4]),
        )
        if kind == "output":
            last = found.pop()
            block = Block(
                last.page, last.line, last.language, last.kind, last.name, last.text, block.text
            )
        found.append(block)
    return found


def groups(*kinds: str) -> Iterator[list[Block]]:
    """Blocks of some kinds, those of one kind and name on a page together."""
    for path in PAGES:
        named: dict[tuple[str, str], list[Block]] = {}
        for found in blocks(path):
            if found.kind in kinds:
                named.setdefault((found.kind, found.name), []).append(found)
        yield from named.values()


def block(kind: str, name: str) -> Block:
    """The one block of that kind and name, on whatever page."""
    (found,) = [b for path in PAGES for b in blocks(path) if (b.kind, b.name) == (kind, name)]
    return found

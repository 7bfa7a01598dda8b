"""The Jinja2 environment of every page, and the style and script that a page has.

Decided: every value is escaped, whatever its template is called, and a name that is not there is
an error. Only the project's own style and script enter a page as they are. No template has a
``style`` attribute or a handler such as ``onclick``; the Content-Security-Policy would refuse them.
So every document stays text, even one that holds HTML.

A document's text may also lie with characters that are not seen: control characters, and marks that
turn the direction of writing. The filter ``visible`` shows them by their number.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from lshdb.errors import LshdbError, ParameterError, install_command

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "Assets",
    "Link",
    "Page",
    "inline_assets",
    "make_environment",
    "read_asset",
    "served_assets",
    "visible",
]

_HERE = Path(__file__).parent
_STYLE, _SCRIPT = "style.css", "page.js"
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Assets:
    """Style and script of a page.

    Attributes
    ----------
    styles, scripts : tuple of str
        Their text, of the project itself, to be written into the page; or their addresses.
    policy : str
        The Content-Security-Policy for the page's head; empty where the server sends one.
    is_inline : bool
        Whether ``styles`` and ``scripts`` are texts.
    """

    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    policy: str
    is_inline: bool


@dataclass(frozen=True, slots=True)
class Link:
    """A line of a page's navigation."""

    title: str
    href: str
    is_current: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The values of ``base.html``.

    Attributes
    ----------
    title : str
        The heading, and the name in the browser's tab.
    assets : Assets
        Style and script.
    subtitle : str
        A line below the heading.
    links : tuple of Link
        The navigation; none if there are no links.
    footer : str
        The last line.
    """

    title: str
    assets: Assets
    subtitle: str = ""
    links: tuple[Link, ...] = ()
    footer: str = ""


def make_environment(*folders: Path) -> Environment:
    """Return the environment of all pages, with further folders of templates before its own.

    Raises
    ------
    LshdbError
        Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise LshdbError(
            "pages of HTML need jinja2, which is not installed", hint=install_command("report")
        ) from error
    environment = Environment(
        loader=FileSystemLoader([*folders, _HERE / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "size": size,
        "share": share,
        "similarity": similarity,
        "moment": moment,
        "visible": visible,
        "lines": visible_lines,
        "json": as_json,
    }
    return environment


def inline_assets(*scripts: Path) -> Assets:
    """Return the style and the script of a page that is one file, and further scripts of a room.

    The policy names the hash of each, and allows nothing else: no request to anywhere, no other
    script, no frame.
    """
    style = _own_text(_HERE / "assets" / _STYLE)
    texts = [_own_text(path) for path in (_HERE / "assets" / _SCRIPT, *scripts)]
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {' '.join(map(_hash, texts))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return Assets(_trusted(style), _trusted(*texts), policy, is_inline=True)


def served_assets(prefix: str, *scripts: str) -> Assets:
    """Return the addresses of style and script on a server, and names of further scripts there.

    The server answers ``prefix + name`` with :func:`read_asset`, and sends the policy itself.
    """
    return Assets(
        (prefix + _STYLE,), (prefix + _SCRIPT, *(prefix + name for name in scripts)), "",
        is_inline=False,
    )  # fmt: skip


def read_asset(name: str) -> tuple[bytes, str]:
    """Return a file of ``assets/`` and its media type.

    Raises
    ------
    KeyError
        There is no such file; no other file is ever read.
    """
    path = {path.name: path for path in (_HERE / "assets").iterdir()}[name]
    return path.read_bytes(), _MEDIA_TYPES[path.suffix]


@cache
def _own_text(path: Path) -> str:
    """Return a style or script of the project, which cannot end its element early."""
    text = path.read_text(encoding="utf-8")
    if "</" in text or "<!--" in text:
        raise ParameterError(f"{path} cannot stand inside a page: it holds '</' or '<!--'")
    return text


def _trusted(*texts: str) -> tuple[str, ...]:
    """Mark the project's own texts; nothing else in a page is ever marked."""
    from markupsafe import Markup

    return tuple(Markup(text) for text in texts)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


# Filters


def number(value: float | None, decimals: int = 0) -> str:
    """Return a number with commas; a dash for None."""
    return "–" if value is None else f"{value:,.{decimals}f}"


def share(value: float | None, decimals: int = 1) -> str:
    """Return a share as a percentage; a dash for None."""
    return "–" if value is None else f"{value:.{decimals}%}"


def similarity(value: float) -> str:
    """Return a similarity, or a distance, with the digits that a person compares."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}"


def size(n_bytes: float) -> str:
    """Return a number of bytes in the unit that fits."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n_bytes < 1024:
            return f"{n_bytes:,.0f} {unit}" if unit == "bytes" else f"{n_bytes:,.1f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} TiB"


def moment(value: str | datetime) -> str:
    """Return a stored time (UTC) to the minute."""
    return str(value)[:16].replace("T", " ")


_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164"
    "\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\ufff0-\uffff"
    "\U0001fffe\U0001ffff\U000e0000-\U000e0fff\U0010fffe\U0010ffff]"
)
_UNSEEN_IN_LINES = re.compile(_UNSEEN.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def visible(text: str) -> str:
    """Return a text as one line; show invisible characters by their number."""
    return _UNSEEN.sub(_numbered, text)


def visible_lines(text: str) -> str:
    """Do the same with a text of several lines: tabs and line feeds stay."""
    return _UNSEEN_IN_LINES.sub(_numbered, text.replace("\r\n", "\n"))


def _numbered(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in (0x0A, 0x0D, 0x09):
        return {0x0A: "⏎", 0x0D: "␍", 0x09: "⇥"}[code]
    if code == 0xA0:
        return "\u00a0"
    return f"⟨U+{code:04X}⟩"


def as_json(value: str | float | Sequence[str]) -> str:
    """Return a value as JSON of ASCII alone, which the script reads from an attribute."""
    return json.dumps(value)

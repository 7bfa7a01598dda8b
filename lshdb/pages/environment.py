"""The Jinja2 environment of every page, and the style and script that a page has.

Decided: every value is escaped, whatever its template is called, and a name that is not there is
an error. Only the project's own style and script enter a page as they are. No template has a
``style`` attribute or a handler such as ``onclick``; the Content-Security-Policy would refuse them.
So every document stays text, even one that holds HTML.

A document's text may also lie with characters that are not seen: control characters, and marks that
turn the direction of writing. In names, the filter ``visible`` shows them by their number. In
texts, ``parts`` has one small mark for each, which says its number and name.
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
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
    "asset_version",
    "inline_assets",
    "make_environment",
    "read_asset",
    "served_assets",
    "visible",
]

_HERE = Path(__file__).parent
_STYLE, _SCRIPT = "style.css", "page.js"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
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
        The name in the browser's tab, and the heading if there is no other.
    assets : Assets
        Style and script.
    name, note : str
        What all pages are about, and a word on it beside it; the first line of each page.
    heading : str
        The heading.
    subtitle : str
        A line below the heading.
    links : tuple of Link
        The navigation; none if there are no links.
    crumbs : tuple of Link
        The way to the page; one without an address is the page itself.
    footer : str
        The last line.
    """

    title: str
    assets: Assets
    name: str = ""
    note: str = ""
    heading: str = ""
    subtitle: str = ""
    links: tuple[Link, ...] = ()
    crumbs: tuple[Link, ...] = ()
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
        "parts": text_parts,
        "unseen": unseen_in,
        "day": day,
        "days": days,
        "short_day": short_day,
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


def served_assets(prefix: str) -> Assets:
    """Return the addresses of style and script on a server.

    The server answers ``prefix + name`` with :func:`read_asset`, and sends the policy itself. An
    address has the version of its file, so that a browser may keep it.
    """
    style, script = (f"{prefix}{name}?v={asset_version(name)}" for name in (_STYLE, _SCRIPT))
    return Assets((style,), (script,), "", is_inline=False)


@cache
def asset_version(name: str) -> str:
    """Return a word that is another one whenever the file is.

    Raises
    ------
    KeyError
        There is no such file.
    """
    return hashlib.sha256(read_asset(name)[0]).hexdigest()[:12]


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


def day(value: str) -> str:
    """Return a date as ``1 Nov 2026``; anything else, such as the name of a night, as it is."""
    match = re.match(r"(\d{4})-(\d\d)-(\d\d)(?!\d)", value)
    if match is None or not 1 <= int(match[2]) <= 12:
        return value
    return f"{int(match[3])} {_MONTHS[int(match[2]) - 1]} {match[1]}"


def days(names: Sequence[str]) -> str:
    """Return the first and the last of some dates, or names, as ``1–7 Nov 2026``."""
    first, last = day(names[0]), day(names[-1])
    if first == last:
        return first
    begin, end = first.split(" "), last.split(" ")
    if first != names[0] and last != names[-1]:
        while len(begin) > 1 and begin[-1] == end[len(begin) - 1]:
            begin.pop()
    return "–".join([begin[0], last]) if len(begin) == 1 else f"{' '.join(begin)} – {last}"


def short_day(value: str) -> str:
    """Return a date as ``1 Nov``; anything else as it is."""
    shown = day(value)
    return shown if shown == value else shown.rpartition(" ")[0]


def moment(value: str | datetime) -> str:
    """Return a stored time (UTC) to the minute."""
    return str(value)[:16].replace("T", " ")


_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164"
    "\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\ufff0-\uffff"
    "\U0001fffe\U0001ffff\U000e0000-\U000e0fff\U0010fffe\U0010ffff]"
)
_MARKED = re.compile(
    "(\xad)? *(\x85)|(" + _UNSEEN.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f") + ")"
)

SOFT_BREAK = "\x85"
"""Stands in a shown text for a line break that only ends a full line (``text_markup.py``)."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text on a page.

    Attributes
    ----------
    kind : str
        ``text``; ``break``, a line break that reads as a blank; ``joint``, one inside a word; or
        ``unseen``, an invisible character.
    text : str
        What is shown: of an invisible character, one small mark.
    name : str
        Its number and name; empty for the other kinds.
    """

    kind: str
    text: str
    name: str = ""


_DIRECTIONS = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
"""Marks that turn the direction of writing."""


def visible(text: str) -> str:
    """Return a text as one line; show invisible characters by their number."""
    return _UNSEEN.sub(_numbered, text)


def text_parts(text: str) -> list[TextPart]:
    """Cut a text at its soft line breaks and its invisible characters; line feeds and tabs stay."""
    text = text.replace("\r\n", "\n")
    parts, start = [], 0
    for match in _MARKED.finditer(text):
        hyphen, soft, unseen = match.groups()
        if unseen == "\xa0":
            continue
        if match.start() > start:
            parts.append(TextPart("text", text[start : match.start()]))
        if hyphen or unseen:
            parts.append(_unseen(hyphen or unseen))
        if soft:
            parts.append(TextPart("joint" if hyphen else "break", "\n"))
        start = match.end()
    if start < len(text):
        parts.append(TextPart("text", text[start:]))
    return parts


def unseen_in(texts: Iterable[str]) -> list[TextPart]:
    """Return the invisible characters of some texts, each once, in the order of their numbers."""
    codes = {
        character
        for text in texts
        for character in set(_UNSEEN.findall(text.replace("\r\n", "\n")))
        if character not in "\t\n\xa0" + SOFT_BREAK
    }
    return [_unseen(character) for character in sorted(codes)]


def _unseen(character: str) -> TextPart:
    code = ord(character)
    if code < 0x20:
        mark = chr(0x2400 + code)
    elif code == 0x7F:
        mark = "␡"
    elif code in _DIRECTIONS:
        mark = "⇄"
    else:
        mark = "¬" if character == "\xad" else "◦"
    try:
        name = unicodedata.name(character).lower()
    except ValueError:
        name = "control character" if code < 0xA0 else "no character"
    return TextPart("unseen", mark, f"U+{code:04X} {name}")


def _numbered(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in (0x0A, 0x0D, 0x09):
        return {0x0A: "⏎", 0x0D: "␍", 0x09: "⇥"}[code]
    if code == 0xA0:
        return "\u00a0"
    return f"⟨U+{code:04X}⟩"

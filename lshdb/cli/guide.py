"""``lshdb guide``: the pages of the documentation, for everybody who has installed lshdb.

Hints name these pages, so they must be there without a checkout and without a network: the wheel
holds them in ``lshdb/_docs``, and a checkout has them in ``docs/``. The page ``python`` lists the
public names with the first words about each. The help of commands and the list of changes are left
out, as is ``docs/decisions``. On a terminal rich
draws the page; elsewhere it is Markdown.
"""

from __future__ import annotations

import difflib
import inspect
import io
import re
from collections.abc import Container, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

import click

import lshdb
from lshdb import LshdbError
from lshdb.cli._options import Command
from lshdb.cli._output import Column, print_listing, show_page

__all__ = ["command", "draw_markdown", "first_words", "pages"]

_LEFT_OUT = frozenset({"index", "cli", "changelog", "releasing"})
_NAMES = "<!-- public names -->"
_ROOMS = (".", "guides", "concepts", "reference")
_WIDEST = 100
_COMMENT = re.compile(r"^<!-- .*? -->\n", re.MULTILINE)
"""Comments are for the tests of the examples."""


@click.command("guide", cls=Command)
@click.argument(
    "page",
    required=False,
    shell_complete=lambda _ctx, _param, word: [name for name in pages() if name.startswith(word)],
)
def command(page: str | None) -> None:
    """Show PAGE of the documentation, or list the pages.

    On a terminal the page is shown in your pager; elsewhere it is written as Markdown.

    \b
    lshdb guide
    lshdb guide tutorial
    lshdb guide input > input.md
    """
    guides = pages()
    if page is None:
        rows = [(name, _title(path)) for name, path in guides.items()]
        print_listing([Column("page"), Column("title", "prose")], rows, None)
        return
    if page not in guides:
        close = difflib.get_close_matches(page, guides, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise click.UsageError(f"there is no page {page!r}{meant} (lshdb guide lists the pages)")
    text = guides[page].read_text(encoding="utf-8")
    if _NAMES in text:
        text = text.replace(_NAMES, "\n".join(_public_names()))
    text = _COMMENT.sub("", text)
    show_page(text, partial(draw_markdown, pages=guides))


def pages() -> dict[str, Path]:
    """Return the pages by name: tutorial, guides, concepts and reference."""
    package = Path(lshdb.__file__).resolve().parent
    for folder in (package / "_docs", package.parent / "docs"):
        if (folder / "tutorial.md").is_file():
            break
    else:
        raise LshdbError(
            f"the pages are missing: they are neither in {package / '_docs'} nor in "
            f"{package.parent / 'docs'}",
            hint="install lshdb again",
        )
    paths = [path for room in _ROOMS for path in sorted((folder / room).glob("*.md"))]
    order = {"tutorial": 0, "guides": 1, "concepts": 2}
    paths.sort(key=lambda path: order.get(path.stem, order.get(path.parent.name, 3)))
    return {path.stem: path for path in paths if path.stem not in _LEFT_OUT}


def _public_names() -> Iterator[str]:
    """Yield every public name with its first words, the methods of ``Index`` first."""
    yield "## Index"
    yield ""
    for name, method in vars(lshdb.Index).items():
        if not name.startswith("_") or name in ("__len__", "__contains__", "__iter__"):
            yield f"- `Index.{name}`: {first_words(getattr(method, '__func__', method))}"
    yield ""
    yield "## Other names"
    yield ""
    for name in lshdb.__all__:
        value = getattr(lshdb, name)
        if name not in ("Index", "__version__") and (callable(value) or isinstance(value, type)):
            yield f"- `{name}`: {first_words(value)}"
    yield ""
    yield "`help(lshdb.Index.pairs)` in Python, or in your editor, shows the rest of each."


def first_words(value: object) -> str:
    """Return the first paragraph of a docstring, in one line and without its markup."""
    words = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return re.sub(r":\w+:`~?(?:lshdb\.)?([^`]*)`", r"`\1`", words).replace("``", "`")


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()


def draw_markdown(text: str, *, pages: Container[str], width: int, styled: bool) -> str:
    """Draw Markdown for a terminal.

    Parameters
    ----------
    text : str
        Markdown.
    pages : container of str
        What ``lshdb guide`` can show; links elsewhere are left as their text.
    width : int
        Columns of the terminal; at most 100 are used.
    styled : bool
        Whether the terminal understands colours and bold type.
    """
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    page = io.StringIO()
    console = Console(
        file=page,
        width=min(width, _WIDEST),
        force_terminal=styled,
        color_system="standard" if styled else None,
        highlight=False,
        legacy_windows=False,
        theme=Theme({"markdown.code": "bold cyan"}),
    )
    console.print(Markdown(_named_links(text, pages), code_theme="ansi_dark", hyperlinks=False))
    return page.getvalue()


def _named_links(text: str, pages: Container[str]) -> str:
    """Replace links to pages by the command that shows them, and pictures by their text."""

    def named(link: re.Match[str]) -> str:
        page = PurePosixPath(link[2])
        is_shown = page.suffix == ".md" and page.stem in pages
        return f"{link[1]} (`lshdb guide {page.stem}`)" if is_shown else link[1]

    text = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"*(picture: \1)*", text)
    return re.sub(r"\[([^]]*)\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", named, text)

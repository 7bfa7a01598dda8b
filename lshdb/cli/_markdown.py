"""A page of the documentation as a terminal shows it, drawn by rich.

A module of its own because only ``lshdb guide`` on a terminal needs it: every command imports
``_output.py``, and none should pay for this.
"""

from __future__ import annotations

import io
import re
from collections.abc import Container
from pathlib import PurePosixPath

__all__ = ["draw_markdown"]

_WIDEST = 100


def draw_markdown(text: str, *, pages: Container[str], width: int, styled: bool) -> str:
    """Draw Markdown for a terminal.

    Parameters
    ----------
    text : str
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
    """Links to pages as the command that shows them; pictures as what they show."""

    def named(link: re.Match[str]) -> str:
        page = PurePosixPath(link[2])
        is_shown = page.suffix == ".md" and page.stem in pages
        return f"{link[1]} (`lshdb guide {page.stem}`)" if is_shown else link[1]

    text = re.sub(r"!\[([^]]*)\]\([^)]*\)", r"*(picture: \1)*", text)
    return re.sub(r"\[([^]]*)\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", named, text)

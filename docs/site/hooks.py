r"""Hooks for MkDocs: build the reference of commands and of public names.

The site shows each command's help. Its paragraphs become paragraphs, text that click keeps together
(after a ``\b``) becomes a block of code, and its options become a table. Each public name becomes
a directive for mkdocstrings, which inserts its docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click

import lshdb
from lshdb.cli._group import COMMANDS, cli
from lshdb.cli._help import GROUPS

__all__ = ["commands", "names", "on_page_content", "on_page_markdown"]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what is generated where a page has the mark for it."""
    for mark, make in (("<!-- commands -->", commands), ("<!-- public names -->", names)):
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the roles of docstrings (``:meth:``), which are reStructuredText's."""
    return re.sub(r":(?:meth|class|func|data|attr|mod|exc):(?=<code>)", "", html)


def names() -> str:
    """Directives for all public names: the index, what it gives and takes, errors, warnings."""
    values = {name: getattr(lshdb, name) for name in lshdb.__all__ if name != "__version__"}
    sections: dict[str, list[str]] = {"The index": ["Index"]}
    for name, value in values.items():
        if isinstance(value, type) and issubclass(value, Warning):
            sections.setdefault("Warnings", []).append(name)
        elif isinstance(value, type) and issubclass(value, Exception):
            sections.setdefault("Errors", []).append(name)
        elif isinstance(value, type) and name != "Index":
            sections.setdefault("Other classes", []).append(name)
        elif name != "Index":
            sections.setdefault("Functions", []).append(name)
    order = ["The index", "Functions", "Other classes", "Errors", "Warnings"]
    return "\n\n".join(
        part
        for title in order
        for part in (f"## {title}", *(f"::: lshdb.{name}" for name in sections[title]))
    )


def commands() -> str:
    """Return a table of all commands and a section for each."""
    group = click.Context(cli, info_name="lshdb", **cli.context_settings)
    made = {name: cli.get_command(group, name) for name in cli.list_commands(group)}
    lines = ["| command | what it does |", "|---|---|"]
    for name, command in made.items():
        if command is not None:
            lines.append(f"| [`lshdb {name}`](#lshdb-{name}) | {COMMANDS[name]} |")
    for name, command in made.items():
        if command is not None:
            lines += ["", *_section(name, command, group)]
    return "\n".join(lines)


def _section(name: str, command: click.Command, group: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=group)
    yield f"## lshdb {name}"
    yield ""
    pieces = [piece.rstrip() for piece in command.collect_usage_pieces(context)]
    yield "```sh"
    yield " ".join(["lshdb", name, *pieces])
    yield "```"
    yield ""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```sh", *paragraph.splitlines()[1:], "```", "")
        else:
            yield from (_escaped(paragraph), "")
    for group in GROUPS:
        params = [param for param in command.params if getattr(param, "group", "") == group]
        if params:
            yield f"### {group}"
            yield from ("", "| option | what |", "|---|---|")
        for param in params:
            name, text = param.get_help_record(context) or ("", "")
            what = _escaped(" ".join(text.split())).replace("|", "\\|")
            yield f"| `{name.replace('|', chr(92) + '|')}` | {what} |"
        yield ""


def _escaped(text: str) -> str:
    """Text in which Markdown finds nothing."""
    return re.sub(r"([*_`<\[])", r"\\\1", text)

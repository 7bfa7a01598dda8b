r"""Hooks for MkDocs: what the site shows that is made from the code, and from other pages.

Each command has a page with its help: paragraphs become paragraphs, text that click keeps together
(after a ``\b``) becomes a block of code, and the options of a group become a table. Each group of
public names has a page of directives for mkdocstrings, which inserts the docstrings. ``Index`` has
two: one of its core methods, and one of the others. The chart of the first page has the figures of
the benchmarks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import lshdb
from lshdb.cli._group import COMMANDS, cli
from lshdb.cli._group import GROUPS as GROUPS_OF_COMMANDS
from lshdb.cli._help import GROUPS
from lshdb.cli.guide import first_words

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

__all__ = [
    "CORE",
    "chart",
    "command_page",
    "commands",
    "index_page",
    "names",
    "names_page",
    "on_config",
    "on_files",
    "on_page_content",
    "on_page_markdown",
    "other_methods_page",
    "public_names",
]

CORE = (
    "create",
    "open",
    "add",
    "remove",
    "query",
    "pairs",
    "clusters",
    "dedup",
    "explain",
    "sql",
    "check",
    "close",
)
"""The methods of ``Index`` that most programs call, in the order in which they meet them."""

_ROOMS = {
    "Without an index": "transient",
    "Pairs and queries": "search handle",
    "Clusters and duplicates": "groups",
    "Documents": "documents tokenizers",
    "Writing and maintenance": "ingest maintain storage report",
    "Parameters": "params signatures",
    "Thresholds": "advice",
    "Progress": "phases",
    "Errors and warnings": "errors",
}
"""The pages of public names, and the rooms of ``lshdb/`` whose names they have."""

_ELSEWHERE = {"deduplicate": "Without an index"}
_OTHER = "Other names"


def on_config(config: MkDocsConfig) -> None:
    """Put the generated pages into the navigation, below the pages that list them."""
    (reference,) = [entry["Reference"] for entry in config.nav or () if "Reference" in entry]
    for entry in reference:
        if "Command line" in entry:
            entry["Command line"] = [
                {"All commands": entry["Command line"]},
                *(
                    {group: [{name: f"reference/cli/{name}.md"} for name in lines]}
                    for group, lines in GROUPS_OF_COMMANDS.items()
                ),
            ]
        if "Python" in entry:
            pages = [{"Index": "reference/python/Index.md"}]
            pages += [{"Index, other methods": "reference/python/Index-more.md"}]
            pages += [{title: f"reference/python/{_slug(title)}.md"} for title in public_names()]
            entry["Python"] = [{"All names": entry["Python"]}, *pages]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add a page for each command, for ``Index``, and for each group of public names."""
    from mkdocs.structure.files import File

    pages = {f"cli/{name}": command_page(name) for name in COMMANDS}
    pages["python/Index"] = index_page()
    pages["python/Index-more"] = other_methods_page()
    for title, group in public_names().items():
        pages[f"python/{_slug(title)}"] = names_page(title, group)
    for path, content in pages.items():
        files.append(File.generated(config, f"reference/{path}.md", content=content))


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: Any) -> str:
    """Put what is generated where a page has the mark for it."""
    for mark, make in (
        ("<!-- commands -->", commands),
        ("<!-- public names -->", names),
        ("<!-- chart -->", lambda: chart(Path(config.docs_dir) / "benchmarks.md")),
    ):
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the roles of docstrings (``:meth:``), which are reStructuredText's."""
    return re.sub(r":(?:meth|class|func|data|attr|mod|exc):(?=<code>)", "", html)


# Python


def public_names() -> dict[str, list[str]]:
    """Return the public names but ``Index``, by the title of their page."""
    title_of = {room: title for title, rooms in _ROOMS.items() for room in rooms.split()}
    pages: dict[str, list[str]] = {title: [] for title in (*_ROOMS, _OTHER)}
    for name in lshdb.__all__:
        if name not in ("Index", "__version__"):
            room = lshdb._HOME_OF[name].partition(".")[0]
            title = _ELSEWHERE.get(name) or title_of.get(room, _OTHER)
            pages[title].append(name)
    return {title: sorted(page, key=_is_class) for title, page in pages.items() if page}


def _is_class(name: str) -> bool:
    return isinstance(getattr(lshdb, name), type)


def names() -> str:
    """Return the list of all public names, with links to their pages."""
    lines = ["## Index", "", f"{_sentence(lshdb.Index)} [Other methods](python/Index-more.md)", ""]
    lines += _methods_table(CORE, "python/Index.md")
    for title, group in public_names().items():
        page = f"python/{_slug(title)}.md"
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|"]
        lines += [
            f"| [`{name}`]({page}#lshdb.{name}) | {_sentence(getattr(lshdb, name))} |"
            for name in group
        ]
    return "\n".join(lines)


def names_page(title: str, group: list[str]) -> str:
    """Return the page of a group: a directive for each name."""
    return "\n\n".join([f"# {title}", *(f"::: lshdb.{name}" for name in group)])


def index_page() -> str:
    """Return the page of ``Index``: a table of its core methods, then what they do in full."""
    return "\n".join(
        [
            "# Index",
            "",
            f"Most programs need these {len(CORE)} methods. "
            "[The others](Index-more.md) have a page of their own.",
            "",
            *_methods_table(CORE, ""),
            "",
            "::: lshdb.Index",
            "    options:",
            f"      members: [{', '.join(CORE)}]",
        ]
    )


def other_methods_page() -> str:
    """Return the page of all other methods and attributes of ``Index``."""
    others = [name for name in vars(lshdb.Index) if name[0] != "_" and name not in CORE]
    lines = ["# Index: other methods", "", *_methods_table(others, "")]
    return "\n\n".join(["\n".join(lines), *(f"::: lshdb.Index.{name}" for name in others)])


def _methods_table(methods: Sequence[str], page: str) -> Iterator[str]:
    yield from ("| method | what it does |", "|---|---|")
    for name in methods:
        yield f"| [`{name}`]({page}#lshdb.Index.{name}) | {_sentence(getattr(lshdb.Index, name))} |"


def _sentence(value: object) -> str:
    return first_words(value).replace("|", "\\|")


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")


# Commands


def commands() -> str:
    """Return a table of commands for each group of them."""
    lines = []
    for group, commands_of_group in GROUPS_OF_COMMANDS.items():
        lines += [f"## {group}", "", "| command | what it does |", "|---|---|"]
        for name, line in commands_of_group.items():
            lines.append(f"| [`lshdb {name}`](cli/{name}.md) | {line} |")
        lines.append("")
    return "\n".join(lines)


def command_page(name: str) -> str:
    """Return the page of a command."""
    group = click.Context(cli, info_name="lshdb", **cli.context_settings)
    command = cli.get_command(group, name)
    if command is None:
        raise LookupError(f"no command {name}")
    return "\n".join(_command_lines(name, command, group))


def _command_lines(name: str, command: click.Command, group: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=group)
    pieces = [piece.rstrip() for piece in command.collect_usage_pieces(context)]
    yield from (f"# lshdb {name}", "", "```sh", " ".join(["lshdb", name, *pieces]), "```", "")
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```sh", *paragraph.splitlines()[1:], "```", "")
        else:
            yield from (_escaped(paragraph), "")
    for title in GROUPS:
        params = [param for param in command.params if getattr(param, "group", "") == title]
        if params:
            yield from (f"## {title}", "", "| option | what |", "|---|---|")
        for param in params:
            option, text = param.get_help_record(context) or ("", "")
            what = _escaped(" ".join(text.split())).replace("|", "\\|")
            yield f"| `{option.replace('|', chr(92) + '|')}` | {what} |"
        yield ""


def _escaped(text: str) -> str:
    """Text in which Markdown finds nothing."""
    return re.sub(r"([*_`<\[])", r"\\\1", text)


# The first page


def chart(benchmarks: Path) -> str:
    """Return the first chart of the benchmarks as HTML: seconds and pairs found, a row a tool."""
    page = benchmarks.read_text(encoding="utf-8")
    block = re.search(r"^    [^\n]*seconds  found\n((?:    .*\n)+)", page, re.MULTILINE)
    if block is None:
        raise LookupError(f"{benchmarks} does not begin with a chart of seconds and pairs found")
    rows = re.findall(r"^ +(\S.*?)  +([\d.]+)  +([\d.]+)  ", block[1], re.MULTILINE)
    slowest = max(float(seconds) for _, seconds, _ in rows)
    lines = ['<table class="peers">']
    lines.append("<thead><tr><th></th><th>Seconds</th><th>Pairs found</th></tr></thead><tbody>")
    for tool, seconds, percent in rows:
        lines.append(
            f'<tr{" class=own" if tool == "lshdb" else ""}><th scope="row">{escape(tool)}</th>'
            f"{_bar(float(seconds) / slowest, f'{seconds} s')}"
            f"{_bar(float(percent) / 100, f'{percent} %')}</tr>"
        )
    return "\n".join([*lines, "</tbody></table>"])


def _bar(share: float, label: str) -> str:
    return f'<td><i style="--share:{share:.3f}"></i><span>{label}</span></td>'

"""How help looks: groups of options, a short form and a whole one, and examples that fit.

Decided: every option belongs to a group, which is named where the option is declared: those of a
command itself are "Options", and ``options(..., title="Input")`` names another one. ``-h`` shows
the options that ``short`` of a command names, in that order, each by its first sentence; without
``short``, those of its own group. ``--help`` shows all, group by group. Examples are what stands
after the mark of click (``\\b``) in the docstring of a command, a line each.
"""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

__all__ = [
    "GROUPS",
    "OUTPUT",
    "OWN",
    "Context",
    "Option",
    "option",
    "shown_shortly",
    "write_help",
    "write_lines",
    "write_short_help",
]

Function = TypeVar("Function", bound=Callable[..., Any])

OWN, OUTPUT = "Options", "Output"
GROUPS = (OWN, "Input", "New index", OUTPUT)
"""The groups of options, in the order of the help."""

_LEAST_SHORT, _MOST_SHORT, _MOST_EXAMPLES, _MOST_LINES = 4, 12, 3, 40
_LEAST_COLUMNS = 30
_SENTENCE = re.compile(r"(?<=\.)\s+")
_DEFAULT = re.compile(r"\s*(\[(?:default|required)[^\]]*\])$")
_WORD = re.compile(r"""(?:--?[a-z][\w-]* +(?![-\s]))?(?:[^\s'"]|"[^"]*"|'[^']*')+""")
"""A word of a shell, with the option before it."""


class Option(click.Option):
    """An option that belongs to a group of the help.

    Parameters
    ----------
    group : str
        One of :data:`GROUPS`.
    help : str
        Sentences. ``{choices}`` stands for the values that the option takes.
    """

    def __init__(self, *args: Any, group: str = OWN, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        if isinstance(self.type, click.Choice) and self.help:
            *names, last = map(str, self.type.choices)
            choices = f"{', '.join(names)} or {last}" if names else last
            self.help = self.help.replace("{choices}", choices)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what click adds to the help, but for ranges: a wrong number is told its range."""
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


def option(*names: str, **attributes: Any) -> Callable[[Function], Function]:
    """Return the decorator of an :class:`Option`, as :func:`click.option` does."""
    return click.option(*names, cls=Option, **attributes)


class _Formatter(click.HelpFormatter):
    """A formatter whose lines are no wider than the terminal, however narrow that is."""

    def __init__(self, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns
        super().__init__(width=width or max(min(columns, max_width or 80), _LEAST_COLUMNS) - 2)

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 0, col_spacing: int = 2
    ) -> None:
        """Write terms and their texts; terms take a third of the line unless told otherwise."""
        super().write_dl(rows, min(col_max or self.width // 3, self.width // 2), col_spacing)


class Context(click.Context):
    """The context of all commands."""

    formatter_class = _Formatter


def write_help(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write all that is to be said of a command."""
    command.format_usage(ctx, formatter)
    text, examples = _parts(command)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(text)
    records: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for param in command.params:
        record = param.get_help_record(ctx)
        if record is not None and isinstance(param, Option):
            records[param.group].append(record)
    for group in filter(records.get, GROUPS):
        with formatter.section(group):
            formatter.write_dl(records[group])
    write_lines(formatter, "Examples", examples)


def write_short_help(
    command: click.Command,
    ctx: click.Context,
    formatter: click.HelpFormatter,
    short: str,
    see: str,
) -> None:
    """Write a sentence, the most used options, three examples, and where there is more.

    On a narrow terminal, the last options are left out as long as there are more than 40 lines.
    """
    options = shown_shortly(command, short)
    for n_shown in range(len(options), min(_LEAST_SHORT, len(options)) - 1, -1):
        trial = ctx.make_formatter()
        _write_short(command, ctx, trial, options[:n_shown], see)
        if trial.getvalue().count("\n") <= _MOST_LINES:
            break
    formatter.write(trial.getvalue())


def _write_short(
    command: click.Command,
    ctx: click.Context,
    formatter: click.HelpFormatter,
    options: Sequence[click.Parameter],
    see: str,
) -> None:
    command.format_usage(ctx, formatter)
    text, examples = _parts(command)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(text.partition("\n\n")[0])
    records = []
    for param in options:
        record = param.get_help_record(ctx)
        if record is not None:
            records.append((record[0], _first_sentence(record[1])))
    if records:
        with formatter.section(OWN):
            formatter.write_dl(records)
    write_lines(formatter, "Examples", examples[:_MOST_EXAMPLES])
    formatter.write_paragraph()
    n_options = sum(isinstance(param, Option) and not param.hidden for param in command.params)
    for line in filter(None, (see, f"All {n_options} options: {ctx.command_path} --help")):
        formatter.write_text(line)


def shown_shortly(command: click.Command, short: str) -> list[click.Parameter]:
    """Return the options that ``-h`` shows of a command."""
    named = {
        next((name for name in param.opts if name.startswith("--")), "-")[2:]: param
        for param in command.params
        if isinstance(param, Option)
    }
    if short:
        return [named[name] for name in short.split()]
    own = [name for name, param in named.items() if param.group == OWN]
    names = [*own[:_MOST_SHORT], *(name for name in ("json", "output") if name in named)]
    return [named[name] for name in list(dict.fromkeys(names))[:_MOST_SHORT]]


def write_lines(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    """Write lines of a shell, which go on in the next line where they are too wide."""
    if not lines:
        return
    with formatter.section(title):
        for line in lines:
            indent = " " * formatter.current_indent
            width = formatter.width - len(indent)
            for piece in _shell_lines(line, width):
                formatter.write(f"{indent}{piece}\n")


def _parts(command: click.Command) -> tuple[str, list[str]]:
    """Return the text on a command, and its examples."""
    text, _, examples = inspect.cleandoc(command.help or "").partition("\n\n\b\n")
    return text, examples.splitlines()


def _first_sentence(text: str) -> str:
    """Return the first sentence of the help of an option, and its default."""
    end = _DEFAULT.search(text)
    first = _SENTENCE.split(text[: end.start()] if end else text)[0]
    return f"{first}  {end[1]}" if end else first


def _shell_lines(line: str, width: int) -> list[str]:
    """Break a line of a shell between words, with a backslash at the end of all but the last.

    A quoted word that is too wide is broken at its blanks, where a shell needs no backslash.
    """
    if len(line) <= width:
        return [line]
    words: list[tuple[str, str]] = []
    for word in _WORD.findall(line):
        *parts, last = word.split(" ") if len(word) + 6 > width else [word]
        words += [*((part, "") for part in parts), (last, " \\")]
    pieces: list[str] = []
    piece = sign = ""
    for word, sign_after in words:
        if piece and len(piece) + len(word) + 3 > width:
            pieces.append(piece + sign)
            piece = f"    {word}"
        else:
            piece = f"{piece} {word}" if piece else word
        sign = sign_after
    return [*pieces, piece]

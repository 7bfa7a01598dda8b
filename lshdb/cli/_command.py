"""The class of every command: how arguments are read, and the options that all have.

Every command takes ``-q`` and ``-v``; a listing takes ``--json`` for ``--format jsonl``. Every
command refuses an option that is given twice, unless the option takes several values: click
silently takes the last, and ``--key-field url --key-field id`` would take other keys than you asked
for.

Decided: the environment variable ``LSHDB_INDEX`` stands for INDEX where INDEX is left out, and a
command line that names an index never means another one. So the first argument is INDEX if there
are enough arguments for that and it is an index, or is called ``*.lshdb``. Where other arguments
may be one or several, a first argument that is no input either is refused instead of guessed at.
``remove`` and commands with two indexes do not look at the variable.
"""

from __future__ import annotations

import functools
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lshdb.cli._help import OUTPUT, Context, Option, option, write_help, write_short_help
from lshdb.cli._output import be_quiet, note, say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "SHARED_OPTIONS",
    "Argument",
    "Command",
    "IndexArgument",
    "complete_files",
    "complete_folders",
    "index_argument",
    "is_index",
    "is_input",
    "is_part_of_index",
    "option",
    "options",
]

Function = TypeVar("Function", bound=Callable[..., Any])

_VARIABLE = "LSHDB_INDEX"
_SUFFIX = ".lshdb"


class Command(click.Command):
    """A command with the shared options.

    Parameters
    ----------
    short : str
        Names of the options that ``-h`` shows, in that order; by default those of the command's
        own group.
    see : str
        What to do next or before, a sentence of ``-h``.
    """

    context_class = Context

    def __init__(self, *args: Any, short: str = "", see: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_help_option = False
        self.params += [*SHARED_OPTIONS, *_HELP_OPTIONS]
        self.short, self.see = short, see

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the arguments, the options that must be given, and the mark of the others."""
        first, *arguments = super().collect_usage_pieces(ctx)
        required = [
            f"{max(param.opts, key=len)} {param.make_metavar(ctx)}"
            for param in self.params
            if isinstance(param, click.Option) and param.required
        ]
        return [*arguments, *required, first]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the whole help."""
        write_help(self, ctx, formatter)

    def make_parser(self, ctx: click.Context) -> Any:  # click's class for it has had two names
        parser: Any = super().make_parser(ctx)
        parser.parse_args = functools.partial(self._parse, ctx, parser.parse_args)
        return parser

    def _parse(self, ctx: click.Context, parse: Callable[[list[str]], Any], args: list[str]) -> Any:
        """Parse arguments; put INDEX in where it is left out, and refuse likely mistakes."""
        if ctx.resilient_parsing:  # a word is completed, and the line is not whole yet
            # Without its last option, whose value is being typed, arguments are read, too.
            return parse(args[:-1] if args and args[-1].startswith("-") else [*args])
        _refuse_single_dash(ctx, args)
        try:
            values, extra, order = parse([*args])
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        words: list[str] = []
        is_without_index = bool(values.get("searched"))  # --in FILE
        if arguments and isinstance(arguments[0], IndexArgument) and not is_without_index:
            words = [*_flat(values.get(str(argument.name)) for argument in arguments), *extra]
            index = os.environ.get(_VARIABLE)
            if index and not _is_index_named(words, arguments[1:], ctx):
                words = [os.path.join(".", index) if index.startswith("-") else index, *words]
                values, extra, order = parse([words[0], *args])
        _refuse_repeated(ctx, order)
        _refuse_unusable(ctx, values)
        if values.pop("as_json", False) is True:
            if values.get("output_format", "jsonl") != "jsonl":
                raise click.UsageError("--json is --format jsonl; give one of the two", ctx)
            values["output_format"] = "jsonl"
        _refuse_overwritten(ctx, values, extra)
        if self.name not in ("dedup", "copy", "reindex", "pairs", "clusters"):  # they say more
            _refuse_index_later(ctx, words)
        return values, extra, order


_TEXTS = ("text", "key", "key1", "key2")
_PATHS = ("path", "paths", "files")


def _refuse_unusable(ctx: click.Context, values: dict[str, Any]) -> None:
    """Raise UsageError for an index without a name, and for texts that are not UTF-8."""
    for param in ctx.command.params:
        value = values.get(str(param.name))
        given = value if isinstance(value, tuple | list) else (value,)
        if "" in given and (isinstance(param, IndexArgument) or param.name in _PATHS):
            what = "the index" if isinstance(param, IndexArgument) else "a path"
            raise click.UsageError(f"{what} has no name; is a variable of the shell empty?", ctx)
        if param.name in _TEXTS and isinstance(value, str) and not _is_utf8(value):
            is_option = isinstance(param, click.Option)
            name = (
                max(param.opts, key=len)
                if is_option
                else f"the argument {str(param.metavar).strip('[]')}"
            )
            raise click.UsageError(
                f"{name} is not valid UTF-8; is the terminal set to another encoding?", ctx
            )


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


class Argument(click.Argument):
    """An argument whose purpose stands in the error message if it is missing.

    Attributes
    ----------
    missing : str
        What belongs there, for the error message.
    """

    def __init__(self, *args: Any, missing: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.missing = missing


class IndexArgument(Argument):
    """INDEX; ``LSHDB_INDEX`` replaces it if it is left out."""


def _complete(
    kind: str, _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete an argument itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type=kind)]


complete_files = functools.partial(_complete, "file")
complete_folders = functools.partial(_complete, "dir")
"""How the shell completes an argument: by the names of files, or of folders."""


index_argument = click.argument(
    "index_path",
    metavar="INDEX",
    cls=IndexArgument,
    missing="the folder of an index, such as news.lshdb",
    shell_complete=complete_folders,
)


def options(
    *decorators: Callable[[Any], Any], title: str = "", without: Collection[str] = ()
) -> Callable[[Function], Function]:
    """Return a decorator that adds these options, except those with certain value names.

    They belong to the group with this title, unless it is empty.
    """

    def add(function: Function) -> Function:
        before = len(getattr(function, "__click_params__", ()))
        for decorator in reversed(decorators):
            function = decorator(function)
        params = function.__click_params__  # type: ignore[attr-defined]
        params[before:] = [param for param in params[before:] if param.name not in without]
        if title:
            for param in params[before:]:
                param.group = title
        return function

    return add


def is_index(path: str) -> bool:
    """Return whether a first argument is an index: it exists as one, or ends in ``.lshdb``."""
    return path.endswith(_SUFFIX) or os.path.exists(_described(path))


def is_part_of_index(path: str) -> bool:
    """Return whether a path is a file of an index, or an index that has lost its description."""
    names = os.listdir(path) if os.path.isdir(path) else []
    if "lock" in names and any(name.startswith(("signatures", "index.db")) for name in names):
        return True
    return os.path.lexists(path) and any(
        os.path.isfile(_described(str(parent))) for parent in Path(path).parents
    )


def _described(path: str) -> str:
    """Return the path of the file that describes an index."""
    return os.path.join(path, "index.toml")


def _is_index_named(
    words: Sequence[str], arguments: Sequence[click.Argument], ctx: click.Context
) -> bool:
    """Return whether the first argument is INDEX."""
    least = sum(argument.required for argument in arguments)
    most = sum(math.inf if argument.nargs < 0 else argument.nargs for argument in arguments)
    if len(words) > most:
        return True
    if not words:
        return False
    first = words[0]
    if is_index(first):
        return True
    if len(words) <= least:
        return False
    if any(argument.nargs < 0 for argument in arguments) and not is_input(first):
        raise click.UsageError(
            f"{first} is neither an index nor there as a file, and {_VARIABLE} is set, so it is "
            f"unclear what it stands for: name an index that is there, or *{_SUFFIX}, or unset "
            f"{_VARIABLE}",
            ctx,
        )
    # An empty folder is one to make an index in.
    return math.isinf(most) and os.path.isdir(first) and not os.listdir(first)


def is_input(path: str) -> bool:
    """Return whether a path can be an input: something lies there, or it stands for several."""
    return path == "-" or os.path.lexists(path) or "://" in path or any(c in path for c in "*?[")


def _flat(values: Iterable[Any]) -> list[str]:
    """Return the strings among values and tuples; skip click's marks for absent values."""
    strings: list[str] = []
    for value in values:
        if isinstance(value, tuple | list):
            strings += _flat(value)
        elif isinstance(value, str):
            strings.append(value)
    return strings


def _refuse_repeated(ctx: click.Context, order: list[click.Parameter]) -> None:
    """Raise UsageError if an option with one value was given two; a flag may come twice.

    Parameters
    ----------
    order : list of click.Parameter
        The parameters given, each as often as it was given.
    """
    for param, count in Counter(order).items():
        if not isinstance(param, click.Option) or count == 1:
            continue
        if not (param.multiple or param.count or param.is_flag):
            name = max(param.opts, key=len)
            raise click.UsageError(f"{name} is given {count} times, and takes one value", ctx)


def _refuse_index_later(ctx: click.Context, words: Sequence[str]) -> None:
    """Raise UsageError if a later argument is an index, and the first is not."""
    for index in words[1:]:
        if os.path.exists(_described(index)) and not is_index(words[0]):
            import shlex

            rest = [word for word in words if word != index]
            raise click.UsageError(
                f"{index} is the index, and it comes first: "
                f"{ctx.command_path} {shlex.join([index, *rest])}",
                ctx,
            )


def _refuse_single_dash(ctx: click.Context, args: list[str]) -> None:
    """Raise UsageError for an option of several letters after a single dash."""
    options = {option for param in ctx.command.params for option in param.opts}
    before = ""
    for arg in args:
        name = f"-{arg.partition('=')[0]}"
        is_value = before.startswith("-")
        if arg.startswith("-") and len(name) > 3 and name in options and not is_value:
            raise click.UsageError(f"{arg} begins with one dash, and takes two: -{arg}", ctx)
        before = arg


def _refuse_overwritten(ctx: click.Context, values: dict[str, Any], extra: list[str]) -> None:
    """Raise UsageError if a listing is to replace a file that another argument names."""
    for name in ("output", "decisions"):
        path = values.get(name)
        if not isinstance(path, str) or not os.path.isfile(path):
            continue
        arguments = [value for key, value in values.items() if key != name]
        for named in (*_flat(arguments), *extra):
            if os.path.isfile(named) and os.path.samefile(named, path):
                raise click.UsageError(f"{path} is an input; name another file to write", ctx)


# What the shared options do


def _be_verbose(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    if not is_set:
        return
    import logging

    class LogNotes(logging.Handler):
        """Log records as notes."""

        def emit(self, record: logging.LogRecord) -> None:
            note(f"log: {record.getMessage()}")

    logger, handler = logging.getLogger("lshdb"), LogNotes()
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(level)

    ctx.call_on_close(end)


def _show_short_help(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    if is_set and not ctx.resilient_parsing and isinstance(ctx.command, Command):
        formatter = ctx.make_formatter()
        write_short_help(ctx.command, ctx, formatter, ctx.command.short, ctx.command.see)
        say(formatter.getvalue().rstrip("\n"))
        ctx.exit()


def _show_help(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    if is_set and not ctx.resilient_parsing:
        say(ctx.get_help())
        ctx.exit()


_FLAG: dict[str, Any] = {"is_flag": True, "expose_value": False, "group": OUTPUT}
SHARED_OPTIONS = [
    Option(
        ["-q", "--quiet"], callback=be_quiet, help="Say nothing but errors and rejections.", **_FLAG
    ),
    Option(
        ["-v", "--verbose"],
        callback=_be_verbose,
        help="Write the library's log to standard error.",
        **_FLAG,
    ),
]
"""The options that all commands have, and the group of them."""

_HELP_OPTIONS = [
    Option(
        ["-h", "short_help"],
        callback=_show_short_help,
        is_eager=True,
        help="Show the most used options.",
        **_FLAG,
    ),
    Option(["--help"], callback=_show_help, is_eager=True, help="Show all options.", **_FLAG),
]

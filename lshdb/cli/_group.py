"""The command line: one file per command, and each command is one public method of ``Index``.

Decided: a module is imported by name when its command runs, so that ``lshdb query`` starts
without what ``add`` or ``demo`` need. rich is imported only where a table or a progress bar is
drawn. Data goes to standard output, everything else to standard error; ``_errors.py`` lists the
exit codes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from lshdb.arrays import load_numpy
from lshdb.cli._command import SHARED_OPTIONS, is_index
from lshdb.cli._errors import errors_as_messages
from lshdb.cli._help import Context
from lshdb.cli._output import say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["cli", "run"]

GROUPS = {
    "Start": {
        "add": "Add documents to an index; make it if there is none.",
        "query": "Find the documents most similar to a text or a key.",
        "pairs": "List all near-duplicate pairs.",
        "clusters": "List groups of near-duplicates.",
        "dedup": "Decide which documents to keep, or write files anew.",
        "demo": "Try it on Python's standard library.",
    },
    "Understand": {
        "explain": "Explain how similar two documents are, and why.",
        "show": "Show a document with everything stored about it.",
        "stats": "Show parameters, counts and sizes.",
        "recall": "Measure which share of the pairs is found.",
        "tune": "Show which threshold to take, what it finds and what it costs.",
        "report": "Write pages to open in a browser.",
        "serve": "Show an index in a browser, and answer over HTTP.",
        "plot": "Draw an index as a picture.",
        "guide": "Read a page of the documentation.",
    },
    "Every night": {
        "cursors": "List how far each reader of new pairs has come.",
        "batches": "List what was added and when.",
        "expire": "Remove documents that have not been seen for long.",
        "remove": "Remove documents by key.",
        "check": "Compare everything on disk with what was written.",
        "compact": "Free the space of removed documents.",
    },
    "Move and change": {
        "copy": "Copy an index while others write to it.",
        "merge": "Copy the documents of other indexes into one.",
        "join": "List near-duplicate pairs across two indexes.",
        "export": "Write an index to files in open formats.",
        "import": "Make an index from an export.",
        "reindex": "Make another index from the stored texts.",
        "reband": "Change threshold, recall or bands.",
        "upgrade": "Bring an older index up to date.",
    },
    "Special": {
        "sql": "Run a SELECT of your own.",
        "neighbors": "List for every document its most similar ones.",
        "contract": "Fold a graph by the clusters of its nodes.",
        "init": "Make an empty index.",
        "spark": "Ask about a dataset on Apache Spark.",
    },
}
"""Every command with its one line of help, in the groups and the order in which help lists them.

The module of the same name holds it. The line stands here, so that ``lshdb --help`` imports none.
"""

COMMANDS = {name: line for group in GROUPS.values() for name, line in group.items()}
"""Every command with its line."""

_BEGIN = {
    "lshdb demo": "see it work",
    "lshdb dedup data/ --output clean/": "clean a dataset, without an index",
    "lshdb add news.lshdb news.jsonl": "make an index, or add to it",
    "lshdb pairs news.lshdb": "list what is alike in it",
}
"""Commands to begin with, and what they do."""

_BEGIN_COLUMNS = 36

_MEANT = {
    "version": "lshdb --version",
    "man": "guide", "docs": "guide",
    "create": "init or add", "new": "init or add", "make": "init or add", "build": "add",
    "index": "add", "insert": "add", "load": "add", "ingest": "add", "update": "add",
    "search": "query", "find": "query", "lookup": "query", "similar": "query",
    "delete": "remove", "rm": "remove", "del": "remove", "drop": "remove",
    "get": "show", "view": "show", "cat": "show", "keys": "sql",
    "passages": "add --passages, then pairs --by document",
    "list": "pairs, clusters or batches", "ls": "pairs, clusters or batches",
    "duplicates": "pairs", "dups": "pairs", "dupes": "pairs", "near-duplicates": "pairs",
    "groups": "clusters", "uniq": "dedup", "unique": "dedup", "nn": "neighbors",
    "knn": "neighbors", "neighbours": "neighbors",
    "info": "stats", "status": "stats", "count": "stats", "size": "stats",
    "diff": "explain", "compare": "explain", "why": "explain",
    "verify": "check", "repair": "check --repair", "doctor": "check", "fsck": "check",
    "vacuum": "compact", "optimize": "compact", "gc": "compact", "rebuild": "reindex",
    "backup": "copy", "clone": "copy", "cp": "copy", "dump": "export", "restore": "import",
    "server": "serve", "web": "serve", "ui": "serve", "browse": "serve",
    "history": "batches", "log": "batches", "migrate": "upgrade", "threshold": "tune",
}  # fmt: skip
"""Words that people try, and what they mean."""

_WITHOUT_ARRAYS = {"query"}
"""Commands that may end without NumPy; others load it here, where a signal ends the process."""


class LazyGroup(click.Group):
    """Commands that are imported by name; every error they raise becomes a message."""

    context_class = Context

    importing: Callable[[], AbstractContextManager[None]] = staticmethod(contextlib.nullcontext)
    """Gives the context in which a command's module is imported."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all commands in their groups."""
        formatter.write_usage(ctx.command_path, "COMMAND [OPTIONS]")
        self.format_help_text(ctx, formatter)
        names = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{names}}", line) for name, line in commands.items()])
        with formatter.section("Begin with"):
            formatter.write_dl(list(_BEGIN.items()), col_max=_BEGIN_COLUMNS)
        click.Command.format_options(self, ctx, formatter)
        self.format_epilog(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with self.importing():
            command = importlib.import_module(f"lshdb.cli.{cmd_name}").command
            if "lshdb.index" in sys.modules and cmd_name not in _WITHOUT_ARRAYS:
                load_numpy()
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == "help" and not ctx.resilient_parsing:
            if not args[1:] or args[1].startswith("-"):
                say(ctx.get_help())
                ctx.exit()
            args = [args[1], "--help"]
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            later = next((arg for arg in args[1:] if arg in COMMANDS), None)
            if later is not None and os.path.exists(args[0]):
                raise click.UsageError(
                    f"{args[0]} is no command, and the command comes first: lshdb {later} "
                    f"{args[0]}",
                    ctx,
                )
            if os.path.exists(args[0]):
                raise click.UsageError(
                    f"{args[0]} is no command; a command comes first, as in lshdb "
                    + (f"stats {args[0]}" if is_index(args[0]) else f"add INDEX {args[0]}"),
                    ctx,
                )
            meant = _MEANT.get(args[0].lower(), "")
            if not meant:
                near = difflib.get_close_matches(args[0].lower(), COMMANDS, n=3)
                near = near or difflib.get_close_matches(args[0].lower(), _MEANT, n=1)
                meant = " or ".join(dict.fromkeys(_MEANT.get(name, name) for name in near))
            hint = f"; did you mean {meant}?" if meant else ""
            raise click.UsageError(f"no such command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, without importing any."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name]) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with errors_as_messages():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with errors_as_messages():
            return super().invoke(ctx)


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_set: bool) -> None:
    if is_set:
        from lshdb import __version__, kernel_name
        from lshdb.params.index_params import FORMAT

        say(f"lshdb {__version__}, format {FORMAT}, kernel {kernel_name()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    params=[*SHARED_OPTIONS],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="lshdb COMMAND -h shows the most used options of a command, and --help all. "
    "LSHDB_INDEX in the environment names the index where INDEX is left out. Exit codes: 0 done, "
    "1 refused, 2 mistyped, 3 locked, 4 damaged, 5 done but some input was rejected, 6 done but "
    "recall is lower than promised, 130 stopped by Ctrl-C, 141 the reader of the output closed "
    "it, 143 stopped by SIGTERM; see lshdb guide output.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, the format of an index, and whether the compiled kernel is in use.",
)
def cli() -> None:
    """Keep a near-duplicate index on disk: add documents, find the similar ones."""


def run(importing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext) -> int:
    """Run the command line with the arguments of the process; return the exit code.

    Parameters
    ----------
    importing : callable
        Gives the context in which the command's module is imported.
    """
    LazyGroup.importing = staticmethod(importing)
    program = None
    if os.path.basename(sys.argv[0]) == "cli.py":
        program = f"python {sys.argv[0]}"
    try:
        code = cli.main(prog_name=program, standalone_mode=False)
    except click.exceptions.Abort as error:  # click's form of a Ctrl-C outside of a command
        raise error.__cause__ or KeyboardInterrupt from None
    except click.ClickException as error:  # the help, if there are no arguments
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0

"""The command line: one file per command, and each command is one public method of ``Index``.

Decided: a module is imported by name when its command runs, so that ``lshdb query`` starts
without what ``add`` or ``demo`` need. rich is imported only where a table or a progress bar is
drawn. Data goes to standard output, everything else to standard error; ``_errors.py`` lists the
exit codes.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from lshdb import __version__, kernel_name
from lshdb.cli._errors import errors_as_messages
from lshdb.cli._output import say

__all__ = ["cli", "run"]

COMMANDS = (
    "init",
    "tune",
    "add",
    "remove",
    "expire",
    "query",
    "pairs",
    "clusters",
    "dedup",
    "neighbors",
    "join",
    "explain",
    "contract",
    "show",
    "stats",
    "batches",
    "sql",
    "check",
    "compact",
    "reband",
    "copy",
    "merge",
    "reindex",
    "export",
    "import",
    "upgrade",
    "demo",
)
"""Every command, in the order of the help; each lives in the module of the same name."""


class LazyGroup(click.Group):
    """Commands that are imported by name; every error they raise becomes a message."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"lshdb.cli.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

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


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        say(f"lshdb {__version__}, kernel {kernel_name()}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 refused, 2 usage, 3 locked, 4 damaged, 5 done but some input was "
    "rejected.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and whether the compiled kernel is in use.",
)
def cli() -> None:
    """Keep a near-duplicate index on disk: add documents, find the similar ones."""


def run() -> int:
    """Run the command line with the arguments of the process; return the exit code."""
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

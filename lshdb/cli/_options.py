"""Options and arguments that several commands share, so that they mean the same everywhere.

Whether a value makes sense is the library's to say (``ParameterError``, exit code 2); here is only
what can be said without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lshdb.cli._output import FORMATS

__all__ = [
    "index_argument",
    "input_options",
    "listing_options",
    "lock_option",
    "search_options",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def _seconds(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
    """Check a number of seconds: from 0 on, ``inf`` for ever."""
    if not value >= 0:
        raise click.BadParameter(f"{value:g} is no number of seconds from 0 on")
    return value


def index_argument(function: Function) -> Function:
    """The argument INDEX."""
    return click.argument("index_path", metavar="INDEX")(function)


def listing_options(function: Function) -> Function:
    """The form in which a listing is written."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        help="How the output is written.  [default: table on a terminal, tsv otherwise]",
    )(function)


def lock_option(function: Function) -> Function:
    """How long another writer is waited for."""
    return click.option(
        "--lock-timeout",
        type=float,
        callback=_seconds,
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait while another process writes to the index.",
    )(function)


def search_options(function: Function) -> Function:
    """What counts as similar, and how it is checked."""
    threshold = click.option(
        "--threshold",
        type=float,
        metavar="T",
        help="Lowest similarity, above 0 and up to 1.  [default: the index's]",
    )
    verify = click.option(
        "--verify",
        type=click.Choice(["none", "signature", "exact"]),
        help="How candidates are checked.  [default: exact where texts are stored, else signature]",
    )
    return threshold(verify(function))


def input_options(function: Function) -> Function:
    """How input is read."""
    key_field = click.option(
        "--key-field",
        default="id",
        show_default=True,
        metavar="NAME",
        help="Field or column that holds a document's key.",
    )
    text_field = click.option(
        "--text-field",
        default="text",
        show_default=True,
        metavar="NAME",
        help="Field or column that holds its text.",
    )
    input_format = click.option(
        "--input",
        "input_format",
        type=click.Choice(["auto", "jsonl", "csv", "tsv", "text"]),
        default="auto",
        show_default=True,
        help="Format of the input; auto goes by the names of the files.",
    )
    return key_field(text_field(input_format(function)))

"""The options that describe a new index: one for each field of ``CreateOptions``.

Only commands that can make an index import this module: making thirty options takes longer than a
query.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any, TypeVar, get_args

import click

from lshdb.arguments import Digits
from lshdb.cli._command import option, options
from lshdb.cli._words import UNIT_NAMES
from lshdb.params.metrics import DTYPES, METRICS, SCHEMES
from lshdb.params.options import CreateOptions

__all__ = [
    "creation_options",
    "creation_options_as_before",
    "database_options",
    "given_parameters",
]

_A_DEFAULT = re.compile(r"\s*\[default[^\]]*\]")

_STOP_TOKEN_BYTES = 2**20
"""The largest list of stop tokens; it becomes a parameter of the index."""


Function = TypeVar("Function", bound=Callable[..., Any])


class _TokenFile(click.Path):
    """A file of tokens, separated by white space."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = os.fsdecode(super().convert(value, param, ctx))
        with open(path, "rb") as file:
            content = file.read(_STOP_TOKEN_BYTES + 1)
        if len(content) > _STOP_TOKEN_BYTES:
            raise click.BadParameter(f"{path} has more than {_STOP_TOKEN_BYTES:,} bytes")
        try:
            return content.decode("utf-8").split()
        except UnicodeDecodeError as error:
            raise click.BadParameter(
                f"{path} is not valid UTF-8 at byte {error.start + 1}"
            ) from error


def _stop_words(place: str) -> list[str]:
    """Return the words of a file, or of the published list of a language."""
    if os.path.isfile(place):
        words: list[str] = _TokenFile().convert(place, None, None)
        return words
    if os.path.exists(place) or not (place.isascii() and place.isalpha()):
        raise click.BadParameter(f"{place} is neither a file nor a language such as en")
    from lshdb import published_stop_words

    return published_stop_words(place)


database_options = options(
    option(
        "--database",
        metavar="URL",
        help="Location of the database, if not in the index: sqlite:///PATH or "
        "postgresql+psycopg://HOST/NAME (without a password).",
    ),
    option(
        "--schema",
        metavar="NAME",
        help="Schema of the index in a Postgres database.  [default: the name of its directory]",
    ),
)

_CHOICES: dict[str, list[str]] = {
    "metric": list(METRICS),
    "scheme": list(SCHEMES),
    "dtype": list(DTYPES),
    "unit": list(UNIT_NAMES),
    "digits": list(get_args(Digits)),
}
_NUMBERS = {"float": float, "int": int}
_FLAGS: dict[str, tuple[str, ...]] = {
    "lowercase": ("--lowercase/--keep-case",),
    "store_text": ("--no-text", "--no-vectors", "no_text"),
}
"""Flags that are not named as their field is."""


def _creation_option(field: Field[Any]) -> Callable[[Function], Function]:
    """Return the option for a field of ``CreateOptions``.

    It has no default of its own: the library chooses values that are not given, and only given
    values are compared with an existing index.
    """
    name, kind = field.name, str(field.type).removesuffix(" | None")
    how: dict[str, Any] = {"help": field.metadata["help"], "metavar": field.metadata["metavar"]}
    names: tuple[str, ...] = ("--" + name.replace("_", "-"),)
    if name in _CHOICES:
        how["type"] = click.Choice(_CHOICES[name])
    elif name == "stop_tokens":
        how["type"] = _TokenFile(exists=True, dir_okay=False)
    elif name == "stop_words":
        how["type"] = _stop_words
    elif kind == "bool":
        names = _FLAGS.get(name, names)
        how["default"] = None
        if "/" not in names[0]:
            how["is_flag"] = True
    else:
        how["type"] = _NUMBERS.get(kind, str)
    return option(*names, **how)


creation_options = options(
    *map(_creation_option, fields(CreateOptions)), database_options, title="New index"
)
"""The options that create an index; see ``given_parameters``."""


def creation_options_as_before(function: Function) -> Function:
    """Add the same options for an index that is made of another, whose values are the defaults."""
    before = len(getattr(function, "__click_params__", ()))
    function = creation_options(function)
    for param in function.__click_params__[before:]:  # type: ignore[attr-defined]
        if param.name not in ("database", "schema"):
            param.help = _A_DEFAULT.sub("", param.help or "")
    return function


def given_parameters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the creation options that were given, by their names in ``Index.create``."""
    parameters = {name: value for name, value in options.items() if value is not None}
    if parameters.pop("no_text", False):
        parameters["store_text"] = False
    return parameters

"""What every command does beyond click's: an option is given once, unless it takes several values.

click takes the last of several values without a word, so that ``--text-field title --text-field
body`` would index half of what was asked for.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

__all__ = ["Command"]


class Command(click.Command):
    """A command that refuses a second value of an option that has one."""

    def make_parser(self, ctx: click.Context) -> Any:  # click's class for it has had two names
        parser: Any = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            found = parse(args)
            _refuse_repeated(ctx, found[-1])
            return found

        parser.parse_args = parse_once
        return parser


def _refuse_repeated(ctx: click.Context, order: list[click.Parameter]) -> None:
    """Raise UsageError where an option with one value was given two; a flag may come twice.

    Parameters
    ----------
    order : list of click.Parameter
        What was given, as often as it was.
    """
    for param, count in Counter(order).items():
        if not isinstance(param, click.Option) or count == 1:
            continue
        if not (param.multiple or param.count or param.is_flag):
            name = max(param.opts, key=len)
            raise click.UsageError(f"{name} is given {count} times, and takes one value", ctx)

"""Messages for a command line that click refuses: what it got, and what it expected.

click says "'ten' is not a valid integer range", and names no argument by what it is for. A file of
its own, because ``_errors.py`` has the exit codes of all errors, and this the words for one kind.
"""

from __future__ import annotations

import os
import re

import click

from lshdb.errors import ParameterError

__all__ = ["parameter_message", "usage_message"]

_REFUSED = re.compile(r"'(?P<value>.*)' is not (?:a valid|one of) ", re.DOTALL)
_NUMBERS = (click.types.IntParamType, click.types.FloatParamType)


def parameter_message(error: ParameterError) -> tuple[str, str]:
    """Return the message for a value that the library refuses, and the hint.

    It names the option, as it was typed, where the library names its parameter.
    """
    message, hint = error.message, error.hint or ""
    ctx = click.get_current_context(silent=True)
    name = None if ctx is None else ctx.invoked_subcommand
    if ctx is None or name is None or not isinstance(ctx.command, click.Group):
        return message, hint
    command = ctx.command.get_command(ctx, name)
    for param in [] if command is None else command.params:
        if message.startswith((f"{param.name} is ", f"{param.name} holds ")):
            is_option = isinstance(param, click.Option)
            typed = max(param.opts, key=len) if is_option else param.human_readable_name
            message = f"{typed}{message.removeprefix(str(param.name))}"
            break
    return message, hint or f"see {ctx.command_path} {name} --help"


def usage_message(error: click.UsageError) -> tuple[str, str]:
    """Return the message for a usage error, and the hint."""
    ctx = error.ctx
    where = ctx.command_path if ctx else "lshdb"
    see = f"see {where} --help"
    param = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and isinstance(param, click.Option):
        what = re.split(r"[.;] |[.]$", param.help or "")[0]
        return (
            f"missing option {'/'.join(param.opts)} {param.metavar}: {what[:1].lower()}{what[1:]}",
            see,
        )
    if isinstance(error, click.MissingParameter) and isinstance(param, click.Argument) and ctx:
        return _missing_argument(ctx, param), f"{_usage(ctx)}; {see}"
    if isinstance(error, click.BadOptionUsage) and ctx and "requires" in error.message:
        option = next(param for param in ctx.command.params if error.option_name in param.opts)
        values = "a value" if option.nargs == 1 else f"{option.nargs} values"
        takes = f"{error.option_name} takes {values}"
        return f"{takes}: {error.option_name} {option.make_metavar(ctx)}", see
    if isinstance(error, click.BadParameter) and param is not None:
        message = _wrong_value(param, error.message)
        if message is not None:
            is_argument = isinstance(param, click.Argument) and ctx
            return message, f"{_usage(ctx)}; {see}" if is_argument and ctx else see
        if isinstance(param, click.Option):
            return f"{max(param.opts, key=len)}: {error.message.removesuffix('.')}", see
    if ctx and isinstance(error, click.NoSuchOption) and error.possibilities:
        meant = " or ".join(sorted(error.possibilities)[:3])
        return f"no such option {error.option_name}; did you mean {meant}?", see
    said = error.format_message().removesuffix(".")
    if ctx and isinstance(error, click.NoSuchOption) and isinstance(ctx.command, click.Group):
        return f"{said[:1].lower()}{said[1:]}; the options of a command come after it", see
    if ctx and isinstance(error, click.NoSuchOption) and len(error.option_name) == 2:
        return f"no such option {error.option_name}{_options_like(ctx, error.option_name)}", see
    hint = see
    if ctx and (extra := re.search(r"unexpected extra arguments? \((.*)\)", said)):
        hint = f"{_usage(ctx)}; {see}"
        if re.fullmatch(r"[01]?\.\d+", extra[1]) and any(
            param.name == "threshold" for param in ctx.command.params
        ):
            hint = f"a threshold is given as --threshold {extra[1]}; {see}"
    return said[:1].lower() + said[1:], hint


def _usage(ctx: click.Context) -> str:
    """Return the arguments of a command, as its help begins, and the options that it needs."""
    pieces = [piece for piece in ctx.command.collect_usage_pieces(ctx) if piece != "[OPTIONS]"]
    return " ".join([ctx.command_path, *pieces])


def _options_like(ctx: click.Context, short: str) -> str:
    """Return the options that a mistyped short one may mean."""
    options = [option for param in ctx.command.params for option in param.opts]
    meant = sorted(option for option in options if option.startswith(f"-{short}"))
    return f"; did you mean {', '.join(meant[:4])}?" if meant else ""


def _missing_argument(ctx: click.Context, param: click.Argument) -> str:
    name = param.make_metavar(ctx)
    index = ctx.params.get("index_path")
    if isinstance(index, str) and os.path.isfile(index):
        stem = os.path.basename(index).partition(".")[0]
        return f"{index} is a file, and INDEX comes first: {ctx.command_path} {stem}.lshdb {index}"
    what = getattr(param, "missing", "")
    return f"missing argument {name}" + (f": {what}" if what else "")


def _wrong_value(param: click.Parameter, message: str) -> str | None:
    """Return the fault of a number's or choice's value; None for other types."""
    kind = param.type
    name = (
        max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
    )
    refused = _REFUSED.match(message)
    if isinstance(kind, click.Choice) and refused:
        value = refused["value"]
        import difflib

        near = difflib.get_close_matches(value.lower(), [*map(str, kind.choices)], n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        return f"{name} is {value!r}; expected one of {', '.join(map(str, kind.choices))}{meant}"
    if not isinstance(kind, _NUMBERS):
        return None
    whole = "whole " if isinstance(kind, click.types.IntParamType) else ""
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    unit = " of MiB" if param.metavar == "MIB" else ""
    expected = f"a {whole}number{unit}" + ("" if least is None else f" from {least} on")
    if most is not None:
        expected = f"a {whole}number from {least} to {most}"
    if refused:
        return f"{name} is {refused['value']!r}; expected {expected}{_number_meant(refused, whole)}"
    outside = re.match(r"(\S+) is not in the range", message)
    return f"{name} is {outside[1]}; expected {expected}" if outside else None


def _number_meant(refused: re.Match[str], whole: str) -> str:
    """Return the number that an unusual spelling may mean."""
    value = refused["value"].strip()
    if percent := re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", value):
        return f"; {percent[1]} % is {float(percent[1]) / 100:g}"
    if re.fullmatch(r"\d{1,3}(?:[,_ ]\d{3})+", value) and whole:
        return f"; write {re.sub('[,_ ]', '', value)}"
    if re.fullmatch(r"-?\d*,\d+", value) and not whole:
        return f"; write {value.replace(',', '.')}, with a point"
    return ""

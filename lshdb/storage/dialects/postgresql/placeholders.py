"""Parameters in a statement of the user's own: ``?``, ``?2`` and ``:name``, as on SQLite.

The same statement runs on both databases, and the server wants ``$1``. What looks like a parameter
inside a text, a quoted name or a comment is none; that is all that is known of the language here.
A statement that is wrong is left to the server, which says so.

Decided, where the two languages have one sign for two things:

* ``:name`` is a parameter if one of that name is given; so in a slice ``a[lo:hi]`` it is none as
  long as no parameter is called ``hi``.
* ``?|``, ``?&`` and ``@?`` are operators on JSON, and so is ``?`` itself if no values are given in
  order. If some are, it is a parameter, and ``??`` stands for the operator.

A file of its own: it knows no connection, and is tested without one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["numbered_parameters"]

_COMMENTS_DEEP = 4
"""Comments in comments are known to this depth."""


def _comment(depth: int) -> str:
    inner = rf"|{_comment(depth - 1)}" if depth else ""
    return rf"/\*(?:(?!/\*|\*/).{inner})*(?:\*/|\Z)"


_TOKEN = re.compile(
    rf"""
      --[^\n]* | {_comment(_COMMENTS_DEEP)}
    | [eE]'(?:[^'\\]|''|\\.)*'?             # a text in which a backslash means something
    | '(?:[^']|'')*'? | "(?:[^"]|"")*"?     # any other text, a quoted name
    | \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? (?:\$(?P=tag)\$|\Z)
    | [^\W\d][\w$]*                         # a name or a word
    | :: | @\? | \?& | \?\|(?!\|)
    | (?P<operator> \?\? )
    | \?(?P<number>\d*)
    | :(?P<name>[^\W\d]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def numbered_parameters(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> tuple[str, list[Any]]:
    """Return a statement with ``$1`` for its parameters, and their values in that order.

    Raises
    ------
    ValueError
        There are more or fewer parameters than values in order.
    """
    named = parameters if isinstance(parameters, Mapping) else {}
    given = () if isinstance(parameters, Mapping) else parameters
    highest = 0
    values: list[Any] = []
    places: dict[int | str, int] = {}

    def placed(found: re.Match[str]) -> str:
        nonlocal highest
        name: int | str
        if found["name"] in named:
            name, value = found["name"], named[found["name"]]
        elif found["number"] is not None and given:
            name = int(found["number"] or highest + 1)
            highest = max(highest, name)
            if not 1 <= name <= len(given):
                raise ValueError(f"there is no parameter {name}; {len(given)} were given")
            value = given[name - 1]
        else:
            return "?" if found["operator"] and parameters else found[0]
        if name not in places:
            values.append(value)
            places[name] = len(values)
        start = found.start()
        is_after_word = statement[max(0, start - 1) : start].isalnum()
        return f" ${places[name]}" if is_after_word else f"${places[name]}"

    sql = _TOKEN.sub(placed, statement)
    if highest != len(given):
        raise ValueError(f"the statement has {highest} parameters; {len(given)} were given")
    return sql, values

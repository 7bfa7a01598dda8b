"""Parameters in a user's statement: ``?``, ``?2`` and ``:name``, as on SQLite.

The server wants ``$1``. So the statement is cut into tokens. What looks like a parameter inside a
text, a quoted name, a comment, a cast (``::``) or a slice of an array is not one.

Decided, where the two languages use one sign for two things:

* ``?|``, ``?&`` and ``@?`` are operators on JSON. So is ``?`` itself if no parameters are given; if
  some are, it is a parameter, and ``??`` stands for the operator. (``jsonb_exists`` is another name
  for it.) ``?||`` is a parameter and what follows it.
* Inside brackets a colon after a value is that of a slice: ``a[1:n]``. One right after the bracket
  begins a parameter if there is one of that name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["numbered_parameters"]

_TOKEN = re.compile(
    r"""
      (?P<remark> --[^\n]* | /\* )
    | (?P<blank> \s+ )
    | (?P<value>
          [eE]'(?:[^'\\]|''|\\.)*'?             # a text in which a backslash means something
        | (?:[uU]&)?'(?:[^']|'')*'?             # any other
        | (?:[uU]&)?"(?:[^"]|"")*"?             # a quoted name
        | \$(?P<tag>(?:[^\W\d]\w*)?)\$ .*? (?:\$(?P=tag)\$|\Z)
        | [^\W\d][\w$]*                         # a name or a word
        | \d[\w.]* )
    | (?P<operator> :: | := | @\? | \?\? | \?& | \?\|(?!\|) )
    | \?(?P<number>\d*)
    | :(?P<name>[^\W\d]\w*)
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_REMARK_END = re.compile(r"/\*|\*/")


def numbered_parameters(
    statement: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> tuple[str, list[Any]]:
    """Return a statement with ``$1`` for its parameters, and their values in that order.

    Raises
    ------
    ValueError
        A parameter is missing, or one is left over.
    """
    return _Placing(parameters).run(statement)


class _Placing:
    """One statement, from its beginning to its end."""

    def __init__(self, parameters: Sequence[Any] | Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._values: list[Any] = []
        self._places: dict[int | str, int] = {}
        self._highest = 0
        self._open: list[str] = []
        self._before = ""  # the last token except blanks and remarks: "value", or a sign

    def run(self, statement: str) -> tuple[str, list[Any]]:
        sql = []
        place = 0
        while found := _TOKEN.match(statement, place):
            place = found.end()
            if found["remark"] == "/*":
                place = _end_of_remark(statement, place)
                sql.append(statement[found.start() : place])
            else:
                sql.append(self._taken(found))
        parameters = self._parameters
        if not isinstance(parameters, Mapping) and self._highest != len(parameters):
            raise ValueError(
                f"the statement has {self._highest} parameters; {len(parameters)} were given"
            )
        return "".join(sql), self._values

    def _taken(self, found: re.Match[str]) -> str:
        kind, text = found.lastgroup, found[0]
        if kind in ("remark", "blank"):
            return text
        if kind == "name":
            text = self._named(found["name"])
        elif kind == "number":
            text = self._numbered(found["number"])
        elif text == "??" and self._parameters:
            text = "?"
        elif text in "([":
            self._open.append(text)
        elif text in ")]" and self._open:
            self._open.pop()
        is_value = kind in ("value", "tag", "name", "number") or text in ")]"
        self._before = "value" if is_value else text
        return text

    def _named(self, name: str) -> str:
        parameters = self._parameters
        is_inside = bool(self._open) and self._open[-1] == "["
        if is_inside and self._before == "value":
            return f":{name}"
        if isinstance(parameters, Mapping) and name in parameters:
            return self._placed(name, parameters[name])
        if is_inside and self._before == "[":
            return f":{name}"
        raise ValueError(f"the parameter :{name} was not given")

    def _numbered(self, given: str) -> str:
        parameters = self._parameters
        if isinstance(parameters, Mapping) or not parameters:
            return f"?{given}"
        number = int(given) if given else self._highest + 1
        self._highest = max(self._highest, number)
        if not 1 <= number <= len(parameters):
            raise ValueError(f"the parameter {number} was not given; {len(parameters)} were")
        return self._placed(number, parameters[number - 1])

    def _placed(self, name: int | str, value: Any) -> str:
        if name not in self._places:
            self._values.append(value)
            self._places[name] = len(self._values)
        return f"${self._places[name]}"


def _end_of_remark(statement: str, place: int) -> int:
    """Return where the remark ends that begins before this place; remarks may be nested."""
    depth = 1
    while depth:
        found = _REMARK_END.search(statement, place)
        if found is None:
            return len(statement)
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return place

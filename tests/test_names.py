"""Names say what they hold: the share of bindings that say nothing, room by room."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.test_architecture import modules, room_of

EMPTY = {
    "one", "some", "many", "few", "each", "both", "other", "others", "there", "found", "made",
    "given", "wanted", "held", "asked", "taken", "begun", "known", "seen", "kept", "done",
}  # fmt: skip
"""Pronouns, numbers and participles: ``hits``, ``edges`` or ``document`` say what is there."""

MOST = 0.01
"""The largest share of a room's names."""


def bindings(tree: ast.AST) -> Iterator[str]:
    """The names of variables and parameters that a module binds; Python names those of dunders."""
    if isinstance(tree, ast.FunctionDef) and tree.name.startswith("__"):
        children: list[ast.AST] = list(tree.body)
    else:
        children = list(ast.iter_child_nodes(tree))
    if isinstance(tree, ast.arg):
        yield tree.arg
    elif isinstance(tree, ast.Name) and isinstance(tree.ctx, ast.Store):
        yield tree.id
    for child in children:
        yield from bindings(child)


def shares() -> dict[str, float]:
    """Room to the share of its bindings that say nothing."""
    bound, empty = Counter[str](), Counter[str]()
    for path, tree in modules():
        names = list(bindings(tree))
        bound[room_of(path)] += len(names)
        empty[room_of(path)] += sum(name.strip("_") in EMPTY for name in names)
    return {room: empty[room] / count for room, count in bound.items() if count}


def test_variables_say_what_they_hold() -> None:
    too_many = {
        room: f"{share:.1%} of all names say nothing; at most {MOST:.0%} may"
        for room, share in shares().items()
        if share > MOST
    }
    assert not too_many


@pytest.mark.parametrize(
    "code",
    [
        "found = 1", "for one in rows: pass", "[some for some in rows]", "def f(given): pass",
        "def f(*, _held): pass", "lambda other: 0", "with a as made: pass", "if done := 1: pass",
        "class A:\n    kept: int",
    ],
)  # fmt: skip
def test_an_empty_name_is_seen_wherever_it_is_bound(code: str) -> None:
    assert {name.strip("_") for name in bindings(ast.parse(code))} & EMPTY


def test_what_python_names_is_left_out() -> None:
    assert not set(bindings(ast.parse("def __eq__(self, other): return other.found"))) & EMPTY
    assert list(bindings(ast.parse("def __eq__(self, other):\n    hits = other"))) == ["hits"]

"""What is a parameter in a statement for Postgres, and what only looks like one."""

from __future__ import annotations

import pytest

from lshdb.storage.dialects.postgresql.postgres_guard import numbered_parameters


@pytest.mark.parametrize(
    ("statement", "parameters", "expected", "values"),
    [
        ("SELECT ?, ?", (1, 2), "SELECT $1, $2", [1, 2]),
        ("SELECT ?2, ?1, ?2", (1, 2), "SELECT $1, $2, $1", [2, 1]),
        ("SELECT ?2, ?", (1, 2, 3), "SELECT $1, $2", [2, 3]),
        ("SELECT ?2", (1, 2), "SELECT $1", [2]),
        ("WHERE a=? AND b<>?||'x'", (1, 2), "WHERE a=$1 AND b<>$2||'x'", [1, 2]),
        ("SELECT :a, :b, :a", {"a": 1, "b": 2, "c": 3}, "SELECT $1, $2, $1", [1, 2]),
        ("LIMIT :n OFFSET :grüße", {"n": 1, "grüße": 2}, "LIMIT $1 OFFSET $2", [1, 2]),
        # texts, names, remarks
        ("SELECT '? :a ''?', ?", (1,), "SELECT '? :a ''?', $1", [1]),
        (r"SELECT E'it\'s ?', e'\\', ?", (1,), r"SELECT E'it\'s ?', e'\\', $1", [1]),
        (r"SELECT 'a\', ?", (1,), r"SELECT 'a\', $1", [1]),
        ('SELECT "? :a ""?", ?', (1,), 'SELECT "? :a ""?", $1', [1]),
        ("SELECT U&'?', u&\"?\", ?", (1,), "SELECT U&'?', u&\"?\", $1", [1]),
        ("SELECT $$ ? ' $$, ?", (1,), "SELECT $$ ? ' $$, $1", [1]),
        ("SELECT $a$ $$ ? $a$, ?", (1,), "SELECT $a$ $$ ? $a$, $1", [1]),
        ("SELECT a$b$, ?, c$b$", (1,), "SELECT a$b$, $1, c$b$", [1]),
        ("SELECT ? -- ? '\n, ?", (1, 2), "SELECT $1 -- ? '\n, $2", [1, 2]),
        ("SELECT /* ? /* ' */ ? */ ?", (1,), "SELECT /* ? /* ' */ ? */ $1", [1]),
        ("SELECT ? /* ?", (1,), "SELECT $1 /* ?", [1]),
        ("SELECT ?, '?", (1,), "SELECT $1, '?", [1]),
        # casts, slices, named arguments
        ("SELECT :a::int, x::text", {"a": 1}, "SELECT $1::int, x::text", [1]),
        ("SELECT ?::int", (1,), "SELECT $1::int", [1]),
        ("SELECT x[1:2], x[lo:hi], x[lo :hi]", (), "SELECT x[1:2], x[lo:hi], x[lo :hi]", []),
        ("SELECT x[:n], x[f(:n)]", {"n": 1}, "SELECT x[$1], x[f($1)]", [1]),
        ("SELECT x[:hi]", (), "SELECT x[:hi]", []),
        ("SELECT x[:lo:hi], x[(1):hi]", {"lo": 1}, "SELECT x[$1:hi], x[(1):hi]", [1]),
        ("SELECT x[?:?], ARRAY[:b]", (), "SELECT x[?:?], ARRAY[:b]", []),
        ("SELECT x[?:?]", (1, 2), "SELECT x[$1:$2]", [1, 2]),
        ("SELECT ARRAY[:a, :b]", {"a": 1, "b": 2}, "SELECT ARRAY[$1, $2]", [1, 2]),
        ("SELECT f(a := ?)", (1,), "SELECT f(a := $1)", [1]),
        # operators
        ("SELECT d ? 'a', d ?| x", (), "SELECT d ? 'a', d ?| x", []),
        ("SELECT d ?? ?, d ?| ?, d ?& ?", (1, 2, 3), "SELECT d ? $1, d ?| $2, d ?& $3", [1, 2, 3]),
        ("SELECT d @? ?, d -> ?", (1, 2), "SELECT d @? $1, d -> $2", [1, 2]),
        ("SELECT d ? :a", {"a": 1}, "SELECT d ? $1", [1]),
        # a name that is not given is the server's to refuse; a parameter is no part of a word
        ("SELECT :a", (), "SELECT :a", []),
        ("SELECT :a, :b", {"b": 1}, "SELECT :a, $1", [1]),
        ("LIMIT:n", {"n": 1}, "LIMIT $1", [1]),
        ("/* ? /* /* ? */ */ ? */ ?", (1,), "/* ? /* /* ? */ */ ? */ $1", [1]),
        ("/*" * 2000 + "?", (), "/*" * 2000 + "?", []),
    ],
)
def test_parameters_are_placed(
    statement: str, parameters: object, expected: str, values: list[object]
) -> None:
    assert numbered_parameters(statement, parameters) == (expected, values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("SELECT ?", (1, 2)), ("SELECT ?, ?", (1,)), ("SELECT ?3", (1, 2)), ("SELECT ?0", (1,)),
        ("SELECT 1", (1,)), ("SELECT '?'", (1,)), ("SELECT x LIMIT :a", (1,)),
    ],
)  # fmt: skip
def test_missing_and_left_over(statement: str, parameters: object) -> None:
    with pytest.raises(ValueError, match="parameter"):
        numbered_parameters(statement, parameters)  # type: ignore[arg-type]

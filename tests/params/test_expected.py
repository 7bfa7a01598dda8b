"""What is expected of an index when it is opened; and indexes made before a parameter was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, ParameterError, ParameterMismatchError
from tests.conftest import family_corpus, pair_set
from tests.raw import change


@pytest.mark.parametrize(
    ("made", "same", "other"),
    [
        ({"unit": "line"}, {"unit": "line", "k": 3}, {"unit": "word"}),
        ({"lowercase": False}, {"lowercase": False}, {"lowercase": True}),
        ({"strip_accents": True}, {"strip_accents": True}, {"strip_accents": False}),
        ({}, {"strip_punctuation": False}, {"strip_punctuation": True}),
        ({"digits": "zero"}, {"digits": "zero"}, {"digits": "keep"}),
        (
            {"unit": "url", "stop_tokens": ["b", "A"]},
            {"stop_tokens": ["a", "B", "b"]},
            {"stop_tokens": ["a"]},
        ),
        pytest.param(
            {},
            {"database": None},
            {"database": "sqlite:///x.db"},
            marks=pytest.mark.sqlite("None is the file in the index"),
        ),
        ({"database": "sqlite:///x.db"}, {"database": "sqlite:///x.db"}, {"database": None}),
    ],
)
def test_options_are_compared(
    tmp_path: Path, made: dict[str, Any], same: dict[str, Any], other: dict[str, Any]
) -> None:
    path = tmp_path / "a.lshdb"
    Index.create(path, **made).close()
    others = {name: value for name, value in same.items() if name not in made}
    Index.open(path, **made, **others).close()
    Index.open(path, **same).close()
    with pytest.raises(ParameterMismatchError) as caught:
        Index.open(path, **other)
    (name,) = other
    assert caught.value.name == name
    assert repr(caught.value.stored) in str(caught.value)
    assert repr(caught.value.given) in str(caught.value)


def test_text_rules_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    Index.create(path).close()
    with Index.open(path, text_rules=2) as index:
        assert index.params.text_rules == 2
    assert "text_rules = 2\n" in (path / "index.toml").read_text()
    with pytest.raises(ParameterMismatchError, match="text_rules = 2, but 1 was given") as caught:
        Index.open(path, text_rules=1)
    assert "new index of the same documents" in str(caught.value.hint)
    change(path, "UPDATE parameter SET value = '3' WHERE name = 'text_rules'")
    with pytest.raises(ParameterMismatchError, match=r"text_rules is 3 in .* and 2 in index\.toml"):
        Index.open(path)
    text = (path / "index.toml").read_text()
    (path / "index.toml").write_text(text.replace("text_rules = 2", "text_rules = 3"))
    with pytest.raises(ParameterError, match="text_rules is 3; this version has text rules 2"):
        Index.open(path)


def test_a_name_that_is_none(tmp_path: Path) -> None:
    Index.create(tmp_path / "a.lshdb").close()
    with pytest.raises(ParameterError, match="'colour'"):
        Index.open(tmp_path / "a.lshdb", colour=1)


def without_new_parameters(path: Path) -> None:
    """Make an index what an earlier version would have written."""
    change(path, "DELETE FROM parameter WHERE name IN ('stop_tokens', 'tokenizer')")
    lines = (path / "index.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("stop_tokens", "tokenizer"))]
    assert len(kept) == len(lines) - 2
    (path / "index.toml").write_text("".join(kept))


@pytest.mark.parametrize("unit", ["word", "char"])
def test_an_index_of_an_earlier_version_opens_and_works(
    tmp_path: Path, make_index: Callable[..., Index], unit: str
) -> None:
    corpus = family_corpus(3, families=6)
    reference = make_index("new.lshdb", unit=unit, threshold=0.5)
    reference.add(corpus)
    old = make_index("old.lshdb", unit=unit, threshold=0.5)
    old.add(corpus[:10])
    old.close()
    without_new_parameters(old.path)
    before = (old.path / "index.toml").read_text()
    with Index.open(old.path, stop_tokens="", lowercase=True, unit=unit) as index:
        assert (index.params.stop_tokens, index.params.tokenizer) == ("", "")
        index.add(corpus[10:])
        assert pair_set(index) == pair_set(reference)
        assert index.query(corpus[0][1]) == reference.query(corpus[0][1])
        assert index.stats().documents == len(corpus)
        assert index.check() == []
    assert (old.path / "index.toml").read_text() == before


def test_long_values_are_shortened(tmp_path: Path) -> None:
    tokens = " ".join(f"token{'abcdefghij'[i % 10]}{'x' * i}" for i in range(200))
    Index.create(tmp_path / "a.lshdb", unit="url", stop_tokens=tokens).close()
    with pytest.raises(ParameterMismatchError, match=r"characters\), but 'other' was") as caught:
        Index.open(tmp_path / "a.lshdb", stop_tokens="other")
    assert len(caught.value.message) < 600
    with pytest.raises(ParameterError, match="stop_tokens is 5; expected a string or strings"):
        Index.open(tmp_path / "a.lshdb", stop_tokens=5)


@pytest.mark.parametrize(
    ("given", "command"), [({"threshold": 0.5}, "lshdb reband"), ({"k": 4}, "lshdb reindex")]
)
def test_a_mismatch_names_the_command_that_changes_it(
    make_index: Callable[..., Index], given: dict[str, Any], command: str
) -> None:
    with make_index() as index, pytest.raises(ParameterMismatchError) as refused:
        Index.open(index.path, **given)
    assert command in (refused.value.hint or "")

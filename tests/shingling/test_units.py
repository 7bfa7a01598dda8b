"""The other units against their definitions, and edges that all units share."""

from __future__ import annotations

import mmh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams
from lshdb.shingling import UNITS, URL_UNITS, Shingler, shingle_hashes
from lshdb.signatures import shingle_content, sign, sign_contents
from tests.chosen import choose_params
from tests.golden import plain
from tests.property.test_stages import TEXTS, TOKENS

TEXT_UNITS = [unit for unit in UNITS if unit not in (*URL_UNITS, "tokenizer")]


def hashes(unit: str, body: str | list[str], k: int, bag: bool = False) -> list[int]:
    shingler = Shingler(unit, k, bag, UNITS[unit].normalisation)
    return shingle_hashes(shingler.canonical(body), unit=unit, k=k, bag=bag).tolist()


def of(*shingles: str | bytes) -> list[int]:
    return sorted(mmh3.hash64(shingle, signed=False)[0] for shingle in shingles)


@pytest.mark.parametrize(
    ("unit", "k", "body", "shingles"),
    [
        ("byte", 2, "a\xe9B ", (b"a\xc3", b"\xc3\xa9", b"\xa9B", b"B ")),
        ("byte", 9, "abc", ("abc",)),
        ("line", 2, "A  b\n\nc\r\n d", ("a b\nc", "c\nd")),
        ("line", 3, "one\n\n", ("one",)),
        ("token", 2, " Tok1\ttok-2 tok3\n", ("Tok1 tok-2", "tok-2 tok3")),
        ("token", 5, "Tok1", ("Tok1",)),
        ("line", 2, ["a", "b", "c"], ("a b", "b c")),  # ready tokens are tokens in every unit
        ("byte", 2, ["A", "b"], ("A b",)),
        ("token", 1, ["A b", "c"], ("A b", "c")),
    ],
)
def test_shingles_by_definition(
    unit: str, k: int, body: str | list[str], shingles: tuple[str | bytes, ...]
) -> None:
    assert hashes(unit, body, k) == of(*shingles)


@pytest.mark.parametrize("unit", [*TEXT_UNITS, *URL_UNITS])
@pytest.mark.parametrize("body", ["", []])
def test_nothing_gives_nothing(unit: str, body: str | list[str]) -> None:
    assert hashes(unit, body, 3) == []


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    TEXTS | st.lists(TEXTS, max_size=5).map("\n".join) | TOKENS,
    st.sampled_from([unit for unit in TEXT_UNITS if unit not in ("word", "char")]),
    st.integers(1, 9),
    st.booleans(),
)
def test_any_body_as_in_the_plain_path(body: str | list[str], unit: str, k: int, bag: bool) -> None:
    steps = UNITS[unit].normalisation
    expected = plain.shingle_hashes(body, unit=unit, k=k, bag=bag, steps=steps)
    assert hashes(unit, body, k, bag) == expected
    content = Shingler(unit, k, bag, steps).canonical(body)
    assert shingle_content(content, unit=unit, k=k, bag=bag).tolist() == expected
    rows, counts = sign_contents(
        [content, "", content], unit=unit, k=k, bag=bag, scheme="fss", num_perm=16, seed=1
    )
    assert counts.tolist() == [len(expected), 0, len(expected)]
    if expected:
        row = sign([shingle_content(content, unit=unit, k=k, bag=bag)],
                   scheme="fss", num_perm=16, seed=1)  # fmt: skip
        assert (rows[[0, 2]] == row).all()


def test_ready_tokens_are_not_split_again() -> None:
    def never(text: str) -> list[str]:
        raise AssertionError(text)

    shingler = Shingler("tokenizer", 2, False, "none", split=never)
    assert shingler.canonical(["A b", ""]) == ["A b", ""]


def test_a_tokenizer_gets_the_normalised_text() -> None:
    shingler = Shingler("tokenizer", 2, False, "nfkc-casefold", split=lambda text: text.split("-"))
    content = shingler.canonical("A-B-\xc9")
    assert content == ["a", "b", "\xe9"]
    assert shingle_hashes(content, unit="tokenizer", k=2, bag=False).tolist() == of("a b", "b \xe9")


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"unit": "tokenizer"}, "needs a tokenizer"),
        ({"tokenizer": "name"}, "tokenizer is 'name'"),
        ({"tokenizer": "a b c"}, "tokenizer is 'a b c'"),
        ({"tokenizer": "a 1", "unit": "word"}, "the unit is word"),
        ({"digits": "drop"}, "digits is 'drop'"),
    ],
)
def test_what_choose_refuses(given_: dict[str, str], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        choose_params(**given_)


def test_stored_parameters_are_checked() -> None:
    good = choose_params(unit="url", stop_tokens=["a", "b"]).items()
    assert IndexParams(**good).stop_tokens == "a b"  # type: ignore[arg-type]
    for name, value in (
        ("stop_tokens", "b a"), ("stop_tokens", "a  b"), ("stop_tokens", "a a"),
        ("stop_tokens", None), ("tokenizer", "a 1"), ("tokenizer", None), ("unit", ["url"]),
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            IndexParams(**{**good, name: value})  # type: ignore[arg-type]
    split = Shingler.of(choose_params(unit="url"))
    assert split.unit == "url" and "html" in split.stop_tokens
    with pytest.raises(ParameterError, match="a 1 is needed"):
        Shingler.of(choose_params(tokenizer="a 1"))

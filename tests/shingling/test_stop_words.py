"""Stop words: taken out before texts are shingled, and stored with the index."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, ParameterError, ParameterMismatchError, published_stop_words
from lshdb.ingest.reindex import changed_params
from lshdb.shingling import Shingler, shingle_hashes, stop_word_list
from lshdb.signatures import shingle_content
from lshdb.signatures.families import family_of
from tests.chosen import choose_params
from tests.golden import plain
from tests.without_kernel import use_reference

Make = Callable[..., Index]

pytestmark = pytest.mark.fast

TEXT = "The council of the town voted, and THE bridge is closed for the winter."
LEFT = ["council", "town", "voted", "bridge", "closed", "winter"]
STOPS = ["the", "of", "And", "is", "for"]


def test_shingles_are_of_the_words_that_are_left() -> None:
    params = choose_params(stop_words=STOPS, k=3)
    assert params.stop_tokens == "and for is of the"
    content = Shingler.of(params).canonical(TEXT)
    assert content == " ".join(LEFT)
    expected = [" ".join(LEFT[at : at + 3]) for at in range(4)]
    assert family_of(params).elements(content) == expected
    hashes = shingle_hashes(content, unit="word", k=3, bag=False).tolist()
    assert hashes == sorted(plain.shingle_hashes(" ".join(LEFT), unit="word", k=3, bag=False))
    assert hashes == shingle_content(content, unit="word", k=3, bag=False).tolist()
    assert hashes == FROZEN


FROZEN = [
    13262962284716054897,
    14505765636571238079,
    17333207617242922450,
    17942053732289192304,
]


@pytest.mark.parametrize(
    "text", [TEXT, "the of and", "", "caf\xe9 der \u6f22\u5b57 x", "don't stop"]
)
@pytest.mark.parametrize("bag", [False, True])
def test_the_kernel_and_the_reference_agree(
    text: str, bag: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = choose_params(stop_words=[*STOPS, "der", "\u5b57", "don't"], k=2, bag=bag)
    rows = []
    for compiled in (True, False):
        if not compiled:
            use_reference(monkeypatch)
        family = family_of(params)
        assert not family.takes_texts
        found, counts = family.sign_contents(family.contents([text]))
        rows.append((found.tolist(), counts.tolist()))
    assert rows[0] == rows[1]


def test_every_way_into_an_index_leaves_them_out(make_index: Make) -> None:
    """Adds, queries, pairs and later adds; lists of tokens stay as they are."""
    index = make_index(stop_words=STOPS, k=2, threshold=0.5)
    index.add([("a", TEXT), ("tokens", LEFT)])
    index.add([("b", "Council, town: voted! Bridge closed (winter)."), ("c", "the of and")])
    assert {(one.key1, one.key2, one.similarity) for one in index.pairs()} == {
        ("a", "b", 1.0), ("a", "tokens", 1.0), ("tokens", "b", 1.0),
    }  # fmt: skip
    assert [hit.key for hit in index.query("town of the voted, the bridge closed")] == [
        "a", "b", "tokens",
    ]  # fmt: skip
    assert [hit.key for hit in index.query("and the of")] == []
    assert [hit.key for hit in index.query("The, of and")] == ["c"]
    assert index.count_shingles(TEXT) == 5
    assert index.similarity("the bridge", "bridge of") == 1.0
    assert index.texts(["a"])["a"] == TEXT
    assert index.check() == []


def test_an_index_without_them_is_what_it_was(make_index: Make) -> None:
    params = choose_params()
    assert params.stop_tokens == "" and choose_params(stop_words=[]) == params
    assert Shingler.of(params).canonical(TEXT) == plain.normalise(TEXT, params.normalisation)
    assert family_of(params).takes_texts


def test_they_are_compared_when_an_index_is_opened(make_index: Make, tmp_path: Path) -> None:
    path = make_index(stop_words=STOPS).path
    Index.open(path, stop_words=[word.upper() for word in STOPS]).close()
    with pytest.raises(ParameterMismatchError, match="stop_words = 'and for is of the', but 'a'"):
        Index.open(path, stop_words=["a"])
    plain_path = make_index("plain.lshdb").path
    with pytest.raises(ParameterMismatchError, match="stop_words = ''"):
        Index.open(plain_path, stop_words=["a"])


def test_a_reindex_keeps_them_with_the_unit() -> None:
    params = choose_params(stop_words=STOPS)
    assert changed_params(params, {}) == params
    assert changed_params(params, {"k": 2}).stop_tokens == params.stop_tokens
    assert changed_params(params, {"stop_words": []}).stop_tokens == ""
    assert changed_params(params, {"stop_words": ["a"]}).stop_tokens == "a"
    assert changed_params(params, {"unit": "char"}).stop_tokens == ""
    assert changed_params(choose_params(unit="url"), {"unit": "word"}).stop_tokens == ""


def test_words_are_cut_as_texts_are() -> None:
    assert stop_word_list(["isn't", "F\xdcR", "\u6f22\u5b57"], "ignorable-nfkc-casefold-space") == (
        "f\xfcr isn t \u5b57 \u6f22"
    )
    assert stop_word_list(["F\xdcR"], "ignorable-nfkc-casefold-accents-space") == "fur"
    assert stop_word_list([], "none") == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stop_words": "en"}, "expected words, one by one"),
        ({"stop_words": [3]}, "expected strings"),
        ({"stop_words": ["--"]}, "holds no words"),
        (
            {"stop_words": STOPS, "unit": "char"},
            "stop_words are for unit word, and the unit is char",
        ),
        ({"stop_words": STOPS, "tokenizer": "a 1"}, "the unit is tokenizer"),
        ({"stop_words": STOPS, "metric": "cosine", "dim": 2}, "stop_words is for texts"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        choose_params(**options)


def test_published_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    words = published_stop_words("en")
    assert {"the", "of", "and"} <= set(words) and words == published_stop_words("english")
    assert "und" in published_stop_words("de")
    with pytest.raises(ParameterError, match=r"no published stop words of 'xx'; .* de, .* en,"):
        published_stop_words("xx")
    real = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == "stop_words":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ParameterError, match="package stop-words, which is not installed"):
        published_stop_words("en")

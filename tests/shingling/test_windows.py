"""Windows of words: they cover a text, none is a sliver, and their keys say where they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lshdb.shingling import cut_windows, parse_window_key, split_words, window_key

pytestmark = pytest.mark.fast

TEXTS = st.text(alphabet="ab é.\n日本\u0301", max_size=120)


@given(TEXTS, st.integers(2, 9), st.data())
def test_windows_laid_over_each_other_are_the_text(
    text: str, words: int, data: st.DataObject
) -> None:
    step = data.draw(st.integers(1, words))
    windows = cut_windows(text, words, step)
    whole = ""
    for start, end in windows:
        assert start <= len(whole)
        whole += text[len(whole) : end]
    assert whole == text


@given(TEXTS, st.integers(2, 9), st.data())
def test_every_window_has_its_words(text: str, words: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, words))
    windows = cut_windows(text, words, step)
    every = split_words(text)
    if len(every) <= words:
        assert windows == [(0, len(text))]
        return
    cut = [split_words(text[start:end]) for start, end in windows]
    assert {len(one) for one in cut} == {words}
    firsts = [*range(0, len(every) - words, step), len(every) - words]
    assert cut == [every[first : first + words] for first in firsts]


def test_a_text_without_words_is_one_window() -> None:
    assert cut_windows("... !", 5, 2) == [(0, 5)]
    assert cut_windows("", 5, 2) == [(0, 0)]


@given(st.text(), st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_key_says_where_its_window_is(document: str, start: int, end: int) -> None:
    assert parse_window_key(window_key(document, start, end)) == (document, start, end)


@pytest.mark.parametrize("key", ["a", "a#", "a#1", "a#1-", "a#-1", "a#01-2", "a#1-²", "a#1-2 ", ""])
def test_other_keys_are_no_windows(key: str) -> None:
    assert parse_window_key(key) is None

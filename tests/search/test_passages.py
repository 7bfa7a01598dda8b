"""Passages that recur are found, where they begin and end, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import pytest

from lshdb import Index, InputError, KeyNotFoundError, ParameterError, Passage
from lshdb.kernel.reference_passages import Area, merge_areas

Make = Callable[..., Index]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def names(rng: random.Random, n: int) -> list[str]:
    """Words of 2 to 9 letters, of which some are common and most are not."""
    return ["".join(rng.choices(_LETTERS, k=rng.randint(2, 9))) for _ in range(n)]


class Writer:
    """Writes texts, copies passages with edits, and remembers where they are."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.words = names(self.rng, 20_000)
        self.weights = (1 / np.arange(2, 20_002)).cumsum().tolist()

    def some(self, n: int) -> list[str]:
        return self.rng.choices(self.words, cum_weights=self.weights, k=n)

    def edited(self, words: Sequence[str], rate: float) -> list[str]:
        """Leave out, replace or insert a word, at a rate of ``rate`` a word together."""
        copy: list[str] = []
        for word in words:
            kind = self.rng.random() / rate if rate else 9.0
            if kind >= 1 / 3:
                copy.append(word)
            if 1 / 3 <= kind < 1:
                copy[-1:] = [*self.some(1)] if kind < 2 / 3 else [word, *self.some(1)]
        return copy


def planted(
    writer: Writer, *, lengths: Sequence[int], n: int, words: tuple[int, int], rate: float
) -> tuple[dict[str, str], list[tuple[str, tuple[int, int], str, tuple[int, int]]]]:
    """Documents, and passages of them: key and characters in one, key and characters in another."""
    rng = writer.rng
    parts = [[writer.some(length)] for length in lengths]
    marked: list[tuple[int, list[str], int, list[str]]] = []
    for _ in range(n):
        one, other = rng.sample(range(len(lengths)), 2)
        passage = writer.some(rng.randint(*words))
        marked.append((one, passage, other, writer.edited(passage, rate)))
        for document, put in ((one, marked[-1][1]), (other, marked[-1][3])):
            at = rng.randrange(len(parts[document]))
            around = parts[document][at]
            while any(around is known for each in marked for known in (each[1], each[3])):
                at = rng.randrange(len(parts[document]))
                around = parts[document][at]
            place = rng.randrange(len(around) + 1)
            parts[document][at : at + 1] = [around[:place], put, around[place:]]
    texts: dict[str, str] = {}
    places: dict[int, tuple[int, int]] = {}
    for number, document in enumerate(parts):
        text = ""
        for part in document:
            start = len(text)
            text += " ".join(part) + " " * bool(part)
            places[id(part)] = (start, len(text) - 1)
        texts[f"d{number:02}"] = text
    return texts, [
        (f"d{one:02}", places[id(passage)], f"d{other:02}", places[id(copy)])
        for one, passage, other, copy in marked
    ]


def matched(
    found: Sequence[Passage], key1: str, place1: tuple[int, int], key2: str, place2: tuple[int, int]
) -> Passage | None:
    """The passage that has at least four fifths of a planted one, on both sides."""
    if key1 > key2:
        key1, place1, key2, place2 = key2, place2, key1, place1
    for one in found:
        shares = [
            (min(last, end) - max(first, start)) / (end - start)
            for first, last, (start, end) in (
                (one.start1, one.end1, place1),
                (one.start2, one.end2, place2),
            )
        ]
        if (one.key1, one.key2) == (key1, key2) and min(shares) >= 0.8:
            return one
    return None


@pytest.mark.parametrize(("rate", "least"), [(0.0, 1.0), (0.05, 0.95)])
def test_planted_passages_are_found(make_index: Make, rate: float, least: float) -> None:
    """Of 100 words and more, in documents of up to 100,000 words, by windows of 100."""
    writer = Writer(7)
    lengths = [100_000, *[400 * (1 + number % 12) for number in range(40)]]
    texts, plants = planted(writer, lengths=lengths, n=80, words=(100, 400), rate=rate)
    index = make_index(passages=(100, 50))
    index.add(texts.items())
    found = list(index.passages())
    pairs = [matched(found, *plant) for plant in plants]
    hits = [one for one in pairs if one is not None]
    assert len(hits) >= least * len(plants)
    assert len(found) <= len(plants) + 2, "and nothing else"
    errors: list[int] = []
    for plant, one in zip(plants, pairs, strict=True):
        if one is not None:
            places = (plant[1], plant[3]) if plant[0] < plant[2] else (plant[3], plant[1])
            bounds = ((one.start1, one.end1), (one.start2, one.end2))
            errors += [
                abs(is_at - at)
                for ends, place in zip(bounds, places, strict=True)
                for is_at, at in zip(ends, place, strict=True)
            ]
    errors.sort()
    # In characters, where a word and its blank have 6.5: within a shingle, or an edit at the end.
    assert errors[len(errors) // 2] == 0
    assert errors[int(len(errors) * 0.95)] <= (0 if rate == 0 else 80)


def test_a_passage_is_what_brute_force_says(make_index: Make) -> None:
    """Where texts have nothing else in common, a passage is all their common words in a row."""
    writer = Writer(3)
    texts, plants = planted(writer, lengths=[900] * 8, n=12, words=(60, 90), rate=0.0)
    index = make_index(passages=(40, 20), k=4)
    index.add(texts.items())
    expected = set()
    for key1, _, key2, _ in plants:
        one, other = sorted((key1, key2))
        expected |= longest_runs(one, texts[one], other, texts[other], least=30)
    found = {
        (one.key1, one.start1, one.end1, one.key2, one.start2, one.end2) for one in index.passages()
    }
    assert found == expected and len(expected) >= 12


def longest_runs(
    key1: str, text1: str, key2: str, text2: str, *, least: int
) -> set[tuple[str, int, int, str, int, int]]:
    """Maximal runs of equal words, by comparing all places with each other."""
    (left, starts1), (right, starts2) = spelled(text1), spelled(text2)
    runs = set()
    for first in range(len(left)):
        for second in range(len(right)):
            is_begun = first and second and left[first - 1] == right[second - 1]
            if is_begun or left[first] != right[second]:
                continue
            n = 0
            while (
                max(first, 0) + n < len(left)
                and second + n < len(right)
                and left[first + n] == right[second + n]
            ):
                n += 1
            if n >= least:
                ends = (
                    starts1[first + n - 1] + len(left[first + n - 1]),
                    starts2[second + n - 1] + len(right[second + n - 1]),
                )
                runs.add((key1, starts1[first], ends[0], key2, starts2[second], ends[1]))
    return runs


def spelled(text: str) -> tuple[list[str], list[int]]:
    words = text.split()
    starts, at = [], 0
    for word in words:
        at = text.index(word, at)
        starts.append(at)
        at += len(word)
    return words, starts


def written(seed: int, n: int) -> str:
    return " ".join(Writer(seed).some(n))


PASSAGE = written(1, 60)


def test_a_document_that_repeats_itself_is_listed_once(make_index: Make) -> None:
    index = make_index(passages=(20, 10))
    text = f"{written(2, 50)} {PASSAGE} {written(3, 70)} {PASSAGE} {written(4, 40)}"
    index.add([("a", text), ("b", written(5, 300))])
    (one,) = index.passages()
    assert (one.key1, one.key2) == ("a", "a") and one.similarity == 1.0
    assert text[one.start1 : one.end1] == text[one.start2 : one.end2] == PASSAGE
    assert one.start1 < one.start2
    assert list(index.pairs()), "neighbouring windows of a document"
    assert index.explain_passages("a", "a") == [one]


def test_a_sentence_put_in_does_not_end_a_passage(make_index: Make) -> None:
    index = make_index(passages=(20, 10))
    words = PASSAGE.split()
    longer = " ".join([*words[:30], *written(9, 8).split(), *words[30:]])
    index.add([("a", f"{written(2, 50)} {PASSAGE}"), ("b", f"{longer} {written(3, 50)}")])
    (one,) = index.passages(with_text=True)
    assert (one.text1, one.text2, one.words1, one.words2) == (PASSAGE, longer, 60, 68)
    # 56 and 64 shingles; the four across the place of the sentence are the first's alone.
    assert one.similarity == pytest.approx(52 / (56 + 64 - 52))
    assert one.method == "exact"


def test_a_passage_does_not_reach_for_a_few_words_behind_it(make_index: Make) -> None:
    index = make_index(passages=(32, 16))
    few = written(12, 6)
    index.add([(key, f"{PASSAGE} {written(seed, 15)} {few}") for key, seed in (("a", 2), ("b", 3))])
    (one,) = index.passages(with_text=True)
    assert (one.text1, one.text2) == (PASSAGE, PASSAGE)


def test_a_passage_goes_on_where_no_window_is_similar(make_index: Make) -> None:
    """One word in seven is another: of the windows there, less than a third of the shingles."""
    index = make_index(passages=(20, 10))
    words, others = written(13, 240).split(), written(14, 240).split()
    edited = [*words[:40], *(others[at] if at % 7 == 0 else words[at] for at in range(40, 240))]
    index.add([("a", " ".join(words)), ("b", " ".join(edited)), ("c", written(15, 30))])
    (one,) = index.passages()
    assert max(int(pair.key1.split("-")[1]) for pair in index.pairs() if "b#" in pair.key2) < 800
    assert one.words1 >= 235 and one.words2 >= 235


def test_words_that_come_again_nearby_are_no_passage(make_index: Make) -> None:
    """They are in windows that overlap, which are similar for that reason alone."""
    index = make_index(passages=(20, 10), threshold=0.2)
    few = written(12, 8)
    index.add([("a", f"{written(2, 40)} {few} {written(3, 7)} {few} {written(4, 40)}")])
    assert len(list(index.pairs())) > 5
    assert list(index.passages()) == []


def test_two_passages_of_two_documents_are_two_lines(make_index: Make) -> None:
    """In another order, so that no one passage holds both."""
    index = make_index(passages=(20, 10))
    first, second = PASSAGE, written(11, 50)
    index.add(
        [("a", f"{first} {written(2, 50)} {second}"), ("b", f"{second} {written(3, 60)} {first}")]
    )
    found = list(index.passages(with_text=True))
    assert [one.text1 for one in found] == [one.text2 for one in found] == [first, second]
    assert list(index.passages(limit=1)) == list(index.passages())[:1]


def test_only_passages_with_a_new_window(make_index: Make) -> None:
    index = make_index(passages=(20, 10))
    index.add([("a", f"{PASSAGE} {written(2, 50)}"), ("b", f"{written(3, 50)} {PASSAGE}")])
    index.add([("c", PASSAGE)])
    assert [(one.key1, one.key2) for one in index.passages(since="last")] == [
        ("a", "c"),
        ("b", "c"),
    ]
    assert len(list(index.passages())) == 3
    index.add([("b", written(8, 90))])
    assert [(one.key1, one.key2) for one in index.passages()] == [("a", "c")]


def test_a_query_is_cut_as_documents_are(make_index: Make) -> None:
    index = make_index(passages=(20, 10))
    texts = {"a": f"{PASSAGE} {written(2, 50)}", "b": f"{written(3, 50)} {PASSAGE}"}
    index.add(texts.items())
    query = f"{written(4, 200)} {PASSAGE} {written(5, 30)}"
    found = index.query_passages(query, with_text=True)
    assert [(one.key1, one.text1, one.key2, one.text2) for one in found] == [
        ("text", PASSAGE, "a", PASSAGE),
        ("text", PASSAGE, "b", PASSAGE),
    ]
    (own,) = index.query_passages(key="a")
    (same,) = index.passages()
    assert own == same
    assert index.query_passages(written(6, 100)) == []
    assert index.query_passages("") == []


def test_mistakes(make_index: Make) -> None:
    whole, index = make_index("whole"), make_index(passages=(20, 10))
    for ask in (whole.passages, lambda: whole.query_passages("a")):
        with pytest.raises(ParameterError, match="keeps whole documents"):
            ask()
    with pytest.raises(ParameterError, match="either a text or a key"):
        index.query_passages()
    with pytest.raises(KeyNotFoundError):
        index.query_passages(key="none")
    with pytest.raises(KeyNotFoundError):
        index.explain_passages("none", "nor")
    with pytest.raises(InputError, match="a query of passages is a text"):
        index.query_passages(["a"])  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        index.passages(threshold=2.0)


def test_a_text_of_one_word_takes_no_time(make_index: Make) -> None:
    """Every place of one is equal to every place of the other, and to most of its own."""
    index = make_index(passages=(20, 10))
    index.add([("a", "la " * 3_000), ("b", "la " * 2_000), ("c", "la li " * 2_000)])
    assert isinstance(list(index.passages(max_bucket=100)), list)


def test_units_of_characters(make_index: Make) -> None:
    index = make_index(passages=(20, 10), unit="char")
    index.add([("a", f"{PASSAGE} {written(2, 50)}"), ("b", f"{written(3, 50)} {PASSAGE.upper()}")])
    (one,) = index.passages(with_text=True)
    assert (one.text1, one.text2, one.similarity) == (PASSAGE, PASSAGE.upper(), 1.0)


def test_blocks_are_joined_where_they_touch_on_both_sides() -> None:
    blocks = [Area(0, 10, 100, 110), Area(5, 15, 105, 115), Area(5, 15, 300, 310)]
    assert merge_areas(blocks) == [Area(0, 15, 100, 115), Area(5, 15, 300, 310)]
    assert merge_areas([*blocks, Area(14, 20, 110, 305)]) == [Area(0, 20, 100, 310)]


def test_passages_come_as_columns_too(make_index: Make) -> None:
    index = make_index(passages=(20, 10))
    index.add(
        [(key, f"{PASSAGE} {written(seed, 50)} {PASSAGE}") for seed, key in enumerate("abcd")]
    )
    for with_text in (False, True):
        listing = index.passages(with_text=with_text)
        passages = list(listing)
        assert [one for block in listing.columns() for one in block.passages()] == passages
        assert sum(len(block) for block in listing.columns()) == len(passages) > 20
        assert listing.to_arrow().to_pylist() == [asdict(one) for one in passages]
        for limit in (1, 7, len(passages), 1000):
            first = index.passages(with_text=with_text, limit=limit)
            assert list(first) == passages[:limit]
            assert (first.newest_batch is None) == (limit <= len(passages))

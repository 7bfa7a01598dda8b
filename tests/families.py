"""Large families of near-duplicates, and how to tell what must be kept of them.

What is kept in an order of preference is told by two things: no two kept documents are a pair, and
each dropped one is a pair with a kept one that comes before it. Only one set of documents has both
(by induction along the order), so they are checked, at the cost of the kept documents squared, and
not all documents are compared with all.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.brute import jaccard, shingle_set

THRESHOLD = 0.5
POLICIES = ("first", "last", "longest", "shortest", "field:score", "field:-score")


@dataclass
class Text:
    """A document of a family."""

    key: str
    text: str
    fields: dict[str, object] = field(default_factory=dict)


def one_word(n: int) -> list[str]:
    """One family: texts that differ in one word."""
    words = [f"w{number}" for number in range(60)]
    return [" ".join([*words[:25], f"own{number}", *words[25:]]) for number in range(n)]


def chain(n: int) -> list[str]:
    """Each differs from the one before it in a word, so that the first and the last share none."""
    width = 60
    return [
        " ".join(f"w{place}x{(number + place) // width}" for place in range(width))
        for number in range(n)
    ]


def slow_chain(n: int) -> list[str]:
    """A chain along which a word changes at every hundredth text; each has a word of its own."""
    links = chain(n // 100 + 1)
    return [f"{links[number // 100]} own{number}" for number in range(n)]


def sub_families(n: int) -> list[str]:
    """Forty families that have the first third of their texts in common, mixed."""
    common = " ".join(f"c{number}" for number in range(24))
    rests = [" ".join(f"f{family}x{place}" for place in range(40)) for family in range(40)]
    return [f"{common} own{number} {rests[number * 7 % 40]}" for number in range(n)]


def boilerplate(n: int) -> list[str]:
    """Texts that have a third of their words in common, and are unlike; every tenth is a copy."""
    common = " ".join(f"c{number}" for number in range(20))
    own = [number - number % 10 % 2 * 9 if number % 10 == 9 else number for number in range(n)]
    return [f"{common} " + " ".join(f"o{one}x{place}" for place in range(40)) for one in own]


KINDS: dict[str, Callable[[int], list[str]]] = {
    one.__name__: one for one in (one_word, chain, slow_chain, sub_families, boilerplate)
}


def family(kind: str, n: int, *, seed: int = 0) -> list[Text]:
    """Return documents in a random order, with fields that agree, differ, tie and are missing."""
    rng = random.Random(seed)
    texts = KINDS[kind](n)
    rng.shuffle(texts)
    documents = []
    for number, text in enumerate(texts):
        fields: dict[str, object] = {}
        if rng.random() < 0.9:
            fields["score"] = rng.randrange(n)
        if rng.random() < 0.8:
            fields["year"] = rng.choice([1999, 2001, 2024])
        fields["source"] = rng.choice("ab")
        # Lengths differ, for those that prefer the longest; words do not.
        documents.append(Text(f"d{number:06d}", text + " " * rng.randrange(5), fields))
    return documents


def preferred(documents: list[Text], keep: str) -> list[Text]:
    """Return the documents in the order in which they are to be kept, the plain way."""
    if keep == "first":
        return documents
    if keep == "last":
        return documents[::-1]
    if keep in ("longest", "shortest"):
        sign = -1 if keep == "longest" else 1
        return sorted(documents, key=lambda one: sign * len(one.text))
    sign = 1 if keep == "field:-score" else -1
    return sorted(
        documents,
        key=lambda one: ("score" not in one.fields, sign * int(str(one.fields.get("score", 0)))),
    )


def allows(
    one: Text, other: Text, *, agree: Iterable[str] = (), differ: Iterable[str] = ()
) -> bool:
    """Return whether the fields let two documents be a pair."""

    def differs(name: str) -> bool:
        values = one.fields.get(name), other.fields.get(name)
        return None not in values and values[0] != values[1]

    names = list(differ)
    return not any(map(differs, agree)) and (not names or any(map(differs, names)))


def check_kept(
    documents: list[Text],
    kept_keys: dict[str, str | None],
    keep: str,
    *,
    agree: Iterable[str] = (),
    differ: Iterable[str] = (),
    old: int | None = None,
    is_found: Callable[[str, str], bool] = lambda one, other: True,
) -> int:
    """Assert that what is kept is what brute force keeps; return how many documents that are.

    Parameters
    ----------
    documents : list of Text
        In the order in which they came in.
    kept_keys : dict
        By key, which document is kept instead; None for a document that is kept.
    keep : str
    agree, differ : iterable of str
    old : int, optional
        Only documents after so many may be dropped, and only for one before.
    is_found : callable
        Whether bands find a pair, for the few that they miss.
    """
    order = {one.key: rank for rank, one in enumerate(preferred(documents, keep))}
    number = {one.key: place for place, one in enumerate(documents)}
    named = {one.key: one for one in documents}
    sets = {one.key: shingle_set(one.text) for one in documents}
    kept = [one for one in documents if kept_keys[one.key] is None]
    assert kept_keys.keys() == named.keys()

    def is_pair(one: Text, other: Text) -> bool:
        return (
            allows(one, other, agree=agree, differ=differ)
            and jaccard(sets[one.key], sets[other.key]) >= THRESHOLD
        )

    for key, kept_key in kept_keys.items():
        if kept_key is not None:
            assert kept_keys[kept_key] is None
            assert is_pair(named[key], named[kept_key]), (key, kept_key)
            if old is None:
                assert order[kept_key] < order[key], (key, kept_key)
            else:
                assert number[kept_key] < old <= number[key], (key, kept_key)
    if old is None:
        pairs = itertools.combinations(kept, 2)
    else:
        assert all(kept_keys[one.key] is None for one in documents[:old])
        pairs = itertools.product(documents[:old], [one for one in kept if number[one.key] >= old])  # type: ignore[assignment]
    astray = [(one.key, other.key) for one, other in pairs if is_pair(one, other)]
    assert [pair for pair in astray if is_found(*pair)] == []
    return len(kept)

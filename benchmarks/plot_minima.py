"""Which element of a set holds the minimum: docs/concepts/minima.svg, and the table beside it.

    python -m benchmarks.plot_minima docs/concepts

Under a min-wise independent family each of the n elements of a set holds the minimum of a slot with
probability 1 / n. Here it is counted how often each does, by one slot for each of many seeds, and
chi-squared says how well that fits. Elements are shingles of a text, or the numbers 0, 1, 2, ...
without the hash of a shingle before them, which no index has.

An element holds the minimum of a slot if its own signature has the same value there: that is so
for ``universal`` by definition, and for ``fss`` because the round that decides a slot of the set
is also the first one in which that element reaches it.

Needs nothing but lshdb; a minute or two. The figures follow from the seeds.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.plot_concepts import BLUE, GREEN, ORANGE, RED, Drawing
from lshdb.shingling import shingle_hashes
from lshdb.signatures import sign

ELEMENTS = 21
"""An odd number, so that chi-squared has an even number of degrees of freedom."""
SLOTS = 16
DRAWS = 500_000
TEXT = (
    "it was the best of times it was the worst of times it was the age of wisdom it was the age of "
    "foolishness it was the epoch of belief"
)
CASES = (
    ("fss", "shingles", BLUE),
    ("universal", "shingles", GREEN),
    ("fss", "numbers", ORANGE),
    ("universal", "numbers", RED),
)


def elements(kind: str) -> NDArray[np.uint64]:
    """Return a set: ``ELEMENTS`` shingle hashes in order of their words, or consecutive numbers."""
    if kind == "numbers":
        return np.arange(ELEMENTS, dtype=np.uint64)
    words = TEXT.split()
    grams = [" ".join(words[at : at + 5]) for at in range(len(words) - 4)]
    hashes = [int(shingle_hashes(gram, unit="word", k=5, bag=False)[0]) for gram in grams]
    return np.array(list(dict.fromkeys(hashes))[:ELEMENTS], dtype=np.uint64)


def minima(scheme: str, kind: str, draws: int) -> NDArray[np.int64]:
    """Return how often each element held the minimum, in a slot for each of the seeds 1, 2, ..."""
    whole = elements(kind)
    sets = [whole, *(whole[at : at + 1] for at in range(len(whole)))]
    counts = np.zeros(len(whole), dtype=np.int64)
    for seed in range(1, draws + 1):
        slots = sign(sets, scheme=scheme, num_perm=SLOTS, seed=seed)[:, seed % SLOTS]
        counts[int(np.flatnonzero(slots[1:] == slots[0])[0])] += 1
    return counts


def chi_squared(counts: NDArray[np.int64]) -> float:
    """Return the sum of (count - expected)^2 / expected, for equally likely elements."""
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def probability_beyond(statistic: float, freedom: int) -> float:
    """Return the probability that chi-squared is larger, for an even number of degrees."""
    half, term, total = statistic / 2.0, 1.0, 0.0
    for number in range(freedom // 2):
        total += term
        term *= half / (number + 1)
    return math.exp(-half) * total


def family_bits(n: int) -> float:
    """Return log2 of lcm(1, ..., n), the fewest permutations of an exact family on n elements."""
    return math.log2(math.lcm(*range(1, n + 1)))


def draw(found: dict[tuple[str, str], NDArray[np.int64]]) -> str:
    """Draw n times the share of each element, halved: exact families lie at 1 / 2."""
    drawing = Drawing(
        "How often each element of a set of 21 holds the minimum of a slot",
        "element, in the order of the text or of the numbers",
        "share of the minima, in 2/21",
        ELEMENTS - 1.0,
    )
    for place, (scheme, kind, colour) in enumerate(CASES):
        counts = found[scheme, kind]
        shares = (counts / counts.sum() * ELEMENTS / 2.0).tolist()
        drawing.line([(float(at), share) for at, share in enumerate(shares)], colour, 1.6)
        drawing.text((1.0, 0.96 - 0.075 * place), f"{scheme}, {kind}", colour)
    return drawing.svg()


def main() -> None:
    """Draw the picture into a folder, and print the tables of the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plot_minima", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args()
    found = {}
    print("| scheme | set | chi-squared | probability of more | rarest | commonest |")
    print("|---|---|---|---|---|---|")
    for scheme, kind, _ in CASES:
        counts = found[scheme, kind] = minima(scheme, kind, options.draws)
        statistic = chi_squared(counts)
        shares = counts / counts.sum() * ELEMENTS
        chance = probability_beyond(statistic, ELEMENTS - 1)
        said = f"{chance:.2f}" if chance >= 0.005 else "below 0.005"
        print(
            f"| `{scheme}` | {kind} | {statistic:,.1f} | {said} | {shares.min():.3f} | "
            f"{shares.max():.3f} |"
        )
    for n in (10, 100, 1_000, 10_000):
        print(f"lcm(1..{n:,}): {family_bits(n):,.0f} bits")
    (options.folder / "minima.svg").write_text(draw(found), encoding="utf-8")


if __name__ == "__main__":
    main()

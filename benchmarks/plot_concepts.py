"""The pictures of README.md and docs/concepts: measured by an index, drawn as SVG.

    python -m benchmarks.plot_concepts docs/concepts

``s-curve.svg``: the probability that the bands of the default index find a pair, and the share of
pairs that an index really found at twenty similarities. ``bands.svg``: the curve at four choices of
bands and rows, all from 128 slots. ``thresholds.svg``: the curves that are chosen for five
thresholds. ``edits.svg``: how similar two texts are of which one word differs, by their length.
``steps.svg``: two documents on their way to a verified pair.

The files hold no font and no background, and their colours are read on white and on black. Needs
nothing but lshdb; writes the same bytes from the same figures.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from lshdb import Index, candidate_probability, choose_bands

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 28, 44
GREY, BLUE, ORANGE, GREEN, RED = "#7d8590", "#2f81f7", "#db6d28", "#2da44e", "#e5534b"
TOKENS = 120
RECALL, NUM_PERM = 0.99, 128  # the defaults of an index

Point = tuple[float, float]


def pair_of_sets(rng: random.Random, similarity: float) -> tuple[set[str], set[str]]:
    """Two sets of ``TOKENS`` tokens each, with about that Jaccard similarity."""
    own = round(TOKENS * (1.0 - similarity) / (1.0 + similarity))
    names = [f"{rng.getrandbits(64):x}" for _ in range(TOKENS + own)]
    return set(names[:TOKENS]), set(names[own:])


def measured(threshold: float, pairs: int) -> list[tuple[float, float, float]]:
    """Similarity, share of pairs that an index found, and two standard errors of it.

    Parameters
    ----------
    threshold : float
        Of the index; everything else is its default.
    pairs : int
        At each of 20 similarities.
    """
    rng = random.Random(1)
    similarity: dict[str, float] = {}
    documents = []
    for step in range(20):
        for number in range(pairs):
            one, other = pair_of_sets(rng, (step + 0.5) / 20)
            name = f"{step}-{number}"
            similarity[name] = len(one & other) / len(one | other)
            documents += [(f"{name}-a", one), (f"{name}-b", other)]
    found = dict.fromkeys(similarity, 0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Index.create(Path(folder) / "x.lshdb", threshold=threshold, store_text=False) as index,
    ):
        index.add(documents)
        for pair in index.pairs(verify="none", threshold=1e-6):
            if pair.key1[:-2] == pair.key2[:-2]:
                found[pair.key1[:-2]] = 1
    rows = []
    for step in range(20):
        names = [name for name in found if name.startswith(f"{step}-")]
        share = sum(found[name] for name in names) / len(names)
        error = 2.0 * math.sqrt(max(share * (1.0 - share), 0.0) / len(names))
        rows.append((sum(similarity[name] for name in names) / len(names), share, error))
    return rows


class Drawing:
    """A plot of what goes from 0 to 1, mostly over similarities.

    Parameters
    ----------
    title, across, up : str
        Of the picture and of its two axes.
    most : float
        The end of the horizontal axis.
    """

    def __init__(self, title: str, across: str, up: str, most: float = 1.0) -> None:
        self._most = most
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" font-family="sans-serif" '
            f'font-size="12" fill="{GREY}">',
            f"<title>{title}</title>",
        ]
        for tenth in range(0, 11, 2):
            value = tenth / 10
            x, y = self.place((value * most, value))
            self.line([(value * most, 0.0), (value * most, 1.0)], GREY, 0.3)
            self.line([(0.0, value), (most, value)], GREY, 0.3)
            self._parts.append(
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
                f"{value * most:g}</text>"
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
            )
        self._parts.append(
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
            f"{across}</text>"
            f'<text x="{LEFT}" y="{TOP - 10}">{up}</text>'
        )

    def place(self, point: Point) -> Point:
        return (
            LEFT + point[0] / self._most * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - point[1] * (HEIGHT - TOP - BOTTOM),
        )

    def line(self, points: Iterable[Point], colour: str, width: float = 2.0) -> None:
        places = " ".join("{:.1f},{:.1f}".format(*self.place(point)) for point in points)
        self._parts.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def point(self, point: Point, colour: str, error: float = 0.0) -> None:
        x, y = self.place(point)
        if error:
            ends = [(point[0], max(point[1] - error, 0.0)), (point[0], min(point[1] + error, 1.0))]
            self.line(ends, colour, 1.2)
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"/>')

    def text(self, point: Point, text: str, colour: str, anchor: str = "start") -> None:
        x, y = self.place(point)
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{text}</text>'
        )

    def svg(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])


def curve(bands: int, rows: int) -> list[Point]:
    """Similarity and the probability that bands find such a pair."""
    return [(s / 200, candidate_probability(s / 200, bands, rows)) for s in range(201)]


def draw_s_curve(points: Sequence[tuple[float, float, float]], threshold: float) -> str:
    """The curve of an index, and what it found."""
    bands, rows = choose_bands(threshold, RECALL, NUM_PERM)
    drawing = Drawing(
        f"How surely {bands} bands of {rows} rows find a pair",
        "Jaccard similarity of the pair",
        "probability that the index finds the pair",
    )
    drawing.line(curve(bands, rows), BLUE)
    for similarity, share, error in points:
        drawing.point((similarity, share), ORANGE, error)
    at = (threshold, candidate_probability(threshold, bands, rows))
    drawing.line([(threshold, 0.0), at], GREEN, 1.2)
    drawing.point(at, GREEN)
    drawing.text((0.02, 0.90), f"curve: 1 - (1 - s^{rows})^{bands}", BLUE)
    drawing.text((0.02, 0.81), "points: measured, with two standard errors", ORANGE)
    drawing.text((0.79, 0.06), f"threshold {threshold:g}", GREEN, "end")
    drawing.text((0.79, 0.15), f"found {at[1]:.4f}", GREEN, "end")
    return drawing.svg()


def draw_bands() -> str:
    """Curves of several choices of bands and rows."""
    drawing = Drawing(
        "The S-curve at four choices of bands and rows",
        "Jaccard similarity of the pair",
        "probability that the bands find the pair",
    )
    choices = (
        (35, 3, GREEN, 0.30),
        (25, 5, BLUE, 0.515),
        (16, 8, ORANGE, 0.735),
        (9, 13, RED, 0.87),
    )
    for bands, rows, colour, at in choices:
        drawing.line(curve(bands, rows), colour)
        place = (at, candidate_probability(at, bands, rows))
        drawing.text((place[0] - 0.015, place[1]), f"{bands} x {rows}", colour, "end")
    return drawing.svg()


def draw_thresholds() -> str:
    """The curves that an index takes for five thresholds, and where these lie."""
    drawing = Drawing(
        "The S-curve that is chosen for a threshold",
        "Jaccard similarity of the pair",
        "probability that an index with this threshold finds the pair",
    )
    colours = (RED, ORANGE, GREEN, BLUE, GREY)
    for number, colour in enumerate(colours):
        threshold = 0.5 + number / 10
        bands, rows = choose_bands(threshold, RECALL, NUM_PERM)
        drawing.line(curve(bands, rows), colour)
        drawing.point((threshold, candidate_probability(threshold, bands, rows)), colour)
        text = f"{threshold:g}: {bands} x {rows}"
        drawing.text((0.02, 0.92 - number * 0.09), text, colour)
    return drawing.svg()


def similarity_after_edit(words: int, k: int) -> float:
    """Jaccard similarity of two texts of distinct words of which the one in the middle differs."""
    one = [str(number) for number in range(words)]
    other = [*one[: words // 2], "another", *one[words // 2 + 1 :]]
    first, second = ({tuple(t[i : i + k]) for i in range(words - k + 1)} for t in (one, other))
    return len(first & second) / len(first | second)


def draw_edits() -> str:
    """What one changed word does to texts of 10 to 200 words."""
    drawing = Drawing(
        "How similar two texts are that differ in one word",
        "words of the text",
        "Jaccard similarity after one changed word",
        most=200.0,
    )
    choices = ((1, GREY), (2, GREEN), (3, BLUE), (5, ORANGE), (8, RED))
    for number, (k, colour) in enumerate(choices):
        lengths = range(max(10, k), 201)
        drawing.line([(n, similarity_after_edit(n, k)) for n in lengths], colour)
        text = f"{k} word{'s' * (k > 1)} a shingle"
        drawing.text((150.0, 0.44 - number * 0.09), text, colour)
    drawing.line([(0.0, 0.8), (200.0, 0.8)], GREY, 0.8)
    drawing.text((150.0, 0.73), "threshold 0.8", GREY)
    return drawing.svg()


def draw_steps() -> str:
    """Two documents, their signatures by band, the bucket that they share, and the pair."""
    rows, bands, side = 3, 4, 18
    # Slots of two similar documents: equal in three of four within band 2, in all of band 3.
    slots = [(7, 3, 9, 4, 1, 8, 2, 6, 5, 9, 0, 3), (7, 5, 9, 0, 1, 2, 2, 6, 5, 9, 4, 3)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 220" width="{WIDTH}" '
        f'height="220" role="img" font-family="sans-serif" font-size="12" fill="{GREY}">',
        "<title>From two documents to a verified pair</title>",
    ]

    def text(x: float, y: float, what: str, colour: str = GREY, anchor: str = "start") -> None:
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{what}</text>')

    def box(x: float, y: float, width: float, height: float, colour: str, thick: float = 1) -> None:
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="none" '
            f'stroke="{colour}" stroke-width="{thick:g}"/>'
        )

    for x, title in ((4, "documents"), (112, "shingles"), (232, "signatures, in bands"),
                     (520, "verified pair")):  # fmt: skip
        text(x, 18, title)
    for number, values in enumerate(slots):
        top = 40 + 84 * number
        name = "AB"[number]
        box(4, top, 76, 34, GREY)
        text(42, top + 21, f"text {name}", anchor="middle")
        text(90, top + 21, "\u2192")
        for line in range(3):
            box(112, top - 4 + 15 * line, 84, 11, GREY, 0.6)
        text(206, top + 21, "\u2192")
        for slot, value in enumerate(values):
            x = 232 + slot * side + slot // rows * 10
            equal = slots[0][slot] == slots[1][slot]
            box(x, top + 6, side, 22, BLUE if equal else GREY, 1.4 if equal else 0.6)
            text(x + side / 2, top + 21, str(value), BLUE if equal else GREY, "middle")
    left = 232 + 2 * (rows * side + 10) - 4
    box(left, 34, rows * side + 8, 132, ORANGE, 2)
    text(left + rows * side / 2 + 4, 98, "same", ORANGE, "middle")
    text(left + rows * side / 2 + 4, 112, "bucket", ORANGE, "middle")
    for band in range(bands):
        x = 232 + band * (rows * side + 10) + rows * side / 2
        text(x, 190, f"band {band + 1}", ORANGE if band == 2 else GREY, "middle")
    text(232, 210, "One equal band makes A and B a candidate pair.", ORANGE)
    text(496, 104, "\u2192")
    box(520, 78, 104, 44, GREEN, 2)
    text(572, 97, "A, B: 0.684", GREEN, "middle")
    text(572, 113, "exact", GREEN, "middle")
    return "\n".join([*parts, "</svg>", ""])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plot_concepts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=1000, help="measured at each similarity")
    options = parser.parse_args(arguments)
    drawn = {
        "s-curve.svg": draw_s_curve(measured(0.8, options.pairs), 0.8),
        "bands.svg": draw_bands(),
        "thresholds.svg": draw_thresholds(),
        "edits.svg": draw_edits(),
        "steps.svg": draw_steps(),
    }
    for name, svg in drawn.items():
        (options.folder / name).write_text(svg, encoding="utf-8")
        print(options.folder / name)


if __name__ == "__main__":
    main()

"""One picture for each metric: how probably a slot is equal, and how surely a pair is found.

    python -m benchmarks.plot_families docs/families

Left the probability of an equal slot: the curve, and at twenty distances the share of slots that
were equal, of one pair signed with many seeds, with two standard errors to either side. Right the
probability that bands find a pair, with the bands that are chosen for a threshold by default.
Needs matplotlib; writes ``METRIC.svg`` into the folder, the same bytes from the same figures.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.params.index_params import IndexParams
from lshdb.params.options import CreateOptions
from lshdb.signatures.families import family_of

Floats = NDArray[np.float64]

SLOTS = 256
DISTANCES = 20
_TOKENS = 80


@dataclass(frozen=True)
class Picture:
    """A metric, pairs for it, and the threshold of its bands.

    Attributes
    ----------
    schemes : sequence of str
    threshold : float
    least, most : float
        Ends of the axis: similarities or distances.
    pair : callable
        (generator, value) -> two bodies with about that similarity or distance.
    options : dict
    """

    metric: str
    schemes: Sequence[str]
    threshold: float
    least: float
    most: float
    pair: Callable[[np.random.Generator, float], tuple[Any, Any]]
    options: dict[str, Any]


def _turned(rng: np.random.Generator, cosine: float) -> tuple[Any, Any]:
    one, other = rng.standard_normal((2, 100))
    other -= one * (one @ other) / (one @ one)
    other *= np.linalg.norm(one) / np.linalg.norm(other)
    return one, cosine * one + math.sqrt(1.0 - cosine * cosine) * other


def _apart(norm: int) -> Callable[[np.random.Generator, float], tuple[Any, Any]]:
    def pair(rng: np.random.Generator, distance: float) -> tuple[Any, Any]:
        one, by = rng.standard_normal((2, 32))
        return one, one + by * (distance / np.linalg.norm(by, norm))

    return pair


def _flipped(rng: np.random.Generator, distance: float) -> tuple[Any, Any]:
    one = rng.random(256) < 0.5
    return one, one ^ (rng.permutation(256) < round(distance))


def _sharing(similarity: float) -> int:
    """Of two sets of as many tokens, how many each has for itself."""
    return round(_TOKENS * (1.0 - similarity) / (1.0 + similarity))


def _tokens(rng: np.random.Generator, similarity: float) -> tuple[Any, Any]:
    names = [f"{number:x}" for number in rng.integers(0, 2**60, 2 * _TOKENS)]
    own = _sharing(similarity)
    return names[:_TOKENS], names[own : own + _TOKENS]


def _weights(rng: np.random.Generator, similarity: float) -> tuple[Any, Any]:
    one, other = _tokens(rng, similarity)
    heavy = dict(zip(dict.fromkeys([*one, *other]), rng.gamma(0.7, size=2 * _TOKENS), strict=False))
    return {name: heavy[name] for name in one}, {name: heavy[name] for name in other}


def _set_bits(rng: np.random.Generator, similarity: float) -> tuple[Any, Any]:
    places, own = rng.permutation(256), _sharing(similarity)
    return places < _TOKENS, (places >= own) & (places < own + _TOKENS)


PICTURES = [
    Picture("jaccard", ("fss", "universal"), 0.8, 0.0, 1.0, _tokens, {"k": 1}),
    Picture("cosine", ("hyperplane", "hadamard"), 0.8, -1.0, 1.0, _turned, {"dim": 100}),
    Picture("hamming", ("bits",), 16.0, 0.0, 256.0, _flipped, {"dim": 256}),
    Picture("l1", ("cauchy",), 4.0, 0.0, 40.0, _apart(1), {"dim": 32}),
    Picture("l2", ("gaussian",), 1.0, 0.0, 10.0, _apart(2), {"dim": 32}),
    Picture("weighted-jaccard", ("icws",), 0.8, 0.0, 1.0, _weights, {"k": 1}),
    Picture("jaccard-bits", ("fss", "universal"), 0.8, 0.0, 1.0, _set_bits, {"dim": 256}),
]


def measured(
    picture: Picture, scheme: str, seeds: int
) -> tuple[IndexParams, Floats, Floats, Floats]:
    """Parameters, similarities or distances, shares of equal slots and their standard errors."""
    rng = np.random.default_rng(1)
    params = CreateOptions(
        metric=picture.metric, scheme=scheme, threshold=picture.threshold, **picture.options
    ).params()
    shape = {"bands": 1, "rows": 1, "num_perm": SLOTS, "width": params.width or None}
    ends = np.linspace(picture.least, picture.most, 2 * DISTANCES + 1)[1::2]
    pairs = [picture.pair(rng, value) for value in ends.tolist()]
    bodies = [body for pair in pairs for body in pair]
    shares = np.empty((seeds, DISTANCES))
    for seed in range(seeds):
        family = family_of(
            CreateOptions(
                metric=picture.metric, scheme=scheme, threshold=picture.threshold, seed=seed + 1,
                **shape, **picture.options,
            ).params()
        )  # fmt: skip
        points = family.points(family.contents(bodies))
        rows = family.sign(points)
        if params.slot_bits == 1:
            rows = np.unpackbits(rows.view(np.uint8), axis=1)
        shares[seed] = (rows[0::2] == rows[1::2]).mean(axis=1)
    levels = family.levels(points[0::2], points[1::2])
    values = np.array([params.curve.value(level) for level in levels.tolist()])
    return params, values, shares.mean(axis=0), shares.std(axis=0, ddof=1) / math.sqrt(seeds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plot_families", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=40)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        path = options.folder / f"{picture.metric}.svg"
        _draw(picture, options.seeds, path)
        print(path)


def _draw(picture: Picture, seeds: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update(
        {"svg.hashsalt": "lshdb", "svg.fonttype": "none", "font.size": 8, "axes.linewidth": 0.5}
    )
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(6.4, 2.3), sharey=True)
    line = np.linspace(picture.least, picture.most, 161)
    for number, scheme in enumerate(picture.schemes):
        params, values, shares, errors = measured(picture, scheme, seeds)
        if number == 0:
            curve = params.curve
            agreement = [curve.probability(curve.level(value)) for value in line.tolist()]
            left.plot(line, agreement, color="0.6", linewidth=0.9, label="curve")
        left.errorbar(
            values, shares, 2.0 * errors, fmt="ox"[number], markersize=2.5, linewidth=0.7,
            label=scheme,
        )  # fmt: skip
        if number == 0:
            found = [params.recall_at(value) for value in line.tolist()]
            label = f"{params.bands} x {params.rows}"
            right.plot(line, found, color="C2", linewidth=1.0, label=label)
    right.plot([picture.threshold], [params.recall], "ks", markersize=3, label="promised")
    what = "distance" if params.kind.is_distance else "similarity"
    width = f", width {params.width:.3g}" if params.width else ""
    for axes, title in ((left, f"a slot is equal{width}"), (right, "a pair is found")):
        axes.set_xlabel(f"{picture.metric} {what}")
        axes.set_title(f"probability that {title}", fontsize=8)
        axes.set_ylim(-0.02, 1.04)
        axes.grid(linewidth=0.2)
        axes.legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()

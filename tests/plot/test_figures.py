"""Figures show the numbers of the index, and files of them are whole and the same each time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, LshdbError, ParameterError, advise, s_curve
from lshdb import plot as pictures
from lshdb.errors import install_command
from tests.conftest import family_corpus

Make = Callable[..., Index]


def bars(figure: Any) -> list[tuple[float, float]]:
    """Left edge and height of each bar."""
    (axes,) = figure.axes
    return [(bar.get_x(), bar.get_height()) for bar in axes.patches]


def points(figure: Any, number: int = 0) -> list[tuple[float, float]]:
    (axes,) = figure.axes
    x, y = axes.lines[number].get_data()
    return list(zip(map(float, x), map(float, y), strict=True))


@pytest.fixture
def families(make_index: Make) -> Index:
    index = make_index(threshold=0.5, k=2)
    corpus = family_corpus(7)
    index.add(corpus[:40])
    index.add([*corpus[40:], ("copy", corpus[0][1]), ("bad", 7)])
    return index


@pytest.mark.fast
def test_the_s_curve_is_that_of_the_bands(families: Index) -> None:
    curve = s_curve(families.params)
    figure = pictures.s_curve(families)
    assert points(figure) == list(zip(curve.similarities, curve.found, strict=True))
    assert points(pictures.s_curve(families.params)) == points(pictures.s_curve(curve))
    assert [x for x, _ in points(figure, 1)] == [0.5, 0.5]
    assert points(figure, 2) == [(0.5, 0.99)]


def test_measured_recall_is_drawn_with_its_interval(families: Index) -> None:
    measured = families.recall(sample=None)
    slices = [part for part in measured.slices if part.recall is not None]
    for figure in (pictures.recall(measured), pictures.s_curve(families, measured=measured)):
        (axes,) = figure.axes
        (container,) = axes.containers
        line, _, (spans,) = container
        assert [float(y) for y in line.get_data()[1]] == [part.recall for part in slices]
        ends = [tuple(map(float, span[:, 1])) for span in spans.get_segments()]
        assert ends == [
            (pytest.approx(part.lower), pytest.approx(max(part.upper or 0, part.recall or 0)))
            for part in slices
        ]
    expected = [part.expected for part in slices if part.expected is not None]
    (axes,) = pictures.recall(measured).axes
    level = [level_line for level_line in axes.lines if level_line.get_linewidth() == 2]
    assert [float(one.get_ydata()[0]) for one in level] == expected


@pytest.mark.parametrize("threshold", [None, 0.8])
def test_every_pair_is_in_a_bar(families: Index, threshold: float | None) -> None:
    pairs = [pair.similarity for pair in families.pairs(threshold=threshold)]
    figure = pictures.similarity(families, threshold=threshold, bins=10)
    *drawn, (_, copies) = bars(figure)
    assert copies == pairs.count(1.0) > 0
    low = Fraction(str(threshold or 0.5))
    exact = [Fraction(level).limit_denominator(1000) for level in pairs]
    counts = Counter(int((level - low) / ((1 - low) / 10)) for level in exact if level < 1)
    assert [height for _, height in drawn] == [counts[place] for place in range(10)]
    assert sum(height for _, height in bars(figure)) == len(pairs)
    assert figure.axes[0].get_title() == f"{len(pairs):,} near-duplicate pairs"
    with pytest.raises(ParameterError, match="bins is 0"):
        pictures.similarity(families, bins=0)


def test_a_pair_on_an_edge_is_in_the_bar_nearer_to_the_best(make_index: Make) -> None:
    index = make_index(threshold=0.5, k=1)
    for n in range(5, 10):  # n of 10 words in common: similarity n / 10
        words = [f"w{n}x{m}" for m in range(10)]
        index.add([(f"a{n}", " ".join(words)), (f"b{n}", " ".join(words[:n]))])
    assert sorted(pair.similarity for pair in index.pairs()) == [0.5, 0.6, 0.7, 0.8, 0.9]
    counts = [height for _, height in bars(pictures.similarity(index))]
    assert [place for place, count in enumerate(counts) if count] == [0, 8, 16, 24, 32]


def test_distances_begin_with_the_nearest(make_index: Make) -> None:
    index = make_index(metric="l2", dim=4, threshold=2.0)
    rng = np.random.default_rng(1)
    index.add([(f"v{n}", rng.normal(size=4).astype(np.float32) / 3) for n in range(60)])
    distances = [pair.distance or 0.0 for pair in index.pairs()]
    figure = pictures.similarity(index, bins=8)
    assert sum(height for _, height in bars(figure)) == len(distances)
    assert figure.axes[0].get_xlabel() == "distance"
    assert 0.0 not in distances and figure.axes[0].get_legend() is None
    nothing = pictures.similarity(index, threshold=1e-9).axes[0].texts
    assert [text.get_text() for text in nothing] == ["no pair of distance at most 1e-09"]
    nearest = sum(distance < 0.25 for distance in distances)
    assert sum(height for left, height in bars(figure) if 0 < left + 0.125 < 0.25) == nearest
    assert "distance of a pair" in pictures.s_curve(index).axes[0].get_xlabel()


def test_clusters_and_buckets_by_size(families: Index) -> None:
    sizes = Counter(len(cluster.keys) for cluster in families.clusters())
    assert points(pictures.clusters(families)) == sorted(sizes.items())
    stats = families.stats()
    drawn = points(pictures.buckets(families))
    assert sum(n for size, n in drawn if size > 1) == stats.shared_buckets
    assert max(size for size, _ in drawn) == stats.largest_bucket


def test_each_add_is_a_bar(families: Index) -> None:
    families.add([("copy", "now it has another text")])
    figure = pictures.batches(families)
    assert sum(height for _, height in bars(figure)) == len(families) + 2
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "added", "replaced", "rejected", "of these, exact copies",
    }  # fmt: skip
    assert [height for _, height in bars(figure) if height == 1] == [1, 1]
    assert [y for _, y in points(figure)] == [batch.n_copies for batch in families.batches()]


def test_advice_shows_the_histogram_and_the_proposals() -> None:
    advice = advise(family_corpus(7))
    figure = pictures.advice(advice)
    slices = [part for part in advice.histogram.slices if part.pairs]
    assert [height for _, height in bars(figure)] == [part.pairs for part in slices]
    own = [choice for choice in advice.choices if choice.k == advice.histogram.k]
    assert [points(figure, n)[0][0] for n in range(len(own))] == [
        choice.threshold for choice in own
    ]


@pytest.mark.parametrize("n", [0, 1])
def test_where_there_is_nothing_to_draw(make_index: Make, n: int) -> None:
    index = make_index(bands=1, rows=1)
    index.add([("a", "some words that nothing else has")][:n])
    said = [draw(index).axes[0].texts for draw in pictures.FIGURES.values()]
    assert [texts[0].get_text() if texts else "" for texts in said] == [
        "", "no pair of similarity at least 0.8", "" if n else "no bucket", "no cluster",
        "" if n else "nothing was added", "no pair to measure",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_files(families: Index, tmp_path: Path, ending: str, begins: bytes) -> None:
    paths = [tmp_path / f"{n}.{ending}" for n in range(2)]
    for path in paths:
        pictures.save(pictures.s_curve(families), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes().startswith(begins)
    with pytest.raises(LshdbError, match="exists"):
        pictures.save(pictures.s_curve(families), paths[0])
    pictures.save(pictures.clusters(families), paths[0], overwrite=True)
    assert paths[0].read_bytes() != paths[1].read_bytes()
    with pytest.raises(ParameterError, match=r"ends in \.svg, \.png or \.pdf"):
        pictures.save(pictures.s_curve(families), tmp_path / "a.gif")
    assert len(list(tmp_path.glob("*.*"))) - len(list(tmp_path.glob("*.lshdb"))) == 2


def test_matplotlib_is_left_as_it_was(families: Index) -> None:
    code = (
        "import sys, lshdb\n"
        f"index = lshdb.Index.open({str(families.path)!r})\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from lshdb import plot\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib\n"
        "before = dict(matplotlib.rcParams)\n"
        "plot.save(plot.s_curve(index), sys.argv[1])\n"
        "assert dict(matplotlib.rcParams) == before\n"
        "from matplotlib import _pylab_helpers\n"
        "assert not _pylab_helpers.Gcf.figs\n"
    )
    subprocess.run([sys.executable, "-c", code, str(families.path) + ".svg"], check=True)


def test_without_matplotlib(families: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(LshdbError, match="pictures need matplotlib") as caught:
        pictures.s_curve(families)
    assert caught.value.hint == install_command("plot")


def test_few_things_are_marked_by_whole_numbers(make_index: Make) -> None:
    index = make_index(bands=1, rows=1)
    index.add([("a", "some words that nothing else has")])
    assert pictures.s_curve(index).axes[0].get_title() == "1 band of 1 row"
    (axes,) = pictures.batches(index).axes
    assert [float(tick) for tick in axes.get_yticks() if 0 <= tick <= 1] == [0, 1]
    (axes,) = pictures.buckets(index).axes
    low, high = axes.get_xlim()
    assert [float(tick) for tick in axes.get_xticks() if low <= tick <= high] == [1, 10]

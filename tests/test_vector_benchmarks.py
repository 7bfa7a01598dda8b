"""The benchmarks of vectors and of all metrics run; nothing looks at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import all_pairs, plot_families, vectors
from benchmarks._exact_pairs import exact_pairs
from benchmarks._nearest_truth import Nearest
from benchmarks._vector_jobs import run_vectors_here
from benchmarks.peers._searching import SEARCHERS, SearchContestant
from lshdb.params.metrics import METRICS
from lshdb.signatures.families import family_of
from tests.quality.planted import between
from tests.signatures.families import params_of

pytestmark = pytest.mark.sqlite("benchmarks name their databases themselves")


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    """A folder with a few vectors in the place of GloVe's."""
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((20, 100))
    rows = np.repeat(centres, 20, axis=0) + 0.4 * rng.standard_normal((400, 100))
    np.save(tmp_path / "glove.npy", rows.astype(np.float32))
    (tmp_path / "glove.keys").write_text("".join(f"word{number}\n" for number in range(400)))
    return tmp_path


def test_the_nearest_are_measured(
    glove: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = SearchContestant("nobody", "lshdb-has-no-such-peer", "nobody", "")
    chosen = [one for one in SEARCHERS if one.name in ("lshdb 24 x 16", "NumPy, all vectors")]
    monkeypatch.setattr(vectors, "SEARCHERS", [*chosen, nobody])
    arguments = [str(glove), "--queries", "12", "--timed", "3", "--repeats", "1"]
    vectors.main([*arguments, "--vectors", "300"], run=run_vectors_here)
    printed = capsys.readouterr().out
    recalls = dict(
        re.findall(r"^lshdb 24 x 16 +(own buckets|0\.\d+) +([01]\.\d{4}) ", printed, re.M)
    )
    assert list(recalls) == ["own buckets", "0.5", "0.8", "0.9", "0.95", "0.99"]
    assert float(recalls["0.99"]) > 0.9
    assert float(recalls["own buckets"]) < 1.0
    assert re.search(r"^NumPy, all vectors +1\.0000 +300 ", printed, re.M), "recall, vectors read"
    assert re.search(r"^nobody .*not installed", printed, re.M)


def test_each_contestant_has_a_process_of_its_own(
    glove: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(glove), "--queries", "5", "--timed", "2", "--repeats", "1", "--markdown"]
    vectors.main([*arguments, "--only", "NumPy"])
    printed = capsys.readouterr().out
    assert re.search(r"^\| NumPy, all vectors \| +\| +1\.0000 \| +400 \|", printed, re.M)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("contestant", SEARCHERS[::3], ids=lambda one: one.name)
def test_searchers_leave_out_who_asks(contestant: SearchContestant, glove: Path) -> None:
    if not contestant.version():
        pytest.skip(f"{contestant.package} is not installed")
    module = __import__(f"benchmarks.peers.{contestant.module}", fromlist=["searcher"])
    searcher = module.searcher(contestant.variant)
    searcher.build(glove / "glove.npy", glove)
    effort = searcher.efforts[-1]
    together = searcher.many([3, 200], effort)
    for number, row in zip((3, 200), together, strict=True):
        one = list(searcher.one(number, effort).numbers)
        assert one == list(row)
        assert number not in one
        assert len(one) == 10
        assert sum(each // 20 == number // 20 for each in one) >= 8


def test_recall_is_the_share_of_the_ten_nearest() -> None:
    rows = np.random.default_rng(1).standard_normal((50, 8))
    truth = Nearest.of(rows, 4)
    units = rows / np.linalg.norm(rows, axis=1)[:, None]
    cosines = units[truth.queries] @ units.T
    order = [[*np.argsort(-line)] for line in cosines]
    assert [line[0] for line in order] == truth.queries
    assert truth.recall(rows, [line[1:11] for line in order]) == 1.0
    assert truth.recall(rows, [line[:11] for line in order]) == 1.0
    assert truth.recall(rows, [line[1:6] + line[11:20] for line in order]) == 0.5
    assert truth.recall(rows, [[line[1]] * 10 for line in order]) == 0.1
    assert truth.recall(rows, [[], [], [], []]) == 0.0


@pytest.mark.parametrize("metric", [name for name in METRICS if name != "jaccard"])
def test_exact_pairs_are_those_of_the_definition(metric: str) -> None:
    rng = np.random.default_rng(4)
    bodies: Any = rng.integers(0, 5, (30, 40)).astype(np.uint8)
    if METRICS[metric].body == "bits":
        bodies = rng.random((30, 400)) < 0.5
    if metric == "weighted-jaccard":
        bodies = [
            {f"{place}": float(value) for place, value in enumerate(row) if value}
            for row in bodies.tolist()
        ]
    params = params_of(metric, [*METRICS[metric].families][-1], bands=1)
    family = family_of(params)
    points = family.points(family.contents(list(bodies)))
    every = [(left, right) for left in range(30) for right in range(left + 1, 30)]
    levels = family.levels(*([points[pair[side]] for pair in every] for side in (0, 1)))
    values = [params.curve.value(level) for level in levels.tolist()]
    middle = sorted(values)[200]
    is_distance = params.kind.is_distance
    expected = {
        pair: value
        for pair, value in zip(every, values, strict=True)
        if (value <= middle if is_distance else value >= middle)
    }
    found = exact_pairs(metric, bodies, middle * (1.0 + 1e-12 * (1 if is_distance else -1)))
    assert found == pytest.approx(expected)
    (one, other), value = next(iter(found.items()))
    wide = bodies if METRICS[metric].body in ("bits", "weights") else bodies.astype(np.float64)
    assert between(metric, wide[one], wide[other]) == pytest.approx(value)


def test_all_pairs_are_counted(
    glove: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    pixels = np.repeat(rng.integers(0, 17, (12, 64)), 2, axis=0)
    pixels[::2, :8] = (pixels[::2, :8] + 1) % 17
    monkeypatch.setattr(all_pairs, "digits", lambda: pixels.astype(np.uint8))
    monkeypatch.setattr(all_pairs, "fetch", lambda folder: (folder / "glove.npy", None))
    all_pairs.main(["--glove", str(glove), "--vectors", "60", "--seeds", "1", "--only", "ham,jac"])
    printed = capsys.readouterr().out
    lines = re.findall(r"^(hamming|jaccard-bits) +(\w+) .* ([01]\.\d{5}) .* 1\.0 ", printed, re.M)
    assert {line[1] for line in lines} == {"bits", "fss", "universal"}
    assert all(float(line[2]) > 0.9 for line in lines)


@pytest.mark.parametrize("picture", plot_families.PICTURES, ids=lambda one: one.metric)
def test_what_is_drawn_lies_on_the_curve(picture: plot_families.Picture) -> None:
    params, values, shares, errors = plot_families.measured(picture, picture.schemes[0], 6)
    expected = [params.curve.probability(params.curve.level(value)) for value in values.tolist()]
    assert values == pytest.approx(np.linspace(picture.least, picture.most, 41)[1::2], abs=0.6)
    assert np.abs(shares - expected).max() < 0.1
    assert (errors < 0.05).all()

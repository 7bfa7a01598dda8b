"""Vectors and bits on the command line: an index made for its input, what is refused, queries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import Index, IndexParams
from tests.cli.conftest import Run, sound

RNG = np.random.default_rng(5)
POINTS = RNG.normal(size=(300, 8)).astype("f4")
POINTS[200:] = POINTS[:100] + np.float32(0.001)


def saved(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


def params_of(path: Path) -> IndexParams:
    with Index.open(path) as index:
        return index.params


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("points") / "points.npy", POINTS)


@pytest.fixture(scope="module")
def index_path(points: Path) -> Iterator[Path]:
    path = points.parent / "points.lshdb"
    with Index.create(path, metric="l2", threshold=0.1, dim=8, sample=list(POINTS)) as index:
        index.add((f"k{number}", row) for number, row in enumerate(POINTS))
    yield path


@pytest.mark.parametrize(
    ("metric", "threshold"), [("l2", "0.1"), ("l1", "0.1"), ("cosine", "0.999")]
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_an_index_is_made_for_its_input(
    dtype: str, metric: str, threshold: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "a.lshdb"
    array = POINTS.astype(dtype)
    vectors = saved(tmp_path / "v.npy", array)
    options = ("--metric", metric, "--threshold", threshold)
    added = run("add", path, vectors, *options)
    assert "added 300" in added.stderr and "8 float" in added.stderr
    params = params_of(path)
    assert (params.metric, params.dim, params.dtype) == (metric, 8, array.dtype.name)
    found = run("query", path, "--key", "7", "--top", "1").stdout.splitlines()
    assert found[-1].split("\t")[1] == "207"
    assert "unchanged 300" in run("add", path, vectors, *options, "--dim", "8").stderr
    assert sound(path)


def test_the_sample_chooses_the_width(run: Run, tmp_path: Path) -> None:
    """Far points let it be wide; a typical corpus is taken where there is no sample."""
    far = saved(tmp_path / "far.npy", np.arange(3200.0).reshape(400, 8) ** 2)
    run("add", tmp_path / "a.lshdb", far, "--metric", "l2", "--threshold", "0.1")
    run("init", tmp_path / "b.lshdb", "--metric", "l2", "--threshold", "0.1", "--dim", "8")
    seen, typical = params_of(tmp_path / "a.lshdb"), params_of(tmp_path / "b.lshdb")
    assert seen.bands * seen.rows < typical.bands * typical.rows
    assert (seen.dtype, typical.dtype) == ("float64", "float32")


def test_what_is_given_counts_more_than_what_is_seen(
    run: Run, points: Path, tmp_path: Path
) -> None:
    given = "--metric l2 --threshold 0.1 --dtype float64 --width 0.5 --no-vectors"  # fmt: skip
    options = given.split()
    run("add", tmp_path / "a.lshdb", points, *options)
    params = params_of(tmp_path / "a.lshdb")
    assert (params.dim, params.dtype, params.width) == (8, "float64", 0.5)
    assert not params.store_text
    options += ["--dim", "7", "--max-errors", "0"]
    wrong = run("add", tmp_path / "b.lshdb", points, *options, code=1)
    assert "holds vectors of 8 numbers, expected 7" in wrong.stderr
    assert not (tmp_path / "b.lshdb").exists()


def test_every_bad_row_is_named(run: Run, tmp_path: Path) -> None:
    array = POINTS.copy()
    array[0] = 0
    array[17, 3], array[18, 7], array[19, 0] = np.nan, np.inf, -np.inf
    vectors = saved(tmp_path / "v.npy", array)
    lines = run(
        "add", tmp_path / "a.lshdb", vectors, "--metric", "cosine", "--threshold", "0.99", code=5
    ).stderr.splitlines()
    assert [line for line in lines if ": row " in line] == [
        f"{vectors}: row 0: the vector is zero or nearly zero and has no direction",
        f"{vectors}: row 17: number 4 is NaN",
        f"{vectors}: row 18: number 8 is infinity",
        f"{vectors}: row 19: number 1 is minus infinity",
    ]
    short = saved(tmp_path / "short.npy", array[:2, :5])
    said = run("add", tmp_path / "a.lshdb", short, code=5)
    assert f"{short}: holds vectors of 5 numbers, expected 8" in said.stderr
    assert "rejected 1;" in said.stderr
    lines = b'{"id": 1, "vector": [1, 2]}\n{"id": 2, "vector": "x"}\n{"id": 3, "vector": null}\n'
    said = run("add", tmp_path / "a.lshdb", "-", code=5, stdin=lines)
    assert "<stdin>:1: the vector has 2 numbers, expected 8" in said.stderr
    assert "<stdin>:2: the vector is of type str" in said.stderr
    assert "<stdin>:3: body 'vector' is null" in said.stderr
    with Index.open(tmp_path / "a.lshdb") as index:
        assert index.stats().documents == 296
    assert sound(tmp_path / "a.lshdb")


def test_bytes_that_may_be_bits_are_asked_about(run: Run, tmp_path: Path) -> None:
    bits = np.random.default_rng(3).integers(0, 2, (30, 16)).astype(np.uint8)
    path, file = tmp_path / "a.lshdb", saved(tmp_path / "bits.npy", bits)
    options = ("--metric", "hamming", "--threshold", "2")
    said = run("add", path, file, *options, code=1)
    assert "--dim 16 or --dim 128" in said.stderr and not path.exists()
    run("add", path, file, *options, "--dim", "16")
    run("add", path, saved(tmp_path / "b.npy", bits.astype(bool)))
    with Index.open(path) as index:
        assert index.stats().documents == 30  # the same rows, under the same keys
        assert index.query("".join(map(str, bits[3])), threshold=0)[0].key == "3"
    odd = run("add", path, saved(tmp_path / "c.npy", bits[:, :5]), code=5)
    assert "holds rows of 5, expected 16 bits, or 2 bytes of packed bits" in odd.stderr


def test_vectors_need_a_metric(run: Run, points: Path, tmp_path: Path) -> None:
    for words in (("add", tmp_path / "a.lshdb", points), ("tune", points)):
        said = run(*words, code=1)
        assert "holds vectors" in said.stderr and "--metric" in said.stderr
    assert not (tmp_path / "a.lshdb").exists()


def test_tune_takes_no_file_that_it_would_not_use(run: Run, points: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "a", "text": "b"}\n')
    weighted = ("--metric", "weighted-jaccard")
    said = run("tune", tmp_path / "a.jsonl", *weighted, code=2)
    assert "a sample of FILE makes no difference" in said.stderr and said.stdout == ""
    run("tune", *weighted)
    options = ("--metric", "l2", "--threshold", "1", "--format", "jsonl")
    shifted = saved(tmp_path / "wide.npy", np.load(points) * 100)
    widths = {run("tune", file, *options).stdout for file in (points, shifted)}
    assert len(widths) == 2


def test_without_a_vector_there_is_no_dimension(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    options = ("--metric", "l2", "--threshold", "1")
    empty = saved(tmp_path / "v.npy", np.zeros((0, 8)))
    for file in (empty, saved(tmp_path / "w.npy", np.arange(8)), "-"):
        said = run("add", path, file, *options, code=1)
        assert "the input has no vector" in said.stderr and "--dim" in said.stderr
        assert not path.exists()
    said = run("add", path, empty, *options, "--dim", "8", code=1)
    assert "no document was accepted; the index" in said.stderr and not path.exists()
    assert "--dim" in run("init", tmp_path / "b.lshdb", *options, code=2).stderr


def test_it_is_said_why_there_is_no_vector(run: Run, tmp_path: Path) -> None:
    file = saved(tmp_path / "v.npy", np.zeros((3, 8), dtype=np.int64))
    options = ("--metric", "l2", "--threshold", "1")
    for command in (("add", tmp_path / "a.lshdb"), ("pairs",), ("tune",)):
        said = run(*command, file, *options, code=1 if command[0] != "tune" else 2).stderr
        assert f"{file}: holds int64, expected float32" in said and "--dim" in said


def test_keys_of_rows(run: Run, points: Path, tmp_path: Path) -> None:
    path, keys = tmp_path / "a.lshdb", tmp_path / "keys.txt"
    options = ("--metric", "l2", "--threshold", "0.1", "--keys", keys)
    keys.write_text("".join(f"key {number}\n" for number in range(299)))
    said = run("add", path, points, *options, code=1)
    assert "has 299 keys, but there are 300 vectors" in said.stderr
    assert not path.exists()
    with open(keys, "a") as file:
        file.write("the last\n")
    run("add", path, points, *options)
    found = run("query", path, "--key", "key 99", "--format", "tsv").stdout
    assert found.split("\t")[:2] == ["key 99", "the last"]
    again = saved(tmp_path / "again.npy", POINTS[:2])
    said = run("add", path, again, points, "--keys", keys, code=1)
    assert "the input is 2 files" in said.stderr
    run("add", path, again, points)
    with Index.open(path) as index:
        keys_there = {key for (key,) in index.sql("SELECT key FROM document").rows}
    assert {f"{again}:1", f"{points}:299", "the last"} <= keys_there


def test_bits(run: Run, tmp_path: Path) -> None:
    bits = RNG.random((200, 64)) < 0.5
    bits[100:] = bits[:100]
    bits[100:, 5] ^= True
    packed = np.packbits(bits, axis=1)
    lines = [
        json.dumps({"id": number, "vector": row.tobytes().hex()}) + "\n"
        for number, row in enumerate(packed)
    ]
    options = ("--metric", "hamming", "--threshold", "2")
    run("add", tmp_path / "a.lshdb", saved(tmp_path / "bool.npy", bits), *options)
    run("add", tmp_path / "b.lshdb", saved(tmp_path / "packed.npy", packed), *options)
    run("add", tmp_path / "c.lshdb", "-", *options, stdin="".join(lines))
    digits = "".join(map(str, bits[3].astype(int)))
    for name in "abc":
        path = tmp_path / f"{name}.lshdb"
        assert (params_of(path).dim, params_of(path).dtype) == (64, "bits")
        for query in (digits, packed[3].tobytes().hex()):
            found = run("query", path, "--vector", query, "--format", "tsv").stdout
            assert [line.split("\t")[:2] for line in found.splitlines()] == [
                ["vector", "3"], ["vector", "103"],
            ]  # fmt: skip
        assert sound(path)
    said = run("query", path, "--vector", "012", code=1)
    assert "the string has 3 characters, expected 64" in said.stderr


def test_weights(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    lines = [
        {"id": "a", "weights": {"x": 2.0, "y": 1, "z": 0.5}},
        {"id": "b", "weights": {"x": 2.0, "y": 1, "z": 0.4, "w": 0}},
        {"id": "c", "text": "x x y"},
        {"id": "d", "weights": {"x": -1}},
        {"id": "e", "weights": [1, 2]},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    said = run("add", path, "-", "--metric", "weighted-jaccard", "--k", "1", code=5, stdin=stdin)
    assert "added 3" in said.stderr
    assert "<stdin>:4: " in said.stderr and "<stdin>:5: " in said.stderr
    for query in ("--text", "x x y"), ("--vector", '{"x": 2, "y": 1}'):
        found = run("query", path, *query, "--format", "tsv").stdout.splitlines()
        assert [line.split("\t")[1:3] for line in found] == [
            ["c", "1.000000"], ["b", f"{3 / 3.4:.6f}"], ["a", f"{3 / 3.5:.6f}"],
        ]  # fmt: skip
    assert sound(path)


def test_queries(run: Run, index_path: Path, points: Path) -> None:
    query = json.dumps(POINTS[5].tolist())
    found = run("query", index_path, "--vector", query, "--format", "tsv").stdout
    assert [line.split("\t")[1] for line in found.splitlines()] == ["k5", "k205"]
    found = run("query", index_path, points, "--top", "1", "--format", "tsv").stdout.splitlines()
    assert [line.split("\t")[:2] for line in found] == [[str(n), f"k{n}"] for n in range(300)]
    line = b'{"id": "q", "vector": ' + query.encode() + b"}\n"
    found = run("query", index_path, "--format", "tsv", stdin=line).stdout
    assert [line.split("\t")[:2] for line in found.splitlines()] == [["q", "k5"], ["q", "k205"]]


@pytest.mark.parametrize(
    ("question", "code", "words"),
    [
        (("--vector", "[1, 2"), 2, "is not valid JSON"),
        (("--vector", "[" * 100_000), 2, "is not valid JSON"),
        (("--vector", "[1, 2]"), 1, "the vector has 2 numbers, expected 8"),
        (("--vector", '["a"]'), 1, "number 1 is of type str"),
        (("--vector", '{"a": 1}'), 1, "the vector is of type dict"),
        (("--vector", "0101"), 2, "--vector is '0101'; expected numbers as JSON"),
        (("--text", "some words"), 2, "holds vectors: give --vector"),
        (("-", "--text-field", "t"), 2, "--text-field is for texts"),
        (("--vector", "[1]", "--key", "k1"), 2, "one of FILE..., --text, --vector and --key"),
    ],
)
def test_queries_that_cannot_be(
    question: Any, code: int, words: str, run: Run, index_path: Path
) -> None:
    assert words in run("query", index_path, *question, code=code).stderr


def test_vectors_are_not_for_an_index_of_texts(run: Run, points: Path, tmp_path: Path) -> None:
    run("init", tmp_path / "a.lshdb")
    said = run("add", tmp_path / "a.lshdb", points, code=5)
    assert "holds vectors, but the index holds texts" in said.stderr
    assert "--vector-field is for vectors" in (
        run("add", tmp_path / "a.lshdb", points, "--vector-field", "x", code=2).stderr
    )
    assert "dim is for vectors" in run("init", tmp_path / "b.lshdb", "--dim", "8", code=2).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--metric l2 --dim 64 --threshold 12", ["64 numbers as float32, by l2", "at distance 6"]),
        (
            "--metric hamming --dim 64 --threshold 3",
            ["bits         64, by hamming", "distance 4\n"],
        ),
        ("--metric cosine --dim 5 --no-vectors", ["similarities are estimates", "similarity 0.9"]),
    ],
)
def test_init_says_what_it_makes(options: str, words: list[str], run: Run, tmp_path: Path) -> None:
    said = run("init", tmp_path / "a.lshdb", *options.split()).stderr
    for word in words:
        assert word in said

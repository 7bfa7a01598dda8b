"""The benchmarks run, also without the peers; nothing looks at a time."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import re
import sqlite3
import time
from pathlib import Path
from typing import Any
from unicodedata import is_normalized, normalize

import numpy as np
import orjson
import pytest

from benchmarks import (
    _growth,
    _jobs,
    adding,
    bands_in_sql,
    hot_buckets,
    kernel_alone,
    make_corpus,
    nightly,
    pairing,
    query_ways,
    querying,
    scale,
    serving,
    signing,
    sqlite_limit,
)
from benchmarks._accuracy import errors
from benchmarks._generated import generate
from benchmarks._kinds import KINDS, texts
from benchmarks._pair_jobs import run_pairs_here
from benchmarks._short import split
from benchmarks._stages import Stages
from benchmarks._truth import Truth
from benchmarks.peers import ADDERS, CONTESTANTS, Contestant
from benchmarks.peers._checking import check, distinct
from benchmarks.peers.pairers import PAIRERS, PairContestant
from lshdb import Index
from tests.postgres import PostgresUrl

pytestmark = pytest.mark.sqlite("benchmarks name their databases themselves")

SMALL = ["--repeats", "1", "--pairs", "100", "--only", "lshdb"]
NO_KINDS = ["--kinds", "clean", "--kind-bytes", "1"]


def test_lshdb_runs_on_both_generated_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--generated", "--documents", "200", "--threads", "1,2", *SMALL, *NO_KINDS]
    signing.main(arguments, run=_jobs.run_here)
    printed = capsys.readouterr().out
    found = re.findall(r"^lshdb .* (0\.\d{4})$", printed, re.M)
    assert len(found) == 12
    assert all(0.01 < float(error) < 0.08 for error in found)


@pytest.mark.parametrize(("benchmark", "kind"), [(signing, "text"), (adding, "add")])
def test_every_kind_of_text_is_beside_clean_ascii(
    benchmark: Any, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = []

    def run(job: _jobs.Job) -> _jobs.Result:
        jobs.append(job)
        return _jobs.run_here(job) if len(jobs) < 4 else {"cpu": 0.5 * len(jobs)}

    benchmark.main(["--repeats", "1", "--kind-bytes", "3000"], run=run)
    lines = capsys.readouterr().out.splitlines()
    (clean,) = [line for line in lines if re.match("clean ASCII  ", line)]
    assert clean.endswith(" 1.00"), "the others are measured by it"
    for name in KINDS:
        assert sum(line.startswith(name + "  ") for line in lines) == 1
    assert len(jobs) == len(KINDS) > 30
    assert {job["kind"] for job in jobs} == {kind}
    assert {job["threads"] for job in jobs} == {1}


def test_the_kernel_alone_is_timed_on_corpora_and_on_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "few.jsonl"
    corpus.write_bytes(
        b"".join(orjson.dumps({"text": text}) + b"\n" for text in texts("Thai", 9000))
    )
    kernel_alone.main(
        [str(corpus), "--repeats", "1", "--kinds", "Thai,Hangul", "--kind-bytes", "3000"]
    )
    printed = capsys.readouterr().out
    assert re.search(r"^few\.jsonl( +[\d,]+){2}$", printed, re.M)
    assert re.findall(r"^(.+?)(?:  +[\d,]+\.\d){3}$", printed, re.M) == [
        kind for kind in KINDS if kind.startswith(("Thai", "Hangul"))
    ]


def test_kinds_of_text_are_what_they_are_called() -> None:
    made = {kind: list(texts(kind, 9000)) for kind in KINDS}
    for kind, some in made.items():
        assert some == list(texts(kind, 9000))
        assert 9000 <= len("".join(some).encode()) < 16_000, kind
        assert (len(some) == 1) == kind.startswith("one very long"), kind
        assert "".join(some).isascii() == (
            kind in ("clean ASCII", "ASCII, CRLF", "ASCII, control characters", "one very long")
            or kind.startswith("very short (6")
        )
        assert "NFD" not in kind or is_normalized("NFD", some[0]) > is_normalized("NFC", some[0])
        assert "NFC" not in kind or is_normalized("NFC", some[0]) > is_normalized("NFD", some[0])
    held = {
        "ASCII, CRLF": "\r\n", "ASCII, odd line separators": "\u2028",
        "scanned (OCR)": "\u00ad\ue000\x02", "emoji": "\ufe0f",
        "Arabic, vowelled": "\u0651\u064e", "Hebrew, pointed": "\u05bc\u05b8",
        "Devanagari": "\u094d", "Devanagari, many nuktas": "\u0958\u093c", "Bengali": "\u09cb",
        "Thai": "\u0e33\u0e48", "kana": "か", "kana, half width": "\uff76\uff9e",
        "Hangul": "가", "Hangul, NFD": "\u1100\u1161",
    }  # fmt: skip
    for kind, characters in held.items():
        assert set(characters) <= set("".join(texts(kind, 40_000))), kind
    assert any(one >= "\U00020000" for one in "".join(made["Han, one in ten of plane 2"]))


def test_files_go_through_fresh_processes_and_the_missing_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Contestant("nobody", "lshdb-has-no-such-peer", "nobody", "any")
    monkeypatch.setattr(signing, "CONTESTANTS", [CONTESTANTS[0], nobody])
    monkeypatch.setattr(signing, "SKETCHERS", [nobody])
    lines = [orjson.dumps({"body": text}) for text in generate(50, ascii_only=True)]
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join([*lines, b"{", b'{"body": 1}', b'{"body": "-"}'])))
    arguments = [str(path), "--text-field", "body", "--threads", "1", "--markdown"]
    signing.main([*arguments, *SMALL, *NO_KINDS, "--only", "lshdb,nobody"])
    printed = capsys.readouterr().out
    assert "50 documents" in printed, "what is no document of text is passed over"
    assert re.search(r"^\| lshdb fss .* \d", printed, re.M)
    assert "nobody" in printed and "not installed" in printed


def write_corpus(path: Path, *, key: str = "id") -> None:
    texts = enumerate(generate(50, ascii_only=True))
    path.write_bytes(b"".join(orjson.dumps({key: n, "text": text}) + b"\n" for n, text in texts))


def test_adding_is_timed_and_divided_into_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpus.jsonl")
    create = Index.create
    arguments = [str(tmp_path / "corpus.jsonl"), "--documents", "40", "--repeats", "2", *NO_KINDS]
    adding.main([*arguments, "--only", "lshdb", "--profile"], run=_jobs.run_here)
    printed = capsys.readouterr().out
    assert "10,368" in printed, "bytes of the signatures: 40 rows behind a header of 128"
    stages = re.findall(r"^\w.*?  +(-?\d+\.\d{3}) +-?\d+\.\d\d +-?\d+\.\d +\d+ ", printed, re.M)
    *parts, together = map(float, stages)
    assert len(parts) == 17 and sum(parts) == pytest.approx(together, abs=0.02)
    assert re.search(r"^frozen orders: .* 1 .* 1$", printed, re.M)
    assert Index.create == create


def test_adding_goes_through_fresh_processes_and_names_the_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Contestant("nobody", "lshdb-has-no-such-peer", "nobody", "any", threads="any")
    monkeypatch.setattr(adding, "ADDERS", [ADDERS[0], nobody])
    write_corpus(tmp_path / "corpus.jsonl", key="key")
    arguments = [str(tmp_path / "corpus.jsonl"), "--repeats", "1", "--markdown", *NO_KINDS]
    adding.main([*arguments, "--key-field", "key"])
    printed = capsys.readouterr().out
    assert re.search(r"^\| lshdb fss .* \d", printed, re.M)
    assert re.search(r"^\| nobody .* not installed ", printed, re.M)
    with pytest.raises(SystemExit, match="took 0 documents; are the keys in the field 'id'"):
        adding.main(arguments, run=_jobs.run_here)


def test_stages_count_what_is_theirs_alone() -> None:
    stages = Stages()
    inner = stages.timed("inner", lambda: None)
    outer = stages.timed("outer", lambda: [inner(), inner()])
    whole = stages.timed("whole", lambda: [inner(), outer()], whole=True)
    stages.run(lambda: [outer(), whole(), list(stages.iterated("items", "ab"))])
    calls = {stage: calls for stage, _, calls in stages.table()}
    assert calls.pop("these timers, as estimated") == sum(calls.values())
    assert calls == {"inner": 2, "outer": 1, "whole": 1, "items": 3, "the rest": 1}


def test_generated_variants_differ_in_letters_only() -> None:
    plain, other = (list(generate(30, ascii_only=flag)) for flag in (True, False))
    assert plain == list(generate(30, ascii_only=True))
    assert all(map(str.isascii, plain))
    assert not any(map(str.isascii, other))
    assert [[*map(len, text.split())] for text in plain] == [
        [*map(len, text.split())] for text in other
    ]


def test_errors_are_those_of_equal_slots() -> None:
    rows = np.array([[1, 2, 3, 4], [1, 2, 0, 0], [1, 2, 3, 4]])
    rms, expected = errors(rows, [{1, 2}, {2, 3}, {1, 2}], [(0, 1)])
    assert rms == pytest.approx(1 / 2 - 1 / 3)
    assert expected == pytest.approx((2 / 9 / 4) ** 0.5)
    assert errors(rows, [{1}, {2}, {1}], [(0, 2)]) == (0.0, 0.0)


Planted = tuple[Path, Path]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Three hundred short documents and the pairs that are known."""
    monkeypatch.setattr(make_corpus, "APART", 50)
    paths = tmp_path / "short.jsonl", tmp_path / "planted.tsv"
    make_corpus.write(*paths, 300)
    return paths


def shingle_sets(path: Path) -> dict[str, set[tuple[str, ...]]]:
    sets = {}
    for line in path.read_text().splitlines():
        document = orjson.loads(line)
        words = re.findall(r"\w+", document["text"].lower())
        sets[document["id"]] = {tuple(words[at : at + 5]) for at in range(len(words) - 4)}
    return sets


def test_planted_pairs_are_those_of_brute_force(planted: Planted) -> None:
    corpus, pairs = planted
    sets = shingle_sets(corpus)
    assert len(sets) == len(corpus.read_text().splitlines()) == 300
    expected = {}
    for one, other in itertools.combinations(sorted(sets), 2):
        similarity = len(sets[one] & sets[other]) / len(sets[one] | sets[other])
        if similarity >= 0.5:
            expected[one, other] = f"{similarity:.6f}"
    lines = [line.split("\t") for line in pairs.read_text().splitlines()]
    assert {(*sorted(line[:2]),): line[2] for line in lines} == expected
    assert len(lines) == len(expected) > 50
    found = [float(line[2]) for line in lines]
    assert min(found) < 0.6 and max(found) == 1.0
    assert sum(each >= 0.8 for each in found) > 10


def test_the_made_corpus_is_the_same_again(planted: Planted, tmp_path: Path) -> None:
    again = tmp_path / "again.jsonl", tmp_path / "again.tsv"
    make_corpus.write(*again, 300)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in planted]
    make_corpus.write(*again, 300, seed=2)
    assert again[0].read_bytes() != planted[0].read_bytes()
    assert all(map(str.isascii, again[0].read_text().splitlines()))


def test_scanned_texts_have_the_same_pairs(planted: Planted, tmp_path: Path) -> None:
    corpus, pairs = tmp_path / "scanned.jsonl", tmp_path / "scanned.tsv"
    make_corpus.write(corpus, pairs, 300, scanned=True)
    assert pairs.read_bytes() == planted[1].read_bytes()
    clean, scanned = (
        [orjson.loads(line)["text"] for line in path.read_bytes().splitlines()]
        for path in (planted[0], corpus)
    )
    for before, after in zip(clean, scanned, strict=True):
        words = re.findall(r"\w+", normalize("NFKC", after.replace("\ue000", " ")))
        assert words == re.findall(r"\w+", before)
    together = "".join(scanned)
    assert set("\n\ufb01\u00ad\u201d\ue000\ufffd") <= set(together)
    assert 0.2 < sum(map(str.isascii, scanned)) / len(scanned) < 0.9


def test_members_of_a_family_are_not_side_by_side(planted: Planted) -> None:
    corpus, pairs = planted
    places = {key: place for place, key in enumerate(shingle_sets(corpus))}
    lines = [line.split("\t") for line in pairs.read_text().splitlines()]
    apart = [abs(places[one] - places[other]) for one, other, _ in lines]
    assert max(apart) > 20


def test_truth_counts_as_the_definitions_say(tmp_path: Path) -> None:
    gold, found = tmp_path / "gold.tsv.gz", tmp_path / "found.tsv"
    lines = b"a\tb\t0.8\nd\tc\t0.9\ne\te\t1\na\tc\t0.79\ne\tf\t1.0\n"
    gold.write_bytes(gzip.compress(lines))
    found.write_text("b\ta\t0.8\texact\nc\td\nd\tc\na\tc\nx\tx\n")
    truth = Truth.read(gold, 0.8)
    assert truth.pairs == {("a", "b"), ("c", "d"), ("e", "f")}
    assert truth.score(found) == (2 / 3, 2 / 3)
    assert truth.touching({"a", "c"}).score(found) == (2 / 3, 1.0)
    assert Truth.read(gold, 0.8, below=0.9).pairs == {("a", "b")}
    found.write_text("")
    assert truth.score(found) == (1.0, 0.0)
    assert truth.touching(set()).score(found) == (1.0, 1.0)


@pytest.mark.long
def test_pairs_are_timed_and_scored(
    planted: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = PairContestant("lshdb of nobody", "lshdb-has-no-such-peer", "nobody", "")
    monkeypatch.setattr("benchmarks._pair_tables.PAIRERS", [*PAIRERS, nobody])
    corpus, pairs = map(str, planted)
    pairing.main([corpus, "--gold", pairs, "--repeats", "2", "--only", "lshdb"], run=run_pairs_here)
    printed = capsys.readouterr().out
    assert re.search(r"^lshdb .* exact .* 1\.00000  [01]\.\d{5} ", printed, re.M), "precision 1"
    assert re.search(r"^lshdb of nobody .* not installed", printed, re.M)
    pairing.main(
        ["--generated=200", "--scanned", "--whole", "--repeats=1", "--only", "lshdb, two"],
        run=lambda job: run_pairs_here({**job, "begun": time.time()}),
    )
    printed = capsys.readouterr().out
    assert re.search(r"^lshdb, two commands .* exact .* 1\.00000  [01]\.\d{5} ", printed, re.M)
    with pytest.raises(SystemExit, match="took 0 documents; are the keys in the field 'key'"):
        pairing.main(
            [corpus, "--key-field", "key", "--only", "lshdb", "--repeats", "1"], run=run_pairs_here
        )


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.long(when=lambda whole: whole)
def test_a_night_is_timed_and_scored(
    planted: Planted, capsys: pytest.CaptureFixture[str], whole: bool
) -> None:
    corpus, pairs = map(str, planted)
    arguments = [corpus, "--gold", pairs, "--repeats", "1", "--only", "lshdb", "--markdown"]
    nightly.main(arguments + ["--whole"] * whole)
    printed = capsys.readouterr().out
    assert re.search(r"\b30\b.*\b270\b", printed), "new documents, and those that are there"
    assert re.search(r"^\| lshdb .* exact .* 1\.00000 \| ", printed, re.M), "precision 1"


def test_nights_are_compared_in_a_small_and_in_a_large_index(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_growth, "NEW", 20)
    nightly.main(["--grow", "30", "--repeats", "2"], run=run_pairs_here)
    printed = capsys.readouterr().out
    sizes = dict(re.findall(r"^(30|300) +(0\.\d{4}) ", printed, re.M))
    assert len(sizes) == 2 and all(float(seconds) > 0 for seconds in sizes.values())


def test_what_a_cap_costs_is_held_against_what_is_said(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, pairs = map(str, planted)
    hot_buckets.main([corpus, "--gold", pairs, "--caps", "2", "--seeds", "2x2", "--markdown"])
    printed = capsys.readouterr().out
    assert re.search(r"^\| short.jsonl, k 5 \| +2 \|.*\| +4/4 \|.*\| +4/4 \| +0 \|", printed, re.M)


def pairs_of(path: Path) -> set[tuple[str, ...]]:
    return {(*sorted(line.split("\t")[:2]),) for line in path.read_text().splitlines()}


@pytest.mark.parametrize("contestant", PAIRERS, ids=lambda one: one.name)
@pytest.mark.filterwarnings("default")
def test_contestants_find_most_of_what_was_planted(
    contestant: PairContestant, planted: Planted, tmp_path: Path
) -> None:
    """Bands miss some pairs and estimates are off a little; nothing else is missing or too many."""
    if not contestant.version():
        pytest.skip(f"{contestant.package} is not installed")
    corpus, gold = planted
    older, newer = split(corpus, tmp_path, [200, 100])
    new = set(shingle_sets(newer))
    sure, possible = (Truth.read(gold, at).pairs for at in (1.0, 0.5))
    job = {"name": contestant.name, "threads": 0, "key_field": "id", "field": "text"}
    job["output"] = str(tmp_path / "pairs")
    result = run_pairs_here({**job, "kind": "pair", "path": str(corpus)})
    found = pairs_of(tmp_path / "pairs")
    assert sure <= found <= possible
    assert (result["documents"], result["pairs"]) == (300, len(found))
    assert (result["disk"] > 0) == contestant.saves
    job["folder"] = str(tmp_path / "index")
    if contestant.saves:
        run_pairs_here({**job, "kind": "fill", "path": str(older)})
    for _ in range(2):
        run_pairs_here({**job, "kind": "night", "older": str(older), "path": str(newer)})
        assert pairs_of(tmp_path / "pairs") == {pair for pair in found if not new.isdisjoint(pair)}


def test_pairs_of_rows_are_checked_by_equal_slots() -> None:
    left, right = distinct([3, 0, 1, 0], [1, 1, 3, 2])
    assert [*zip(left.tolist(), right.tolist(), strict=True)] == [(0, 1), (0, 2), (1, 3)]
    rows = np.array([[1, 2, 3, 4], [1, 2, 3, 0], [0, 0, 0, 0], [1, 2, 3, 0]], dtype=np.uint32)
    assert [*check(rows, left, right, 0.75)] == [(0, 1, 0.75), (1, 3, 1.0)]


def test_a_large_corpus_is_built_step_by_step(
    planted: Planted, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, pairs = planted
    index = corpus.parent / "kept.lshdb"
    scale.main([str(corpus), "--planted", str(pairs), "--index", str(index)])
    printed = capsys.readouterr().out
    lines = re.search(r"^pairs +[\d.]+ +[\d,]+ +[\d,]+ +(\d+)$", printed, re.M)
    assert lines and int(lines[1]) > 10, printed
    assert " 1.00000 were planted" in printed
    querying.main([str(index), "--queries", "20", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert len(re.findall(r"^(?:signature|exact)( +[\d.,]+)+$", printed, re.M)) == 2


def test_queries_go_to_a_generated_index_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    querying.main(["--generated", "60", "--queries", "5", "--repeats", "1"])
    assert "60 documents, 5 queries" in capsys.readouterr().out


def test_every_way_to_query_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    query_ways.main(["--documents", "50", "--seconds", "0.05", "--threads", "1,2"])
    printed = capsys.readouterr().out
    for way in ("query, 1 threads", "query, 2 threads", "query_many, workers=1", "processes"):
        assert way in printed


@pytest.mark.parametrize("last", [None, 30])
def test_sqlite_copies_all_rows_of_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], last: int | None
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    lines = [orjson.dumps({"id": f"d{n}", "text": f"a text of number {n}"}) for n in range(50)]
    corpus.write_bytes(b"\n".join(lines) + b"\n")
    options = [] if last is None else ["--last", str(last)]
    sqlite_limit.main([str(corpus), "--repeats", "1", "--batch", "20", *options])
    assert re.search(rf"^corpus\.jsonl +{last or 50} ", capsys.readouterr().out, re.M)
    source, target = tmp_path / "x.lshdb" / "index.db", tmp_path / "copy.db"
    with Index.create(tmp_path / "x.lshdb") as index:
        index.add((f"d{n}", f"a text of number {n}") for n in range(20))
        index.add((f"d{n}", f"a text of number {n}") for n in range(20, 50))
    sqlite_limit._copied(source, target, 20, last or 50)
    with contextlib.closing(sqlite3.connect(target)) as copy, copy:
        copy.execute("ATTACH ? AS own", (str(source),))
        for name in ("document", "content", "band"):
            (n,) = copy.execute(f"SELECT count(*) FROM own.{name}").fetchone()
            same = f"SELECT count(*) FROM (SELECT * FROM {name} INTERSECT SELECT * FROM own.{name})"
            assert copy.execute(same).fetchone() == (n,) and n >= 50


def test_bands_are_asked_in_sql_on_both_databases(
    capsys: pytest.CaptureFixture[str], postgres_url: PostgresUrl
) -> None:
    options = ["--documents", "400", "--night", "50", "--repeats", "1", "--markdown"]
    bands_in_sql.main([*options, "--postgres-url", postgres_url.psycopg])
    printed = capsys.readouterr().out
    assert "The answers are the same" in printed
    lines = (re.findall(r"\| ([^|]*)", line) for line in printed.splitlines())
    figures = {cells[0].strip(): cells[1:] for cells in lines if len(cells) == 4}
    for name in ("add", *bands_in_sql.QUESTIONS, "a night", "compact", "reband"):
        assert all(float(figure) >= 0 for figure in figures[name]), name
    plain, indexed, _ = map(int, figures["MiB of the database"])
    assert indexed - plain == int(figures["MiB of the indexes"][1]) >= 0


def test_one_who_asks_for_more_than_there_is_is_told(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_bytes(b'{"id": "a", "text": "b"}\n')
    with pytest.raises(SystemExit, match=r"--last 1: .*corpus\.jsonl has 1 documents, too few"):
        sqlite_limit.main([str(corpus), "--last", "1"])


def test_serving_asks_for_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, pairs = tmp_path / "corpus.jsonl", tmp_path / "pairs.tsv"
    make_corpus.write(corpus, pairs, 300)
    serving.main([str(corpus), "--queries", "20", "--connections", "2"])
    *_, alone, beside = capsys.readouterr().out.splitlines()
    assert alone.split()[:3] == ["nothing", "20", "0"]
    assert beside.split()[:4] == ["lshdb", "add", "20", "0"]

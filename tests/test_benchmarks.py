"""The benchmarks of signing and adding run, also without the peers; nothing looks at a time."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import orjson
import pytest

from benchmarks import _jobs, adding, signing
from benchmarks._accuracy import errors
from benchmarks._generated import generate
from benchmarks._stages import Stages
from benchmarks.peers import ADDERS, CONTESTANTS, Contestant
from lshdb import Index

SMALL = ["--repeats", "1", "--pairs", "100", "--only", "lshdb"]


def test_lshdb_runs_on_both_generated_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--generated", "--documents", "200", "--threads", "1,2", *SMALL]
    signing.main(arguments, run=_jobs.run_here)
    printed = capsys.readouterr().out
    for corpus in ("generated, ASCII: 200 documents", "generated, non-ASCII: 200 documents"):
        assert corpus in printed
    assert len(re.findall(r"^lshdb (fss|universal) +[12] ", printed, re.M)) == 8
    assert len(re.findall(r"^lshdb (fss|universal) +64-bit", printed, re.M)) == 4
    found = re.findall(r"^lshdb .* (0\.\d{4})$", printed, re.M)
    assert len(found) == 12
    assert all(0.01 < float(error) < 0.08 for error in found)
    assert len(re.findall(r"^lshdb \w+, threads \d: .* times$", printed, re.M)) == 4


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
    signing.main([*arguments, *SMALL, "--only", "lshdb,nobody"])
    printed = capsys.readouterr().out
    assert "## corpus.jsonl.gz: 50 documents" in printed
    assert re.search(r"^\| lshdb fss +\| +1 \| +\d", printed, re.M)
    assert len(re.findall(r"^\| nobody .* not installed ", printed, re.M)) == 2


def write_corpus(path: Path, *, key: str = "id") -> None:
    texts = enumerate(generate(50, ascii_only=True))
    path.write_bytes(b"".join(orjson.dumps({key: n, "text": text}) + b"\n" for n, text in texts))


def test_adding_is_timed_and_divided_into_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpus.jsonl")
    create = Index.create
    arguments = [str(tmp_path / "corpus.jsonl"), "--documents", "40", "--repeats", "2"]
    adding.main([*arguments, "--only", "lshdb", "--profile"], run=_jobs.run_here)
    printed = capsys.readouterr().out
    assert "corpus.jsonl: 40 documents" in printed
    assert len(re.findall(r"^lshdb fss +(any|1) +\d", printed, re.M)) == 2
    assert re.search(r"^On disk [\d,]+ bytes: signatures 20,608, ", printed, re.M)
    profile = printed.split("Where the time goes")[1]
    stages = set(re.findall(r"^(\w+(?:[ ,:-]+\w+)*)  +-?\d+\.\d{3} ", profile, re.M))
    assert stages == {
        "making the empty index", "opening the database, locking", "reading and parsing",
        "validation, cutting into batches", "hashing bodies, known keys", "normalising",
        "hashing contents", "known contents", "signing", "bucket keys and sorting",
        "signature file: CRC-32, write, sync", "document rows", "content rows",
        "compressing texts", "posting rows", "commit, with checkpoints on the way",
        "merging runs", "checkpoint at the end", "the rest", "these timers, as estimated",
        "together",
    }  # fmt: skip
    assert re.search(r"^compressing texts .* 40 .* 40$", printed, re.M)
    assert Index.create == create


def test_adding_goes_through_fresh_processes_and_names_the_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = Contestant("nobody", "lshdb-has-no-such-peer", "nobody", "any", threads="any")
    monkeypatch.setattr(adding, "ADDERS", [ADDERS[0], nobody])
    write_corpus(tmp_path / "corpus.jsonl", key="key")
    arguments = [str(tmp_path / "corpus.jsonl"), "--repeats", "1", "--markdown"]
    adding.main([*arguments, "--key-field", "key"])
    printed = capsys.readouterr().out
    assert "## corpus.jsonl: 50 documents" in printed
    assert re.search(r"^\| lshdb fss +\| +any \| +\d", printed, re.M)
    assert re.search(r"^\| nobody +\| +any \| not installed ", printed, re.M)
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

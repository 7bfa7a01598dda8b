"""The benchmark of signing runs, also without the peers; nothing here looks at a time."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import orjson
import pytest

from benchmarks import _jobs, signing
from benchmarks._accuracy import errors
from benchmarks._generated import generate
from benchmarks.peers import CONTESTANTS, Contestant

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

"""clusters, dedup, neighbors and remove on the command line, and what caps leave out."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from lshdb import Index
from lshdb.cli import _options
from lshdb.groups.update import MAX_BUCKET
from tests.cli.conftest import Run
from tests.conftest import family_corpus


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "g.lshdb"
    with Index.create(path, k=1, threshold=0.5, bands=128, rows=1) as index:
        index.add(
            [
                ("a", "w1 w2 w3 w4 w5"),
                ("b", "w2 w3 w4 w5 w6"),
                ("c", "w4 w5 w6 w7 w8"),
                ("A", "W1 w2 w3 w4 w5"),
                ("alone", "x y z"),
            ]
        )
    return path


def lines(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_clusters(run: Run, path: Path) -> None:
    rows = [["a", "3", "a"], ["a", "3", "b"], ["a", "3", "A"]]
    assert lines(run("clusters", path).stdout) == rows
    with_c = run("clusters", path, "--threshold", "0.4")
    assert lines(with_c.stdout) == [["a", "4", key] for key in ("a", "b", "c", "A")]
    assert with_c.stderr == "", "its 128 bands of one row find such a pair as surely"
    cut = run("clusters", path, "--threshold", "0.4", "--linkage", "representative")
    assert lines(cut.stdout) == rows
    assert run("clusters", path, "--min-size", 4).stdout == ""
    first = json.loads(run("clusters", path, "--format", "jsonl").stdout.splitlines()[0])
    assert first == {"cluster": "a", "size": 3, "key": "a"}
    assert "no clusters" in run("clusters", path, "--min-size", 9, "--format", "table").stderr
    few = run("clusters", path, "--min-size", 1, code=2)
    assert "--min-size is 1; expected at least 2" in few.stderr


def test_clusters_without_an_update(run: Run, path: Path) -> None:
    failed = run("clusters", path, "--no-update", code=2)
    assert "no verified edges" in failed.stderr and "lshdb clusters INDEX" in failed.stderr
    before = run("clusters", path).stdout
    run("remove", path, "b")
    assert lines(run("clusters", path, "--no-update").stdout) == [["a", "2", "a"], ["a", "2", "A"]]
    assert run("clusters", path).stdout != before
    refused = run("clusters", path, "--no-update", "--verify", "exact", code=2)
    assert "--no-update does not" in refused.stderr


def test_where_the_index_may_not_be_written_to(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("lshdb.storage.place.lock.open_file", refuse)
        for command in ("clusters", "neighbors", "dedup"):
            failed = run(command, path, code=1).stderr
            assert "Read-only file system" in failed and "no pairs were found before" in failed
            assert f"lshdb copy {path} DEST" in failed
    before = {command: run(command, path).stdout for command in ("clusters", "neighbors")}
    with Index.open(path) as index:
        index.add([("d", "w1 w2 w3 w4 w5 w6")])
        index.add([("e", "w1 w2 w3 w4 w5 w7")])
    monkeypatch.setattr("lshdb.storage.place.lock.open_file", refuse)
    for command, answer in before.items():
        done = run(command, path)
        assert done.stdout == answer
        assert f"{path} may not be written to: these are the pairs found on 20" in done.stderr
        assert "the documents of batches 2 to 3 are not compared" in done.stderr
    assert run("dedup", path).stdout.count("\n") >= 5
    refused = run("clusters", path, "--verify", "signature", code=1).stderr
    assert "its clusters are not up to date" in refused


def test_what_a_cap_leaves_out_is_said(run: Run, path: Path) -> None:
    capped = run("pairs", path, "--max-bucket", 2)
    assert "left out:" in capped.stderr
    assert "that loses 0 near-duplicate pairs, 0.00% of all (counted)" in capped.stderr
    assert run("pairs", path).stderr == "3 pairs\n"
    linked = run("clusters", path, "--max-bucket", 2)
    assert "joined through leaders" in linked.stderr
    assert "that loses 0 near-duplicate pairs" in linked.stderr
    assert "in force" not in linked.stderr
    stats = json.loads(run("stats", path, "--max-bucket", 2, "--format", "jsonl").stdout)
    assert stats["buckets_left_out"] > 0 < stats["pairs_left_out"]
    assert stats["recall_lost"] == stats["recall_lost_low"] == stats["recall_lost_high"] == 0
    assert stats["edges_max_bucket"] == 2
    assert stats["edges_threshold"] == 0.5 and stats["clusters"] == 1
    assert stats["clustered_documents"] == 3
    with Index.open(path) as index:
        index.add((f"copy{number}", "q r s t") for number in range(5))
    assert (
        "1 group of more than 4 exact copies, with 10 pairs"
        in run("pairs", path, "--max-bucket", 4).stderr
    )
    for wrong in (("--max-bucket", 1), ("--memory", 0.5)):
        assert run("pairs", path, *wrong, code=2).stdout == ""


def test_a_cap_that_is_still_in_force_is_said(run: Run, path: Path) -> None:
    assert _options.MAX_BUCKET == MAX_BUCKET
    said = "an earlier --max-bucket 2 is still in force; give --max-bucket 1000 for the default"
    run("clusters", path, "--max-bucket", 2)
    for command in ("clusters", "dedup", "neighbors"):
        for how in ((), ("--no-update",)):
            assert said in run(command, path, *how).stderr
        assert "in force" not in run(command, path, "--max-bucket", 2).stderr
    assert run("clusters", path, "--max-bucket", "none").stderr == ""
    assert "an earlier --max-bucket none is still" in run("clusters", path).stderr
    assert "edges_max_bucket" in run("stats", path, "--format", "table").stdout
    assert run("clusters", path, "--max-bucket", 1000).stderr == ""
    assert run("clusters", path).stderr == ""
    wrong = run("clusters", path, "--max-bucket", "few", code=2)
    assert "'few' is neither a number nor none" in wrong.stderr
    assert run("pairs", path, "--max-bucket", "none").stdout == run("pairs", path).stdout


def test_dedup(run: Run, path: Path, tmp_path: Path) -> None:
    assert lines(run("dedup", path).stdout) == [
        ["a", "keep", "", "", ""],
        ["b", "drop", "a", "0.666667", "exact"],
        ["c", "keep", "", "", ""],
        ["A", "drop", "a", "1.000000", "exact"],
        ["alone", "keep", "", "", ""],
    ]
    assert [row[0] for row in lines(run("dedup", path, "--only", "drop").stdout)] == ["b", "A"]
    shortest = run("dedup", path, "--keep", "last", "--only", "drop").stdout
    assert [row[:3] for row in lines(shortest)] == [["a", "drop", "A"], ["b", "drop", "A"]]
    assert "keep is 'best'" in run("dedup", path, "--keep", "best", code=2).stderr
    assert run("dedup", path, "--against", "--only", "drop").stdout == ""
    assert "was not asked for" in run("dedup", path, "--since", "1", code=2).stderr

    file = tmp_path / "in.jsonl"
    file.write_bytes(b'{"id": "a"}\r\n{"id": "b"}\n{"id": "nobody"}\n{"id": "A"}')
    done = run("dedup", path, "--filter", file)
    assert done.stdout_bytes == b'{"id": "a"}\r\n{"id": "nobody"}\n'
    assert "2 lines kept, 2 dropped" in done.stderr
    assert "1 of the kept lines have no document" in done.stderr
    for wrong in (("--only", "drop"), ("--format", "csv")):
        assert "do not apply" in run("dedup", path, "--filter", file, *wrong, code=2).stderr
    assert "no such file" in run("dedup", path, "--filter", "none.jsonl", code=1).stderr
    from_pipe = run("dedup", path, "--filter", "-", stdin=file.read_bytes())
    assert from_pipe.stdout_bytes == done.stdout_bytes
    (tmp_path / "empty").mkdir()
    assert "holds no file" in run("dedup", path, "--filter", tmp_path / "empty", code=1).stderr
    (tmp_path / "in.csv").write_text("id,text\na,b\nc,d\n")
    refused = run("dedup", path, "--filter", tmp_path / "in.csv", code=1)
    assert refused.stdout == "" and "looks like CSV" in refused.stderr
    file.write_bytes(b'{"id": "nobody"}\n' * 200 + b'{"id": "a"}\n')
    doubtful = run("dedup", path, "--filter", file, code=5)
    assert doubtful.stdout_bytes == file.read_bytes()
    assert "less than one record in a hundred" in doubtful.stderr


def test_neighbors(run: Run, path: Path) -> None:
    found = lines(run("neighbors", path, "--top", 1).stdout)
    assert found == [
        ["a", "1", "A", "1.000000", "exact"],
        ["A", "1", "a", "1.000000", "exact"],
        ["b", "1", "a", "0.666667", "exact"],
    ]
    assert run("neighbors", path, "--top", 0, code=2).stdout == ""


def test_neighbors_with_recall_list_what_is_less_similar_and_write_nothing(
    run: Run, path: Path
) -> None:
    near = lines(run("neighbors", path, "--top", 9).stdout)
    before = run("sql", path, "SELECT count(*) FROM edge").stdout
    found = lines(run("neighbors", path, "--top", 9, "--recall", 1).stdout)
    assert len(found) > len(near)
    above = run("neighbors", path, "--top", 9, "--recall", 1, "--threshold", 0.6)
    assert sorted(lines(above.stdout)) == sorted(near)
    assert run("sql", path, "SELECT count(*) FROM edge").stdout == before
    refused = run("neighbors", path, "--recall", 1, "--max-bucket", 5, code=2)
    assert "leave out --max-bucket" in refused.stderr


def test_remove(run: Run, path: Path) -> None:
    assert run("remove", path, "a", "alone").stderr == "2 removed\n"
    done = run("remove", path, "-", "b", stdin="c\r\nnone\n\n", code=1)
    assert done.stderr.startswith("2 removed\n") and "'none'" in done.stderr
    assert run("stats", path, "--format", "tsv").stdout.count("\ndocuments\t1\n") == 1
    bad = run("remove", path, "-", stdin=b"A\n\xff\n", code=2)
    assert "line 2 of standard input is not valid UTF-8" in bad.stderr
    assert "n_removed" in run("batches", path, "--format", "csv").stdout


def test_memory_makes_no_difference(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add(family_corpus(3))
    everything = run("pairs", path).stdout.splitlines()
    assert sorted(run("pairs", path, "--memory", 1).stdout.splitlines()) == sorted(everything)


def test_expire(run: Run, path: Path) -> None:
    assert run("expire", path, "--older-than", "1d").stderr.startswith(
        "0 removed: not seen since 2"
    )
    dry = run("expire", path, "--not-seen-since", "2999-01-01", "--dry-run").stderr
    assert "would be removed: not seen since 2999-01-01 00:00:00 UTC" in dry
    assert run(
        "expire", path, "--not-seen-since", "2999-01-01T02:00:00+02:00"
    ).stderr == dry.replace("would be removed", "removed")
    for wrong, said in (
        (["--older-than", "90"], "expected an age such as 90d"),
        (["--older-than", "999999999w"], "before the year 1"),
        (["--older-than", "2026-01-01"], "expected an age such as 90d"),
        (["--not-seen-since", "yesterday"], "expected a date"),
        (["--not-seen-since", "90d"], "expected a date"),
        (["--not-seen-since", "0001-01-01T00:00+05:00"], "not within the years 1 to 9999"),
        ([], "give either"),
        (["--older-than", "1d", "--not-seen-since", "2026-01-01"], "give either"),
    ):
        assert said in run("expire", path, *wrong, code=2).stderr


def test_dedup_writes_files_and_says_what_became_of_them(run: Run, tmp_path: Path) -> None:
    same = "the council voted on monday to close the old bridge over the river"
    path = tmp_path / "all.csv"
    path.write_text(f"id,text\na,{same}\nb,{same}\nc,another text\n")
    index, out = tmp_path / "all.lshdb", tmp_path / "out"
    run("add", index, path)
    done = run("dedup", index, path, "--output", out)
    assert not done.stdout
    assert done.stderr.startswith("3 records read, 2 kept, 1 dropped; 1 file written to ")
    assert (out / "all.csv").read_text() == f"id,text\na,{same}\nc,another text\n"
    assert "all.csv exists already" in run("dedup", index, path, "--output", out, code=1).stderr
    run("dedup", index, path, "--output", out, "--overwrite")
    # The same file without most of its documents may not be the intended one.
    path.write_text("id,text\na,x\n" + "".join(f"n{i},x\n" for i in range(200)))
    doubtful = run("dedup", index, path, "--output", tmp_path / "x.csv", code=5)
    assert "200 of the kept records have no document in the index" in doubtful.stderr
    for wrong in (
        ["dedup", index, path],
        ["dedup", index, "--output", out],
        ["dedup", index, "--overwrite"],
        ["dedup", index, "--mark"],
        ["dedup", index, "--row-keys"],
        ["dedup", index, "--input", "csv"],
        ["dedup", index, "--key-field", "id"],
        ["dedup", index, path, "--output", out, "--filter", path],
        ["dedup", index, path, "--output", out, "--only", "drop"],
        ["dedup", index, path, "--output", tmp_path / "x.parquet"],
        ["dedup", index, path, "--output", tmp_path / "y", "--row-keys", "--key-field", "id"],
    ):
        assert "error: " in run(*wrong, code=2).stderr


def test_kept_fields_decide_what_is_kept(run: Run, tmp_path: Path) -> None:
    same = "the council voted on monday to close the old bridge over the river"
    path = tmp_path / "all.csv"
    path.write_text(f"id,date,text\na,2026-01-01,{same}\nb,2026-02-01,{same}\nc,,another text\n")
    index = tmp_path / "all.lshdb"
    run("add", index, path, "--keep-fields", "date")
    found = run("dedup", index, "--keep", "field:date", "--only", "drop", "--format", "tsv").stdout
    assert found.split("\t")[:3] == ["a", "drop", "b"]
    found = run("dedup", index, "--keep", "field:-date", "--only", "drop", "--format", "tsv").stdout
    assert found.split("\t")[:3] == ["b", "drop", "a"]
    for name in ("score", "text_"):
        wrong = run("dedup", index, "--keep", f"field:{name}", code=2)
        assert "documents have no field" in wrong.stderr

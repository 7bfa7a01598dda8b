"""``lshdb query``: one source of queries, answers in order, what is rejected, what is noted."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.cli.conftest import BASE, NEAR, NEAR_SIMILARITY, OTHER, Run, jsonl

pytestmark = pytest.mark.fast


def test_by_text_best_first(run: Run, index_path: Path) -> None:
    out = run("query", index_path, "--text", BASE).stdout
    assert out == (
        "text\tbase\t1.000000\texact\n"
        "text\tcopy\t1.000000\texact\n"
        f"text\tnear\t{NEAR_SIMILARITY:.6f}\texact\n"
    )
    assert run("query", index_path, "--text", BASE, "--top", "1").stdout.count("\n") == 1


def test_by_key_without_itself(run: Run, index_path: Path) -> None:
    out = run("query", index_path, "--key", "near", "--format", "jsonl").stdout
    assert [json.loads(line) for line in out.splitlines()] == [
        {"query_key": "near", "key": key, "similarity": NEAR_SIMILARITY, "method": "exact"}
        for key in ("base", "copy")
    ]


def test_the_method_is_the_one_asked_for(run: Run, index_path: Path) -> None:
    for method in ("none", "signature", "exact"):
        out = run("query", index_path, "--text", BASE, "--verify", method).stdout
        assert {line.split("\t")[3] for line in out.splitlines()} == {method}


def test_many_from_files_and_from_standard_input(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    queries = jsonl([("q1", NEAR), ("q2", OTHER), ("q3", "nothing like it at all here")])
    (tmp_path / "q.jsonl").write_text(queries)
    (tmp_path / "q.csv").write_text(f"name,words\nq1,{NEAR}\nq2,{OTHER}\n")
    from_file = run("query", index_path, tmp_path / "q.jsonl").stdout
    assert [line.split("\t")[:2] for line in from_file.splitlines()] == [
        ["q1", "near"], ["q1", "base"], ["q1", "copy"], ["q2", "other"],
    ]  # fmt: skip
    assert run("query", index_path, stdin=queries).stdout == from_file
    assert run("query", index_path, "-", stdin=queries).stdout == from_file
    fields = ("--key-field", "name", "--text-field", "words")
    assert run("query", index_path, tmp_path / "q.csv", *fields).stdout == from_file
    as_csv = run("query", index_path, "--input", "csv", *fields, stdin=f"name,words\nq2,{OTHER}\n")
    assert as_csv.stdout == "q2\tother\t1.000000\texact\n"


def test_workers_change_nothing_but_the_time(run: Run, index_path: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_text(jsonl((str(number), BASE) for number in range(150)))
    outs = {
        run("query", index_path, queries, *options).stdout
        for options in ((), ("--workers", "1"), ("--workers", "3"))
    }
    assert len(outs) == 1
    assert outs.pop().count("\n") == 150 * 3
    assert run("query", index_path, queries, "--workers", "0", code=2).stdout == ""


def test_rejected_queries_are_counted_and_the_rest_answered(run: Run, index_path: Path) -> None:
    result = run("query", index_path, stdin="no json\n" + jsonl([("q", OTHER)]) + "{}\n", code=5)
    assert result.stdout == "q\tother\t1.000000\texact\n"
    assert "<stdin>:1: not valid JSON" in result.stderr
    assert "<stdin>:3: no fields 'id' and 'text'" in result.stderr
    assert "2 rejected" in result.stderr


@pytest.mark.parametrize("text", ["", "   \n", "\u200b\xad"])
def test_a_text_without_words_has_no_answer(run: Run, index_path: Path, text: str) -> None:
    result = run("query", index_path, "--text", text)
    assert result.stdout == ""
    assert "no word to compare" in result.stderr


def test_a_text_of_signs_is_similar_to_the_same_text_alone(run: Run, index_path: Path) -> None:
    result = run("query", index_path, "--text", "?!")
    assert result.stdout == ""
    assert (
        "the text has no word, so only texts that are the same are similar to it" in result.stderr
    )
    run("add", index_path, "-", stdin=jsonl([("signs", "?!")]))
    assert run("query", index_path, "--text", " ?!\n").stdout == "text\tsigns\t1.000000\texact\n"


def test_no_answer_is_no_error(run: Run, index_path: Path) -> None:
    result = run("query", index_path, "--text", "words that are nowhere in this index")
    assert (result.stdout, result.stderr) == ("", "no document is that similar\n")
    assert run("query", index_path, stdin="").stdout == ""


def test_one_source_only(run: Run, index_path: Path) -> None:
    for sources in (("--text", "a", "--key", "b"), ("file", "--key", "b"), ("-", "--text", "a")):
        result = run("query", index_path, *sources, code=2)
        assert "one of FILE..., --text, --vector and --key" in result.stderr


def test_a_terminal_is_not_waited_for(
    on_terminal: Callable[..., tuple[int, str]], index_path: Path
) -> None:
    code, shown = on_terminal("query", index_path)
    assert code == 2 and "nothing to query" in shown


@pytest.mark.parametrize(
    ("question", "code", "words"),
    [
        (("--key", "unknown"), 1, "no document has the key 'unknown'"),
        (("--text", "a", "--top", "0"), 2, "top is 0"),
        (("--text", "a", "--threshold", "1.5"), 2, "threshold is 1.5"),
        (("--text", "a", "--verify", "maybe"), 2, "--verify is 'maybe'; expected one of"),
        (("absent.jsonl",), 1, "absent.jsonl: no such file"),
    ],
)
def test_refusals(
    run: Run, index_path: Path, question: tuple[str, ...], code: int, words: str
) -> None:
    result = run("query", index_path, *question, code=code)
    assert words in result.stderr and result.stdout == ""


def test_below_the_threshold_the_recall_is_said(run: Run, index_path: Path) -> None:
    with Index.open(index_path) as index:
        recall = index.params.recall_at(0.3)
    for command in (("query", index_path, "--text", BASE), ("pairs", index_path)):
        noted, counted = run(*command, "--threshold", "0.3").stderr, command[0] == "pairs"
        assert f"is found with probability {recall:.4f}" in noted
        assert "with threshold 0.3 finds more" in noted and noted.count("\n") == 1 + counted
        closing = "3 pairs\n" * counted
        assert run(*command, "--threshold", "0.8").stderr == closing
        assert run(*command).stderr == closing


def test_without_texts_similarities_are_estimates(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    run("init", path, "--no-text")
    run("add", path, "-", stdin=jsonl([("a", BASE)]))
    assert run("query", path, "--text", BASE).stdout == "text\ta\t1.000000\tsignature\n"
    refused = run("query", path, "--text", BASE, "--verify", "exact", code=1)
    assert "hint: use --verify signature" in refused.stderr


def test_answers_come_as_they_are_ready(
    start: Callable[..., subprocess.Popen[bytes]], index_path: Path
) -> None:
    child = start("query", index_path, stdin=subprocess.PIPE)
    assert child.stdin and child.stdout
    for key, found in (("q1", b"q1\tother"), ("q2", b"q2\tother")):
        child.stdin.write(jsonl([(key, OTHER)]).encode())
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], 30)
        assert ready, "no answer while the input is open"
        assert os.read(child.stdout.fileno(), 1000).startswith(found)
    child.stdin.close()
    assert child.wait(timeout=30) == 0


def test_answers_do_not_depend_on_the_form_they_are_written_in(run: Run, index_path: Path) -> None:
    texts = {
        form: run("query", index_path, "--text", BASE, "--format", form).stdout
        for form in ("table", "tsv", "csv", "jsonl")
    }
    assert all(text.count("near") == 1 for text in texts.values())


def test_odd_keys_of_queries(run: Run, index_path: Path) -> None:
    queries: list[Any] = [("tab\there", OTHER), ("back\\slash", OTHER)]
    out = run("query", index_path, stdin=jsonl(queries)).stdout
    assert [line.split("\t")[0] for line in out.splitlines()] == ["tab\\there", "back\\\\slash"]


def test_a_threshold_that_is_refused_is_not_advised(run: Run, index_path: Path) -> None:
    for words in (("query", index_path, "--text", BASE), ("query", index_path, "-"),
                  ("pairs", index_path)):  # fmt: skip
        said = run(*words, "--threshold", 0, code=2, stdin=jsonl([("q", BASE)])).stderr
        assert "threshold is 0" in said and "above 0" in said
        assert "an index made" not in said
    advised = run("pairs", index_path, "--threshold", 0.3).stderr
    assert "an index made, or rebanded, with threshold 0.3" in advised


# What is left out, and what is not found


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    path = tmp_path / "copies.lshdb"
    with Index.create(path) as index:
        index.add([(f"copy{number:02}", BASE) for number in range(15)])
        index.add([("other", OTHER)])
    return path


@pytest.mark.fast
@pytest.mark.parametrize("form", ["table", "tsv", "json"])
def test_what_top_leaves_out_is_said(run: Run, copies: Path, form: str) -> None:
    said = run("query", copies, "--text", BASE, "--format", form).stderr
    assert said == (
        "5 more documents are that similar and left out by --top 10; --top all lists all\n"
    )
    one = run("query", copies, "--text", BASE, "--top", 14).stderr
    assert one.startswith("1 more document is that similar")
    everything = run("query", copies, "--text", BASE, "--top", "all")
    assert everything.stdout.count("\n") == 15 and everything.stderr == ""
    assert run("query", copies, "--text", BASE, "--top", 15).stderr == ""
    assert (
        "neither a number nor all"
        in run("query", copies, "--key", "a", "--top", "b", code=2).stderr
    )


def test_what_top_leaves_out_of_many_queries(run: Run, copies: Path) -> None:
    queries = jsonl([("a", BASE), ("b", OTHER), ("c", BASE), ("d", "nothing like any of these")])
    done = run("query", copies, "-", stdin=queries)
    assert done.stderr.splitlines() == [
        "1 of 4 queries has no answer",
        "2 of 4 queries have more answers than --top 10: 10 are left out; --top all lists all",
    ]
    assert run("query", copies, "-", stdin="").stderr == "the input has no query\n"


@pytest.mark.parametrize("form", ["table", "tsv", "json"])
def test_a_query_without_an_answer_says_so(
    run: Run, index_path: Path, tmp_path: Path, form: str
) -> None:
    text = "none of the documents there has anything like this"
    said = run("query", index_path, "--text", text, "--format", form).stderr
    assert said == "no document is that similar\n"
    run("init", tmp_path / "empty.lshdb")
    said = run("query", tmp_path / "empty.lshdb", "--text", text, "--format", form).stderr
    assert said == "the index is empty, so nothing is similar; lshdb add fills it\n"


@pytest.mark.fast
def test_a_text_in_the_place_of_a_file(run: Run, index_path: Path) -> None:
    refused = run("query", index_path, "the quick brown fox", code=1).stderr
    assert refused == (
        "error: the quick brown fox: no such file\n"
        "hint: to query the text: --text 'the quick brown fox'\n"
    )
    assert "--key base" in run("query", index_path, "base", code=1).stderr


@pytest.mark.fast
def test_a_query_of_one_shingle(run: Run, index_path: Path) -> None:
    said = run("query", index_path, "--text", "two words").stderr
    assert said.startswith("the text has one shingle (5 words or fewer), so only texts of the same")
    assert "one shingle" not in run("query", index_path, "--text", BASE).stderr


def test_arguments_that_are_not_utf_8_are_named(run: Run, index_path: Path) -> None:
    for command, name in (
        (("query", index_path, "--text", "caf\udce9"), "--text"),
        (("query", index_path, "--key", "\udcff"), "--key"),
        (("explain", index_path, "a", "\udcff"), "the argument KEY2"),
    ):
        said = run(*command, code=2).stderr
        assert said.startswith(f"error: {name} is not valid UTF-8; is the terminal set to")

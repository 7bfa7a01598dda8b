"""What is said of a command line that cannot be meant: what was given, and what was expected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lshdb import Index
from lshdb.cli._group import _MEANT, COMMANDS
from tests.cli.conftest import BASE, Run, jsonl


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    index_path.rename("i.lshdb")
    Path("n.jsonl").write_text(jsonl([("a", BASE), ("b", BASE)]))
    Path("shards").mkdir()
    for name in ("x", "y"):
        Path("shards", f"{name}.jsonl").write_text(jsonl([(name, BASE)]))
    return tmp_path


@pytest.mark.parametrize(
    "path", ["n.jsonl", "shards", "shards/", "./shards", "shards/*.jsonl", "shards/[xy].jsonl", "."]
)
@pytest.mark.parametrize(
    "how",
    [(), ("--text-field", "content"), ("--mark",), ("--key-field", "k"), ("--threshold", "1")],
)
def test_dedup_of_what_is_no_index_asks_where_to_write(
    run: Run, path: str, how: tuple[str, ...]
) -> None:
    said = run("dedup", path, *how, code=2).stderr
    assert f"{path} is not an index" in said and "say where with --output: -o " in said
    several = run("dedup", path, "n.jsonl", *how, code=2).stderr
    assert f"{path} is not an index" in several and "say where with --output" in several
    assert "-o out/" in run("dedup", path, "out/", *how, code=2).stderr


def test_dedup_does_not_read_standard_input(run: Run) -> None:
    for line in (("-",), ("n.jsonl", "-"), ("i.lshdb", "-"), ("-", "-o", "x.jsonl")):
        assert "standard input" in run("dedup", *line, code=2, stdin="{}").stderr


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("i.lshdb/index.db", marks=pytest.mark.sqlite("its file")),
        "i.lshdb/index.toml",
        "i.lshdb/signatures.npy",
        "i.lshdb/lock",
    ],
)
def test_a_part_of_an_index(run: Run, path: str) -> None:
    for command in (("stats",), ("pairs",), ("query", "--text", "x"), ("dedup",)):
        if command == ("dedup",):
            assert "error: " in run(*command, path, code=2).stderr
            continue
        said = run(*command, path, code=1).stderr
        assert (
            said == f"error: {path} is a part of the index i.lshdb\nhint: give the index: i.lshdb\n"
        )
    assert "is a part of the index" in run("add", path, "n.jsonl", code=1).stderr


def test_what_is_no_index_is_told_how_to_make_one(run: Run) -> None:
    for path, hint in (
        ("n.jsonl", "lshdb add n.lshdb n.jsonl makes one of this file"),
        ("shards", "lshdb add shards.lshdb shards makes one of the files in there"),
        ("i", "did you mean i.lshdb?"),
        ("i.lshbd", "did you mean i.lshdb?"),
        ("other.lshdb", "lshdb add other.lshdb FILE"),
    ):
        for command in ("pairs", "clusters", "stats", "neighbors", "batches"):
            if command not in ("pairs", "clusters") or not Path(path).exists():
                assert hint in run(command, path, code=1).stderr
    for path in ("m.jsonl", "some words"):
        assert run("pairs", path, code=1).stderr.endswith("hint: check the path\n")
    assert run("stats", "*.jsonl", code=1).stderr.endswith("hint: check the path\n")


def test_the_index_comes_first(run: Run) -> None:
    for line, right in (
        (("add", "n.jsonl", "i.lshdb"), "lshdb add i.lshdb n.jsonl"),
        (("add", "n.jsonl", "shards", "i.lshdb"), "lshdb add i.lshdb n.jsonl shards"),
        (("query", "some words", "i.lshdb"), "lshdb query i.lshdb 'some words'"),
        (("show", "base", "i.lshdb"), "lshdb show i.lshdb base"),
        (("explain", "base", "near", "i.lshdb"), "lshdb explain i.lshdb base near"),
        (("sql", "SELECT 1", "i.lshdb"), "lshdb sql i.lshdb 'SELECT 1'"),
    ):
        said = run(*line, code=2).stderr
        assert f"error: i.lshdb is the index, and it comes first: {right}\n" in said
    said = run("add", "n.jsonl", code=2).stderr
    assert "n.jsonl is a file, and INDEX comes first: lshdb add n.lshdb n.jsonl" in said


def test_nothing_is_named_to_add(run: Run) -> None:
    """A pipe is read where - says so: a variable that is empty by mistake must not wait for it."""
    said = run("add", "z.lshdb", code=2, stdin=jsonl([("a", BASE)])).stderr
    assert "missing argument PATH...: files, folders, patterns or URLs to add, or - for" in said
    assert "hint: lshdb add INDEX PATH...; see lshdb add --help" in said
    assert not Path("z.lshdb").exists()
    run("add", "z.lshdb", "-", stdin=jsonl([("a", BASE)]))
    said = run("remove", "z.lshdb", code=2, stdin="a\n").stderr
    assert "missing argument KEY...: keys of documents, or - to read them from" in said
    run("remove", "z.lshdb", "-", stdin="a\n")


@pytest.mark.parametrize(
    ("value", "meant"),
    [("80%", "80 % is 0.8"), ("99.5 %", "99.5 % is 0.995"), ("0,8", "write 0.8, with a point"),
     (",8", "write .8, with a point"), ("high", ""), ("", ""), ("0.8.1", "")],
)  # fmt: skip
def test_numbers_with_a_fraction(run: Run, value: str, meant: str) -> None:
    for command in (
        ("pairs", "i.lshdb", "--threshold"), ("clusters", "i.lshdb", "--threshold"),
        ("query", "i.lshdb", "--text", "x", "--recall"),
        ("add", "z.lshdb", "n.jsonl", "--threshold"),
        ("pairs", "i.lshdb", "--below"), ("dedup", "n.jsonl", "-o", "x.jsonl", "--recall"),
    ):  # fmt: skip
        said = run(*command, value, code=2).stderr
        option = command[-1]
        assert said.startswith(f"error: {option} is {value!r}; expected a number"), said
        assert meant in said


@pytest.mark.parametrize(
    ("value", "said"),
    [("ten", "is 'ten'; expected a whole number from 1 on"), ("1.5", "is '1.5'; expected"),
     ("0", "is 0; expected a whole number from 1 on"), ("-3", "is -3; expected"),
     ("1,000", "is '1,000'; expected a whole number from 1 on; write 1000")],
)  # fmt: skip
def test_whole_numbers(run: Run, value: str, said: str) -> None:
    for command in (
        ("pairs", "i.lshdb", "--limit"), ("report", "i.lshdb", "-o", "r.html", "--limit"),
        ("add", "z.lshdb", "n.jsonl", "--workers"),
    ):  # fmt: skip
        assert f"error: {command[-1]} {said}" in run(*command, value, code=2).stderr


@pytest.mark.parametrize("value", [10, 75, 80, 99.5, 100])
def test_a_percentage_is_told_as_a_part_of_one(run: Run, value: float) -> None:
    hint = f"a similarity lies between 0 and 1; {value:g} % is {value / 100:g}"
    for command in (
        ("pairs", "i.lshdb", "--threshold"), ("init", "z.lshdb", "--threshold"),
        ("query", "i.lshdb", "--text", BASE, "--threshold"), ("reband", "i.lshdb", "--threshold"),
        ("pairs", "i.lshdb", "--below"), ("clusters", "i.lshdb", "--threshold"),
        ("dedup", "n.jsonl", "-o", "x.jsonl", "--threshold"), ("tune", "--threshold"),
        ("neighbors", "i.lshdb", "--threshold"), ("join", "i.lshdb", "j.lshdb", "--threshold"),
    ):  # fmt: skip
        if command[0] == "join":
            Index.create("j.lshdb", threshold=0.5).close()
        assert f"hint: {hint}\n" in run(*command, str(value), code=2).stderr, command
    said = run("init", "z.lshdb", "--recall", str(value), code=2).stderr
    assert f"a probability lies between 0 and 1; {value:g} % is {value / 100:g}" in said
    run("init", "h.lshdb", "--metric", "hamming", "--dim", "256", "--threshold", "75")


def test_choices_are_listed_with_the_nearest(run: Run) -> None:
    for line, said in (
        (("pairs", "i.lshdb", "--format", "jsn"), "did you mean json?"),
        (("init", "z", "--unit", "words"), "did you mean word?"),
        (("init", "z", "--metric", "Jacard"), "did you mean jaccard?"),
        (("plot", "clusterz", "i.lshdb", "-o", "x.svg"), "did you mean clusters?"),
        (("spark", "pair", "n.jsonl"), "did you mean pairs?"),
        (("tune", "--aim", "copies"), "did you mean near-copies?"),
    ):
        error = run(*line, code=2).stderr
        assert "; expected one of " in error and said in error


def test_an_option_without_its_value(run: Run) -> None:
    for line, said in (
        (("query", "i.lshdb", "--text"), "--text takes a value: --text TEXT"),
        (("query", "n", "--text"), "--text takes a value: --text TEXT"),
        (("pairs", "i.lshdb", "-o"), "-o takes a value: -o FILE"),
        (("pairs", "i.lshdb", "--cross", "a"), "--cross takes 2 values: --cross PREFIX PREFIX"),
        (("add", "z", "n.jsonl", "--text-field"), "--text-field takes a value: --text-field NAME"),
    ):
        error = run(*line, code=2).stderr
        assert error == f"error: {said}\nhint: see lshdb {line[0]} --help\n"


def test_one_dash_where_two_are_meant(run: Run) -> None:
    for arg in ("-threshold", "-threshold=0.8", "-json", "-output=x.tsv", "-output"):
        said = run("pairs", "i.lshdb", arg, "0.8", code=2).stderr
        assert f"{arg} begins with one dash, and takes two: -{arg}" in said
    assert not [path for path in Path().iterdir() if path.name.startswith("utput")]
    run("query", "i.lshdb", "--text", "-threshold")  # a value may be anything
    run("pairs", "i.lshdb", "-oout.tsv")
    assert Path("out.tsv").exists()


def test_short_names_that_are_none(run: Run) -> None:
    said = run("query", "i.lshdb", "-t", "words", code=2).stderr
    assert said.startswith("error: no such option -t; did you mean --text, ")
    assert "--threshold" in said
    assert "did you mean --key" in run("query", "i.lshdb", "-k", "base", code=2).stderr
    assert run("pairs", "i.lshdb", "-z", code=2).stderr.startswith("error: no such option -z\n")
    assert "did you mean pairs or spark?" in run("PAIRS", "i.lshdb", code=2).stderr


def test_options_before_the_command_and_the_index_before_it(run: Run) -> None:
    said = run("--threshold", "0.8", "pairs", "i.lshdb", code=2).stderr
    assert "the options of a command come after it" in said
    said = run("i.lshdb", "pairs", "--limit", "3", code=2).stderr
    assert "the command comes first: lshdb pairs i.lshdb" in said
    assert "as in lshdb stats i.lshdb" in run("i.lshdb", code=2).stderr
    assert "as in lshdb add INDEX n.jsonl" in run("n.jsonl", code=2).stderr
    assert "--threshold 0.8" in run("pairs", "i.lshdb", "0.8", code=2).stderr


def test_words_of_other_programs(run: Run) -> None:
    for word, meant in _MEANT.items():
        assert word not in COMMANDS
        assert f"; did you mean {meant}?" in run(word, "i.lshdb", code=2).stderr
        named = meant.replace(",", "").replace(" or ", " ").split()
        assert any(one in COMMANDS or one == "lshdb" for one in named)


def test_a_value_that_the_library_refuses_is_named_as_it_was_typed(run: Run) -> None:
    for line, said in (
        (("clusters", "i.lshdb", "--min-size", "0"), "--min-size is 0; expected at least 2"),
        (("neighbors", "i.lshdb", "--top", "-1"), "--top is -1; expected at least 1"),
        (("pairs", "i.lshdb", "--since", "soon"), "--since is 'soon'; expected a batch's"),
        (("dedup", "i.lshdb", "--keep", "best"), "--keep is 'best'; expected one of first"),
        (("pairs", "i.lshdb", "--memory", "0"), "--memory: expected MiB from 1 on, and it is 0"),
    ):
        error = run(*line, code=2).stderr
        assert error.startswith(f"error: {said}")
        assert error.endswith(f"hint: see lshdb {line[0]} --help\n")


def test_a_mistyped_word_of_another_program_is_understood(run: Run) -> None:
    for word, meant in (("serach", "query"), ("versoin", "lshdb --version"), ("delte", "remove")):
        assert f"'{word}'; did you mean {meant}?" in run(word, code=2).stderr
    assert "no such option --treshold; did you mean --threshold?" in (
        run("pairs", "i.lshdb", "--treshold", "1", code=2).stderr
    )
    assert (
        "no cursor 'nobody'; lshdb cursors lists all" in run("cursors", "i.lshdb", "nobody").stderr
    )
    assert "no such command 'nonsense'" in run("help", "nonsense", code=2).stderr


def test_an_empty_listing_says_so_wherever_it_goes(run: Run) -> None:
    run("init", "e.lshdb")
    run("init", "f.lshdb")
    for line, said in (
        (("clusters", "e.lshdb"), "no clusters"),
        (("clusters", "i.lshdb", "--min-size", 100), "no clusters"),
        (("pairs", "e.lshdb"), "no pairs"),
        (("neighbors", "e.lshdb"), "no document has a neighbor"),
        (("dedup", "e.lshdb"), "no documents"),
        (("join", "e.lshdb", "f.lshdb"), "no pairs"),
        (("cursors", "e.lshdb"), "no cursors"),
        (("sql", "e.lshdb", "SELECT key FROM document"), "no rows"),
    ):
        for how in ((), ("--format", "tsv"), ("--json",), ("-o", "out.csv")):
            places = (
                ("--decisions", "out.csv") if line[0] == "dedup" and how[:1] == ("-o",) else how
            )
            done = run(*line, *places)
            assert done.stderr.splitlines()[-1] == said, (line, how)
        assert run("-q", *line).stderr == ""


def test_an_index_is_not_joined_with_itself(run: Run) -> None:
    Path("link").symlink_to("i.lshdb")
    for other in ("i.lshdb", "./i.lshdb", "link"):
        said = run("join", "i.lshdb", other, code=2).stderr
        assert "lshdb pairs i.lshdb lists the pairs within one index" in said
    run("copy", "i.lshdb", "copy.lshdb")
    assert run("join", "i.lshdb", "copy.lshdb").stdout


def test_a_text_is_no_vector(run: Run) -> None:
    for command in (("query", "i.lshdb"), ("explain", "i.lshdb", "base")):
        for value in ("1,2,3", "0101", "[1, 2]", '{"a": 1}'):
            said = run(*command, "--vector", value, code=2).stderr
            assert "--vector is for vectors, bits and weights, and i.lshdb holds texts" in said
    np.save("v.npy", np.eye(5, dtype=np.float32))
    run("add", "v.lshdb", "v.npy", "--metric", "cosine")
    for command in (("query", "v.lshdb"), ("explain", "v.lshdb", "0")):
        said = run(*command, "--text", "some words", code=2).stderr
        assert "--text is for texts, and v.lshdb holds vectors: give --vector" in said
        run(*command, "--vector", "[1, 0, 0, 0, 0]")


def test_words_that_are_no_files(run: Run) -> None:
    said = run("query", "i.lshdb", "a", "sentence", "of words", code=1).stderr
    assert "hint: to query the text: --text 'a sentence of words'\n" in said
    said = run("query", "i.lshdb", "n.jsonl", "missing", code=1).stderr
    assert "hint: to query the text: --text missing\n" in said


def test_the_demo_leaves_an_index_of_others_alone(run: Run) -> None:
    with Index.open("i.lshdb") as index:
        n_documents = len(index)
    assert "i.lshdb holds other documents" in run("demo", "i.lshdb", code=2).stderr
    with Index.open("i.lshdb") as index:
        assert len(index) == n_documents

"""What users of a command line expect: -q, -v, --json, a default index, suggestions, completion."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import click.testing
import pytest

from lshdb import Index
from lshdb.cli._group import COMMANDS, cli
from lshdb.cli._table import crop
from tests.cli.conftest import DOCUMENTS, OTHER, Run, jsonl


@pytest.fixture
def news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS) + "no json\n")
    return tmp_path / "news.jsonl"


# -q, -v, --json, -V


def test_quiet_leaves_errors_and_rejections(run: Run, news: Path) -> None:
    done = run("add", "-q", "a.lshdb", news, code=5)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{news}:5: not valid JSON")
    assert run("-q", "pairs", "a.lshdb", "--format", "table").stderr == ""
    assert run("pairs", "a.lshdb", "--format", "table").stderr == "3 pairs\n"
    assert run("pairs", "b.lshdb", "--quiet", code=1).stderr.startswith("error: ")


def test_quiet_draws_no_bar(on_terminal: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text(jsonl(DOCUMENTS))
    assert on_terminal("add", "a.lshdb", "news.jsonl", "-q") == (0, "")


def test_an_add_writes_nothing_to_standard_output(run: Run, news: Path) -> None:
    """Cron mails what a command writes there."""
    done = run("add", "a.lshdb", news, code=5)
    assert done.stdout == "" and "added 4" in done.stderr


@pytest.mark.parametrize("arguments", [("-v", "add"), ("add", "--verbose")])
def test_verbose_shows_the_log_of_the_library(
    run: Run, news: Path, arguments: tuple[str, ...]
) -> None:
    logger = logging.getLogger("lshdb")
    before = logger.level, [*logger.handlers]
    done = run(*arguments, "a.lshdb", news, code=5)
    assert "log: batch 1: 4 documents committed" in done.stderr
    assert (logger.level, logger.handlers) == before


@pytest.mark.fast
def test_json_is_short_for_jsonl(run: Run, index_path: Path) -> None:
    done = run("pairs", index_path, "--json")
    assert done.stdout == run("pairs", index_path, "--format", "jsonl").stdout
    assert {json.loads(line)["key1"] for line in done.stdout.splitlines()} == {"base", "copy"}
    run("pairs", index_path, "--json", "--format", "jsonl")
    assert (
        "give one of the two"
        in run("pairs", index_path, "--json", "--format", "csv", code=2).stderr
    )


def test_version_has_a_short_name(run: Run) -> None:
    assert run("-V").stdout == run("--version").stdout != ""


# LSHDB_INDEX


@pytest.fixture
def by_default(index_path: Path, news: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LSHDB_INDEX", str(index_path))
    return index_path


@pytest.mark.fast
def test_the_index_may_be_left_out(run: Run, by_default: Path) -> None:
    for arguments in (("pairs",), ("show", "base"), ("sql", "SELECT key FROM document"),
                      ("explain", "base", "near"), ("explain", "base", "--text", "a"),
                      ("query", "--key", "base"), ("clusters", "--min-size", "3")):  # fmt: skip
        command, *rest = arguments
        done = run(command, *rest)
        assert done.stdout == run(command, by_default, *rest).stdout != ""


def test_inputs_are_told_from_the_index(run: Run, by_default: Path, news: Path) -> None:
    assert "unchanged 4" in run("add", news, code=5).stderr
    assert "rejected 6;" in run("add", "news.jsonl", news, code=5).stderr
    assert "added 1" in run("add", "-", stdin=jsonl([("more", OTHER)])).stderr
    assert run("query", news, "--format", "csv", code=5).stdout.count("\n") > 4
    with Index.open(by_default) as index:
        assert len(index) == 5


def test_an_index_that_is_named_is_the_one(run: Run, by_default: Path, news: Path) -> None:
    assert "added 4" in run("add", "b.lshdb", news, code=5).stderr
    Path("c").mkdir()
    assert "added 4" in run("add", "c", news, code=5).stderr
    assert run("stats", "c", "--json").stdout != run("stats", "--json").stdout
    assert "d.lshdb" in run("pairs", "d.lshdb", code=1).stderr
    assert run("add", "b.lshdb", code=2).stderr.startswith("error: missing argument PATH...")


def test_what_could_be_either_is_refused(run: Run, by_default: Path, news: Path) -> None:
    before = sorted(Path().iterdir())
    for arguments in (("add", "typo", news), ("query", "typo", news), ("query", "typo")):
        refused = run(*arguments, code=2).stderr
        assert "typo is neither an index nor there as a file" in refused
        assert "unset LSHDB_INDEX" in refused
    assert sorted(Path().iterdir()) == before


def test_removing_wants_the_index(run: Run, by_default: Path) -> None:
    run("remove", "base", code=2)
    run("remove", "base", "near", code=1)  # base is no index
    with Index.open(by_default) as index:
        assert len(index) == 4


def test_an_index_whose_name_begins_with_a_hyphen(
    run: Run, news: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSHDB_INDEX", "-n.lshdb")
    run("add", news, code=5)
    assert Path("-n.lshdb", "index.toml").exists() and run("pairs").stdout


# Suggestions, help, completion


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dedupe"], "no such command 'dedupe'; did you mean dedup?"),
        (["neighbours"], "no such command 'neighbours'; did you mean neighbors?"),
        (["xyzzy"], "no such command 'xyzzy'\n"),
        (["pairs", "x", "--treshold", "1"], "--threshold"),
    ],
)
def test_a_misspelt_word_suggests_the_right_one(run: Run, arguments: list[str], said: str) -> None:
    assert said in run(*arguments, code=2).stderr


@pytest.mark.fast
def test_the_help_of_add_and_init_has_groups(run: Run) -> None:
    shown = run("add", "--help").stdout
    titles = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options:", "Input:", "New index:", "Output:", "Examples:"]
    parts = [shown.split(title)[1] for title in titles]
    own = ("--on-conflict", "--key-field", "--metric", "--quiet", "lshdb add")
    for part, option in zip(parts, own, strict=True):
        assert option in part.split("\n\n")[0]
    assert "New index:" in run("init", "--help").stdout
    assert "\nOptions:\n" in run("pairs", "--help").stdout


def complete(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash gets for a line whose last word is incomplete."""
    monkeypatch.setenv("_LSHDB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    done = click.testing.CliRunner().invoke(cli, [], prog_name="lshdb")
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_the_shell_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("lshdb ne", monkeypatch) == ["plain,neighbors"]
    assert len(complete("lshdb ", monkeypatch)) == len(COMMANDS)
    assert complete("lshdb pairs --thr", monkeypatch) == ["plain,--threshold"]
    assert complete("lshdb pairs x --verify e", monkeypatch) == ["plain,exact"]
    assert complete("lshdb stats new", monkeypatch) == ["dir,new"]
    assert complete("lshdb pairs new", monkeypatch) == ["file,new"]
    assert complete("lshdb add news.lshdb ton", monkeypatch) == ["file,ton"]


def test_values_are_completed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that stand in the index, words, pages and fields of a file; nothing is said."""
    monkeypatch.chdir(tmp_path)
    Path("n.jsonl").write_text(
        '{"id": "a", "text": "some words", "topic": "x", "title": "t", "year": 1}\n'
    )
    run("add", "n.lshdb", "n.jsonl", "--keep-fields", "topic,year")
    run("cursors", "n.lshdb", "press", "--set", "now")

    def offered(line: str) -> list[str]:
        words = complete(f"lshdb {line}", monkeypatch)
        return [word.partition(",")[2] for word in words if word]

    assert offered("dedup n.lshdb --keep l") == ["last", "longest"]
    assert offered("dedup n.lshdb --keep field:") == [
        "field:", "field:-", "field:topic", "field:year",
    ]  # fmt: skip
    assert "field:-title" in offered("dedup n.jsonl --keep field:-t")
    assert offered("pairs n.lshdb --since ") == ["last", "@press"]
    assert offered("cursors n.lshdb p") == ["press"]
    assert offered("pairs n.lshdb --agree t") == ["topic"]
    assert offered("pairs n.lshdb --agree topic,") == ["topic,topic", "topic,year"]
    assert offered("query n.lshdb --vote ") == ["topic", "year"]
    assert offered("add n.lshdb n.jsonl --text-field t") == ["text", "topic", "title"]
    assert "nightly" in offered("guide n")
    assert "cosine" in offered("add n.lshdb n.jsonl --metric c")
    monkeypatch.setenv("LSHDB_INDEX", "n.lshdb")
    assert offered("pairs --since @") == ["@press"]
    for line in ("pairs no.lshdb --agree ", "add x no.jsonl --key-field ", "cursors no.lshdb p"):
        assert offered(line) == []
    assert offered("pairs n.lshdb --limit 1 --limit 2 --verify e") == ["exact"]


def test_the_script_for_the_shell_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for shell, word in (("zsh", "compdef"), ("fish", "complete")):
        monkeypatch.setenv("_LSHDB_COMPLETE", f"{shell}_source")
        done = click.testing.CliRunner().invoke(cli, [], prog_name="lshdb")
        assert done.exit_code == 0 and word in done.stdout


@pytest.mark.fast
@pytest.mark.parametrize(
    ("path", "width", "shown"),
    [
        ("net/core/filter.c", 17, "net/core/filter.c"),
        ("linux/net/core/filter.c", 17, "…/core/filter.c"),
        ("a/quite_long_name_of_a_file.c", 12, "…of_a_file.c"),
        ("two words/and more words", 12, "two wo…words"),
    ],
)
def test_a_path_loses_its_beginning(path: str, width: int, shown: str) -> None:
    assert crop(path, width) == shown

"""Ways of shingling from the command line: options, what they print, what they refuse."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, Tokenizer
from tests.cli.conftest import BASE, Run, jsonl, sound

PATHS = ["cellblock16/inmates/dilbert/personal/foo.htm", "a/b/c/index.html", "x/y?z=1", "p/q/r/s/t"]


def params(path: Path) -> dict[str, object]:
    with Index.open(path) as index:
        return dict(index.params.items())


@pytest.mark.parametrize(
    ("options", "expected", "said"),
    [
        ("--unit byte", {"k": 9, "normalisation": "none"}, "9 bytes, as a set\n  .*used as they"),
        (
            "--unit line",
            {"k": 3, "normalisation": "ignorable-nfkc-casefold-lines"},
            "3 lines, as a set",
        ),
        ("--unit token --k 1", {"normalisation": "space"}, "1 token, as a set\n .*case kept"),
        ("--unit url --bag", {"k": 2, "bag": True}, "2 URL tokens with their place in the path, c"),
        (
            "--keep-case",
            {"normalisation": "ignorable-nfkc-space"},
            "5 words, as a set\n +letter case kept\n",
        ),
        (
            "--lowercase",
            {"normalisation": "ignorable-nfkc-casefold-space"},
            "5 words, as a set\n  sig",
        ),
        (
            "--unit char --strip-accents --strip-punctuation --digits zero",
            {"normalisation": "ignorable-nfkc-casefold-accents-digits-punctuation-space"},
            "letter case folded, accents dropped, numbers as 0, punctuation as blanks",
        ),
    ],
)
def test_init_and_add_take_the_same_options(
    run: Run, tmp_path: Path, options: str, expected: dict[str, object], said: str
) -> None:
    out = run("init", tmp_path / "i.lshdb", *options.split()).stderr
    assert re.search(said, out), out
    assert params(tmp_path / "i.lshdb").items() >= expected.items()
    (tmp_path / "x.jsonl").write_text(jsonl([("a", "http://a.com/x/y/z Some words and more")]))
    done = run("add", tmp_path / "a.lshdb", tmp_path / "x.jsonl", *options.split())
    assert "defaults" not in done.stderr and "making the index" in done.stderr
    assert params(tmp_path / "a.lshdb") == params(tmp_path / "i.lshdb")
    again = run("add", tmp_path / "i.lshdb", tmp_path / "x.jsonl", *options.split())
    assert ": added 1" in again.stderr and again.stdout == ""
    run("stats", tmp_path / "i.lshdb")
    assert sound(tmp_path / "i.lshdb")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--unit char", "unit = 'word', but 'char'"),
        ("--k 4", "k = 5, but 4"),
        ("--threshold 0.7", "threshold = 0.8, but 0.7"),
        ("--recall 0.9", "recall = 0.99, but 0.9"),
        ("--bands 3", "bands = 16, but 3"),
        ("--seed 2", "seed = 1, but 2"),
        ("--scheme universal", "scheme = 'fss', but 'universal'"),
        ("--bag", "bag = False, but True"),
        ("--keep-case", "lowercase = True, but False"),
        ("--strip-accents", "strip_accents = False, but True"),
        ("--digits zero", "digits = 'keep', but 'zero'"),
        ("--no-text", "store_text = True, but False"),
        ("--database sqlite:///x.db", "x.db"),
    ],
)
def test_add_refuses_what_the_index_was_not_made_with(
    run: Run, index_path: Path, tmp_path: Path, options: str, names: str
) -> None:
    (tmp_path / "x.jsonl").write_text(jsonl([("new", BASE)]))
    result = run("add", index_path, tmp_path / "x.jsonl", *options.split(), code=1)
    assert names in result.stderr and "was made with" in result.stderr and "hint" in result.stderr
    assert result.stdout == ""
    with Index.open(index_path) as index:
        assert index.stats().documents == 4


@pytest.mark.sqlite("names its file")
def test_add_accepts_what_the_index_was_made_with(
    run: Run, index_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.jsonl").write_text(jsonl([("new", BASE)]))
    options = (
        "--unit word --k 5 --threshold 0.8 --recall 0.99 --bands 16 --rows 6 --num-perm 128 "
        "--seed 1 --scheme fss --lowercase --digits keep --workers 2 --database sqlite:///index.db"
    )
    added = run("add", index_path, tmp_path / "x.jsonl", *options.split()).stderr
    assert "x.jsonl: added 1" in added


@pytest.mark.parametrize("workers", ["0", "-1", "x"])
def test_workers_are_at_least_one(run: Run, tmp_path: Path, workers: str) -> None:
    result = run("add", tmp_path / "a.lshdb", "-", "--workers", workers, code=2)
    assert "--workers" in result.stderr and not (tmp_path / "a.lshdb").exists()


def test_workers_reach_the_index(
    run: Run, index_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    add = Index.add

    def watched(self: Index, *args: Any, **options: Any) -> Any:
        asked.append(options["workers"])
        return add(self, *args, **options)

    monkeypatch.setattr(Index, "add", watched)
    run("add", index_path, "-", "--workers", "3")
    run("add", index_path, "-")
    assert asked == [3, None]


def test_options_that_cannot_be_make_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("html")
    (tmp_path / "bad.txt").write_bytes(b"\xe9")
    for options, words in (
        (["--stop-tokens", tmp_path / "s.txt"], "unit url"),
        (["--unit", "url", "--stop-tokens", tmp_path / "bad.txt"], "not valid UTF-8"),
        (["--unit", "url", "--stop-tokens", tmp_path / "absent.txt"], "absent.txt"),
        (["--unit", "tokenizer"], "needs a tokenizer"),
        (["--digits", "drop"], "--digits"),
        (["--bands", "3"], "together"),
    ):
        for command in (["init", tmp_path / "a.lshdb"], ["add", tmp_path / "a.lshdb", "-"]):
            assert words in run(*command, *options, code=2).stderr
            assert not (tmp_path / "a.lshdb").exists()


# Hosts


def test_mirrors_are_found(run: Run, tmp_path: Path) -> None:
    urls = tmp_path / "urls.txt"
    urls.write_text(
        "".join(f"http://prison.example/{path}\n" for path in PATHS) + "no host here\n"
        "https://other.example/quite/another/path\n"
    )
    mirror = "".join(f"https://www.mirror.example:8443/{path}#top\n" for path in reversed(PATHS))
    (tmp_path / "more.gz").write_bytes(gzip.compress(mirror.encode()))
    index = tmp_path / "hosts.lshdb"
    result = run("add", index, urls, tmp_path / "more.gz", "--unit", "url", code=5)
    assert f"making the index {index}: threshold 0.8, 2-token URL shingles" in result.stderr
    assert f"{urls}:5: no host" in result.stderr
    assert "added 3, exact copies 1, rejected 1;" in result.stderr
    pair = "prison.example\twww.mirror.example:8443\t1.000000\texact\n"
    assert run("pairs", index).stdout == pair

    query = ("query", index, "--top", "1", "--text")
    shown = run(
        *query, "x.net/cellblock16/inmates/dilbert/personal/foo.htm\nx.net/a/b/c\nx.net/p/q/r/s/t"
    )
    assert shown.stdout.startswith("text\tprison.example\t")
    assert "no URL token to compare" in run(*query, "http://x.net/index.html").stderr

    by_file = run("query", index, tmp_path / "more.gz").stdout.splitlines()
    assert [line.split("\t")[0] for line in by_file] == ["www.mirror.example:8443"] * 2
    assert run("query", index, stdin=mirror).stdout.splitlines() == by_file
    assert sound(index)


def test_a_later_list_takes_the_place_of_the_hosts_document(run: Run, tmp_path: Path) -> None:
    index = tmp_path / "hosts.lshdb"
    run("init", index, "--unit", "url")
    assert "added 1" in run("add", index, "-", stdin="a.com/1/x\na.com/2/y\n").stderr
    assert "unchanged 1" in run("add", index, "-", stdin="a.com/2/y\na.com/1/x\n").stderr
    assert "replaced 1" in run("add", index, "-", stdin="a.com/3/z\n").stderr
    with Index.open(index) as opened:
        assert opened.show("a.com").body == "a.com/3/z"


def test_hosts_of_one_server_are_alike_by_their_names(run: Run, tmp_path: Path) -> None:
    """Three of the four elements in common: the tokens of the host, and not the page."""
    index = tmp_path / "names.lshdb"
    lists = "www5.infoseek.com/a/b\nwww6.infoseek.com/c/d\nwww6.lycos.org/c/d\n"
    made = run("add", index, "-", "--unit", "url-host", "--threshold", "0.5", stdin=lists).stderr
    assert "2-token URL-and-host shingles" in made
    alike = "www5.infoseek.com\twww6.infoseek.com\t0.600000\texact\n"
    assert run("pairs", index).stdout == alike
    assert "www6.infoseek.com\t0.6" in run("query", index, "--text", "www7.infoseek.com/x").stdout


def test_jsonl_of_a_host_index_holds_lists_of_urls(run: Run, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text(
        '{"id": "one", "text": "http://a.com/x/y/z\\nhttp://a.com/u/v"}\n'
        '{"id": "two", "text": ["https://b.org/u/v", "https://b.org/x/y/z"]}\n'
    )
    out = run("add", tmp_path / "h.lshdb", tmp_path / "h.jsonl", "--unit", "url").stderr
    assert "exact copies 1" in out  # one content, given as a text and as a list
    assert run("pairs", tmp_path / "h.lshdb").stdout == "one\ttwo\t1.000000\texact\n"


def test_stop_tokens_of_ones_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "stop.txt").write_text("Session\n  tilde index.html\n")
    options = ("--unit", "url", "--stop-tokens", tmp_path / "stop.txt")
    index = tmp_path / "a.lshdb"
    run("init", index, *options)
    assert params(index)["stop_tokens"] == "html index session tilde"
    lists = "a.com/session/x/y.html\nb.org/x/y/tilde/\nc.net/x/y.htm\n"
    assert "added 3" in run("add", index, "-", *options, stdin=lists).stderr
    assert run("pairs", index).stdout == "a.com\tb.org\t1.000000\texact\n"
    (tmp_path / "stop.txt").write_text("other")
    refused = run("add", index, "-", *options, code=1)
    assert "stop_tokens = 'html index session tilde', but 'other'" in refused.stderr


def test_lists_of_urls_for_an_index_of_words(run: Run, tmp_path: Path) -> None:
    run("add", tmp_path / "w.lshdb", "-", "--input", "urls", stdin="http://a.com/one/two\n")
    with Index.open(tmp_path / "w.lshdb") as index:
        assert index.show("a.com").body == "http://a.com/one/two"


# Tokenizers


def test_a_tokenizer_that_is_not_installed(run: Run, tmp_path: Path) -> None:
    for command in ("init", "add"):
        words = [command, tmp_path / "a.lshdb", *(["-"] if command == "add" else [])]
        result = run(*words, "--tokenizer", "absent", code=1)
        assert "no tokenizer 'absent' is installed" in result.stderr
        assert "hint: install the package" in result.stderr
        assert not (tmp_path / "a.lshdb").exists()
    path = tmp_path / "t.lshdb"
    with Index.create(path, tokenizer=Tokenizer(str.split, name="mine", version="2")) as index:
        index.add([("a", "x y"), ("b", "z")])
    for words in (
        ["stats", path], ["show", path, "a"], ["batches", path], ["check", path],
        ["sql", path, "SELECT 1"], ["pairs", path, "--verify", "signature"],
    ):  # fmt: skip
        run(*words)
    for words in (["query", path, "--text", "x"], ["add", path, "-"]):
        result = run(*words, code=1, stdin='{"id": "c", "text": "x y"}\n')
        assert "mine 2" in result.stderr and "no tokenizer 'mine' is installed" in result.stderr
    assert sound(path)


def test_an_installed_tokenizer_by_name(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Tokenizer(lambda text: text.split("|"), name="mine", version="2")
    monkeypatch.setattr("lshdb.tokenizers.installed_tokenizer", lambda name: mine)
    out = run("init", tmp_path / "t.lshdb", "--tokenizer", "mine", "--k", "1").stderr
    assert "1 token by mine 2, as a set" in out
    text = '{"id": "c", "text": "x y|z"}\n'
    run("add", tmp_path / "t.lshdb", "-", "--tokenizer", "mine", stdin=text)
    made = run("add", tmp_path / "u.lshdb", "-", "--tokenizer", "mine", stdin=text).stderr
    assert "5-token shingles by mine 2" in made
    assert run("query", tmp_path / "t.lshdb", "--text", "z|x y").stdout.startswith("text\tc\t1.0")
    assert "no token to compare" in run("query", tmp_path / "t.lshdb", "--text", "").stderr
    run("add", tmp_path / "t.lshdb", "-", stdin='{"id": "bars", "text": "||"}\n')
    assert run("query", tmp_path / "t.lshdb", "--text", "||").stdout.startswith("text\tbars\t1.0")
    assert run("query", tmp_path / "t.lshdb", "--text", "|||").stdout == ""
    refused = run("add", tmp_path / "t.lshdb", "-", "--unit", "word", code=1)
    assert "unit = 'tokenizer', but 'word'" in refused.stderr


@pytest.mark.parametrize(
    ("unit", "text", "noun"),
    [("word", "\u200b \xad", "word"), ("char", " ", "character"), ("byte", "", "byte"),
     ("line", "\n \n", "line"), ("token", "\t", "token")],
)  # fmt: skip
def test_a_text_with_nothing_to_compare(
    run: Run, tmp_path: Path, unit: str, text: str, noun: str
) -> None:
    run("init", tmp_path / "a.lshdb", "--unit", unit)
    assert f"has no {noun} to compare" in run("query", tmp_path / "a.lshdb", "--text", text).stderr
    assert "compare" not in run("query", tmp_path / "a.lshdb", "--text", "word").stderr


def test_stop_words_of_a_file_or_a_language(run: Run, tmp_path: Path) -> None:
    (tmp_path / "stop.txt").write_text("the of\nAND\n")
    (tmp_path / "de").mkdir()
    index = tmp_path / "a.lshdb"
    options = ("--k", "2", "--stop-words", tmp_path / "stop.txt")
    texts = (
        '{"id": "a", "text": "The end of the long road"}\n'
        '{"id": "b", "text": "end, long and road"}\n'
    )
    made = run("add", index, "-", *options, stdin=texts).stderr
    assert "2-word shingles, without 3 stop words" in made and "exact copies 1" in made
    alone = run("init", tmp_path / "alone.lshdb", *options)
    assert "2 words, as a set, without 3 stop words" in alone.stdout + alone.stderr
    assert params(index)["stop_tokens"] == "and of the"
    assert "unchanged 2" in run("add", index, "-", *options, stdin=texts).stderr
    other = run("add", index, "-", "--stop-words", "en", stdin=texts, code=1).stderr
    assert "was made with stop_words = 'and of the'" in other
    run("init", tmp_path / "en.lshdb", "--stop-words", "en")
    assert " the " in params(tmp_path / "en.lshdb")["stop_tokens"]
    for given, said in (
        ("xx", "no published stop words of 'xx'"),
        (tmp_path / "absent.txt", "neither a file nor a language such as en"),
        (tmp_path / "de", "neither a file nor a language such as en"),
    ):
        assert said in run("init", tmp_path / "b", "--stop-words", given, code=2).stderr

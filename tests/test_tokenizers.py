"""Tokenizers of the user's own: recorded, compared, found again when needed, checked."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import (
    Document,
    Index,
    LshdbError,
    ParameterError,
    ParameterMismatchError,
    Tokenizer,
    TokenizerError,
)

DASHES = Tokenizer(lambda text: text.split("-"), name="dashes", version="1.0")
TEXTS = [("a", "x-y-z-u-v-w"), ("b", "x-y-z-u-v-W"), ("c", "p--q-r"), ("d", "")]


@pytest.fixture
def dashed(tmp_path: Path) -> Path:
    path = tmp_path / "t.lshdb"
    with Index.create(path, tokenizer=DASHES, k=1, threshold=0.5) as index:
        index.add(TEXTS)
    return path


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a distribution that offers a tokenizer where Python finds it."""
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(str(folder))

    def install(code: str, *, version: str = "1.0") -> None:
        info = folder / "dashing.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        module = f"dashing{next(_NUMBERS)}"  # never one that was imported before
        metadata = f"Metadata-Version: 2.1\nName: dashing\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(f"[lshdb.tokenizers]\ndashes = {module}:f\n")
        (folder / f"{module}.py").write_text(code)
        importlib.invalidate_caches()

    return install


_NUMBERS = itertools.count()
FUNCTION = "def f(text):\n    return text.split('-')\n"
OBJECT = (
    "from lshdb import Tokenizer\n"
    "f = Tokenizer(lambda text: text.split('-'), name='dashes', version='{}')\n"
)


def test_the_tokens_are_those_of_the_tokenizer(dashed: Path) -> None:
    with Index.open(dashed, tokenizer=DASHES) as index:
        assert index.params.unit == "tokenizer" and index.params.normalisation == "none"
        assert index.params.tokenizer == "dashes 1.0"
        (pair,) = index.pairs()
        assert (pair.key1, pair.key2, pair.similarity) == ("a", "b", 5 / 7)
        assert index.show("c").document.n_shingles == 3  # an empty token is none
        assert index.show("d").document.signature_id is None
        assert [hit.key for hit in index.query(["p", "q", "r"])] == ["c"]
        assert index.count_shingles("a-b-a") == 2
        assert index.check() == []


def test_a_text_and_its_ready_tokens_are_exact_copies(dashed: Path) -> None:
    with Index.open(dashed, tokenizer=DASHES) as index:
        assert index.add([("e", ["p", "q", "r"])]).copies == 1
        assert index.show("e").copies == ("c",)


def test_another_one_is_refused_naming_both(dashed: Path) -> None:
    for name, version in (("dashes", "1.1"), ("commas", "1.0")):
        other = Tokenizer(str.split, name=name, version=version)
        with pytest.raises(ParameterMismatchError) as caught:
            Index.open(dashed, tokenizer=other)
        assert "dashes 1.0" in str(caught.value) and f"{name} {version}" in str(caught.value)


def test_a_word_index_has_none(tmp_path: Path) -> None:
    Index.create(tmp_path / "w.lshdb").close()
    with pytest.raises(ParameterMismatchError, match="tokenizer = ''"):
        Index.open(tmp_path / "w.lshdb", tokenizer=DASHES)
    with pytest.raises(ParameterError, match="the unit is char"):
        Index.create(tmp_path / "x.lshdb", tokenizer=DASHES, unit="char")
    assert not (tmp_path / "x.lshdb").exists()


def test_what_splits_nothing_needs_none(dashed: Path) -> None:
    with Index.open(dashed) as index:
        assert index.stats().documents == 4
        assert len(index.batches()) == 1
        assert index.show("a").body == "x-y-z-u-v-w"
        assert list(index.sql("SELECT count(*) FROM document").rows) == [(4,)]
        assert index.check() == []
        assert [pair.key2 for pair in index.pairs(verify="signature", threshold=0.3)] == ["b"]
        assert index.query(["p", "q", "r"], verify="signature")[0].key == "c"
        assert index.add([("ready", ["p"])]).added == 1
        for ask in (
            lambda: index.query("x-y"),
            lambda: list(index.pairs()),
            lambda: index.add([("new", "x-y")]),
        ):
            with pytest.raises(TokenizerError) as caught:
                ask()
            assert "dashes 1.0" in caught.value.message
            assert "lshdb.tokenizers" in (caught.value.hint or "")
        assert index.stats().documents == 5
        assert index.check() == []


@pytest.mark.parametrize("code", [FUNCTION, OBJECT.format("1.0")])
def test_it_is_found_among_the_installed(
    dashed: Path, tmp_path: Path, install: Callable[..., None], code: str
) -> None:
    install(code)
    with Index.open(dashed) as index:
        assert {pair.key2 for pair in index.pairs()} == {"b"}
    with Index.create(tmp_path / "by_name.lshdb", tokenizer="dashes", k=1) as index:
        assert index.params.tokenizer == "dashes 1.0"
        index.add(TEXTS)
        assert index.query("q-r-p")[0].key == "c"


@pytest.mark.parametrize(("code", "version"), [(FUNCTION, "2.0"), (OBJECT.format("2.0"), "1.0")])
def test_another_version_installed_is_refused_naming_both(
    dashed: Path, install: Callable[..., None], code: str, version: str
) -> None:
    install(code, version=version)
    with Index.open(dashed) as index:
        assert index.stats().documents == 4
        with pytest.raises(ParameterMismatchError) as caught:
            index.query("x-y")
    assert "dashes 1.0" in str(caught.value) and "dashes 2.0" in str(caught.value)
    assert "install version 1.0" in (caught.value.hint or "")


def test_one_that_cannot_be_loaded(dashed: Path, install: Callable[..., None]) -> None:
    install("import no_such_module\n")
    with pytest.raises(TokenizerError, match="no_such_module"), Index.open(dashed) as index:
        index.query("x-y")
    install("f = 17\n")
    with pytest.raises(TokenizerError, match=r"dashes.*17"), Index.open(dashed) as index:
        index.query("x-y")
    install(OBJECT.format("1.0").replace("'dashes'", "'other'"))
    with pytest.raises(TokenizerError, match="'other'"), Index.open(dashed) as index:
        index.query("x-y")


@pytest.mark.parametrize(
    ("split", "words"),
    [
        (lambda text: [text, 17], "17, which is of type int"),
        (lambda text: [b"x"], "of type bytes"),
        (lambda text: ["\ud800"], "lone surrogate"),
        (lambda text: text, "one string"),
        (lambda text: None, "TypeError"),
        (lambda text: [][0], "IndexError"),
    ],
)
def test_what_is_no_list_of_tokens(
    tmp_path: Path, split: Callable[[str], list[str]], words: str
) -> None:
    bad = Tokenizer(split, name="bad", version="3")
    with Index.create(tmp_path / "t.lshdb", tokenizer=bad) as index:
        with pytest.raises(TokenizerError, match="the tokenizer bad 3") as caught:
            index.add([("a", "text")])
        assert words in caught.value.message
        assert caught.value.message.startswith("key 'a': ")
        assert index.stats().documents == 0 and index.check() == []
    assert isinstance(caught.value, LshdbError)


def test_any_iterable_of_strings_will_do(tmp_path: Path) -> None:
    lazy = Tokenizer(lambda text: (word for word in text.split()), name="lazy", version="1")
    with Index.create(tmp_path / "t.lshdb", tokenizer=lazy, k=1, lowercase=True) as index:
        index.add([("a", "A b")])
        assert index.query("a B")[0].similarity == 1.0


@pytest.mark.parametrize("name", ["", "a b", " a", "a\n", 17, "a\x00"])
def test_names_are_one_word(name: str) -> None:
    for fields in ({"name": name, "version": "1"}, {"name": "a", "version": name}):
        with pytest.raises(ParameterError, match="without white space"):
            Tokenizer(str.split, **fields)


def test_it_does_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DASHES.version = "2"  # type: ignore[misc]
    with pytest.raises(ParameterError, match="expected a function"):
        Tokenizer("x", name="a", version="1")  # type: ignore[arg-type]


def test_the_text_that_fails_is_named(tmp_path: Path) -> None:
    def split(text: str) -> list[str]:
        if "boom" in text:
            raise SystemExit(3)
        return text.split()

    fragile = Tokenizer(split, name="fragile", version="1")
    documents = [Document(f"k{number}", "a b c d e f", f"d.jsonl:{number}") for number in range(9)]
    documents[7] = Document("k7", "one boom two", "d.jsonl:7")
    with Index.create(tmp_path / "t.lshdb", tokenizer=fragile) as index:
        with pytest.raises(TokenizerError, match=r"d\.jsonl:7: the tokenizer fragile 1 failed"):
            index.add(documents)
        index.add(documents[:7])
        answers = index.query_many(documents, workers=2)
        assert [len(next(answers)[1]) for _ in range(7)] == [7] * 7
        with pytest.raises(TokenizerError, match="query 'k7': the tokenizer fragile 1"):
            next(answers)


def test_a_function_alone_is_no_tokenizer(tmp_path: Path) -> None:
    for wrong in (str.split, 5, [1]):
        with pytest.raises(ParameterError, match=r"expected a name or an lshdb\.Tokenizer"):
            Index.create(tmp_path / "t.lshdb", tokenizer=wrong)  # type: ignore[arg-type]
    Index.create(tmp_path / "t.lshdb").close()
    with pytest.raises(ParameterError, match=r"expected a name or an lshdb\.Tokenizer"):
        Index.open(tmp_path / "t.lshdb", tokenizer=str.split)  # type: ignore[arg-type]

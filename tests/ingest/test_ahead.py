"""Parts of a batch, worked on while it is read: the same index, whatever is expected."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from lshdb import Index, Tokenizer
from lshdb.documents.read import read_documents
from lshdb.errors import TokenizerError
from lshdb.signatures.sets import SetFamily
from lshdb.storage.transactions.writer import Writer
from tests.conftest import WORDS
from tests.sizes import set_sizes

Make = Callable[..., Index]
COLUMNS = "key, content_hash, body_hash, n_shingles, n_chars, n_unassigned, signature_id"


def bodies(n: int = 150) -> list[tuple[str, Any]]:
    """Texts with copies, of every width and length, and lists and sets of tokens among them."""
    rng = random.Random(5)
    found: list[tuple[str, Any]] = []
    for number in range(n):
        words = [rng.choice(WORDS) for _ in range(rng.choice((0, 1, 5, 40, 400)))]
        text = " ".join(words) + rng.choice(("", " É\u0378", " 中文\U0001f600", " e\u0301\u0323"))
        body = rng.choice((text, text, text, text.upper(), words, tuple(words), set(words)))
        found.append((f"k{number}", body))
    return found


def contents_of(index: Index) -> list[Any]:
    rows = list(index.sql(f"SELECT {COLUMNS} FROM document ORDER BY doc_id").rows)
    texts = list(index.sql("SELECT doc_id, form, body FROM content ORDER BY doc_id").rows)
    assert index.check() == []
    with index._store.reading() as snapshot:
        return [*rows, *texts, snapshot.signatures[0 : snapshot.n_signatures].tobytes()]


@pytest.fixture
def reference(make_index: Make, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What an index holds whose documents took the way of the reference."""
    with monkeypatch.context() as patch:
        patch.setattr(SetFamily, "takes_texts", property(lambda family: False))
        index = make_index("reference")
        index.add(bodies(), workers=1)
    return contents_of(index)


@pytest.mark.parametrize("expects_new", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("long", [30, 2**20])
@pytest.mark.parametrize("part", [7, 1024])
def test_the_same_index_whatever_is_expected(
    make_index: Make,
    reference: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    expects_new: bool,
    workers: int,
    long: int,
    part: int,
) -> None:
    set_sizes(monkeypatch, long_text=long, part_documents=part)
    look = Writer._look

    def looking(writer: Writer) -> None:
        look(writer)
        assert writer.began_empty
        writer.began_empty = expects_new

    monkeypatch.setattr(Writer, "_look", looking)
    index = make_index("a")
    index.add(bodies(), workers=workers)
    assert contents_of(index) == reference


def test_what_comes_in_again_is_not_signed_again(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=50)
    signed: list[int] = []
    sign = SetFamily.sign_texts

    def counting(family: SetFamily, texts: list[str], person: bytes) -> Any:
        signed.append(len(texts))
        return sign(family, texts, person)

    monkeypatch.setattr(SetFamily, "sign_texts", counting)
    texts = [(f"k{number}", f"text number {number}") for number in range(200)]
    index = make_index()
    index.add(texts, workers=1)
    assert sum(signed) == 200
    signed.clear()
    again = [*texts[:190], *((f"new{number}", f"another text {number}") for number in range(150))]
    result = index.add(again, workers=1)
    assert (result.unchanged, result.added) == (190, 150)
    assert sum(signed) <= 150 + 50  # a batch that was expected to be new at most


@pytest.mark.parametrize("of_files", [True, False])
def test_the_first_batches_are_smaller(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of_files: bool
) -> None:
    """So that writing begins while most of a small input is still to be signed."""
    set_sizes(monkeypatch, first_documents=10, batch_documents=35)
    texts = {f"k{number}": f"text number {number} here" for number in range(150)}
    index = make_index()
    if of_files:
        path = tmp_path / "texts.jsonl"
        rows = ({"id": key, "text": text} for key, text in texts.items())
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        index.add(read_documents([path]))
    else:
        index.add(texts.items())
    assert [batch.n_added for batch in index.batches()] == [10, 20, 35, 35, 35, 15]
    assert {key: index.show(key).body for key in texts} == texts
    more = [(f"m{number}", f"another text {number}") for number in range(50)]
    added = index.add(more)  # a night is merged with what is there: few batches are better
    assert [index.batches()[number - 1].n_added for number in added.batches] == [35, 15]


def test_an_error_of_the_tokenizer_names_its_document(make_index: Make) -> None:
    def fail(text: str) -> list[str]:
        if "bad" in text:
            raise ZeroDivisionError("oh")
        return text.split()

    index = make_index(tokenizer=Tokenizer(fail, name="fails", version="1"))
    with pytest.raises(TokenizerError, match="'k7'"):
        index.add([(f"k{n}", "bad" if n == 7 else "good") for n in range(20)], workers=2)

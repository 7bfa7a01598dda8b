"""Sets of tokens as documents: no order, every token a shingle, the same at every door."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import AllRejectedError, Index, InputError, Rejected, read_documents
from lshdb.shingling import shingle_hashes
from lshdb.signatures import SCHEMES, sign_contents
from tests.conftest import pair_set
from tests.raw import change
from tests.without_kernel import reference_sketch

Make = Callable[..., Index]
LETTERS = [f"w{number}" for number in range(40)]


def jaccard(left: set[str], right: set[str]) -> float:
    return len(left & right) / len(left | right)


def near_sets(seed: int, n: int = 60) -> dict[str, set[str]]:
    """Sets in families, near and far."""
    rng = random.Random(seed)
    found = {}
    for number in range(n):
        family = random.Random(number % 12)
        tokens = {f"f{family.randrange(10**6)}" for _ in range(30)}
        for _ in range(rng.randrange(4)):
            tokens.discard(rng.choice(sorted(tokens)))
            tokens.add(f"x{rng.randrange(10**6)}")
        found[f"s{number:02d}"] = tokens
    return found


@pytest.mark.parametrize("options", [{}, {"unit": "token", "k": 1}, {"unit": "char"}, {"bag": True},
                                     {"scheme": "universal"}])  # fmt: skip
def test_sets_are_compared_by_their_tokens_whatever_the_shingles(
    options: dict[str, Any], make_index: Make
) -> None:
    """An index that says nothing of sets, with its shingles of five words, takes them."""
    documents = near_sets(1)
    index = make_index(threshold=0.8, recall=0.9999, **options)
    result = index.add(documents.items())
    assert (result.added, result.rejected) == (len(documents), 0)
    expected = {
        (one, other, round(jaccard(documents[one], documents[other]), 9))
        for one in documents
        for other in documents
        if one < other and jaccard(documents[one], documents[other]) >= 0.8
    }
    assert len(expected) > 50 and pair_set(index) == expected
    assert {index.show(key).document.n_shingles for key in documents} == {
        len(tokens) for tokens in documents.values()
    }
    found = index.query(documents["s00"], top=None)
    assert {(hit.key, hit.similarity) for hit in found} == {
        (key, jaccard(documents["s00"], tokens))
        for key, tokens in documents.items()
        if jaccard(documents["s00"], tokens) >= 0.8
    }
    assert index.similarity({"a", "b"}, frozenset("bc")) == pytest.approx(1 / 3)


def test_all_that_is_a_set_or_a_sequence_is_taken(make_index: Make) -> None:
    index = make_index()
    weights = {"x": 1, "y": 2}
    index.add([("set", {"x", "y"}), ("frozen", frozenset("xy")), ("keys", weights.keys())])
    assert {index.show(key).body for key in ("set", "frozen", "keys")} == {frozenset("xy")}
    assert index.show("set").copies == ("frozen", "keys")
    index.add([("tuple", ("x", "y")), ("list", ["x", "y"])])
    assert index.show("tuple").body == index.show("list").body == ["x", "y"]
    assert index.show("tuple").copies == ("list",)
    assert index.count_shingles({"x", "y"}) == 2 and index.count_shingles(["x", "y"]) == 1
    assert index.add([("tuple", ["x", "y"]), ("list", ("x", "y"))]).unchanged == 2


@pytest.mark.parametrize("store_text", [True, False])
def test_the_same_set_in_another_order_is_unchanged(store_text: bool, make_index: Make) -> None:
    index = make_index(store_text=store_text)
    for night in range(6):
        tokens = random.Random(night).sample(LETTERS, len(LETTERS))
        result = index.add([("a", set(tokens)), ("b", frozenset(reversed(tokens)))])
        assert result.unchanged == (0 if night == 0 else 2)
    assert index.stats().signatures == 1
    assert index.add([("a", {*LETTERS, "more"})]).replaced == 1


@pytest.mark.parametrize("options", [{}, {"bag": True}, {"metric": "weighted-jaccard"}])
def test_a_list_of_single_tokens_in_another_order_is_unchanged(
    options: dict[str, Any], make_index: Make
) -> None:
    index = make_index(unit="token", k=1, **options)
    tokens = [*LETTERS, "w1"]
    index.add([("a", tokens)])
    for night in range(5):
        assert index.add([("a", random.Random(night).sample(tokens, 41))]).unchanged == 1
    assert index.stats().signatures == 1 and index.show("a").body == tokens
    assert index.add([("a", tokens[::-1])], on_conflict="error").unchanged == 1
    assert index.add([("a", LETTERS)]).replaced == 1, "a token that came twice comes once"
    assert index.add([("a", set(LETTERS))]).replaced == 1, "the order is given up"
    assert index.add([("a", LETTERS)]).replaced == 1


def test_the_order_of_a_list_counts_where_shingles_have_several_tokens(make_index: Make) -> None:
    index = make_index(unit="token", k=2)
    index.add([("a", LETTERS)])
    assert index.add([("a", LETTERS[::-1])]).replaced == 1


def test_a_set_holds_shingles_and_meets_texts_by_them(make_index: Make) -> None:
    index = make_index(unit="word", k=3)
    text = "The quick brown fox jumps over the lazy dog"
    words = text.lower().split()
    shingles = {" ".join(words[start : start + 3]) for start in range(len(words) - 2)}
    index.add([("text", text), ("words", set(words)), ("shingles", shingles)])
    assert index.similarity(text, shingles) == 1.0
    assert index.similarity(text, set(words)) == 0.0
    assert pair_set(index) == {("shingles", "text", 1.0)}
    explained = index.explain("text", "shingles")
    assert explained.is_found and set(explained.shared or ()) == shingles
    assert not explained.only1 and not explained.only2


def test_urls_and_weights(make_index: Make) -> None:
    urls = ["http://a.org/one/two/three", "http://a.org/four/five/six"]
    hosts = make_index("hosts", unit="url")
    hosts.add([("list", urls), ("set", set(urls)), ("text", "\n".join(reversed(urls)))])
    assert set(hosts.show("set").copies) == {"list", "text"}
    assert hosts.add([("set", set(urls))]).unchanged == 1
    weighted = make_index("weighted", metric="weighted-jaccard")
    weighted.add([("set", {"x", "y"}), ("weights", {"y": 1, "x": 1.0})])
    assert weighted.show("weights").copies == ("set",)
    assert weighted.show("set").body == {"x", "y"}
    assert weighted.similarity({"x", "y"}, {"x": 1, "y": 3}) == 0.5


def test_empty_sets_have_no_signature(make_index: Make) -> None:
    index = make_index()
    assert index.add([("a", set()), ("b", frozenset()), ("c", {"", "x"})]).added == 3
    assert index.show("a").document.signature_id is None and index.show("a").body == frozenset()
    assert index.show("c").document.n_shingles == 2


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_the_kernel_signs_sets_among_texts_as_the_reference_does(scheme: str) -> None:
    contents: list[Any] = [
        "to be or not to be that is", frozenset("abc"), "", ["a", "b"], frozenset(),
        frozenset(["ä", "日本", ""]), "a b c d e f", frozenset(LETTERS),
    ]  # fmt: skip
    for k, bag in ((1, False), (5, False), (2, True)):
        options: dict[str, Any] = {"unit": "word", "k": k, "bag": bag}
        rows, counts = sign_contents(contents, scheme=scheme, num_perm=16, seed=3, **options)
        sets = [shingle_hashes(content, **options) for content in contents]
        assert counts.tolist() == [len(hashes) for hashes in sets]
        filled = [hashes for hashes in sets if len(hashes)]
        lengths = np.array([len(hashes) for hashes in filled], dtype=np.int64)
        expected = reference_sketch(scheme, np.concatenate(filled), lengths, 16, 3)
        assert (rows[counts > 0] == expected).all() and not rows[counts == 0].any()


def test_how_a_set_is_stored_is_frozen(make_index: Make) -> None:
    index = make_index()
    index.add([("a", {"y", "x", "é"})])
    written = '{"set":["x","y","é"]}'.encode()
    shown = index.show("a").document
    digest = hashlib.blake2b(written, digest_size=16, person=b"tokens").digest()
    assert shown.body_hash == shown.content_hash == digest
    row = next(index.sql("SELECT form, body FROM content").rows)
    assert row[0] == "tokens" and row[1].endswith(written)


@pytest.mark.parametrize("tables", ["jsonl", "parquet"])
def test_sets_go_through_export_copy_merge_and_reindex(
    tables: str, make_index: Make, tmp_path: Path
) -> None:
    documents = near_sets(2, 30)
    index = make_index(recall=0.9999)
    index.add([*documents.items(), ("list", sorted(documents["s00"])), ("text", "a b c d e f")])
    expected = pair_set(index)
    index.export(tmp_path / "files", format=tables)
    index.copy(tmp_path / "copy.lshdb")
    merged = make_index("merged.lshdb", recall=0.9999)
    merged.merge(index)
    index.reindex(tmp_path / "again.lshdb", k=2)
    Index.from_export(tmp_path / "files", tmp_path / "imported.lshdb").close()
    for name in ("copy", "merged", "again", "imported"):
        with Index.open(tmp_path / f"{name}.lshdb") as other:
            assert other.check() == [] and pair_set(other) == expected, name
            assert other.show("s00").body == documents["s00"]
            assert other.show("list").body == sorted(documents["s00"])
            assert other.add([("s00", documents["s00"])]).unchanged == 1


@pytest.mark.sqlite("changes index.db itself")
def test_sets_are_proved_signed_again_and_put_out_when_an_index_is_repaired(
    tmp_path: Path,
) -> None:
    documents = near_sets(3, 20)
    path = tmp_path / "x.lshdb"
    with Index.create(path, k=3) as index:
        index.add(documents.items())
        expected = pair_set(index)
    signatures = path / "signatures.npy"
    signatures.write_bytes(signatures.read_bytes()[:-1] + b"!")
    change(path, "UPDATE document SET source = 'never written' WHERE key = 's07'")
    result = Index.repair(path)
    assert result.quarantine is not None
    (line,) = result.quarantine.read_text().splitlines()
    assert json.loads(line)["text"] == {"set": sorted(documents["s07"])}
    with Index.open(path) as index:
        assert index.check() == []
        index.add(read_documents([result.quarantine]))
        assert index.show("s07").body == documents["s07"] and pair_set(index) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"x", 1}, "token 1 is of type int, expected a string"),
        (frozenset(["\ud800"]), "token '\\ud800' holds a lone surrogate"),
        (("x", None), "token 2 is of type NoneType, expected a string"),
        ({"x": 1}, "the text is of type dict, expected a string, or a list, tuple or set"),
        (b"x", "the text is of type bytes"),
        (iter("x"), "the text is of type str_ascii_iterator"),
    ],
)  # fmt: skip
def test_when_all_is_rejected_an_add_raises(body: Any, reason: str, make_index: Make) -> None:
    index = make_index()
    met: list[Rejected] = []
    with pytest.raises(AllRejectedError) as caught:
        index.add([("a", body)], on_reject=met.append)
    assert isinstance(caught.value, InputError)
    assert reason in caught.value.message and caught.value.message.startswith("key 'a': ")
    assert caught.value.result.rejections == met and len(met) == 1
    with pytest.raises(AllRejectedError, match="nor was any of the other 2 inputs accepted"):
        index.add([("a", body), ("b", body), Rejected("file:7", "no text")])
    assert index.stats().documents == 0
    assert index.add([]).rejected == 0, "where nothing is given, nothing is wrong"
    some = index.add([("a", body), ("good", "text")])
    assert (some.added, some.rejected) == (1, 1) and reason in some.rejections[0].reason

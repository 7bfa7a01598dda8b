"""Index: the same answers whatever the way the documents came in, and every documented refusal."""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lshdb import (
    AllRejectedError,
    ConflictError,
    DatabaseError,
    Document,
    Index,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    KeyNotFoundError,
    LshdbError,
    ParameterError,
    ParameterMismatchError,
    QueryError,
    Rejected,
    TextNotStoredError,
    TooManyRejectedError,
)
from lshdb.maintain.check import check_index
from tests.answers import WORDLESS
from tests.brute import brute_pairs, jaccard, shingle_set
from tests.conftest import family_corpus, pair_set
from tests.sizes import set_sizes
from tests.without_kernel import use_reference

Make = Callable[..., Index]
Corpus = list[tuple[str, str]]


# Sure to find every pair at or above 0.8 (and nearly sure at 0.3): one row a band.
SURE = {"bands": 64, "rows": 1}


def test_pairs_equal_brute_force(make_index: Make, corpus: Corpus) -> None:
    index = make_index(threshold=0.5, **SURE)
    index.add(corpus)
    expected = brute_pairs(corpus, 0.5)
    assert len(expected) > 100
    assert pair_set(index) == expected


@pytest.mark.parametrize("scheme", ["fss", "universal"])
def test_pairs_of_character_shingles_and_other_scheme(
    make_index: Make, corpus: Corpus, scheme: str
) -> None:
    index = make_index(threshold=0.6, unit="char", k=6, scheme=scheme, **SURE)
    index.add(corpus[:80])
    expected = brute_pairs(corpus[:80], 0.6, k=6, unit="char")
    assert len(expected) > 30
    assert pair_set(index) == expected


def _one_batch(index: Index, documents: Corpus) -> None:
    index.add(documents)


def _twenty_batches(index: Index, documents: Corpus) -> None:
    step = len(documents) // 20 + 1
    for start in range(0, len(documents), step):
        index.add(documents[start : start + step])


def _one_at_a_time(index: Index, documents: Corpus) -> None:
    for document in documents:
        index.add([document])


def _twice(index: Index, documents: Corpus) -> None:
    index.add(documents)
    result = index.add(documents)
    assert (result.unchanged, result.added, result.replaced) == (len(documents), 0, 0)


def _shuffled(index: Index, documents: Corpus) -> None:
    documents = list(documents)
    random.Random(3).shuffle(documents)
    index.add(documents)


def _replaced(index: Index, documents: Corpus) -> None:
    """First with each other's texts, then with their own."""
    texts = [text for _, text in documents]
    index.add((key, texts[-place]) for place, (key, _) in enumerate(documents))
    index.add(documents)


def _reopened(index: Index, documents: Corpus) -> None:
    step = len(documents) // 4 + 1
    for start in range(0, len(documents), step):
        with Index.open(index.path) as again:
            again.add(documents[start : start + step])


@pytest.mark.parametrize(
    "way", [_twenty_batches, _one_at_a_time, _twice, _shuffled, _replaced, _reopened]
)
def test_every_way_in_gives_the_same_pairs(
    make_index: Make, corpus: Corpus, way: Callable[[Index, Corpus], None]
) -> None:
    plain, other = make_index("plain.lshdb"), make_index("other.lshdb")
    _one_batch(plain, corpus)
    way(other, corpus)
    expected = pair_set(plain)
    assert len(expected) > 50
    assert pair_set(other) == expected
    groups = [{frozenset(one.keys) for one in index.clusters()} for index in (plain, other)]
    assert groups[0] == groups[1]


def test_small_batches_inside_one_add(
    make_index: Make, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, other = make_index("plain.lshdb"), make_index("other.lshdb")
    plain.add(corpus)
    set_sizes(monkeypatch, batch_documents=7)
    result = other.add(corpus)
    assert len(result.batches) == -(-len(corpus) // 7)
    assert pair_set(other) == pair_set(plain)


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_workers_makes_no_difference(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    set_sizes(monkeypatch, part_documents=10)
    plain, other = make_index("plain.lshdb"), make_index("other.lshdb")
    corpus = family_corpus(7)
    plain.add(corpus, workers=1)
    other.add([*corpus, ("tokens", ["to", "be"])], workers=workers)
    rows = [(index.path / "signatures.npy").read_bytes()[128:] for index in (plain, other)]
    assert rows[1].startswith(rows[0])
    with pytest.raises(ParameterError, match="workers is 0"):
        other.add([], workers=0)


def test_since_gives_the_pairs_with_a_new_document(make_index: Make) -> None:
    index = make_index(threshold=0.5, **SURE)
    first, second = family_corpus(7)[::2], family_corpus(7)[1::2]
    old = {key for key, _ in first}
    index.add(first)
    index.add(second)
    everything = pair_set(index)
    new = {pair for pair in everything if not (pair[0] in old and pair[1] in old)}
    assert 0 < len(new) < len(everything)
    assert pair_set(index, since=2) == pair_set(index, since="last") == new
    assert pair_set(index, since=1) == everything
    with pytest.raises(ParameterError, match="no batch 3"):
        list(index.pairs(since=3))


@pytest.mark.parametrize(("name", "most"), [("_PROBE_SIGNATURES", 5), ("_PROBE_BYTES", 2_500)])
def test_since_in_several_chunks(
    make_index: Make, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(f"lshdb.search.candidates.{name}", most)
    monkeypatch.setattr("lshdb.search.candidates.BLOCK_PAIRS", 16)
    test_since_gives_the_pairs_with_a_new_document(make_index)


@pytest.mark.fast
def test_copies_share_a_signature_and_are_pairs(make_index: Make) -> None:
    index = make_index()
    text = "one two three four five six seven eight"
    result = index.add(
        [("a", text), ("b", text.upper()), ("c", "  " + text + "\n"), ("d", text + " nine")]
    )
    assert result.copies == 2
    assert index.stats().signatures == 2
    at_one = {pair[:2] for pair in pair_set(index) if pair[2] == 1.0}
    assert at_one == {("a", "b"), ("a", "c"), ("b", "c")}
    assert index.show("a").copies == ("b", "c")
    later = index.add([("e", text.title())])
    assert (later.copies, index.stats().signatures) == (1, 2)
    assert {pair[:2] for pair in pair_set(index, since="last") if pair[2] == 1.0} == {
        ("a", "e"), ("b", "e"), ("c", "e"),
    }  # fmt: skip


def test_copies_survive_replacement_of_the_first(make_index: Make) -> None:
    index = make_index()
    text = "one two three four five six seven eight"
    index.add([("a", text), ("b", text)])
    index.add([("a", "something else entirely that nobody has said so far")])
    assert pair_set(index) == set()
    assert [hit.key for hit in index.query(text)] == ["b"]
    index.add([("b", "and this one is different from both of the others again")])
    assert index.query(text) == []
    assert index.stats().unused_signatures == 1
    index.add([("a", text)])
    assert [(hit.key, hit.similarity) for hit in index.query(text)] == [("a", 1.0)]


def test_query_ranks_by_exact_similarity(make_index: Make, corpus: Corpus) -> None:
    index = make_index(threshold=0.3, **SURE)
    index.add(corpus)
    sets = {key: shingle_set(text) for key, text in corpus}
    for key, text in corpus[:20]:
        expected = sorted(
            ((jaccard(sets[key], other), name) for name, other in sets.items()),
            key=lambda found: (-found[0], found[1]),
        )
        expected = [(name, s) for s, name in expected if s >= 0.3]
        hits = index.query(text, top=None)
        assert [(hit.key, hit.similarity) for hit in hits] == expected
        without = [hit for hit in hits if hit.key != key]
        assert index.query(key=key, top=None) == without
        assert index.query(key=key, top=2) == without[:2]
    many = dict(index.query_many(corpus[:5]))
    assert many == {key: index.query(text) for key, text in corpus[:5]}


def test_methods_of_verification(make_index: Make, corpus: Corpus) -> None:
    index = make_index()
    index.add(corpus)
    by_method = {m: list(index.pairs(verify=m)) for m in ("none", "signature", "exact")}
    for method, pairs in by_method.items():
        assert {pair.method for pair in pairs} == {method}
    keys = {m: {(p.key1, p.key2) for p in pairs} for m, pairs in by_method.items()}
    assert keys["exact"] <= keys["none"]
    assert keys["signature"] <= keys["none"]
    exact = {(p.key1, p.key2): p.similarity for p in by_method["exact"]}
    for pair in by_method["signature"]:
        if (pair.key1, pair.key2) in exact:
            assert abs(pair.similarity - exact[pair.key1, pair.key2]) < 0.2
    with pytest.raises(ParameterError, match="verify is 'text'"):
        list(index.pairs(verify="text"))


def test_index_without_texts(make_index: Make, corpus: Corpus) -> None:
    index = make_index(store_text=False)
    index.add(corpus)
    assert {pair.method for pair in index.pairs()} == {"signature"}
    assert index.query(corpus[0][1])[0].method == "signature"
    assert index.show(corpus[0][0]).body is None
    with pytest.raises(TextNotStoredError):
        index.pairs(verify="exact")


@pytest.mark.fast
def test_empty_and_short_documents(make_index: Make) -> None:
    index = make_index()
    result = index.add(
        [("none", ""), ("blank", " \n"), ("unseen", "\xad\u200b"), ("a", "Hi!"), ("b", "hi")]
    )
    assert (result.added, result.copies) == (5, 0)
    assert pair_set(index) == {("a", "b", 1.0)}
    assert index.query("") == []
    assert index.query(key="none") == []
    assert index.query(" HI ")[0].similarity == 1.0
    assert index.stats().empty_documents == 3


@pytest.mark.fast
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"k": 1, "bag": True}, {"lowercase": False}, {"digits": "zero"}, {"store_text": False},
     {"strip_accents": True}, {"metric": "weighted-jaccard"}, {"stop_words": ["the", "of"]}],
    ids=str,
)  # fmt: skip
def test_texts_without_a_word_are_copies_of_the_same_text_alone(
    make_index: Make, parameters: dict[str, Any], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        use_reference(monkeypatch)
    index = make_index(threshold=0.1, **parameters)
    index.add([*WORDLESS, ("word", "a"), ("unseen 1", "\u200b"), ("unseen 2", "\u200b")])
    expected = {(key, f"{key[:-1]}2") for key, _ in WORDLESS if key.endswith("1")}
    assert {(key1, key2) for key1, key2, level in pair_set(index) if level == 1.0} == expected
    assert len(pair_set(index)) == len(expected)
    assert {found.keys for found in index.clusters()} == expected
    assert {one.key for one in index.dedup() if not one.keep} == {key for _, key in expected}
    for key, text in WORDLESS:
        assert {hit.key for hit in index.query(text)} == {f"{key[:-1]}1", f"{key[:-1]}2"}
    assert index.count_shingles("!!! ???") == index.count_shingles("\U0001f389") == 1
    assert index.stats().empty_documents == 2
    assert index.check() == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "other"),
    [
        (
            "\u0932\u0921\u093c\u0915\u093e \u0906\u092f\u093e",
            "\u0932\u0921\u093c\u0915\u0940 \u0906\u092f\u0940",
        ),
        ("\u099b\u09c7\u09b2\u09c7", "\u099b\u09c7\u09b2\u09be"),
        ("\u0baa\u0b9f\u0bbf", "\u0baa\u0b9f\u0bc1"),
        ("\u0f56\u0f7c\u0f51", "\u0f56\u0f72\u0f51"),
        ("\u05d3\u05bc\u05b8\u05d1\u05b8\u05e8", "\u05d3\u05bc\u05b6\u05d1\u05b6\u05e8"),
        ("\u0639\u0650\u0644\u0652\u0645", "\u0639\u064e\u0644\u064e\u0645"),
        ("\u1ecdk\u1ecd\u0301", "\u1ecdk\u1ecd\u0300"),
        ("\u0780\u07a6\u0783\u07a9", "\u0780\u07ac\u0783\u07aa"),
        ("\u1001\u103d\u1031\u1038", "\u1001\u103b\u1031\u1038"),
    ],
)
def test_vowel_signs_points_and_tones_distinguish_words(
    make_index: Make, text: str, other: str
) -> None:
    index = make_index(k=1)
    assert index.similarity(text, other) < 1.0
    assert index.similarity(text, text) == 1.0
    index.add([("a", text), ("b", other)])
    assert pair_set(index) == set()


@pytest.mark.fast
@pytest.mark.parametrize("unit", ["word", "char", "line"])
def test_what_nobody_sees_makes_no_difference(make_index: Make, unit: str) -> None:
    index = make_index(unit=unit, k=2)
    plain = "Die Donau\u00adschiff\u00adfahrt, und e\u0301t\u00e9 \u2764 end"
    for number, unseen in enumerate(
        "\u200b\u200c\u200d\u2060\ufeff\u200e\u061c\u034f\ufe0f\U000e0101"
    ):
        spread = unseen.join(plain.replace("\xad", ""))
        assert index.similarity(plain, spread) == 1.0
        index.add([(f"{number}", spread)])
    index.add([("plain", plain)])
    assert len(pair_set(index)) == 11 * 10 / 2
    assert {level for _, _, level in pair_set(index)} == {1.0}


def test_ready_tokens(make_index: Make) -> None:
    index = make_index(k=1)
    index.add([("a", ["x", "y z", "Q"]), ("b", ["Q", "x", "y z", "x"]), ("c", "x y z q")])
    assert pair_set(index) == {("a", "b", 1.0)}
    assert index.show("a").body == ["x", "y z", "Q"]
    assert {hit.key for hit in index.query(["x", "y z", "Q"])} == {"a", "b"}


class Word(str):
    pass


Bigram = namedtuple("Bigram", "first second")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("body", "plain"),
    [
        ({"ore": np.float64(2.5), "coal": np.float32(0.5)}, {"ore": 2.5, "coal": 0.5}),
        ({"ore": np.int64(2), "coal": np.longdouble(3)}, {"ore": 2, "coal": 3.0}),
        ({"ore": 10**20, "coal": 1}, {"ore": 1e20, "coal": 1}),
        ({Word("ore"): 2, np.str_("coal"): 1}, {"ore": 2, "coal": 1}),
        (Bigram("ore", "coal"), ["ore", "coal"]),
    ],
)
def test_numbers_and_tokens_of_other_classes_are_stored_as_plain_ones(
    body: Any, plain: Any, make_index: Make
) -> None:
    index = make_index(metric="weighted-jaccard", threshold=0.5)
    assert index.add([("a", body)]).added == 1
    assert index.texts(["a"]) == {"a": plain}
    assert [(hit.key, hit.similarity) for hit in index.query(body)] == [("a", 1.0)]
    assert index.add([("a", plain)]).unchanged == 1
    assert index.check() == []


@pytest.mark.fast
def test_bag_counts_repeats(make_index: Make) -> None:
    as_set, as_bag = make_index("set.lshdb", k=1), make_index("bag.lshdb", k=1, bag=True, **SURE)
    documents = [("a", "new york new york"), ("b", "york new")]
    for index in (as_set, as_bag):
        index.add(documents)
    assert pair_set(as_set) == {("a", "b", 1.0)}
    assert pair_set(as_bag, threshold=0.5) == {("a", "b", 0.5)}


def test_on_conflict(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "the first text of a document"), ("b", "another one that is alone here")])
    skipped = index.add([("a", "a second text")], on_conflict="skip")
    assert (skipped.unchanged, index.show("a").body) == (1, "the first text of a document")
    with pytest.raises(ConflictError, match="key 'a'"):
        index.add([("new", "x"), ("a", "a second text")], on_conflict="error")
    assert index.stats().documents == 2
    same = index.add([("a", "the first text of a document")], on_conflict="error")
    assert same.unchanged == 1
    before = index.show("a").document
    replaced = index.add([("a", "a second text")])
    after = index.show("a")
    assert (replaced.replaced, after.body) == (1, "a second text")
    assert after.document.doc_id == before.doc_id
    assert after.document.added_at == before.added_at
    assert after.document.last_seen_at > before.last_seen_at
    assert after.document.batch_id > before.batch_id
    with pytest.raises(ParameterError, match="on_conflict"):
        index.add([], on_conflict="merge")


def test_change_of_case_alone_replaces_the_text_and_keeps_the_signature(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "the first text of a document")])
    result = index.add([("a", "The First Text of a Document")])
    assert (result.replaced, result.copies, index.stats().signatures) == (1, 0, 1)
    assert index.show("a").body == "The First Text of a Document"


def test_keys_that_come_twice(make_index: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (100, 2, 1):
        set_sizes(monkeypatch, batch_documents=size)
        index = make_index(f"{size}.lshdb")
        seen: list[Rejected] = []
        result = index.add(
            [("a", "first"), ("b", "other"), ("a", "second"), ("c", "third"), ("a", "first")],
            on_reject=seen.append,
        )
        assert (result.added, result.rejected, len(seen)) == (3, 2, 2)
        assert "came before in this input" in seen[0].reason
        assert index.show("a").body == "first"
        again = index.add([("a", "first"), ("a", "second")])
        assert (again.unchanged, again.rejected) == (1, 1)


def test_unusable_documents_are_rejected_and_counted(make_index: Make) -> None:
    index = make_index()
    bad = [
        ("", "x"), ("k" * 1025, "x"), ("nul\0", "x"), ("\ud800", "x"), ("t", "\udfff"),
        ("list", ["ok", 3]),
    ]  # fmt: skip
    result = index.add([("good", "fine"), *bad, Rejected("file:3", "no JSON"), ("also", "fine")])
    assert (result.added, result.rejected) == (2, 7)
    assert len(result.rejections) == 7
    assert index.batches()[0].n_rejected == 7
    with pytest.raises(TooManyRejectedError, match="2 inputs were rejected and 1"):
        index.add([("new", "x"), *bad], max_errors=1)
    assert index.stats().documents == 2


def test_input_that_is_all_rejected_leaves_a_batch(make_index: Make) -> None:
    index = make_index()
    with pytest.raises(AllRejectedError, match="x:1: bad") as caught:
        index.add([Rejected("x:1", "bad")])
    assert (caught.value.result.rejected, caught.value.result.batches) == (1, [1])


def test_add_of_nothing_is_recorded_and_is_not_last(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "the same text twice"), ("b", "the same text twice")])
    assert len(list(index.pairs(since="last"))) == 1
    assert index.add([]).batches == [2]
    assert len(list(index.pairs(since="last"))) == 1


@pytest.mark.fast
def test_a_failing_source_of_documents_loses_nothing_that_was_committed(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_documents=2)
    index = make_index()

    def documents() -> Any:
        yield from (("a", "one"), ("b", "two"), ("c", "three"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index.add(documents())
    assert index.stats().documents == 2
    assert index.add([("c", "three")]).added == 1


@pytest.mark.fast
def test_create_and_open_refusals(tmp_path: Path, make_index: Make) -> None:
    index = make_index(k=4, seed=9)
    for path in (index.path, tmp_path):
        with pytest.raises(IndexExistsError):
            Index.create(path)
    with pytest.raises(LshdbError, match="does not exist"):
        Index.create(tmp_path / "no" / "such.lshdb")
    with pytest.raises(IndexNotFoundError, match="there is no index"):
        Index.open(tmp_path / "absent")
    with pytest.raises(IndexNotFoundError, match=r"a folder without an index\.toml"):
        Index.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexNotFoundError, match="is a file"):
        Index.open(tmp_path / "file")
    Index.open(index.path, k=4, seed=9).close()
    with pytest.raises(ParameterMismatchError, match="k = 4, but 5 was given") as caught:
        Index.open(index.path, k=5)
    assert (caught.value.name, caught.value.stored, caught.value.given) == ("k", 4, 5)
    with pytest.raises(ParameterError, match="takes no parameter 'kk'; did you mean 'k'"):
        Index.open(index.path, kk=5)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "test.lshdb"]


@pytest.mark.sqlite("elsewhere the description says which database is meant")
def test_files_of_two_indexes_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one.lshdb", tmp_path / "other.lshdb"
    Index.create(one, k=4).close()
    Index.create(other, k=5, num_perm=256).close()
    toml = (one / "index.toml").read_text()
    (one / "index.toml").write_text(toml.replace("k = 4", "k = 5"))
    with pytest.raises(ParameterMismatchError, match=r"k is 4 in .* and 5 in index\.toml"):
        Index.open(one)
    (one / "index.toml").write_text((other / "index.toml").read_text())
    with pytest.raises(ParameterMismatchError, match="uuid is"):
        Index.open(one)
    (one / "index.toml").write_text(toml)
    rows = (one / "signatures.npy").read_bytes()
    (one / "signatures.npy").write_bytes((other / "signatures.npy").read_bytes())
    with pytest.raises(LshdbError, match=r"\(0, 256\).*rows of 128 uint16"):
        Index.open(one)
    (one / "signatures.npy").write_bytes(rows)
    Index.open(one).close()


def test_questions_that_are_refused(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "x")])
    with pytest.raises(KeyNotFoundError, match="'zz'"):
        index.show("zz")
    with pytest.raises(KeyNotFoundError):
        index.query(key="zz")
    with pytest.raises(ParameterError, match="either a body or a key"):
        index.query()
    with pytest.raises(ParameterError, match="either a body or a key"):
        index.query("x", key="a")
    with pytest.raises(ParameterError, match="top is 0"):
        index.query("x", top=0)
    for threshold in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ParameterError, match="threshold"):
            index.query("x", threshold=threshold)
        with pytest.raises(ParameterError, match="threshold"):
            index.pairs(threshold=threshold)
    with pytest.raises(InputError, match="surrogate"):
        index.query("\ud800")
    index.close()
    with pytest.raises(LshdbError, match="closed"):
        index.query("x")


def test_reading_sees_commits_of_others_and_iterators_keep_their_state(make_index: Make) -> None:
    index = make_index()
    text = "one two three four five six seven eight"
    index.add([("a", text), ("b", text), ("c", text)])
    with Index.open(index.path) as reader:
        pairs = reader.pairs()
        first = next(pairs)
        index.add([("d", text)])
        assert {first, *pairs} == set(index.pairs()) - {
            pair for pair in index.pairs() if "d" in (pair.key1, pair.key2)
        }
        assert len(list(reader.pairs())) == 6
        assert len(reader.query(text)) == 4


def test_sql_reads_and_only_reads(make_index: Make, tmp_path: Path) -> None:
    index = make_index()
    index.add([("a", "one two three"), ("b", "four")])
    result = index.sql("SELECT key, n_chars FROM document WHERE key >= ? ORDER BY key", ("a",))
    assert (result.columns, list(result.rows)) == (("key", "n_chars"), [("a", 13), ("b", 4)])
    for statement in (
        "DELETE FROM document",
        f"ATTACH '{tmp_path / 'new.db'}' AS x",
        f"VACUUM INTO '{tmp_path / 'new.db'}'",
        "PRAGMA journal_mode=DELETE",
        "CREATE TEMP TABLE t (x bigint)",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
        "SELECT nonsense FROM document",
        "",
    ):
        with pytest.raises(QueryError):
            list(index.sql(statement).rows)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.fast
def test_documents_carry_their_source(make_index: Make) -> None:
    index = make_index()
    index.add([Document("a", "text", "file.jsonl:1")], source="file.jsonl")
    assert index.show("a").document.source == "file.jsonl:1"
    (batch,) = index.batches()
    assert (batch.source, batch.n_added, batch.add_id) == ("file.jsonl", 1, 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("source", "fields", "reason"),
    [
        (3, None, "the source is of type int, expected a string"),
        (b"x", None, "the source is of type bytes, expected a string"),
        (None, None, "the source is of type NoneType, expected a string"),
        ({"year": 1999}, None, "the source is of type dict, expected a string"),
        ("a \ud800", None, "the source holds a lone surrogate at character 3"),
        ("a\0", None, "the source holds a NUL at character 2"),
        ("", "year: 1999", "the fields are of type str, expected values by name, as in a dict"),
        ("", '{"year": 1999}', "the fields are of type str, expected values by name"),
        ("", [1999], "the fields are of type list, expected values by name, as in a dict"),
    ],
)
def test_a_source_or_fields_of_another_type_cost_one_document(
    source: Any, fields: Any, reason: str, make_index: Make
) -> None:
    index = make_index()
    result = index.add([Document("bad", "text", source, fields), ("good", "text")])
    assert (result.added, result.rejected) == (1, 1)
    assert result.rejections[0].source == "key 'bad'"
    assert reason in result.rejections[0].reason
    assert index.check() == []
    assert index.add([("more", "text")]).added == 1


@pytest.mark.fast
@pytest.mark.parametrize("source", [3, None, Path("news.jsonl"), "news\0"])
def test_a_source_of_an_add_that_is_no_text_is_refused(source: Any, make_index: Make) -> None:
    index = make_index()
    with pytest.raises(ParameterError, match="expected a string without NUL"):
        index.add([("a", "text")], source=source)
    assert index.batches() == []


def test_database_elsewhere(tmp_path: Path, corpus: Corpus) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    with Index.create(tmp_path / "x.lshdb", database=f"sqlite:///{elsewhere}") as index:
        index.add(corpus)
        assert not (index.path / "index.db").exists()
        expected = pair_set(index)
    assert elsewhere.exists()
    with Index.open(tmp_path / "x.lshdb") as index:
        assert pair_set(index) == expected
    with pytest.raises(IndexExistsError):
        Index.create(tmp_path / "y.lshdb", database=f"sqlite:///{elsewhere}")
    with pytest.raises(LshdbError, match="postgresql"):
        Index.create(tmp_path / "z.lshdb", database="postgresql://u:secret@h/db")


def test_documents_of_another_shape_are_refused(make_index: Make) -> None:
    index = make_index()
    wrong: list[Any] = [
        ["ab"],
        [("a",)],
        [(1, "x")],
        [("a", "b", "c")],
        [None],
    ]
    for documents in wrong:
        with pytest.raises(InputError, match="expected"):
            index.add(documents)
    assert index.stats().documents == 0


def test_keys_paths_and_urls_that_are_no_text(make_index: Make, tmp_path: Path) -> None:
    index = make_index()
    with pytest.raises(KeyNotFoundError):
        index.show("\ud800")
    with pytest.raises(KeyNotFoundError):
        index.query(key="\ud800")
    for attempt in (Index.create, Index.open):
        with pytest.raises(LshdbError, match="not valid UTF-8"):
            attempt(tmp_path / "a\udcff")
    for url in ("sqlite:///lock", "sqlite:///\udcff.db", "sqlite:///signatures.npy", "sqlite://"):
        with pytest.raises(ParameterError, match="database URL"):
            Index.create(tmp_path / "u.lshdb", database=url)
    with pytest.raises(DatabaseError, match="cannot make the database"):
        Index.create(tmp_path / "u.lshdb", database=f"sqlite:///{tmp_path}/no/x.db")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["test.lshdb"]


def test_a_reader_behind_a_commit_finds_no_damage(make_index: Make) -> None:
    index = make_index()
    index.add([("a", "one text that is here")])
    with Index.open(index.path) as reader, reader._store.reading() as snapshot:
        index.add([("b", "and another one that came later")])
        snapshot.signature_file.check_header(snapshot.n_signatures)
        assert list(check_index(snapshot, reader.params)) == []


def test_many_tokens_make_a_batch_whatever_their_length(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_sizes(monkeypatch, batch_characters=64_000)
    index = make_index()
    result = index.add((f"{number}", [""] * 500 + [str(number)]) for number in range(10))
    assert len(result.batches) == 5

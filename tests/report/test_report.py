"""What a report shows: the numbers of the index, in HTML that is sound and escaped."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import html5lib
import pytest

from lshdb import Document, Index, KeyNotFoundError, ParameterError
from lshdb.pages.text_markup import show_difference
from lshdb.report import cluster_cards
from lshdb.storage.transactions.snapshot import Snapshot
from tests.conftest import family_corpus

HOSTILE = [
    "<script>alert(1)</script></script><script>alert(2)//",
    "]]> <!-- --> <![CDATA[ </style> </title> <svg onload=alert(3)>",
    "\u202egnp.exe \u2066 \u2069 \u200f left and right",
    "\x1b[31m red \x1b]0;title\x07 and \x00 nothing \x7f",
    "a" * 1_000_000,
    "' onmouseover='alert(4)' \" onfocus=\"alert(5)\" autofocus {{ 7 * 7 }} {% if %}",
    "lone \ufffe \uffff noncharacters and \U0001fffe more",
]
HOSTILE_KEYS = [
    "\"'><img src=x onerror=alert(6)>",
    "tab\tand\nline\\feed",
    "\u202ekey",
    "</script><script>alert(7)</script>",
]


def parse(page: Path | str) -> Any:
    """Parse a page; an error of its HTML is one of the test."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    parser = html5lib.HTMLParser(strict=False, namespaceHTMLElements=False)
    tree = parser.parse(io.StringIO(text))
    assert not parser.errors, parser.errors[:5]
    return tree


def text_of(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def by_class(tree: Any, name: str) -> list[Any]:
    return [element for element in tree.iter() if name in (element.get("class") or "").split()]


def by_id(tree: Any, name: str) -> Any:
    return next(element for element in tree.iter() if element.get("id") == name)


def require_harmless(tree: Any) -> None:
    """No element, attribute or script has anything that runs but the page's own two scripts."""
    allowed = {"script", "style", "link", "meta", "svg", "a"}
    scripts = list(tree.iter("script"))
    assert len(scripts) == 2 and not any("alert" in script.text for script in scripts)
    for element in tree.iter():
        if not isinstance(element.tag, str):
            raise AssertionError("a comment came into the page")
        assert element.tag not in {"img", "iframe", "object", "embed", "base"}
        for name, value in element.attrib.items():
            assert not str(name).startswith("on") and name != "style", (element.tag, name)
            assert not re.match(r"\s*(javascript|data:text)", value), value
            assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", value), value
    assert allowed


def label_of(card: Any) -> str:
    """The key in the closed line of a cluster."""
    key: str = by_class(card.find("summary"), "key")[0].text
    return key


def key_of(member: Any) -> str:
    key: str = by_class(member.find("summary"), "key")[0].text
    return key


@pytest.fixture
def families(tmp_path: Path) -> Any:
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=2) as index:
        corpus = family_corpus(6, families=8)
        half = len(corpus) // 2
        later = [("copy-1", corpus[0][1]), ("copy-2", corpus[1][1])]
        words = [f"word{number}" for number in range(120)]  # similar by .95, .90, and so on
        later += [(f"slide-{n}", " ".join(words[2 * n : 2 * n + 80])) for n in range(16)]
        for name, texts in {"monday": corpus[:half], "tuesday": corpus[half:], "": later}.items():
            index.add([Document(key, text, f"{name}.jsonl") for key, text in texts], night=name)
        yield index


@pytest.mark.fast
def test_it_shows_the_clusters_of_the_index(families: Index, tmp_path: Path) -> None:
    report = families.report(tmp_path / "report.html")
    tree = parse(report.path)
    require_harmless(tree)
    shown = by_class(tree, "cluster")
    expected = list(families.clusters())
    assert (report.clusters, report.clusters_left, report.pages) == (len(expected), 0, 1)
    assert report.n_bytes == report.path.stat().st_size
    for card, cluster in zip(shown, expected, strict=True):
        assert label_of(card) == cluster.label
        assert int(card.get("data-size")) == len(cluster.keys)
        pairs = [
            families.explain(key1, key2)
            for place, key1 in enumerate(cluster.keys)
            for key2 in cluster.keys[place + 1 :]
        ]
        levels = [explanation.similarity for explanation in pairs if explanation.is_found]
        assert float(card.get("data-low")) == pytest.approx(min(levels))
        assert float(card.get("data-high")) == pytest.approx(max(levels))
        members = by_class(card, "member")
        assert len(members) == min(6, len(cluster.keys))
        assert {key_of(member) for member in members} <= set(cluster.keys)
        assert key_of(members[0]) == cluster.keys[0]
        dates = [families.show(key).document.added_at[:10] for key in cluster.keys]
        assert (card.get("data-first"), card.get("data-last")) == (min(dates), max(dates))
        sources = {families.show(key).document.source.split(":")[0] for key in cluster.keys}
        assert set(json.loads(card.get("data-sources"))) == sources


def test_each_member_says_why_it_was_found(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html")
    checked = 0
    for card in by_class(parse(tmp_path / "report.html"), "cluster"):
        for member in by_class(card, "member")[1:]:
            key = key_of(member)
            why = text_of(by_class(member, "note")[0])
            neighbour = by_class(member, "note")[0].find("bdi").text
            explanation = families.explain(key, neighbour)
            if explanation.are_copies:
                assert why.startswith("exact copy of")
                continue
            assert f"similarity {explanation.similarity:.3f} to" in why
            bands = ", ".join(str(band) for band in explanation.matched_bands)
            assert re.search(rf"bands? {bands} of {explanation.bands} agree", why), why
            checked += 1
    assert checked > 10


def test_a_diff_is_of_the_pair_whose_similarity_stands_above_it(
    families: Index, tmp_path: Path
) -> None:
    families.report(tmp_path / "report.html", cluster="slide-0")
    (card,) = by_class(parse(tmp_path / "report.html"), "cluster")
    named: dict[str, str] = {}
    for member in by_class(card, "member"):
        key, *neighbours = [
            element.text for element in member.iter("bdi") if element.get("class") == "key"
        ]
        text = by_class(member, "text")[0]
        marked = {name: [element.text for element in text.iter(name)] for name in ("ins", "del")}
        if not neighbours:
            assert key == "slide-0" and marked == {"ins": [], "del": []}
            continue
        named[key] = neighbours[0]
        steps = families.params.normalisation
        texts = families.texts([key, neighbours[0]])
        expected = show_difference(texts[neighbours[0]], texts[key], steps=steps).pieces
        for name in ("ins", "del"):
            assert marked[name] == [piece.text for piece in expected if piece.kind == name]
        assert "with which it is compared" in text_of(by_class(member, "note")[0])
    assert named["slide-1"] == "slide-0" and named["slide-15"] == "slide-14"


def test_a_text_beside_another_stands_once_in_the_page(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(50)]
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=1) as index:
        index.add([("a", " ".join(words)), ("b", " ".join([*words[:20], "own", *words[21:]]))])
        index.report(tmp_path / "report.html")
    (_, member) = by_class(parse(tmp_path / "report.html"), "member")
    diff = text_of(by_class(member, "diff")[0]).split()
    assert diff == [*words[:21], "own", *words[21:]]


def test_texts_of_a_few_clusters_are_in_memory(
    families: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one at a time, and of those members that are shown beside their nearest ones."""
    read: list[int] = []
    original = Snapshot.bodies_of_documents

    def counted(self: Snapshot, doc_ids: Any) -> Any:
        read.append(len(doc_ids := list(doc_ids)))
        return original(self, doc_ids)

    monkeypatch.setattr(Snapshot, "bodies_of_documents", counted)
    families.report(tmp_path / "x.html")
    assert max(read) <= 2 * cluster_cards.COMPARED
    assert sum(read) > 2 * max(read)


def test_buckets_are_numbered_by_their_bands_from_0(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html")
    cards = by_class(parse(tmp_path / "report.html"), "bucket")
    buckets = set(families.sql("SELECT size, band FROM bucket WHERE size > 1"))
    shown = [text_of(by_class(card, "note")[0]).replace(":", "").split()[:5] for card in cards]
    assert shown and all((int(row[0]), int(row[4])) in buckets for row in shown)
    assert {0, families.params.bands - 1} & {band for _, band in buckets}


def test_pairs_from_outside_the_range_are_counted_apart(tmp_path: Path) -> None:
    """The sentence above the pairs counts those that the chart shows."""
    words = [f"w{number}" for number in range(20)]
    exchanged = {"x": 2, "y": 6}  # words of 20: similarities of 18 / 22 and 14 / 26
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=1) as index:
        for name, n in exchanged.items():
            own = [f"{name}{number}" for number in range(n)]
            base = [name + word for word in words]
            index.add([(f"{name}1", " ".join(base)), (f"{name}2", " ".join([*base[n:], *own]))])
        index.report(tmp_path / "both.html")
        index.report(tmp_path / "far.html", threshold=0.65)
    both, far = (
        " ".join(text_of(next(iter(by_class(parse(tmp_path / name), "legend-line")))).split())
        for name in ("both.html", "far.html")
    )
    assert both.startswith("1 pair, spread over the range from 0.4 to 0.6, tells whether 0.5 is")
    assert "The next one lies outside that range." in both
    assert far == "No pair lies in the range from 0.55 to 0.75. These 2 are nearest to it."


def test_candidates_and_pairs_near_the_threshold(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html", limit=10)
    tree = parse(tmp_path / "report.html")
    table = next(body for body in tree.iter("tbody") if "verified" in text_of_head(body, tree))
    rows = [[text_of(cell) for cell in row] for row in table.findall("tr")]
    verified = sum(int(row[1].replace(",", "")) for row in rows)
    false = sum(int(row[2].replace(",", "")) for row in rows)
    with_signatures: Counter[frozenset[str]] = Counter()
    for pair in families.pairs(threshold=0.001):
        contents = frozenset(
            families.show(key).document.content_hash.hex() for key in (pair.key1, pair.key2)
        )
        if len(contents) == 2:
            with_signatures[contents] = pair.similarity >= 0.5
    assert verified == sum(with_signatures.values())
    assert verified + false == len(with_signatures)
    pairs = by_class(tree, "pair")
    assert len(pairs) == 10
    distances = []
    for card in pairs:
        key1, key2 = (json.loads(card.get(f"data-{name}")) for name in ("key1", "key2"))
        value = families.explain(key1, key2).similarity
        assert float(card.get("data-value")) == pytest.approx(value)
        distances.append(abs(value - 0.5))
        assert ("within the threshold" in text_of(by_class(card, "pair-head")[0])) == (value >= 0.5)
    assert distances == sorted(distances)


def text_of_head(body: Any, tree: Any) -> str:
    parents = {child: parent for parent in tree.iter() for child in parent}
    head = parents[body].find("thead")
    return "" if head is None else text_of(head)


def test_nights_add_up_to_all_pairs(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html")
    tree = parse(tmp_path / "report.html")
    expected: Counter[tuple[str, str]] = Counter()
    names = {
        batch.batch_id: batch.night or f"batch {batch.batch_id}" for batch in families.batches()
    }
    for pair in families.pairs():
        batches = sorted(families.show(key).document.batch_id for key in (pair.key1, pair.key2))
        expected[names[batches[1]], names[batches[0]]] += 1
    shown = {}
    for row in by_id(tree, "repeats").find("tbody"):
        cells = list(row)
        later = cells[0].find("bdi").text
        earlier = cells[1].find("bdi")
        shown[later, later if earlier is None else earlier.text] = int(text_of(cells[2]))
    assert shown == dict(expected)


def test_batches_and_sizes_are_those_of_the_index(families: Index, tmp_path: Path) -> None:
    families.remove("f000-0")
    families.report(tmp_path / "report.html")
    tree = parse(tmp_path / "report.html")
    rows = [[text_of(cell) for cell in row] for row in by_id(tree, "batches").find("tbody")]
    assert [row[0] for row in rows[1:]] == ["batch 3", "tuesday", "monday"]
    batches = families.batches()
    assert sum(int(row[2]) for row in rows) == sum(batch.n_added for batch in batches)
    assert sum(int(row[7]) for row in rows) == 1
    facts = dict(zip(map(text_of, tree.iter("dt")), map(text_of, tree.iter("dd")), strict=True))
    stats = families.stats()
    assert facts["Documents"] == f"{stats.documents}"
    assert facts["Clusters"].startswith(f"{stats.clusters}{stats.clustered_documents} documents")


def test_hot_buckets_show_what_fills_them(tmp_path: Path) -> None:
    boilerplate = " ".join(f"word{number}" for number in range(80))
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=3) as index:
        index.add((f"d{n}", f"{boilerplate} own{n} words{n} of{n}") for n in range(14))
        index.report(tmp_path / "report.html")
        largest = index.stats()
    tree = parse(tmp_path / "report.html")
    (first, *_) = by_class(tree, "bucket")
    assert text_of(by_class(first, "note")[0]).startswith(
        f"{largest.largest_bucket} signatures in band"
    )
    assert text_of(by_class(first, "lead")[0]).startswith("word0 word1 word2 word3 word4 word5")
    shingles = {text_of(row.find("th")): text_of(row.find("td")) for row in first.find(".//tbody")}
    assert shingles["word0 word1 word2"] == "14"
    caps = [[text_of(cell) for cell in row] for row in by_id(tree, "caps").find("tbody")]
    with Index.open(tmp_path / "x.lshdb") as index:
        stats = index.stats(max_bucket=10)
    assert stats.recall_lost is not None
    assert [row[:3] for row in caps] == [
        ["10", f"{stats.buckets_left_out:,}", f"{stats.pairs_left_out:,}"]
    ]
    assert caps[0][3].startswith(f"{stats.recall_lost:.1%}")


def test_hostile_documents_stay_text(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", threshold=0.3, k=1, unit="char") as index:
        texts = [(f"text-{n}{copy}", text) for n, text in enumerate(HOSTILE) for copy in "ab"]
        same = "the same text for all of these keys"
        keys = [(key, f"{same} {number}") for number, key in enumerate(HOSTILE_KEYS)]
        source = "' onfocus='alert(9)' <script>alert(8)</script>\u202e"
        rejected = {"added": 0}
        for key, text in [*texts, *keys]:
            try:
                rejected["added"] += index.add([Document(key, text, source)]).added
            except Exception as error:  # what an index does not take is not in a report
                assert "key" in str(error) or "rejected" in str(error)
        assert rejected["added"] >= 14
        index.report(tmp_path / "report.html")
        index.report(tmp_path / "pages")
    for page in [tmp_path / "report.html", *(tmp_path / "pages").iterdir()]:
        tree = parse(page)
        require_harmless(tree)
        assert page.stat().st_size < 2_000_000
    raw = (tmp_path / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in raw
    assert 'title="U+202E right-to-left override">⇄</span>gnp.exe' in raw
    assert 'title="U+001B control character">␛</span>[31m' in raw
    assert "\u202e" not in raw and "\x1b" not in raw and "\x00" not in raw


def test_the_policy_allows_nothing_from_elsewhere(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert not re.search(r"(src|href)=\"(?!#|data:,)", text)
    assert "http" not in re.sub("http-equiv", "", text)


def test_a_folder_has_all_clusters_once(families: Index, tmp_path: Path, monkeypatch: Any) -> None:
    from lshdb.report import index_report

    monkeypatch.setattr(index_report, "PAGE_CLUSTERS", 3)
    report = families.report(tmp_path / "pages")
    expected = [cluster.label for cluster in families.clusters()]
    assert report.path == tmp_path / "pages" / "index.html"
    names = sorted(path.name for path in (tmp_path / "pages").iterdir())
    n_pages = -(-len(expected) // 3)
    assert names == [*(f"clusters-{n:04d}.html" for n in range(1, n_pages + 1)), "index.html"]
    labels = []
    for name in names:
        tree = parse(tmp_path / "pages" / name)
        require_harmless(tree)
        labels += [label_of(card) for card in by_class(tree, "cluster")]
        for link in tree.iter("a"):
            target = link.get("href")
            page, _, _ = target.partition("#")
            assert target.startswith("#") or (tmp_path / "pages" / page).is_file()
    assert labels == expected
    assert (report.clusters, report.clusters_left, report.pages) == (len(expected), 0, n_pages + 1)


def test_a_file_has_no_more_than_it_may(families: Index, tmp_path: Path, monkeypatch: Any) -> None:
    from lshdb.report import index_report

    monkeypatch.setattr(index_report, "FILE_BYTES", 30_000)
    report = families.report(tmp_path / "report.html", sample=0)
    n_clusters = len(list(families.clusters()))
    assert 0 < report.clusters_left == n_clusters - report.clusters
    left = by_id(parse(report.path), "clusters-left")
    assert text_of(left).startswith(f"{report.clusters_left} smaller clusters are not shown.")
    monkeypatch.undo()
    limited = families.report(tmp_path / "two.html", limit=2)
    assert (limited.clusters, limited.clusters_left) == (2, n_clusters - 2)
    above = families.report(tmp_path / "above.html", limit=1, threshold=0.9)
    clusters = list(families.clusters(threshold=0.9))
    assert above.clusters_left == len(clusters) - 1
    (card,) = by_class(parse(above.path), "cluster")
    assert label_of(card) == clusters[0].label
    assert float(card.get("data-low")) >= 0.9


def test_since_shows_what_is_new(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html", since="last")
    tree = parse(tmp_path / "report.html")
    expected = [cluster.label for cluster in families.clusters(since="last")]
    shown = [label_of(card) for card in by_class(tree, "cluster")]
    assert shown == expected and 0 < len(expected) < len(list(families.clusters()))
    pairs = len(list(families.pairs(since="last")))
    assert sum(int(text_of(list(row)[2])) for row in by_id(tree, "repeats").find("tbody")) == pairs
    with pytest.raises(ParameterError, match="there is no batch 99"):
        families.report(tmp_path / "none.html", since=99)
    assert not (tmp_path / "none.html").exists()


def test_one_cluster_by_any_of_its_keys(families: Index, tmp_path: Path) -> None:
    cluster = next(iter(families.clusters()))
    report = families.report(tmp_path / "one.html", cluster=cluster.keys[-1])
    (card,) = by_class(parse(report.path), "cluster")
    assert label_of(card) == cluster.label
    assert len(by_class(card, "member")) == min(30, len(cluster.keys))
    families.add([("alone", "nothing is like these words at all or ever was")])
    for key in ("alone", "nobody"):
        with pytest.raises(KeyNotFoundError):
            families.report(tmp_path / f"{key}.html", cluster=key)
        assert not (tmp_path / f"{key}.html").exists()


def test_the_first_line_and_each_member_say_what_dedup_decides(
    families: Index, tmp_path: Path
) -> None:
    families.report(tmp_path / "report.html")
    tree = parse(tmp_path / "report.html")
    decisions = {decision.key: decision for decision in families.dedup()}
    clusters = list(families.clusters())
    n_clustered = sum(len(cluster.keys) for cluster in clusters)
    n_dropped = sum(not decision.keep for decision in decisions.values())
    assert text_of(next(tree.iter("h1"))) == (
        f"{n_clustered} of {len(families)} documents are in {len(clusters)} clusters; dedup would "
        f"drop {n_dropped} and keep {len(families) - n_dropped}."
    )
    for card, cluster in zip(by_class(tree, "cluster"), clusters, strict=True):
        kept = ""
        shown = []
        for line in by_class(card, "member-line"):
            key = by_class(line, "key")[0].text
            decision = decisions[key]
            assert [len(by_class(line, name)) for name in ("keep", "drop")] == [
                decision.keep, not decision.keep,
            ]  # fmt: skip
            kept = key if decision.keep else kept
            assert decision.keep or decision.kept_key == kept
            shown.append(key)
        assert sorted(shown) == sorted(cluster.keys)
        dropped = sum(not decisions[key].keep for key in cluster.keys)
        assert text_of(by_class(card, "right")[0]).startswith(f"{dropped} dropped")


def test_the_heat_map_adds_up_to_what_is_dropped(families: Index, tmp_path: Path) -> None:
    families.report(tmp_path / "report.html")
    names = {
        batch.batch_id: batch.night or f"batch {batch.batch_id}" for batch in families.batches()
    }
    expected: Counter[tuple[str, str]] = Counter()
    for decision in families.dedup(only="drop"):
        assert decision.kept_key is not None
        rows = [families.show(key).document for key in (decision.key, decision.kept_key)]
        expected[names[rows[0].batch_id], names[rows[1].batch_id]] += 1
    (table,) = by_class(parse(tmp_path / "report.html"), "heat")
    columns = [text_of(cell) for cell in table.find("thead").iter("th")][:-1]
    shown = {
        (text_of(row.find("th")), name): int(text_of(cell))
        for row in table.find("tbody")
        for name, cell in zip(columns, by_class(row, "cell"), strict=True)
        if text_of(cell) not in ("", "0")
    }
    assert shown == dict(expected)


def test_pairs_of_the_stack_are_drawn_over_the_range(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(100)]
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=1) as index:
        for n in range(20):  # pairs of .40, .41 and so on, and many of exactly .5
            own = [f"own{n}x{m}" for m in range(60 - n)]
            index.add(
                [(f"a{n}", " ".join(words[: 40 + n])), (f"b{n}", " ".join(words[: 40 + n] + own))]
            )
        index.report(tmp_path / "report.html")
        values = [
            float(card.get("data-value"))
            for card in by_class(parse(tmp_path / "report.html"), "pair")
        ]
    assert len(values) == 20
    assert len({int((value - 0.4) / 0.01 + 1e-6) for value in values if 0.4 <= value < 0.6}) > 10


def test_many_adds_share_the_first_place_of_a_drawing() -> None:
    from lshdb.pages.cards import Nights
    from lshdb.report.repeats import Add

    adds = [Add(f"n{n}", (n,), "", "", (), 1, 0, 0, 0, 0, 0, True) for n in range(1, 31)]
    nights = Nights(adds)
    assert nights.names == ["before", *(f"n{n}" for n in range(18, 31))]
    assert nights.counts([1, 17, 18, 30, 99]) == [2, 1, *[0] * 11, 1]
    assert nights.name_of(17) == "n17" and nights.name_of(99) == "batch 99"
    assert Nights(adds[:3]).names == ["n1", "n2", "n3"] and Nights([]).names == []

"""The pages that people read: what the index says, escaped, linked, and with errors in words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from lshdb import Index
from lshdb.serve.application import make_application
from lshdb.serve.bucket_lists import shared_words
from tests.asgi import Answer, call
from tests.conftest import family_corpus
from tests.report.test_report import HOSTILE, HOSTILE_KEYS, by_class, by_id, parse, text_of

Make = Callable[..., Index]
Get = Callable[..., Any]

HTML = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def index(make_index: Make) -> Index:
    index = make_index(threshold=0.4, k=2)
    index.add(family_corpus(7, families=4))
    index.add([(word.lower(), f"the council closed the {word} bridge on monday")
               for word in ("OLD", "new")])  # fmt: skip
    index.update_clusters()
    return index


def ask(app: Any, path: str, form: dict[str, str] | None = None, **headers: str) -> Answer:
    if form is None:
        return call(app, "GET", path, headers={**HTML, **headers})
    kind = {"content-type": "application/x-www-form-urlencoded"}
    return call(app, "POST", path, urlencode(form).encode(), headers={**HTML, **kind, **headers})


@pytest.fixture
def get(index: Index) -> Get:
    app = make_application(index)

    def got(path: str, form: dict[str, str] | None = None, *, status: int = 200) -> Any:
        answer = ask(app, path, form)
        assert answer.status == status, answer.body.decode()
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        return parse(answer.body.decode())

    return got


def links(tree: Any) -> list[str]:
    return [one.get("href") for one in tree.iter("a")]


def test_a_search_has_an_address(get: Get) -> None:
    text = "the council closed the NEW bridge\non monday + 100% \u00e9"
    address = "/?" + urlencode({"text": text.replace("\n", "\r\n"), "top": "1", "threshold": ""})
    tree = get(address)
    assert [text_of(next(one.iter("a"))) for one in by_class(tree, "hit")] == ["new"]
    assert text_of(by_class(tree, "crumbs")[0]) == "Search › like a text"
    assert by_id(tree, "text").text == text
    form = next(one for one in tree.iter("form") if one.get("data-longest"))
    assert (form.get("method"), form.get("action")) == ("get", "/")
    assert "The 1 most similar" in text_of(by_id(tree, "main"))
    assert not by_class(get(address + "&threshold=.99"), "hit")
    assert "is found with probability 0." in text_of(by_id(get(f"{address}0.1"), "main"))
    assert "with probability" not in text_of(by_id(tree, "main"))
    assert not by_class(get("/?text="), "hit")
    long = get("/", {"text": f"{text} " * 300, "top": "", "threshold": "0.01"})
    assert "too long for an address" in text_of(by_id(long, "main"))
    assert by_class(long, "hit")


@pytest.mark.parametrize("asked", ["top=0", "top=201", "top=1e2", "top=-1", "top=%D9%A3",
                                   "threshold=nan", "threshold=1e999", "threshold=x",
                                   "threshold=2", "top=" + "9" * 5000])  # fmt: skip
def test_a_search_out_of_range(get: Get, asked: str) -> None:
    for path in ("/?text=council&", "/similar?key=old&"):
        name = asked.partition("=")[0]
        assert name in text_of(by_id(get(path + asked, status=400), "main"))


@pytest.mark.fast
def test_search_by_a_text(get: Get, index: Index) -> None:
    empty = get("/")
    assert f"{len(index)} documents" in text_of(by_id(empty, "main"))
    tree = get("/", {"text": "the council closed the NEW bridge on monday"})
    hits = [text_of(one) for one in by_class(tree, "hit")]
    assert hits[0].startswith("similarity 1.000") and hits[0].endswith("exact")
    assert hits[1].startswith("similarity 0.")
    assert [text_of(by_class(one, "key")[0]) for one in by_class(tree, "hit")] == ["new", "old"]
    assert [one.text for one in tree.iter("del")] == ["only in your text", "NEW"]
    assert [one.text for one in tree.iter("ins")] == ["only in the document", "OLD"]
    assert by_id(tree, "text").text == "the council closed the NEW bridge on monday"
    nothing = get("/", {"text": "quite another sentence about the weather"})
    assert text_of(by_id(nothing, "hits")) == "Nothing is similar"


def test_search_by_key_leads_to_pair_and_document(get: Get, index: Index) -> None:
    tree = get("/similar?key=old")
    assert "/pair?key1=old&key2=new" in links(tree)
    pair = get("/pair?key1=old&key2=new")
    assert text_of(by_id(pair, "verdict")) == "Near-duplicates"
    assert [one.text for one in pair.iter("del")] == ["OLD"]
    document = get("/document?key=old")
    assert "the council closed the OLD bridge on monday" in text_of(by_id(document, "main"))
    assert "/cluster?key=old" in links(document)


def test_clusters_in_pages_and_side_by_side(
    get: Get, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = list(index.clusters())
    monkeypatch.setattr("lshdb.serve.cluster_lists.CLUSTERS", 2)
    found, path = [], "/clusters"
    while path:
        tree = get(path)
        found += [one for one in links(tree) if one.startswith("/cluster?")]
        after = [one.get("href") for one in tree.iter("a") if one.text == "Next"]
        path = after[0] if after else ""
    assert found == [f"/cluster?key={quote(one.label)}" for one in expected]
    monkeypatch.setattr("lshdb.serve.reading_pages.MEMBERS", 3)
    largest = get(found[0])
    members = [text_of(next(one.iter("a"))) for one in by_class(largest, "member")]
    assert len(members) == 3 and members[0] == expected[0].keys[0]
    documents = [one for one in links(largest) if one.startswith("/document?")]
    assert sorted(documents) == sorted(f"/document?key={quote(key)}" for key in expected[0].keys)
    get("/clusters?offset=-1", status=400)


@pytest.fixture
def nights(make_index: Make) -> Index:
    """Three clusters: of two, three and four documents, less and less alike, on three nights."""
    index = make_index(threshold=0.4, k=1)
    for night in range(3):
        shared = " ".join(f"n{night}{letter}" for letter in "abcdefghijkl")
        own = [" ".join(f"x{night}{n}{i}" for i in range(2 * night)) for n in range(2 + night)]
        texts = [f"{shared} Granted leave word{night} {words}" for words in own]
        index.add(
            [(f"{night}-{n}", text) for n, text in enumerate(texts)], night=f"2026-11-0{night + 1}"
        )
    index.update_clusters()
    return index


def test_clusters_are_sorted_and_filtered(nights: Index) -> None:
    app = make_application(nights)

    def listed(query: str, status: int = 200) -> Any:
        answer = ask(app, f"/clusters?{query}")
        assert answer.status == status
        return parse(answer.body.decode())

    def labels(query: str) -> list[str]:
        return [one.partition("key=")[2][:1] for one in links(listed(query))
                if one.startswith("/cluster?")]  # fmt: skip

    expected = [cluster.label[0] for cluster in nights.clusters()]
    assert labels("") == labels("sort=size&size=&similarity=&since=&q=") == expected
    assert labels("sort=similarity") == labels("sort=-similarity")[::-1]
    assert labels("sort=date") == ["2", "1", "0"]
    assert labels("size=3") == [label for label in expected if label != "0"]
    assert labels(f"since={nights.batches()[0].started_at[:10]}") == expected
    assert labels("since=9999-01-01") == labels("offset=99") == []
    assert labels("q=1-1") == ["1"] and labels("q=granted++LEAVE") == expected
    assert labels("q=word1") == ["1"] and labels("q=no+such+words") == []
    assert [one.text for one in listed("q=X210").iter("mark")] == ["x210"]
    assert "found in 2-1" in text_of(by_id(listed("q=x210"), "main"))
    for wrong in ("sort=up", "size=1", "similarity=nan", "since=11/1/2026", "offset=-1"):
        assert wrong.partition("=")[0] in text_of(by_id(listed(wrong, 400), "main"))


def test_words_are_looked_for_part_by_part(nights: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lshdb.serve.cluster_lists.LOOKED_THROUGH", 1)
    app, path, found = make_application(nights), "/clusters?q=word0", []
    for _ in range(3):
        tree = parse(ask(app, path).body.decode())
        found += [one for one in links(tree) if one.startswith("/cluster?")]
        further = [one.get("href") for one in tree.iter("a") if one.text == "Look further"]
        path = further[0] if further else ""
    assert (found, path) == (["/cluster?key=0-0"], "")


def test_the_decision_of_a_cluster_is_that_of_dedup(nights: Index) -> None:
    nights.add([(f"chain-{n}", " ".join(f"w{i}" for i in range(4 * n, 4 * n + 12)))
                for n in range(9)])  # fmt: skip
    nights.update_clusters()
    dropped = {decision.key for decision in nights.dedup() if not decision.keep}
    app = make_application(nights)
    tree = parse(ask(app, "/clusters").body.decode())
    numbers = {next(each.iter("a")).get("href").partition("key=")[2]:
               text_of(by_class(each, "right")[0]) for each in by_class(tree, "row")}  # fmt: skip
    for cluster in nights.clusters():
        n = len(dropped & set(cluster.keys))
        assert numbers[cluster.label].startswith(f"{n} dropped"), cluster
        assert f"{len(cluster.keys) - n} kept" in numbers[cluster.label]
        opened = parse(ask(app, f"/cluster?key={cluster.keys[-1]}").body.decode())
        for member in by_class(opened, "member"):
            key = text_of(by_class(member, "key")[0])
            assert (
                len(by_class(member, "drop")) == (key in dropped) != len(by_class(member, "keep"))
            )
            ((level,),) = nights.sql(
                "SELECT max(similarity) FROM neighbor WHERE key = :key AND similarity < 1",
                {"key": key},
            )
            said = text_of(by_class(member, "under")[0])
            assert (level is None or f"similarity {level:.3f} to " in said) and (
                level is not None or key == cluster.label or f"copy of {cluster.label}" in said
            )


def test_a_hit_says_what_dedup_decides(nights: Index) -> None:
    nights.add([("later", "n1a n1b n1c n1d n1e n1f n1g n1h n1i n1j n1k n1l Granted")])
    dropped = {decision.key for decision in nights.dedup() if not decision.keep}
    nights.add([("newest", "n1a n1b n1c n1d n1e n1f n1g n1h n1i n1j n1k n1l granted leave")])
    tree = parse(ask(make_application(nights), "/similar?key=1-1").body.decode())
    said = {}
    for hit in by_class(tree, "hit"):
        chips = [name for name in ("keep", "drop") if by_class(hit, name)]
        said[text_of(by_class(hit, "key")[0])] = chips
    assert said.pop("newest") == []  # stored clusters do not know it
    assert len(said) == 3 and said.pop("1-0") == ["keep"]
    assert said == {key: ["drop" if key in dropped else "keep"] for key in said}


def test_clusters_are_those_of_the_last_commit(nights: Index) -> None:
    app = make_application(nights)
    assert "3 clusters of 9 documents" in ask(app, "/clusters").body.decode()
    nights.remove(["0-0"])  # clusters are not brought up to date: the stored one loses a member
    assert "2 clusters of 7 documents" in ask(app, "/clusters").body.decode()
    nights.remove(["2-0"])  # the document after which a cluster is named
    assert "2 clusters of 6 documents" in ask(app, "/clusters").body.decode()
    nights.add([("2-9", nights.texts(["2-1"])["2-1"])])
    assert nights.check() == []
    assert "2 clusters of 7 documents" in ask(app, "/clusters").body.decode()


def test_buckets_lead_to_documents(get: Get, index: Index) -> None:
    tree = get("/buckets")
    stats = index.stats()
    assert f"{stats.shared_buckets:,} buckets hold" in text_of(by_id(tree, "main"))
    first = next(one for one in tree.iter("a") if one.get("href").startswith("/bucket?"))
    assert text_of(first) == f"all {stats.largest_bucket}"
    listed = get(first.get("href"))
    assert len([one for one in links(listed) if one.startswith("/document?")]) >= 2
    assert "No document is in this bucket" in text_of(by_id(get("/bucket?band=0&bucket=1"), "main"))
    get(f"/bucket?band=0&bucket={2**80}", status=400)


def test_buckets_in_pages_show_each_set_of_texts_once(
    get: Get, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.serve.bucket_lists.BUCKETS", 2)
    sizes, texts, path = [], set(), "/buckets"
    while path:
        tree = get(path)
        for row in by_class(tree, "line"):
            sizes.append(int(text_of(by_class(row, "big")[0]).split()[0]))
            texts.add(text_of(by_class(row, "under")[0]))
        path = next((one.get("href") for one in tree.iter("a") if one.text == "Next"), "")
    assert sizes == sorted(sizes, reverse=True) and len(texts) == len(sizes) > 4
    assert "No bucket is here" in text_of(by_id(get("/buckets?offset=2000"), "main"))
    get("/buckets?offset=2001", status=400)


def test_buckets_are_sorted_and_filtered(
    get: Get, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lshdb.serve.bucket_lists.BUCKETS", 500)

    def listed(query: str, status: int = 200) -> list[tuple[int, int]]:
        rows = by_class(get(f"/buckets?{query}", status=status), "line")
        return [
            (int(text_of(by_class(row, "right")[0]).split()[1]),
             int(text_of(by_class(row, "big")[0]).split()[0])) for row in rows
        ]  # fmt: skip

    rows = listed("")
    assert [size for _, size in listed("sort=-size")] == sorted(size for _, size in rows)
    assert listed("sort=band") == sorted(rows, key=lambda row: row[0])
    assert {band for band, _ in rows} != {rows[0][0]}
    assert listed(f"band={rows[0][0]}") == [row for row in rows if row[0] == rows[0][0]]
    least = rows[0][1]
    assert listed(f"size={least}") == [row for row in rows if row[1] >= least] != rows
    assert 0 < len(listed("q=old")) == len(listed("q=council+closed+the")) < len(rows)
    assert listed("q=no+such+words") == []
    page = get(f"/buckets?sort=band&size={least}")
    assert by_id(page, "main").findall(".//option[@selected]")[0].get("value") == "band"
    for wrong in ("sort=up", "band=999", "band=x", "size=1"):
        assert wrong.partition("=")[0] in text_of(
            by_id(get(f"/buckets?{wrong}", status=400), "main")
        )


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["One two three four FIVE six, seven", "x one  two three four five, six y"],
         "One two three four FIVE six"),
        (["a b c d e f g", "g f c b d e a"], "a … b … c … d … e … f … g"),
        (["a b c d", "a b c"], "a b c"), (["a b", "c d"], ""), (["a b c"], ""), ([], ""),
        (["", "a"], ""), (["a b c d e f x g h i j k", "g h i j k a b c d e f"],
                          "a b c d e f … g h i j k"),
        (["w " * 50, "w " * 60], " ".join(["w"] * 30)),
    ],
)  # fmt: skip
def test_the_words_that_texts_share(texts: list[str], words: str) -> None:
    assert shared_words(texts) == words


def test_contents_and_the_api(get: Get, index: Index) -> None:
    assert f"{len(index):,}" in text_of(by_id(get("/index"), "main"))
    tree = get("/docs")
    said = text_of(by_id(tree, "main"))
    for route in ("POST /api/query", "POST /api/explain", "GET /api/clusters", "GET /health"):
        assert route in said
    assert "/openapi.json" in links(tree)


@pytest.mark.parametrize(
    "key", ["plain", "it's / a ? key & \u00e9 'quoted' $HOME `id` \u202e", ".."]
)
def test_the_examples_of_the_api_run(make_index: Make, key: str) -> None:
    index = make_index(threshold=0.4, k=1)
    text = 'The reeve\'s "old" mill $HOME `id`\nground no corn'
    index.add([(key, text), ("other", text + " again"), ("third", "quite another one")])
    index.update_clusters()
    routes = {}
    for token in (None, "a token of enough length"):
        app = make_application(index, token=token)
        known = {} if token is None else {"authorization": f"Bearer {token}"}
        tree = parse(ask(app, "/docs", **known).body.decode())
        for one in by_class(tree, "example"):
            words = shlex.split(text_of(one).replace("$LSHDB_TOKEN", token or ""))
            assert words[0] == "curl"
            path = words[1].removeprefix("http://127.0.0.1:8080")
            body = words[words.index("--json") + 1].encode() if "--json" in words else None
            sent = dict([words[-1].split(": ")]) if "-H" in words else {}
            answer = call(app, "GET" if body is None else "POST", path, body, headers={
                name.lower(): value for name, value in sent.items()})  # fmt: skip
            assert answer.status == 200, (words, answer.body)
            routes[path.partition("?")[0]] = answer
    assert len(routes) == 9 - (key == "..")
    assert routes["/api/query"].json["hits"][0]["key"] == key
    bare = make_application(make_index("empty"))
    assert len(by_class(parse(ask(bare, "/docs").body.decode()), "example")) == 3


def test_every_link_of_every_page_works(get: Get) -> None:
    seen, todo = set(), ["/"]
    while todo and len(seen) < 60:
        path = todo.pop(0)
        if path in seen or path.startswith(("#", "/openapi", "data:")):
            continue
        seen.add(path)
        todo += links(get(path))
    assert len(seen) == 60


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_documents_and_questions(make_index: Make, text: str) -> None:
    index = make_index()
    same = "and some more words that are the same in all of these texts"
    index.add([(key, f"{text} {same}") for key in HOSTILE_KEYS])
    index.update_clusters()
    app = make_application(index)
    first = quote(HOSTILE_KEYS[0])
    paths = ["/clusters", f"/cluster?key={first}", f"/document?key={first}",
             f"/similar?key={first}", f"/pair?key1={first}&key2={quote(HOSTILE_KEYS[3])}",
             f"/document?key={quote(text[:300].encode('utf-8', 'replace'))}"]  # fmt: skip
    answers = [ask(app, path) for path in paths] + [ask(app, "/", {"text": f"{text} {same}"})]
    assert [one.status for one in answers] == [200, 200, 200, 200, 200, 404, 200]
    for answer in answers:
        tree = parse(answer.body.decode())
        sources = [one.get("src").partition("?")[0] for one in tree.iter("script")]
        assert sources == ["/assets/page.js"]
        for element in tree.iter():
            assert element.tag not in {"img", "svg", "iframe", "style"}
            assert not [name for name in element.attrib if name.startswith("on")]
        assert not set("".join(tree.itertext())) & {"\u202e", "\x1b", "\u2066"} or (
            answer is answers[-1]  # what was asked stands in the form as it was sent
        )


def test_errors_are_words_for_people_and_json_for_programs(index: Index) -> None:
    app = make_application(index)
    for path, status in [("/document?key=none", 404), ("/nowhere", 404), ("/similar", 400),
                         ("/cluster?key=none", 404), ("/pair?key1=old&key2=none", 404),
                         ("/assets/none.css", 404)]:  # fmt: skip
        page = ask(app, path)
        assert page.status == status
        assert text_of(next(one for one in parse(page.body.decode()).iter("p")
                            if one.get("role") == "alert"))  # fmt: skip
        said = call(app, "GET", path)
        assert (said.status, said.headers["content-type"]) == (status, "application/json")
        assert said.json["message"]
    assert call(app, "GET", "/api/documents/none", headers=HTML).json["error"] == "KeyNotFoundError"


def test_styles_and_scripts_and_nothing_else(index: Index) -> None:
    app = make_application(index)
    for name, kind in [("style.css", "text/css"), ("page.js", "text/javascript")]:
        answer = call(app, "GET", f"/assets/{name}")
        assert answer.headers["content-type"].startswith(kind)
        assert len(answer.body) > 300
        assert answer.headers["cache-control"] == "no-cache"
        (address,) = re.findall(rf'"(/assets/{name}\?v=\w+)"', ask(app, "/").body.decode())
        assert call(app, "GET", address).body == answer.body
        assert call(app, "GET", address).headers["cache-control"].endswith("immutable")
    assert ask(app, "/").headers["cache-control"] == "no-store"
    for name in ("../environment.py", "..%2fenvironment.py", "%2fetc%2fpasswd", "base.html"):
        assert call(app, "GET", f"/assets/{name}").status == 404


def test_a_token_is_asked_for(index: Index) -> None:
    app = make_application(index, token="a token of enough length")
    refused = ask(app, "/")
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Basic")
    given = "OmEgdG9rZW4gb2YgZW5vdWdoIGxlbmd0aA=="
    assert ask(app, "/", authorization=f"Basic {given}").status == 200


def test_an_index_without_texts(make_index: Make) -> None:
    bare = make_index("bare", store_text=False, threshold=0.4, k=2)
    bare.add(family_corpus(7, families=2))
    bare.update_clusters()
    app = make_application(bare)
    key = next(iter(bare.clusters())).label
    for path in (f"/similar?key={key}", f"/document?key={key}", f"/cluster?key={key}"):
        answer = ask(app, path)
        assert answer.status == 200
        assert "text" not in {one.get("class") for one in parse(answer.body.decode()).iter()}

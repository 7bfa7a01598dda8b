"""What the server answers, by calling the application itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from lshdb.serve import make_application
from tests.asgi import Answer, call

TEXTS = {
    "mon-1": "the council voted on monday to close the old bridge over the river for repairs",
    "mon-2": "the council voted on monday to close the old bridge over the canal for repairs",
    "copy": "the council voted on monday to close the old bridge over the river for repairs",
    "weather": "it will rain in the evening and the night will be cold and clear in the north",
    "a/b c%2F": "keys may have slashes and blanks, and the server must find them all the same",
}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=2) as index:
        from lshdb import Document

        index.add(Document(key, text, "test", {"topic": key[:3]}) for key, text in TEXTS.items())
        index.update_clusters()
        yield index


@pytest.fixture
def ask(index: Index) -> Any:
    app = make_application(index)

    def ask(method: str, path: str, body: Any = None, **more: Any) -> Answer:
        return call(app, method, path, body, **more)

    return ask


@pytest.mark.fast
def test_a_query_answers_as_the_library_does(index: Index, ask: Any) -> None:
    text = TEXTS["mon-2"]
    expected = index.query(text, top=3)
    answer = ask("POST", "/api/query", {"text": text, "top": 3})
    assert answer.status == 200
    assert answer.json == {
        "hits": [
            {"key": hit.key, "similarity": hit.similarity, "method": hit.method} for hit in expected
        ],
        "truncated": expected.truncated,
    }
    assert [hit["key"] for hit in answer.json["hits"]] == ["mon-2", "copy", "mon-1"]
    assert ask("POST", "/api/query", {"text": text, "top": 1}).json["truncated"] == 2


def test_many_texts_are_answered_in_their_order(index: Index, ask: Any) -> None:
    texts: list[Any] = [TEXTS["mon-2"], "", "of other words", TEXTS["weather"], ["some", "tokens"]]
    asked = {"texts": texts, "top": 2, "with_text": True, "with_fields": True}
    answers = ask("POST", "/api/query", asked).json["answers"]
    alone = [{"text": text, "top": 2, "with_text": True, "with_fields": True} for text in texts]
    assert answers == [ask("POST", "/api/query", one).json for one in alone]
    assert [len(answer["hits"]) for answer in answers[:4]] == [2, 0, 0, 1]
    assert answers[0]["hits"][0]["text"] == TEXTS["mon-2"]


def test_a_query_by_key_with_texts_and_fields(ask: Any) -> None:
    asked = {"key": "mon-1", "with_text": True, "with_fields": True, "below": 0.99}
    (hit,) = ask("POST", "/api/query", asked).json["hits"]
    assert (hit["key"], hit["text"], hit["fields"]) == ("mon-2", TEXTS["mon-2"], {"topic": "mon"})


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "give one of text, vector and key"),
        ({"text": "a", "key": "b"}, "give one of text, vector and key"),
        ({"text": "a", "tpo": 3}, "tpo: there is no such name"),
        ({"text": "a", "top": 0}, "top: "),
        ({"text": "a", "top": 100_000}, "top: "),
        ({"text": "a", "threshold": 2}, "threshold"),
        ({"text": 3}, "text"),
        ({"vector": [1, 2]}, "query"),
        ({"texts": []}, "texts"),
        ({"texts": ["a"] * 1025}, "texts"),
        ({"texts": ["a", None]}, "text 1 of texts is null"),
        ({"texts": ["a", 3]}, "texts"),
        ({"texts": ["a"], "key": "b"}, "give one of text, vector and key, or texts"),
        ({"texts": ["a"] * 200, "top": 501}, "200 texts with top 501 may list more than 100,000"),
        ({"texts": ["a", "\ud800"]}, "query '1': the query cannot be used"),
        (["text"], "the body is not a JSON object"),
        (b'{"text": ', "the body is not JSON"),
        (b'{"text": "\xff"}', "the body is not JSON"),
        (b'{"threshold": NaN, "text": "a"}', "threshold"),
    ],
)
def test_a_wrong_query_is_refused_with_the_reason(ask: Any, asked: Any, message: str) -> None:
    answer = ask("POST", "/api/query", asked)
    assert answer.status == 400, answer
    assert message in answer.json["message"]
    assert answer.json["error"] in {"InvalidRequest", "ParameterError", "InputError"}


def test_documents_by_any_key(ask: Any) -> None:
    shown = ask("GET", "/api/documents/mon-1").json
    assert (shown["body"], shown["copies"]) == (TEXTS["mon-1"], ["copy"])
    assert ask("GET", "/api/documents/a%2Fb%20c%252F").json["key"] == "a/b c%2F"
    assert ask("GET", "/api/documents?key=a%2Fb%20c%252F").json["key"] == "a/b c%2F"
    assert ask("GET", "/api/documents").status == 400
    missing = ask("GET", "/api/documents/nothing")
    assert (missing.status, missing.json["error"]) == (404, "KeyNotFoundError")
    assert "'nothing'" in missing.json["message"]


def test_explain(index: Index, ask: Any) -> None:
    answer = ask("POST", "/api/explain", {"key1": "mon-1", "key2": "mon-2", "shingles": 2}).json
    found = index.explain("mon-1", "mon-2")
    assert found.shared is not None and found.only1 is not None
    assert answer["similarity"] == found.exact
    assert answer["shared"] == list(found.shared[:2])
    assert (answer["n_shared"], answer["n_only1"]) == (len(found.shared), len(found.only1))
    by_text = ask("POST", "/api/explain", {"key1": "mon-1", "text": TEXTS["mon-2"]}).json
    assert by_text["key2"] is None and by_text["similarity"] == found.exact
    assert ask("POST", "/api/explain", {"key1": "mon-1"}).status == 400


def test_clusters_in_pages(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=2) as index:
        for n in range(5):
            words = " ".join(f"w{n}x{m}" for m in range(20))
            index.add((f"c{n}-{m}", words) for m in range(n + 2))
        index.update_clusters()
        app = make_application(index)
        expected = [(cluster.label, len(cluster.keys)) for cluster in index.clusters(update=False)]
        found, offset = [], 0
        while offset is not None:
            path = f"/api/clusters?limit=2&members=3&offset={offset}"
            page = call(app, "GET", path).json
            found += [(each["label"], each["size"]) for each in page["clusters"]]
            assert all(len(each["keys"]) == min(3, each["size"]) for each in page["clusters"])
            offset = page["next"]
        assert found == expected and len(found) == 5
        newest = call(app, "GET", "/api/clusters?sort=-similarity&limit=1000").json["clusters"]
        assert sorted(each["label"] for each in newest) == sorted(label for label, _ in expected)
        above = call(app, "GET", "/api/clusters?threshold=.99")
        assert above.json["clusters"] == call(app, "GET", "/api/clusters").json["clusters"]
        assert call(app, "GET", "/api/clusters?threshold=.99&sort=date").status == 400
        one = call(app, "GET", "/api/clusters/c3-2").json
        assert one == {"label": "c3-0", "size": 5, "keys": [f"c3-{m}" for m in range(5)]}
        assert call(app, "GET", "/api/clusters/nothing").status == 404


def test_clusters_that_were_never_stored(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb") as index:
        answer = call(make_application(index), "GET", "/api/clusters")
    assert answer.status == 400
    assert "lshdb clusters" in f"{answer.json['message']} {answer.json['hint']}"


def test_distances_are_called_distances(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", metric="l2", dim=2, threshold=1.0) as index:
        index.add([("a", [0.0, 0.0]), ("b", [0.5, 0.0])])
        app = make_application(index)
        hits = call(app, "POST", "/api/query", {"vector": [0.0, 0.0]}).json["hits"]
        assert hits[1] == {"key": "b", "distance": 0.5, "method": "exact"}
        explained = call(app, "POST", "/api/explain", {"key1": "a", "key2": "b"}).json
        assert (explained["distance"], explained["similarity"]) == (0.5, None)
        assert call(app, "GET", "/api/documents/b").json["body"] == [0.5, 0.0]


def test_sets_and_weights(tmp_path: Path) -> None:
    with Index.create(tmp_path / "s.lshdb", unit="token", k=1, threshold=0.5) as index:
        index.add([("a", frozenset({"x", "y"}))])
        app = make_application(index)
        for text in (["y", "x"], {"set": ["x", "y"]}):
            (hit,) = call(app, "POST", "/api/query", {"text": text}).json["hits"]
            assert (hit["key"], hit["similarity"]) == ("a", 1.0)
        assert call(app, "GET", "/api/documents/a").json["body"] == {"set": ["x", "y"]}
    with Index.create(tmp_path / "w.lshdb", metric="weighted-jaccard", threshold=0.5) as index:
        index.add([("a", {"x": 1.0, "y": 2.0})])
        app = make_application(index)
        (hit,) = call(app, "POST", "/api/query", {"vector": {"x": 1.0, "y": 2.0}}).json["hits"]
        assert (hit["key"], hit["similarity"]) == ("a", 1.0)


def test_stats_say_nothing_of_the_host(index: Index, ask: Any) -> None:
    answer = ask("GET", "/api/stats")
    assert (answer.json["documents"], answer.json["bands"]) == (5, index.params.bands)
    assert str(index.path) not in answer.body.decode()


def test_health_and_metrics(ask: Any) -> None:
    assert ask("GET", "/health").json == {"status": "ok", "documents": 5}
    ask("GET", "/api/documents/nothing")
    text = ask("GET", "/metrics").body.decode()
    assert 'lshdb_requests_total{method="GET",route="/health",status="200"} 1.0' in text
    assert 'route="/api/documents/{key}",status="404"} 1.0' in text
    assert "lshdb_index_documents 5.0" in text


def test_the_description_names_every_route(ask: Any) -> None:
    described = ask("GET", "/openapi.json").json
    assert set(described["paths"]) == {
        "/api/query", "/api/documents/{key}", "/api/documents", "/api/explain", "/api/clusters",
        "/api/clusters/{label}", "/api/stats", "/health", "/metrics",
    }  # fmt: skip
    query = described["components"]["schemas"]["QueryRequest"]["properties"]
    assert set(query) >= {"text", "vector", "key", "top", "threshold", "recall"}


def test_no_such_route(ask: Any) -> None:
    answer = ask("GET", "/api/nothing")
    assert (answer.status, answer.json["message"]) == (404, "there is no GET /api/nothing")
    assert ask("DELETE", "/api/documents/mon-1").status == 405


def test_what_others_write_shows_at_once(index: Index, ask: Any) -> None:
    with Index.open(index.path) as writer:
        writer.add([("new", TEXTS["weather"] + " and in the south")])
    hits = ask("POST", "/api/query", {"text": TEXTS["weather"]}).json["hits"]
    assert [hit["key"] for hit in hits] == ["weather", "new"]
    Index.reband(index.path, threshold=0.4)
    assert ask("POST", "/api/query", {"text": TEXTS["weather"]}).status == 200


def test_a_failure_of_ours_shows_no_traceback(
    index: Index, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: Index, _key: str) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Index, "show", fail)
    answer = ask("GET", "/api/documents/mon-1", fails=ZeroDivisionError)
    assert answer.status == 500
    assert json.loads(answer.body)["error"] == "InternalError"
    assert b"secret" not in answer.body

"""An index that is moved, replaced or deleted under the server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import DatabaseError, Index, IndexNotFoundError, LshdbError
from lshdb.serve import make_application
from tests.asgi import call


def make(path: Path, key: str, **options: Any) -> None:
    with Index.create(path, threshold=0.5, **options) as index:
        index.add([(key, "the council voted on monday to close the old bridge over the river")])


def keys(app: Any) -> list[str]:
    asked = {"text": "the council voted on monday to close the old bridge over the river"}
    answer = call(app, "POST", "/api/query", asked)
    assert answer.status == 200, answer
    return [hit["key"] for hit in answer.json["hits"]]


def replace(path: Path, other: Path) -> None:
    path.rename(path.with_name("former"))
    other.rename(path)


def write_over(path: Path, other: Path) -> None:
    for file in path.iterdir():
        if not (other / file.name).exists():
            file.unlink()
    shutil.copytree(other, path, dirs_exist_ok=True)  # into the same files


def delete_and_copy(path: Path, other: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(other, path)


@pytest.mark.parametrize("put", [replace, write_over, delete_and_copy])
def test_another_index_at_the_place_answers(
    tmp_path: Path, put: Callable[[Path, Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path, other = tmp_path / "x.lshdb", tmp_path / "y.lshdb"
    make(path, "old")
    make(other, "new", bands=7, rows=2)
    with Index.open(path) as index:
        app = make_application(index)
        assert keys(app) == ["old"]
        put(path, other)
        assert keys(app) == ["new"]
        assert call(app, "GET", "/api/stats").json["bands"] == 7
        assert call(app, "GET", "/health").json == {"status": "ok", "documents": 1}
        assert caplog.text.count("it was opened") == 1
    if put is replace:
        with Index.open(tmp_path / "former") as former:
            assert list(former) == ["old"]


def test_a_link_that_leads_to_another_index(tmp_path: Path) -> None:
    make(tmp_path / "monday", "old")
    make(tmp_path / "tuesday", "new")
    link = tmp_path / "current"
    link.symlink_to("monday")
    with Index.open(link) as index:
        app = make_application(index)
        assert keys(app) == ["old"]
        next_link = tmp_path / "next"
        next_link.symlink_to("tuesday")
        next_link.replace(link)
        assert keys(app) == ["new"]


def test_a_deleted_index_is_not_answered_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, aside = tmp_path / "x.lshdb", tmp_path / "aside"
    make(path, "old")
    with Index.open(path) as index:
        app = make_application(index)
        path.rename(aside)
        for asked in ("/health", "/metrics", "/api/documents/old", "/api/stats", "/", "/clusters"):
            answer = call(app, "GET", asked)
            assert (answer.status, answer.json["error"]) == (503, "IndexNotFoundError")
            assert str(tmp_path) not in answer.body.decode()
        assert len(caplog.messages) == 1 and str(path) in caplog.text
        aside.rename(path)  # the same again
        assert keys(app) == ["old"]
        shutil.rmtree(path)
        assert call(app, "GET", "/health").status == 503
        make(path, "new")
        assert keys(app) == ["new"]


def damage_description(path: Path) -> None:
    (path / "index.toml").write_text("format = [")


def mix_databases(path: Path) -> None:
    make(path.with_name("z.lshdb"), "third")
    (path.with_name("z.lshdb") / "index.db").replace(path / "index.db")


def remove_database(path: Path) -> None:
    (path / "index.db").unlink()


def put_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no index")


FILE = pytest.mark.sqlite("its file is replaced or removed")


@pytest.mark.parametrize(
    "spoil",
    [
        damage_description,
        pytest.param(mix_databases, marks=FILE),
        pytest.param(remove_database, marks=FILE),
        put_a_file,
    ],
)
def test_what_cannot_be_opened_is_not_well(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    path = tmp_path / "x.lshdb"
    make(path, "old")
    with Index.open(path) as index:
        app = make_application(index)
        assert keys(app) == ["old"]
        spoil(path)
        for asked in ("/health", "/api/documents/old"):
            assert call(app, "GET", asked).status == 503


def test_an_error_of_the_database_is_told_to_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its message has paths, hosts and roles, and ``/health`` needs no token."""
    path = tmp_path / "x.lshdb"
    make(path, "old")
    with Index.open(path) as index:
        app = make_application(index, token="a-token-that-nobody-guesses")

        def fail(*args: Any, **options: Any) -> Any:
            raise DatabaseError(f"the database {path} of r1@db.example failed", hint="ask r1")

        monkeypatch.setattr(Index, "__len__", fail)
        monkeypatch.setattr(Index, "stats", fail)
        known = {"authorization": "Bearer a-token-that-nobody-guesses"}
        for asked in ("/health", "/api/stats", "/index"):
            answer = call(app, "GET", asked, headers=known if asked != "/health" else {})
            assert (answer.status, answer.json["error"]) == (503, "DatabaseError"), asked
            assert "r1" not in answer.body.decode() and str(path) not in answer.body.decode()
        assert caplog.text.count("r1@db.example") == 3


def test_what_writers_do_is_no_other_index(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    make(path, "old")
    with Index.open(path) as index:
        with Index.open(path) as writer:
            writer.add([("more", "some other words that are in no other text of this index")])
            assert not index.refresh()
            writer.compact()
        Index.reband(path, threshold=0.4)
        index.refresh()  # whether it is opened again or not
        assert sorted(index) == ["more", "old"] and index.params.threshold == 0.4
        assert not index.refresh()


def test_refresh_in_python(tmp_path: Path) -> None:
    path = tmp_path / "x.lshdb"
    make(path, "old")
    index = Index.open(path)
    assert index.refresh() is False
    shutil.rmtree(path)
    with pytest.raises(IndexNotFoundError):
        index.refresh()
    make(path, "new")
    assert index.refresh() is True and list(index) == ["new"]
    index.close()
    with pytest.raises(LshdbError, match="is closed"):
        index.refresh()


def test_an_index_before_its_first_commit(tmp_path: Path) -> None:
    with Index.create(tmp_path / "x.lshdb", deferred=True) as index:
        assert index.refresh() is False
        index.add([("a", "one two three four five six seven")])
        assert index.refresh() is False

"""The commit protocol of datasets: writers that die anywhere, two writers, what vacuum removes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb import DamageError, DatabaseError, FormatError, IndexNotFoundError, LockedError
from lshdb.dataset import commits
from lshdb.dataset.commits import Change, Dataset, is_dataset, vacuum
from lshdb.dataset.dataset_tables import NAMES
from lshdb.dataset.table_files import NewFile, TableWriter
from lshdb.params.index_params import FORMAT

pytest.importorskip("deltalake")

INDEX = {"format": FORMAT, "next_doc_id": 0}
PARAMETERS = {"metric": "jaccard"}
CHANGED = ("releases", "clusters", "postings")
"""The tables that the changes of these tests write."""


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """A dataset with one commit, of number 0."""
    made = Dataset.create(str(tmp_path / "d"), index=INDEX, parameters=PARAMETERS)
    return change(made, 0).commit("add")


def new_file(dataset: Dataset, name: str, number: int) -> list[NewFile]:
    """Write a file whose one row has this number."""
    schema = dataset.schema(name)
    writer = TableWriter(Path(dataset.path) / name, schema)
    writer.write_rows([[number] * len(schema)])
    writer.close()
    return writer.files


def change(dataset: Dataset, number: int) -> Change:
    """A change that adds a row of this number to several tables."""
    return Change(dataset, new={name: new_file(dataset, name, number) for name in CHANGED})


def rows(dataset: Dataset) -> list[list[int]]:
    """The numbers in each table, as a reader sees them."""
    found = []
    for name in CHANGED:
        column = dataset.schema(name).names[0]
        found.append(sorted(dataset.table(name).to_pyarrow_table()[column].to_pylist()))
        from_files = [one.file.lows[column] for one in dataset.files(name)]
        assert sorted(from_files) == found[-1]
        assert dataset.commit.counts[name] == len(found[-1])
    return found


def seen(path: str) -> list[list[int]]:
    return rows(Dataset.open(path))


class Died(Exception):
    """The driver ended here."""


def dying_at(monkeypatch: pytest.MonkeyPatch, n: int) -> Callable[[], int]:
    """Let the n-th step of a commit fail: before even steps happen, after odd ones did."""
    done = 0

    def dying(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == n:
                raise Died
            result = step(*arguments, **options)
            done += 1
            if done == n:
                raise Died
            return result

        return run

    for name in ("_commit", "_append"):
        monkeypatch.setattr(commits, name, dying(getattr(commits, name)))
    return lambda: done


DEATHS = range(1, 2 * (len(CHANGED) + 1) + 1)
"""Before and after the commit of each table and of the whole."""


@pytest.mark.parametrize("n", DEATHS)
@pytest.mark.fast
def test_a_driver_that_dies_between_any_two_commits(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    gone = {name: {dataset.files(name)[0].file.path} for name in CHANGED[:2]}
    before = rows(dataset)
    dead = Change(dataset, new=change(dataset, 1).new, gone=gone)
    after = [[1], [1], [0, 1]]
    with monkeypatch.context() as patch:
        count = dying_at(patch, n)
        with pytest.raises(Died):
            dead.commit("add")
        assert count() == n
    is_there = n == max(DEATHS)
    assert seen(dataset.path) == (after if is_there else before)
    now = Dataset.open(dataset.path)
    change(now, 2).commit("add")
    expected = [sorted([*one, 2]) for one in (after if is_there else before)]
    assert seen(dataset.path) == expected
    # What the newest version of each table has is what is named: others may read that.
    now = Dataset.open(dataset.path)
    for name in CHANGED:
        newest = commits._table(f"{now.path}/{name}", {})
        assert newest.version() == now.commit.versions[name]
    removed = vacuum(now, retention_hours=0)
    assert seen(dataset.path) == expected
    files = {str(one) for one in Path(dataset.path).rglob("part-*.parquet")}
    named = {one.uri for name in NAMES for one in Dataset.open(dataset.path).files(name)}
    assert {one for one in files if "/commits/" not in one} == named
    assert len(removed) == (2 if is_there else 3)


def test_a_killed_process(dataset: Dataset) -> None:
    """As above, with nothing that could clean up."""
    script = (
        "import os, signal, sys\n"
        "from lshdb.dataset import commits\n"
        "from tests.dataset.test_commits import change\n"
        "append = commits._append\n"
        "commits._append = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)\n"
        "change(commits.Dataset.open(sys.argv[1]), 1).commit('add')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, dataset.path], cwd=Path(__file__).parents[2], timeout=60
    )
    assert ended.returncode == -signal.SIGKILL
    newest = commits._table(f"{dataset.path}/releases", {}).version()
    assert newest > dataset.commit.versions["releases"]
    assert seen(dataset.path) == [[0], [0], [0]]
    change(Dataset.open(dataset.path), 2).commit("add")
    assert seen(dataset.path) == [[0, 2], [0, 2], [0, 2]]


def test_the_first_of_two_writers_wins(dataset: Dataset) -> None:
    one, other = change(dataset, 1), change(dataset, 2)
    one.commit("add")
    with pytest.raises(LockedError, match="another writer has changed") as caught:
        other.commit("add")
    assert "repeat" in str(caught.value.hint)
    assert seen(dataset.path) == [[0, 1], [0, 1], [0, 1]]
    change(Dataset.open(dataset.path), 2).commit("add")
    assert seen(dataset.path) == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    vacuum(Dataset.open(dataset.path), retention_hours=0)
    assert seen(dataset.path) == [[0, 1, 2], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("n", DEATHS)
def test_a_second_writer_between_any_two_commits_of_the_first(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """Whoever wins, both tables and whole are of one writer, and the other knows."""
    first, second = change(dataset, 1), change(dataset, 2)
    outcomes: list[str] = []
    step = 0

    def interleaved(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal step
            step += 1
            if step == n:
                attempt(second)
            result = original(*arguments, **options)
            step += 1
            if step == n:
                attempt(second)
            return result

        return run

    def attempt(one: Change) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(commits, "_commit", real[0])
            patch.setattr(commits, "_append", real[1])
            try:
                one.commit("add")
            except LockedError:
                outcomes.append("refused")
            else:
                outcomes.append("committed")

    real = commits._commit, commits._append
    monkeypatch.setattr(commits, "_commit", interleaved(real[0]))
    monkeypatch.setattr(commits, "_append", interleaved(real[1]))
    try:
        first.commit("add")
    except LockedError:
        outcomes.append("refused")
    else:
        outcomes.append("committed")
    monkeypatch.undo()
    assert sorted(outcomes) == ["committed", "refused"]
    winner = 2 if outcomes[0] == "committed" else 1
    assert seen(dataset.path) == [[0, winner]] * 3
    change(Dataset.open(dataset.path), 3).commit("add")
    assert seen(dataset.path) == [[0, winner, 3]] * 3


def test_a_foreign_append_is_not_taken_over(dataset: Dataset) -> None:
    """A file that another program appends to a table is not part of the dataset."""
    import deltalake

    schema = dataset.schema("releases")
    table = commits.load_delta().DeltaTable(f"{dataset.path}/releases")
    deltalake.write_deltalake(
        table,
        __import__("pyarrow").table({name: [9] for name in schema.names}, schema=schema),
        mode="append",
    )
    assert seen(dataset.path) == [[0], [0], [0]]
    change(Dataset.open(dataset.path), 1).commit("add")
    assert seen(dataset.path) == [[0, 1], [0, 1], [0, 1]]


def test_vacuum_keeps_what_commits_of_the_last_hours_name(dataset: Dataset) -> None:
    path = dataset.files("releases")[0].file.path
    rewritten = Change(
        dataset, new={"releases": new_file(dataset, "releases", 5)}, gone={"releases": {path}}
    ).commit("compact")
    stray = Path(dataset.path) / "postings" / "part-never-committed.parquet"
    stray.write_bytes(b"")
    assert vacuum(rewritten, retention_hours=1) == []
    assert rows(dataset)[0] == [0] and rows(Dataset.open(dataset.path))[0] == [5]
    assert vacuum(Dataset.open(dataset.path), retention_hours=0) == [
        "postings/part-never-committed.parquet", f"releases/{path}"
    ]  # fmt: skip
    assert seen(dataset.path) == [[5], [0], [0]]
    assert not stray.exists()
    with pytest.raises(Exception, match="part-"):
        rows(dataset)


def test_vacuum_spares_what_a_dead_compaction_took_out(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has it that these files are gone, but readers use them."""
    path = dataset.files("releases")[0].file.path
    dead = Change(dataset, gone={"releases": {path}})
    with monkeypatch.context() as patch:
        dying_at(patch, 3)
        with pytest.raises(Died):
            dead.commit("compact")
    assert commits._table(f"{dataset.path}/releases", {}).file_uris() == []
    assert vacuum(Dataset.open(dataset.path), retention_hours=0) == []
    assert seen(dataset.path) == [[0], [0], [0]]
    assert len(commits._table(f"{dataset.path}/releases", {}).file_uris()) == 1


def test_vacuum_keeps_what_is_named_while_a_writer_takes_it_out(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with no retention: the log of the table is a version ahead of what readers use."""
    path = dataset.files("releases")[0].file.path
    commit = Change.commit

    def overtaken(one: Change, operation: str) -> Dataset:
        made = commit(one, operation)
        with monkeypatch.context() as patch:
            dying_at(patch, 3)
            with pytest.raises(Died):
                commit(Change(made, gone={"releases": {path}}), "compact")
        return made

    monkeypatch.setattr(Change, "commit", overtaken)
    assert vacuum(dataset, retention_hours=0) == []
    assert seen(dataset.path) == [[0], [0], [0]]


def test_checkpoints_of_the_log_change_nothing(dataset: Dataset) -> None:
    uri = f"{dataset.path}/releases"
    dataset = change(dataset, 1).commit("add")
    commits._table(uri, {}).create_checkpoint()
    assert seen(dataset.path) == [[0, 1]] * 3
    change(dataset, 2).commit("add")
    assert seen(dataset.path) == [[0, 1, 2]] * 3


def test_there_is_none(tmp_path: Path, dataset: Dataset) -> None:
    assert is_dataset(dataset.path)
    assert not is_dataset(str(tmp_path / "none"))
    with pytest.raises(IndexNotFoundError, match="there is no table") as caught:
        Dataset.open(str(tmp_path / "none"))
    assert caught.value.message.startswith(f"there is no dataset at {tmp_path / 'none'}: ")


@pytest.mark.parametrize(
    ("path", "stats", "said"),
    [
        ("../secret.parquet", {"numRecords": 1}, "outside of the table"),
        ("a/%2e%2e/%2E./secret.parquet", {"numRecords": 1}, "outside of the table"),
        ("/etc/secret.parquet", {"numRecords": 1}, "outside of the table"),
        ("file:///etc/secret.parquet", {"numRecords": 1}, "outside of the table"),
        ("s3://bucket/secret.parquet", {"numRecords": 1}, "outside of the table"),
        ("x.parquet", {"numRecords": 2**31}, "has 2,147,483,648 rows; 1 are committed"),
        ("x.parquet", {"numRecords": -1}, "does not say how many rows"),
        ("x.parquet", {}, "does not say how many rows"),
        ("x.parquet", {"numRecords": 1}, "without the range of release_id"),
    ],
)
def test_a_log_that_something_else_wrote_is_refused(
    dataset: Dataset, path: str, stats: dict[str, int], said: str
) -> None:
    version = dataset.commit.versions["releases"]
    log = Path(dataset.path) / "releases" / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"] |= {"path": path, "stats": json.dumps(stats)}
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    with pytest.raises(DamageError, match=said) as caught:
        Dataset.open(dataset.path).files("releases")
    assert f"{dataset.path}/releases" in caught.value.message


def test_a_disk_error_is_named(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(dataset.path) / "clusters" / "_delta_log"
    (folder / f"{dataset.commit.versions['clusters']:020d}.json").write_text("{")
    with pytest.raises(DatabaseError, match="clusters cannot be read or written"):
        change(dataset, 1).commit("add")
    assert os.path.isdir(dataset.path)


def test_a_dataset_of_an_index_of_format_1_is_refused(tmp_path: Path) -> None:
    made = Dataset.create(str(tmp_path / "d"), index={**INDEX, "format": 1}, parameters=PARAMETERS)
    with pytest.raises(FormatError, match="has format 1; this version reads format 2") as caught:
        change(made, 0).commit("add")
        Dataset.open(made.path)
    assert made.path in caught.value.message
    assert "lshdb add" in str(caught.value.hint)


@pytest.mark.parametrize(
    "values",
    [{"counts": "7"}, {"counts": "{}"}, {"parameters": "[]"}, {"index": "null"},
     {"batches_version": 2**62}, {"edges_version": float("inf")}],
)  # fmt: skip
def test_a_commit_with_foreign_values_is_damage(dataset: Dataset, values: dict[str, Any]) -> None:
    """deltalake would count up to a version of that number."""
    row = dataset.commit.row()
    assert commits.Commit.of_row(row, "d") == dataset.commit
    with pytest.raises(DamageError, match="missing or invalid entries"):
        commits.Commit.of_row(row | values, "d")

"""Commands that write files: killed at any call, or by a power loss, nothing is half there.

A file is what it was or what it is to be, and a folder that a command makes is there whole or not
at all. A cursor moves only when the answer is safe. The same command again comes to the same end.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lshdb import Index
from tests.conftest import family_corpus
from tests.fault.power_loss import Disk, materialise, read_log
from tests.fault.writer import (
    CHANGING,
    KILL_AFTER,
    KILL_BEFORE,
    MARK,
    PASS,
    Outcome,
    WriterProcess,
)

Files = dict[str, bytes]
WAYS = (KILL_BEFORE, KILL_AFTER)  # no kill leaves half of a write below a page


@dataclass(frozen=True)
class Job:
    """A command, run in a folder with ``x.lshdb``, ``y.lshdb``, ``in/`` and ``old.*``.

    Attributes
    ----------
    command : str
        Words; names of files are those in the folder.
    outputs : tuple of str
        The files and folders that it writes, but for the index.
    is_whole : bool
        Whether all outputs are there or none.
    again : str
        What to add when it is run once more, if outputs are there.
    """

    command: str
    outputs: tuple[str, ...] = ()
    is_whole: bool = True
    again: str = ""


JOBS = {
    "pairs": Job("pairs x.lshdb --since @c --advance -o old.tsv", ("old.tsv",)),
    "pairs of files": Job("pairs in/a.jsonl in/b.jsonl --threshold 0.5 -o n.csv", ("n.csv",)),
    "clusters": Job("clusters x.lshdb --since @c --advance -o n.jsonl", ("n.jsonl",)),
    "neighbors": Job("neighbors x.lshdb -o old.csv", ("old.csv",)),
    "join": Job("join x.lshdb y.lshdb -o n.tsv", ("n.tsv",)),
    "dedup a file": Job("dedup x.lshdb in/a.jsonl -o n.jsonl", ("n.jsonl",), again="--overwrite"),
    "dedup over a file": Job("dedup x.lshdb in/a.jsonl -o old.jsonl --overwrite", ("old.jsonl",)),
    "dedup a folder": Job("dedup x.lshdb d -o out/", ("out",), False, "--overwrite"),
    "dedup without index": Job(
        "dedup in -o out/ --threshold 0.5 --decisions old.csv", ("out", "old.csv"), False,
        "--overwrite",
    ),
    "dedup Parquet": Job(
        "dedup x.lshdb p/a.parquet -o n.parquet", ("n.parquet",), again="--overwrite"
    ),
    "decisions": Job("dedup x.lshdb --decisions old.csv", ("old.csv",)),
    "merge": Job("merge x.lshdb y.lshdb"),
    "add": Job("add x.lshdb in/b.jsonl in/c.jsonl --night monday"),
    "add with pairs": Job("add x.lshdb in/b.jsonl --pairs @c --advance -o n.tsv", ("n.tsv",)),
    "reindex": Job("reindex x.lshdb z.lshdb --k 2", ("z.lshdb",)),
    "export": Job("export x.lshdb -o out", ("out",)),
    "export to Parquet": Job("export x.lshdb -o out --format parquet", ("out",)),
    "export to Delta": Job("export x.lshdb -o out --format delta", ("out",)),
    "report into a folder": Job("report x.lshdb -o out/", ("out",), again="--overwrite"),
    "report over a folder": Job("report x.lshdb -o old/ --overwrite", ("old",)),
    "tune": Job("tune x.lshdb --labels labels.tsv -o old.jsonl", ("old.jsonl",)),
    "import": Job("import exported z.lshdb", ("z.lshdb",)),
    "copy": Job("copy x.lshdb z.lshdb", ("z.lshdb",)),
}  # fmt: skip
ORDINARY = ("pairs", "dedup a folder", "report over a folder")


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which each job begins."""
    root = tmp_path_factory.mktemp("start") / "root"
    for folder in ("in", "p", "d", "old"):
        (root / folder).mkdir(parents=True)
    corpora = [family_corpus(seed, families=2, size=3) for seed in (7, 8, 7)]
    for name, corpus in zip("abc", corpora, strict=True):
        rows = [{"id": f"{name}{key}", "text": text} for key, text in corpus]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (root / "in" / f"{name}.jsonl").write_text(lines)
        if name == "a":
            for number in (0, 1):
                half = lines.splitlines(keepends=True)[number::2]
                (root / "d" / f"{number}.jsonl").write_text("".join(half))
        pq.write_table(pa.Table.from_pylist(rows), root / "p" / f"{name}.parquet")
    for name in ("old.tsv", "old.csv", "old.jsonl"):
        (root / name).write_text("what was here before\n")
    with Index.create(root / "x.lshdb", threshold=0.5, k=2) as index:
        index.add([(f"a{key}", text) for key, text in corpora[0][:4]])
        index.advance("c", index.batches()[-1].batch_id)
        index.report(root / "old", overwrite=True)
        index.add([(f"a{key}", text) for key, text in corpora[0][4:]])
        index.export(root / "exported")
        keys = [key for (key,) in index.sql("SELECT key FROM document ORDER BY doc_id").rows]
    (root / "labels.tsv").write_text(f"{keys[0]}\t{keys[1]}\tyes\n{keys[0]}\t{keys[-1]}\tno\n")
    with Index.create(root / "y.lshdb", threshold=0.5, k=2) as index:
        index.add([(f"c{key}", text) for key, text in corpora[1]])
    return root


def run(job: Job, writer: WriterProcess, root: Path, *more: str, **task: Any) -> Outcome:
    """Run the command in a folder."""
    places = {path.name for path in root.iterdir()} | {*job.outputs}
    first, *rest = job.command.split()
    paths = [f"{root}/{word}" if word.partition("/")[0] in places else word for word in rest]
    return writer.run(root / "x.lshdb", None, command=[first, *paths, *more], **task)


def files_of(root: Path, job: Job) -> Files:
    """What the outputs hold; of an index its keys, and of pages and exports that they are whole."""
    files: Files = {}
    for output in job.outputs:
        place = root / output
        if place.suffix == ".lshdb" and place.exists():
            files[output] = repr(keys_of(place)).encode()
            continue
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                content = path.read_bytes()
                name = str(path.relative_to(root))
                if job.command.startswith("export"):  # names of their own, and times
                    if path.name == "lock":  # taken away last; nobody reads it
                        continue
                    name = re.sub(r"[0-9a-f]{8}[0-9a-f-]+", "ID", name)
                    content = content[-4:]
                elif job.command.startswith("report"):  # times
                    content = repr(sorted({*re.findall(rb"af00\S-\w+|</html>", content)})).encode()
                files[name] = content
    return files


def keys_of(path: Path) -> list[str]:
    """The keys of an index that is sound."""
    with Index.open(path) as index:
        assert index.check() == []
        return [key for (key,) in index.sql("SELECT key FROM document ORDER BY key").rows]


@dataclass(frozen=True)
class State:
    """The outputs, the keys of the index, and its cursors."""

    files: Files
    keys: list[str]
    cursors: list[tuple[str, int]]

    @classmethod
    def of(cls, root: Path, job: Job) -> State:
        with Index.open(root / "x.lshdb") as index:
            cursors = [(cursor.name, cursor.batch_id) for cursor in index.cursors()]
        return cls(files_of(root, job), keys_of(root / "x.lshdb"), cursors)


def judge(
    job: Job, before: State, after: State, root: Path, writer: WriterProcess, *, repeats: bool
) -> None:
    """Is the folder what it may be after a fault, and does the command come to its end then?"""
    now = State.of(root, job)
    assert {*before.keys} <= {*now.keys} <= {*after.keys}
    assert now.cursors in (before.cursors, after.cursors)
    if job.is_whole:
        assert now.files in (before.files, after.files), f"half there: {[*now.files]}"
    for name in before.files.keys() | after.files.keys() | now.files.keys():
        allowed = (before.files.get(name), after.files.get(name))
        assert now.files.get(name) in allowed, f"{name} is half there"
    if now.cursors != before.cursors:
        assert now.files == after.files, "the cursor moved, and the answer is not there"
    elif now.files != after.files and repeats:
        more = [job.again] if job.again and now.files != before.files else []
        again = run(job, writer, root, *more)
        assert again.result.get("code") == 0, again.result
        then = State.of(root, job)
        assert (then.files, then.keys) == (after.files, after.keys)
        # documents that came in before count as seen again, in a batch of their own
        assert then.cursors == after.cursors or job.command.startswith("add")
        names = {path.name for path in root.iterdir()}
        assert not {name for name in names if name.startswith(".")}, "something is left aside"


def undisturbed(
    job: Job, writer: WriterProcess, root: Path, **task: Any
) -> tuple[State, State, int]:
    """The states before and after a job, and how many calls it makes."""
    before = State.of(root, job)
    counting = {"action": PASS, "kinds": CHANGING, "nth": 0}
    ran = run(job, writer, root, fault=counting, **task)
    assert ran.result.get("code") == 0, ran.result
    after = State.of(root, job)
    assert after != before
    return before, after, ran.result["count"]


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.long(when=lambda name: name not in ORDINARY)
def test_a_command_that_writes_files_is_killed(
    name: str, writer: WriterProcess, start: Path, tmp_path: Path, is_long: bool
) -> None:
    job, root = JOBS[name], tmp_path / "root"
    shutil.copytree(start, root)
    before, after, calls = undisturbed(job, writer, root)
    rng = random.Random(name)
    for nth in range(1, calls + 1, 1 if is_long else 1 + calls // 2):
        shutil.rmtree(root)
        shutil.copytree(start, root)
        way = rng.choice(WAYS)
        killed = run(job, writer, root, fault={"action": way, "kinds": CHANGING, "nth": nth})
        assert killed.outcome == "killed", (nth, killed.result)
        try:
            judge(job, before, after, root, writer, repeats=True)
        except Exception as error:
            raise AssertionError(f"killed at call {nth} of {calls}, way {way}: {error}") from error


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.long(when=lambda name: name not in ORDINARY)
def test_power_is_lost_while_a_command_writes_files(
    name: str, writer: WriterProcess, start: Path, tmp_path: Path, is_long: bool
) -> None:
    job, root, log, held = JOBS[name], tmp_path / "root", tmp_path / "log", tmp_path / "held"
    shutil.copytree(start, root)
    before, disk = State.of(root, job), Disk(root)
    before, after, _ = undisturbed(job, writer, root, log=str(log))
    calls = [call for call in read_log(log) if call.kind != MARK]
    step = 1 if is_long else 1 + len(calls) // 2
    for number, call in enumerate(calls, 1):
        disk.apply(call)
        is_end = number == len(calls)
        trials = (0.0,) if is_end else (0.5, 0.0, 1.0, 0.5, 0.5) if is_long else (0.5,)
        for trial, most in enumerate(trials if is_end or number % step == 0 else ()):
            shutil.rmtree(held, ignore_errors=True)
            held.mkdir()
            materialise(disk.crashed(random.Random(f"{name} {number} {trial}"), most), held)
            try:
                judge(job, before, after, held, writer, repeats=number % 3 == 0)
                if is_end:
                    assert State.of(held, job) == after, "acknowledged, and not durable"
            except Exception as error:
                raise AssertionError(f"after call {number}, trial {trial}: {error}") from error

"""The fuzzing of the readers runs for a moment, and notices a reader that is wrong."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lshdb import DamageError, Index, LshdbError, Rejected, read_documents
from tests.conftest import family_corpus
from tests.fuzz_readers import fuzz, made
from tests.fuzz_targets import TARGETS, Fuzzer

Make = Callable[..., Index]
ROOT = Path(__file__).parents[2]


def test_a_moment_of_every_target() -> None:
    said, command = fuzz([*TARGETS], seed=2, seconds=1)
    assert not command, f"{said}\nagain: {command}"


def test_a_case_is_the_same_again(tmp_path: Path) -> None:
    """Also one of an index, although that is made anew, with a uuid and times."""

    def cases(folder: Path) -> list[bytes]:
        folder.mkdir()
        fuzzer = Fuzzer(folder)
        return [made(fuzzer, target, 5, number) for target in TARGETS for number in range(9)]

    once = cases(tmp_path / "one")
    assert len({*once}) > 40
    assert cases(tmp_path / "two") == once


def test_what_is_wrong_is_reported_with_a_command(tmp_path: Path) -> None:
    """In a copy of the package whose reader of JSON Lines lets an error out."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from lshdb.documents.formats import json_text\n"
        "json_text._not_json = lambda *given: 1 / 0\n"
        "import runpy\n"
        f"sys.argv[0] = {str(ROOT / 'tests' / 'fuzz_readers.py')!r}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    arguments = ["--target", "documents", "--seconds", "20", "--child", str(tmp_path / "journal")]
    done = subprocess.run(
        [sys.executable, wrong, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode != 0 and "ZeroDivisionError" in done.stderr
    target, number = (tmp_path / "journal").read_text().split()
    again = shlex.split(f"--target {target} --seed 1 --case {number}")
    done = subprocess.run(
        [sys.executable, wrong, *again], capture_output=True, text=True, check=False, timeout=600
    )
    assert "ZeroDivisionError" in done.stderr


# What it found, by the first place where it came up

CORPUS = family_corpus(7, families=6)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.lshdb"
    with Index.create(path, k=2) as index:
        index.add(CORPUS)
        list(index.clusters())
        index.add([(CORPUS[0][0], "something else that it says now")])
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE parameter SET name = x'00ff' WHERE name = 'seed'",
        "UPDATE alembic_version SET version_num = x'00ff'",
        "UPDATE state SET n_signatures = x'00ff'",
        "UPDATE state SET n_signatures = 1.5",
        "UPDATE state SET n_signatures = 9223372036854775807",
        "UPDATE state SET signature_file = x'00ff'",
        "UPDATE state SET next_doc_id = 'x'",
        "DELETE FROM state",
        "UPDATE state SET state_id = 6705428816710886950, checksum = 0",
        "UPDATE signature_block SET n_rows = 9223372036854775807",
        "UPDATE signature_block SET n_rows = 1000000000000",
        "UPDATE signature_block SET first_row = 9223372036854775807",
        "UPDATE signature_block SET first_row = -9223372036854775807",
        "UPDATE document SET signature_id = 1000000",
        "UPDATE document SET signature_id = 'x'",
        "UPDATE document SET key = x'00ff' WHERE doc_id = 1",
        "UPDATE document SET batch_id = 'x'",
        "UPDATE content SET form = x'00'",
        "UPDATE content SET body = 'x'",
        "UPDATE content SET body = 1.5",
        "UPDATE content SET body = x'789c'",
        "UPDATE batch SET started_at = 9e999",
        "UPDATE band SET b0 = 'x' WHERE signature_id = 3",
        "UPDATE band SET b1 = x'00ff' WHERE signature_id = 3",
        "UPDATE band SET b2 = 9223372036854775807 WHERE signature_id = 3",
        "UPDATE band SET b0 = NULL WHERE signature_id = 3",
        "UPDATE band SET b1 = 1.5 WHERE signature_id = 3",
        "UPDATE band SET signature_id = -1 WHERE signature_id = 3",
        "UPDATE edge SET similarity = 'x'",
        "UPDATE edge SET signature2 = 9223372036854775807",
        "UPDATE edge_state SET threshold = 'x'",
        "UPDATE edge_state SET batch_id = x'00ff'",
        "UPDATE cluster_member SET label = 'x'",
        "UPDATE cluster_member SET signature_id = 100000 WHERE signature_id = 0",
        "UPDATE signature_release SET signature_id = 1000000",
    ],
)
def test_rows_of_other_values(statement: str, sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.lshdb"
    shutil.copytree(sound, path)
    database = sqlite3.connect(path / "index.db", isolation_level=None)
    database.execute("PRAGMA ignore_check_constraints=ON")
    database.execute(statement.replace("UPDATE", "UPDATE OR REPLACE"))
    database.close()
    questions: list[Callable[[Index], object]] = [
        lambda index: index.query(CORPUS[3][1]),
        lambda index: list(index.pairs()),
        lambda index: list(index.clusters()),
        lambda index: list(index.dedup(keep="longest")),
        lambda index: list(index.neighbors()),
        lambda index: index.stats(max_bucket=3),
        lambda index: index.batches(),
        lambda index: index.show(CORPUS[1][0]),
        lambda index: index.check(),
        lambda index: index.add([("new", "words that are new"), CORPUS[1]]),
        lambda index: index.remove([CORPUS[2][0]]),
    ]
    for question in questions:
        try:
            with Index.open(path) as index:
                question(index)
        except LshdbError as error:
            assert error.message


def test_an_error_that_no_damage_is_behind_stays_what_it_is(
    make_index: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of ours is called damage if there is some; one of the caller's own never is."""
    index = make_index()
    index.add([("a", "one two three four five six")])

    def broken() -> object:
        yield "q", "one two three four five six"
        raise ZeroDivisionError("of the caller's own")

    def wrong(*_: object, **__: object) -> object:
        raise ZeroDivisionError("of ours")

    with monkeypatch.context() as patched:
        patched.setattr("lshdb.search.query.Searcher._candidates", wrong)
        with pytest.raises(ZeroDivisionError, match="of ours"):
            index.query("one two three four five six")
    database = sqlite3.connect(index.path / "index.db", isolation_level=None)
    database.execute("UPDATE document SET n_chars = 'x'")
    database.close()
    with pytest.raises(ZeroDivisionError, match="of the caller's own"):
        list(index.query_many(broken()))  # type: ignore[arg-type]
    with monkeypatch.context() as patched:
        patched.setattr("lshdb.search.query.Searcher._candidates", wrong)
        with pytest.raises(DamageError, match=r"column n_chars of the table document") as caught:
            index.query("one two three four five six")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    database = sqlite3.connect(index.path / "index.db", isolation_level=None)
    database.execute("UPDATE document SET n_chars = 27")
    database.close()


def test_a_host_is_printable_in_a_rejection(tmp_path: Path) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("http://h.\x17om/a\nhttp://h.\x17om/b\n")
    (rejected,) = read_documents([path], input_format="urls", max_document_bytes=20)
    assert isinstance(rejected, Rejected) and rejected.reason.isprintable()
    assert "h.\\x17om" in rejected.reason


def test_a_header_of_an_export_that_is_no_python(sound: Path, tmp_path: Path) -> None:
    with Index.open(sound) as index:
        index.export(tmp_path / "export")
    file, manifest = (tmp_path / "export" / name for name in ("signatures.npy", "index.json"))
    content = file.read_bytes().replace(b"}   ", b"} \x10)", 1)
    file.write_bytes(content)
    said = json.loads(manifest.read_bytes())
    said["files"][file.name]["blake2b"] = hashlib.blake2b(content, digest_size=32).hexdigest()
    manifest.write_text(json.dumps(said))
    with pytest.raises(DamageError, match=r"not a readable \.npy file"):
        Index.from_export(tmp_path / "export", tmp_path / "made.lshdb")

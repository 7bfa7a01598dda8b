"""``lshdb check`` and ``lshdb upgrade``, on sound indexes and on damaged ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lshdb import Index
from tests.cli.conftest import Run
from tests.golden.test_indexes import OLD, unpack
from tests.raw import change, rows_of


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def test_a_sound_index_has_no_findings(run: Run, index_path: Path) -> None:
    result = run("check", index_path)
    assert (result.stdout, result.stderr) == ("", "no findings\n")


def test_a_flipped_bit_is_found(run: Run, index_path: Path) -> None:
    flip(index_path / "signatures.npy", -3)
    result = run("check", index_path, code=4)
    kind, where, what, affected, advice = result.stdout.splitlines()[0].split("\t")
    assert kind == "signatures" and where.startswith("signatures.npy, rows 0 to ")
    assert "bytes 128 to " in where and "CRC-32" in what
    assert re.match(r"\d+ documents: ", affected) and "--repair" in advice
    n_findings = len(result.stdout.splitlines())
    assert result.stderr == f"{n_findings} finding{'s' * (n_findings > 1)}\n"


def test_findings_as_json_lines(run: Run, index_path: Path) -> None:
    flip(index_path / "signatures.npy", -3)
    for options in ((), ("--quick",)):
        result = run("check", index_path, *options, "--format", "jsonl", code=4)
        finding = json.loads(result.stdout.splitlines()[0])
        assert list(finding) == ["kind", "where", "what", "affected", "advice"]
        assert finding["kind"] == "signatures"


def test_a_quick_check_says_how_far_it_looked(run: Run, index_path: Path) -> None:
    result = run("check", index_path, "--quick")
    assert (result.stdout, result.stderr) == ("", "no findings in headers and counts\n")


def test_what_is_no_damage_is_a_note(run: Run, index_path: Path) -> None:
    (index_path / "left.tmp").touch()
    result = run("check", index_path)
    assert result.stdout == "" and "note: " in result.stderr
    assert "left.tmp is not a file of the index" in result.stderr


def test_a_table_has_each_advice_once(run: Run, index_path: Path) -> None:
    flip(index_path / "signatures.npy", -3)
    result = run("check", index_path, "--format", "table", code=4)
    assert result.stdout.split()[:3] == ["kind", "affected", "found"]
    assert result.stderr.count("hint (signatures): run lshdb check --repair") == 1


def test_findings_are_folded_in_a_table(run: Run, index_path: Path, monkeypatch: object) -> None:
    flip(index_path / "signatures.npy", -3)
    monkeypatch.setenv("COLUMNS", "60")  # type: ignore[attr-defined]
    out = run("check", index_path, "--format", "table", code=4).stdout
    assert max(map(len, out.splitlines())) <= 60
    assert "expected" in " ".join(out.split())


def test_a_short_signature_file_is_damage_for_every_question(run: Run, index_path: Path) -> None:
    path = index_path / "signatures.npy"
    path.write_bytes(path.read_bytes()[:-600])
    for command in (("stats",), ("pairs",), ("query", "--text", "a"), ("check",)):
        result = run(command[0], index_path, *command[1:], code=4)
        assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr


def test_upgrade_of_a_current_index(run: Run, index_path: Path) -> None:
    assert "the schema is current: revision 0" in run("upgrade", index_path).stderr


def test_an_index_of_the_future(run: Run, index_path: Path) -> None:
    change(index_path, "UPDATE alembic_version SET version_num = '9999'")
    for command in (("stats",), ("upgrade",), ("pairs",)):
        result = run(*command, index_path, code=1)
        assert "9999" in result.stderr and "newer lshdb" in result.stderr


@pytest.mark.parametrize("revision", ["'0000'", "'x'", "''", "-9223372036854775808"])
def test_a_revision_that_is_none_is_damage(run: Run, index_path: Path, revision: str) -> None:
    change(index_path, f"UPDATE alembic_version SET version_num = {revision}")
    for command in (("stats",), ("upgrade",), ("pairs",)):
        assert "which no lshdb has written" in run(*command, index_path, code=4).stderr


def test_upgrade_says_from_where_to_where(run: Run, index_path: Path, monkeypatch: object) -> None:
    monkeypatch.setattr(  # type: ignore[attr-defined]
        "lshdb.Index.upgrade", lambda path, **options: ("0001", "0002")
    )
    out = run("upgrade", index_path).stderr
    assert out == "upgraded the schema from revision 0001 to 0002\n"


def test_nothing_to_upgrade(run: Run, tmp_path: Path) -> None:
    assert "there is no index" in run("upgrade", tmp_path / "absent", code=1).stderr


def test_repair_of_a_sound_index(run: Run, index_path: Path) -> None:
    result = run("check", index_path, "--repair")
    assert (result.stdout, result.stderr) == ("", "no findings; nothing was changed\n")


def test_repair_makes_signatures_again(run: Run, index_path: Path) -> None:
    flip(index_path / "signatures.npy", -3)
    result = run("check", index_path, "--repair")
    assert result.stdout.startswith("signatures\t")
    assert re.search(r"repaired: \d+ documents in the index, all proved", result.stderr)
    assert re.search(r"\d+ signatures made again from stored texts", result.stderr)
    assert run("check", index_path).stderr == "no findings\n"


def test_repair_names_what_is_lost(run: Run, index_path: Path) -> None:
    ((key,),) = rows_of(index_path, "SELECT key FROM document WHERE doc_id = 2")
    change(index_path, "UPDATE document SET source = 'x' WHERE doc_id = 2")
    change(index_path, "UPDATE batch SET n_rejected = 5 WHERE batch_id = 1")
    result = run("check", index_path, "--repair", code=4)
    assert f"lost: 1 document: {key}\n" in result.stderr
    assert "figures of batch 1 were worked out from the documents and may be wrong" in result.stderr
    assert ".quarantine-" in result.stderr
    assert run("check", index_path).stderr == "no findings\n"
    (file,) = index_path.parent.glob("*.quarantine-*.jsonl")
    assert run("add", index_path, file).exit_code == 0
    assert run("show", index_path, key).exit_code == 0


def test_repair_says_that_kept_fields_are_lost(run: Run, tmp_path: Path) -> None:
    path, source = tmp_path / "kept.lshdb", tmp_path / "d.jsonl"
    source.write_text('{"id": "a", "text": "some words", "date": "2026-11-22"}\n')
    run("add", path, source, "--keep-fields", "date")
    change(path, "UPDATE kept_field SET fields = ?", '{"date":"2026-11-23"}')
    result = run("check", path, "--repair", code=4)
    assert "repaired: 1 document in the index, all proved\n" in result.stderr
    assert "lost: kept fields that are not proved\n" in result.stderr
    assert "what is known of what was lost is in " in result.stderr


def test_repair_is_not_quick(run: Run, index_path: Path) -> None:
    assert "leave out --quick" in run("check", index_path, "--quick", "--repair", code=2).stderr


@pytest.mark.parametrize("command", ["add", "query", "pairs", "stats", "check", "upgrade", "merge"])
def test_an_index_of_format_1_is_refused(command: str, tmp_path: Path, run: Run) -> None:
    path = unpack(OLD[0], tmp_path)
    Index.create(tmp_path / "new.lshdb").close()
    (tmp_path / "a.txt").write_text("one two three")
    rest = {
        "add": [str(tmp_path / "a.txt")],
        "query": ["--text", "a"],
        "merge": [str(tmp_path / "new.lshdb")],
    }
    result = run(command, path, *rest.get(command, []), code=1)
    assert not result.stdout
    assert (
        "format 1 and schema" if command == "upgrade" else "format 1; this version reads format 2"
    ) in result.stderr
    assert (
        "lshdb add" if command == "upgrade" else "lshdb upgrade"
    ) in result.stderr and "Traceback" not in result.stderr

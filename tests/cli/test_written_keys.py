"""Whatever a command writes as a key, every command reads as that key."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lshdb import Index, InputError, read_documents, read_labels
from lshdb.cli._cells import tsv_line
from lshdb.documents.written_keys import unescaped
from tests.cli.conftest import MODULE, Run, environment

TEXT = "One text that all of them have, but for a word or so at the end of the line, which is {}"
KEYS = [
    "plain", "a\tb", "a\nb", "a\rb", "a\r\nb", "end\n", "\nbegin", "C:\\new", "C:\\\\new", "C:\new",
    "C:\\table\\rows", "\\", "\\\\", "\\t", "\\n", "end\\", "back\\\\slash", "\x0b", "a\x1cb",
    "\x0c", "a\x85b", "a\u2028b", "a\u2029b", "\ufeffmark", " blank ", '"quoted"', "'", "a,b",
    '{"key": "x"}', "#hash", "日本語", "é", "e\u0301", "-", "-q",
]  # fmt: skip


@pytest.fixture
def index_path(tmp_path: Path) -> Path:
    path = tmp_path / "x.lshdb"
    with Index.create(path, threshold=0.5) as index:
        index.add([(key, TEXT.format(number)) for number, key in enumerate(["kept", *KEYS])])
    return path


def shell(command: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    line = f'lshdb() {{ {shlex.join(MODULE)} "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        env=environment(), capture_output=True, check=False, **how,
    )  # fmt: skip


@pytest.mark.parametrize(
    "pipe",
    [
        "dedup {x} -q --keep first --only drop | cut -f1 | lshdb remove {x} -",
        "dedup {x} -q --keep first --only drop --format jsonl | lshdb remove {x} - --input jsonl",
        "sql {x} \"SELECT key FROM document WHERE key <> 'kept'\" | lshdb remove {x} -",
    ],
)
def test_what_dedup_drops_is_removed(index_path: Path, pipe: str) -> None:
    done = shell("lshdb " + pipe.format(x=index_path))
    assert done.returncode == 0, done.stderr.decode()
    assert f"{len(KEYS)} removed" in done.stderr.decode()
    with Index.open(index_path) as index:
        assert list(index) == ["kept"]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_removed_and_no_other(index_path: Path, run: Run, key: str) -> None:
    as_json = (("jsonl", json.dumps(key)), ("jsonl", json.dumps({"key": key})))
    for form, line in (("tsv", tsv_line([key])), *as_json):
        before = set(Index.open(index_path))
        done = run("remove", index_path, "-", "--input", form, stdin=line.encode() + b"\n")
        assert "1 removed" in done.stderr
        with Index.open(index_path) as index:
            assert before - set(index) == {key}
            index.add([(key, TEXT.format("again"))])


def test_lines_are_keys_as_they_stand(index_path: Path, run: Run) -> None:
    done = run("remove", index_path, "-", "--input", "lines", stdin=b"C:\\new\r\n\\t\n\n")
    assert "2 removed" in done.stderr
    left = set(Index.open(index_path))
    assert not left & {"C:\\new", "\\t"} and left >= {"C:\\\\new", "C:\new"}


@pytest.mark.parametrize(
    ("form", "line", "reason"),
    [
        ("tsv", b"C:\\docs\\x", "line 2 of standard input: \\d is no escape"),
        ("tsv", b"end\\", "line 2 of standard input: \\ is no escape"),
        ("tsv", b"C:\\docs\\x", "or give --input lines"),
        ("tsv", b"a\tdrop\tb", "it has several cells; give keys alone"),
        ("tsv", b"\xff", "is not valid UTF-8 at byte 1"),
        ("jsonl", b"\xff", "no JSON string"), ("jsonl", b"plain", "no JSON string"),
        ("jsonl", b'{"key1": "a"}', "no JSON string"), ("jsonl", b"17", "no JSON string"),
        ("jsonl", b'{"key": "plain", "decision": "keep"}', "a document that is kept"),
        ("jsonl", b'{"key":"plain","decision":"keep"}', "a document that is kept"),
        ("tsv", b"x" * 100_000, "is longer than any key"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_key_removes_nothing(
    index_path: Path, run: Run, form: str, line: bytes, reason: str
) -> None:
    text = {"tsv": b"plain\n", "jsonl": b'"plain"\n'}[form] + line + b"\n"
    done = run("remove", index_path, "-", "--input", form, stdin=text, code=2)
    assert reason in " ".join(done.stderr.split())
    with Index.open(index_path) as index:
        assert len(index) == len(KEYS) + 1


@pytest.mark.parametrize("key", ["a\tb", "a\nb", "C:\\table\\rows", "end\\"])
def test_an_argument_may_be_copied_from_a_listing(index_path: Path, run: Run, key: str) -> None:
    for name in (key, tsv_line([key])):
        shown = run("show", index_path, name, "--format", "jsonl")
        assert json.loads(shown.stdout)["key"] == key
        found = run("query", index_path, "--key", name, "--top", 1, "--format", "jsonl")
        assert json.loads(found.stdout)["similarity"] > 0.5
        done = run("explain", index_path, name, "kept", "--format", "jsonl")
        assert json.loads(done.stdout)["key1"] == key


def test_an_argument_is_first_a_key_as_it_stands(index_path: Path, run: Run) -> None:
    for key in ("C:\\new", "C:\\\\new", "\\\\", "\\"):
        assert json.loads(run("show", index_path, key, "--format", "jsonl").stdout)["key"] == key
    run("show", index_path, "C:\\docs", code=1)
    assert "0 removed" in run("remove", index_path, "a\\tb", code=1).stderr


@pytest.mark.parametrize("name", ["keys.tsv", "keys", "k.txt.gz", "k.jsonl", "k.ndjson.gz"])
def test_keys_beside_vectors(tmp_path: Path, name: str) -> None:
    keys = [key for key in KEYS if key.strip()]
    np.save(tmp_path / "v.npy", np.eye(len(keys), 40, dtype=np.float32))
    is_json = ".jsonl" in name or ".ndjson" in name
    lines = [json.dumps(key) if is_json else tsv_line([key]) for key in keys]
    data = ("\n".join(lines) + "\n").encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    documents = list(read_documents([tmp_path / "v.npy"], keys=tmp_path / name))
    assert [document.key for document in documents] == keys


def test_a_key_beside_a_vector_that_no_listing_writes_is_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.eye(3, 4, dtype=np.float32))
    (tmp_path / "keys").write_text("a\nC:\\docs\nc\n")
    one, other, third = read_documents([tmp_path / "v.npy"], keys=tmp_path / "keys")
    assert (one.key, third.key) == ("a", "c") and "\\d is no escape" in other.reason


def test_labels(tmp_path: Path) -> None:
    file = tmp_path / "labels.tsv"
    pairs = [(key, other) for key in KEYS for other in KEYS[::-1]]
    file.write_bytes("".join(tsv_line([*pair, "yes"]) + "\n" for pair in pairs).encode())
    assert read_labels(file) == [(*pair, True) for pair in pairs]
    file.write_text("a\tb\tno\nC:\\docs\tb\tyes\n")
    with pytest.raises(InputError, match=r"labels.tsv:2: \\d is no escape"):
        read_labels(file)


def test_links(tmp_path: Path, index_path: Path, run: Run) -> None:
    """What contract writes, it reads again."""
    links = tmp_path / "links.tsv"
    lines = [tsv_line([key, f"to {key}"]) for key in KEYS]
    links.write_bytes(("\n".join([*lines, "C:\\docs\tx"]) + "\n").encode())
    folded = run("contract", index_path, links, "--threshold", 1, code=5)
    assert "source: \\d is no escape" in folded.stderr
    links.write_bytes(folded.stdout.encode())
    again = run("contract", index_path, links, "--threshold", 1)
    assert again.stdout == folded.stdout
    targets = {unescaped(line.split("\t")[1]) for line in folded.stdout.split("\n") if line}
    assert targets >= {"to C:\\new", "to C:\\\\new", "to C:\new"}


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from("\\tnr\t\n\rax\x0b\u2028"), max_size=12))
def test_any_key_goes_round(key: str) -> None:
    cell = tsv_line([key])
    assert not {"\t", "\n", "\r"} & set(cell) and unescaped(cell) == key

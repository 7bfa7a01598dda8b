"""Every command, once, on either database: the same output, exit code and files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import click.testing
import pytest

from lshdb.cli._group import COMMANDS, cli
from tests.conftest import family_corpus
from tests.contract.conftest import Both, Place, plain

CORPUS = family_corpus(6, families=4)
QUERY = CORPUS[0][1]
# ``+`` is where a new index says where its database is to be.
SESSION: list[list[str]] = [
    ["init", "a", "--threshold", "0.5", "+"],
    ["init", "a", "+"],
    ["add", "a", "first.jsonl"],
    ["add", "a", "second.csv", "--on-conflict", "skip"],
    ["add", "b", "second.csv", "--threshold", "0.5", "+"],
    ["batches", "a"],
    ["query", "a", "--text", QUERY],
    ["query", "a", "--key", "f001-0", "--verify", "signature", "--format", "jsonl"],
    ["query", "a", "second.csv", "--top", "2", "--verify", "none"],
    ["pairs", "a"],
    ["pairs", "a", "--since", "last", "--verify", "exact", "--format", "jsonl"],
    ["pairs", "a", "--max-bucket", "3", "--format", "table"],
    ["clusters", "a", "--format", "table"],
    ["clusters", "a", "--min-size", "3", "--linkage", "representative"],
    ["dedup", "a", "--keep", "longest"],
    ["dedup", "a", "--filter", "first.jsonl"],
    ["dedup", "a", "--against", "--since", "2", "--only", "drop"],
    ["neighbors", "a", "--top", "2"],
    ["neighbors", "a", "--top", "2", "--recall", "1"],
    ["query", "a", "--text", QUERY, "--recall", "1"],
    ["query", "a", "--text", QUERY, "--measure", "containment", "--threshold", "0.2"],
    ["pairs", "a", "--measure", "containment", "--sort", "similarity"],
    ["recall", "a", "--sample", "7", "--furthest", "0.3", "--json"],
    ["report", "a", "-o", "report.html"],
    ["plot", "similarity", "a", "-o", "pairs.svg"],
    ["plot", "buckets", "a", "-o", "buckets.svg"],
    ["tune", "a", "--sample", "9", "--json"],
    ["explain", "a", "f000-0", "f000-1"],
    ["join", "a", "b"],
    ["contract", "a", "links.tsv", "--drop-loops"],
    ["show", "a", "f000-0"],
    ["stats", "a", "--format", "tsv"],
    ["sql", "a", "SELECT doc_id, key, n_chars FROM document ORDER BY doc_id"],
    ["sql", "a", "SELECT band, bucket FROM posting ORDER BY 1, 2", "--format", "jsonl"],
    ["sql", "a", "DELETE FROM document"],
    ["merge", "a", "b", "--on-conflict", "skip"],
    ["remove", "a", "f001-0", "none"],
    ["expire", "a", "--older-than", "9w", "--dry-run"],
    ["compact", "a"],
    ["reband", "a", "--threshold", "0.6"],
    ["check", "a"],
    ["check", "a", "--repair"],
    ["upgrade", "a"],
    ["copy", "a", "copy", "+"],
    ["reindex", "a", "chars", "--unit", "char", "+"],
    ["export", "a", "-o", "files"],
    ["import", "files", "again", "+"],
    ["pairs", "again", "--format", "jsonl"],
    ["check", "copy"],
    ["expire", "a", "--not-seen-since", "2100-01-01"],
    ["show", "a", "f000-0"],
    ["cursors", "a", "press", "--set", "2"],
    ["pairs", "a", "--since", "@press", "--advance"],
    ["cursors", "a", "press", "--remove"],
]
_SIZE = re.compile(r"[\d,.]+ ([kM]|[KM]i)?B\b|[\d,.]+ bytes|[\d,]+ (?=after)")
_SPEED = re.compile(r"in [\d.]+ s\b|[\d.,]+( documents)?/s|[\d.]+ s\b")


@pytest.fixture
def folders(both: Both) -> Iterator[Both]:
    for place in both.places:
        lines = [json.dumps({"id": key, "text": text}) + "\n" for key, text in CORPUS]
        (place.folder / "first.jsonl").write_text("".join(lines))
        rows = [f"{key},{text} more\n" for key, text in CORPUS[:6]]
        (place.folder / "second.csv").write_text("id,text\n" + "".join(rows))
        keys = [key for key, _ in CORPUS]
        links = [f"{one}\t{other}\n" for one, other in zip(keys, keys[2:], strict=False)]
        (place.folder / "links.tsv").write_text("".join(links))
    yield both


def test_a_session(folders: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(place: Place) -> list[Any]:
        monkeypatch.chdir(place.folder)
        outputs = []
        for command in SESSION:
            words = [*command[:-1], *place.options()] if command[-1] == "+" else command
            result = click.testing.CliRunner().invoke(
                cli, words, catch_exceptions=False, prog_name="lshdb"
            )
            assert "Traceback" not in result.stderr
            outputs.append(
                [command, result.exit_code, *map(without_own, (result.stdout, result.stderr))]
            )
        return outputs

    def without_own(text: str) -> str:
        """Without sizes and speeds, and what names the database."""
        kept = [
            line for line in text.splitlines()
            if not re.match(r"\s*(database|index_bands|log|reclaimable|uuid|created)", line)
        ]  # fmt: skip
        text = re.sub(r"(the statement was refused: ).*", r"\1", "\n".join(kept), flags=re.DOTALL)
        text = re.sub(r"(in the schema|at) \S.* already", "already", text)
        return _SPEED.sub("SPEED", _SIZE.sub("SIZE", text))

    found = [plain(said(place), place.folder) for place in folders.places]
    for sqlite, postgres in zip(*found, strict=True):
        assert sqlite == postgres
    codes = [code for _, code, *_ in found[0]]
    assert [number for number, code in enumerate(codes) if code] == [1, 34, 36, 50]


def test_every_command_is_in_it() -> None:
    """But for demo, a session of its own, serve, and those that are about no index."""
    others = {"demo", "guide", "serve", "spark"}
    assert {command[0] for command in SESSION} == set(COMMANDS) - others

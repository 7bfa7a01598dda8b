"""Every mistake of the table gets the message that the table has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.mistakes import COMMANDS, TABLE, make_files, told

pytestmark = pytest.mark.fast


@pytest.mark.sqlite("its words for a table that is not there")
def test_newcomers_are_told_what_the_table_says(tmp_path: Path) -> None:
    make_files(tmp_path)
    assert told(tmp_path) == TABLE.read_text()


def test_the_table_is_long_and_no_mistake_ends_in_a_traceback() -> None:
    table = TABLE.read_text()
    assert len(COMMANDS.strip().splitlines()) == table.count("\n[") >= 60
    assert "Traceback" not in table
    for block in table.split("\n\n"):
        command, code, *said = block.splitlines()
        if code in ("[1]", "[2]"):
            told_why = ("  error: ", "  Usage: ", "  1 key has no document")
            assert any(line.startswith(told_why) for line in said), command

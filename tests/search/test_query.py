"""The answer to one query, and to many."""

from __future__ import annotations

from pathlib import Path

import pytest

from lshdb import Index


@pytest.mark.fast
def test_an_answer_says_what_top_left_out(tmp_path: Path) -> None:
    text = "one two three four five six seven eight nine ten"
    with Index.create(tmp_path / "a.lshdb") as index:
        index.add([(str(number), text) for number in range(7)])
        hits = index.query(text, top=5)
        assert isinstance(hits, list) and len(hits) == 5 and hits.truncated == 2
        assert index.query(text, top=7).truncated == index.query(text, top=None).truncated == 0
        assert index.query(key="0", top=1).truncated == 5
        assert index.query("").truncated == index.query("of other words altogether").truncated == 0
        answers = dict(index.query_many([("a", text), ("b", ""), ("c", "nothing")], top=1))
        assert [hits.truncated for hits in answers.values()] == [6, 0, 0]
        assert index.query(text, top=5, recall=0.9).truncated == 0

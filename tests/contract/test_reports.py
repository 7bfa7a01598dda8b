"""A report on an index in Postgres says what that on the same index in SQLite says."""

from __future__ import annotations

import re

import pytest

from lshdb import Index
from tests.conftest import family_corpus
from tests.contract.conftest import Both, Place


@pytest.mark.fast
@pytest.mark.parametrize("name", ["report.html", "pages"])
def test_a_report(both: Both, name: str) -> None:
    def page(place: Place) -> list[str]:
        with place.create("a", threshold=0.5, k=2) as index:
            index.add(family_corpus(6, families=4), night="one")
            index.add([("copy", "another text altogether"), ("copies", "another text altogether")])
            index.remove("f001-0")
            made = index.report(place.folder / name)
            assert made.clusters == len(list(index.clusters()))
            with Index.open(index.path) as other:
                assert other.check() == []
        pages = [made.path] if name == "report.html" else sorted((place.folder / name).iterdir())
        texts = [path.read_text(encoding="utf-8") for path in pages]
        sizes = r"[\d.,]+ (?:bytes|[KMGT]iB)"
        times = r"\d{4}-\d\d-\d\d( \d\d:\d\d)?"
        return [re.sub(times, "TIME", re.sub(sizes, "SIZE", text)) for text in texts]

    both.same(page)

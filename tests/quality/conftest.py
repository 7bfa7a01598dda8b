"""The promises hold wherever an index lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index
from tests.contract.conftest import DATABASES, Place
from tests.postgres import drop_schemas


@pytest.fixture(params=DATABASES)
def make_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Index]]:
    """Make an index on the one database and on the other; closed at the end of the test."""
    url = request.getfixturevalue("postgres_url")
    place, made = Place(request.param, tmp_path, url.lshdb), []

    def make(**parameters: Any) -> Index:
        made.append(place.create(f"{len(made)}.lshdb", **parameters))
        return made[-1]

    yield make
    for index in made:
        index.close()
    drop_schemas(url, place.schemas)

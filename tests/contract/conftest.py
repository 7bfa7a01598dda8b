"""The same index twice, on SQLite and on Postgres, and the way to compare what the two say."""

from __future__ import annotations

import dataclasses
import enum
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lshdb import Hits, Index
from tests.answers import lively_index
from tests.postgres import PostgresUrl, drop_schemas

DATABASES = ("sqlite", "postgres")
OWN = {"seconds", "bytes_before", "bytes_after"}
"""Of a result, that say how long it took and how large a database's files are."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Place:
    """Where one of the two has its indexes.

    Attributes
    ----------
    name : {"sqlite", "postgres"}
    folder : Path
    url : str
    schemas : list of str
        Of Postgres, that were given to indexes.
    """

    name: str
    folder: Path
    url: str
    schemas: list[str] = dataclasses.field(default_factory=list)

    def database(self) -> dict[str, str]:
        """Arguments that put a new index there."""
        if self.name == "sqlite":
            return {"database": "sqlite:///index.db"}
        self.schemas.append(f"Contract {uuid.uuid4().hex[:12]}")
        return {"database": self.url, "schema": self.schemas[-1]}

    def create(self, name: str, **parameters: Any) -> Index:
        return Index.create(self.folder / name, **self.database(), **parameters)

    def options(self) -> list[str]:
        """The same for the command line."""
        return [word for key, value in self.database().items() for word in (f"--{key}", value)]


class Both:
    """Two places, and indexes in them that were made in the same way."""

    def __init__(self, folder: Path, url: str) -> None:
        self.places = [Place(name, folder / name, url) for name in DATABASES]
        for place in self.places:
            place.folder.mkdir()

    def same(self, ask: Callable[[Place], Any]) -> Any:
        """Ask both; the answer, once it is the same from both, of the same types."""
        answers = [plain(ask(place), place.folder) for place in self.places]
        assert answers[0] == answers[1]
        assert repr(answers[0]) == repr(answers[1])  # 1 is not 1.0, nor True
        return answers[0]


def plain(value: Any, folder: Path) -> Any:
    """A value in Python's own types alone, without what differs from one run to the next.

    Fails where there is anything else in it, such as a Decimal, a number of NumPy's or a
    memoryview.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = {field.name for field in dataclasses.fields(value)} - OWN
        held = {name: plain(getattr(value, name), folder) for name in sorted(names)}
        return {"": type(value).__name__, **held}
    if isinstance(value, enum.Enum) or value is None or type(value) in (bool, int, float, bytes):
        return value
    if type(value) is str:
        value = value.replace(str(folder), "FOLDER")
        return _UUID.sub("UUID", _TIME.sub("TIME", value))
    if isinstance(value, Path):
        return plain(str(value), folder)
    if type(value) is dict:
        return {plain(key, folder): plain(held, folder) for key, held in value.items()}
    if type(value) in (set, frozenset):
        return sorted((plain(held, folder) for held in value), key=repr)
    if type(value) is Hits:
        return [plain(list(value), folder), value.truncated]
    assert type(value) in (list, tuple), f"{value!r} is of the type {type(value)}"
    return type(value)(plain(held, folder) for held in value)


@pytest.fixture
def both(tmp_path: Path, postgres_url: PostgresUrl) -> Iterator[Both]:
    """Two places for one test."""
    found = Both(tmp_path, postgres_url.lshdb)
    yield found
    drop_schemas(postgres_url, found.places[1].schemas)


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory, postgres_url: PostgresUrl) -> Iterator[Both]:
    """Two places with an index ``a`` each that has been lived with; it is only read."""
    found = Both(tmp_path_factory.mktemp("lived"), postgres_url.lshdb)
    for place in found.places:
        lively_index(place.create, "a").close()
        lively_index(place.create, "signed", store_text=False, unit="char").close()
    yield found
    drop_schemas(postgres_url, found.places[1].schemas)

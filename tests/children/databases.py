"""New indexes in Postgres where a test names no database: ``--database=postgres``.

Every index that would lie in its own ``index.db`` gets a schema of its own instead. Child processes
do as the tests do: ``sitecustomize.py``, on their ``PYTHONPATH``, calls `install`, which knows
from the environment what to do. Imports nothing of lshdb before the child itself does.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

URL, MADE = "LSHDB_TEST_PLACE", "LSHDB_TEST_PLACES_MADE"
"""Where new indexes go, and a file in which each is noted: its schema, and its directory."""
HERE = Path(__file__).parent
PATCHED = "lshdb.storage.dialects"


def child_path() -> str:
    """The ``PYTHONPATH`` of a child process that is to find lshdb and to do as the tests do."""
    here = [str(HERE)] if URL in os.environ else []
    return os.pathsep.join([*here, str(HERE.parents[1])])


def install() -> None:
    """Patch lshdb once it is imported, if the environment asks for it."""
    if URL in os.environ:
        sys.meta_path.insert(0, _Finder())


def patch(module: ModuleType, url: str, made: Path) -> None:
    """Let a new index without a database of its own go to a fresh schema."""
    named_place, place_of = module.named_place, module.DatabasePlace

    def named(place: Any, directory: Path) -> Any:
        # A repair makes an index on SQLite, inside of the one that it is for.
        if place.url is not None or place.schema is not None or directory.name == "repair":
            return named_place(place, directory)
        schema = f"Lshdb-test-{uuid.uuid4().hex[:12]}"
        with made.open("a") as file:
            file.write(f"{schema}\t{directory}\n")
        return place_of(url, schema)

    module.named_place = named  # type: ignore[attr-defined]


def schemas_made(made: Path, folder: Path) -> list[str]:
    """Schemas of indexes in a folder; from then on they are not noted any more."""
    noted = [line.split("\t") for line in made.read_text().splitlines()]
    given = [schema for schema, directory in noted if Path(directory).is_relative_to(folder)]
    kept = [f"{schema}\t{directory}\n" for schema, directory in noted if schema not in given]
    made.write_text("".join(kept))
    return given


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the others would, and patches it when it has been loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != PATCHED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None and spec.loader is not None
        load = spec.loader.exec_module

        def load_and_patch(module: ModuleType) -> None:
            load(module)
            patch(module, os.environ[URL], Path(os.environ[MADE]))

        spec.loader.exec_module = load_and_patch  # type: ignore[method-assign]
        return spec

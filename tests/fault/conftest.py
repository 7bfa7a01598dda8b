"""The writer process under faults, and how much is tried: ``--faults=short`` or ``long``."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY
from tests.fault.power_loss import OLD_BLOCK_ROWS, Disk, Recording, read_log
from tests.fault.repairs import damage
from tests.fault.steps import INDEX, LIFE, State
from tests.fault.writer import WriterProcess, build_layer
from tests.golden.test_indexes import FORMAT_1, unpack

Life = tuple[tuple[str, ...], ...]


@pytest.fixture(scope="session")
def fault_minutes(request: pytest.FixtureRequest) -> float:
    """How long a test lasts that could go on for ever, with ``--faults=long``."""
    return float(request.config.getoption("--fault-minutes"))


@pytest.fixture(scope="session")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WriterProcess]:
    """A writer process whose file system fails as it is told."""
    if sys.platform != "linux":
        pytest.skip("the layer between a process and its file system is for Linux")
    folder = tmp_path_factory.mktemp("layer")
    try:
        layer = build_layer(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"the layer cannot be compiled here: {getattr(error, 'stderr', error)}")
    with WriterProcess(layer) as process:
        yield process


@pytest.fixture(scope="session")
def grown(writer: WriterProcess, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """An index with runs, replaced and removed documents and clusters; and what it holds."""
    return _grow(writer, tmp_path_factory.mktemp("grown") / INDEX)


def _grow(writer: WriterProcess, path: Path, *, bits: bool = False) -> tuple[Path, State]:
    documents: State = None
    for steps in LIFE[:4]:
        outcome = writer.run(path, documents, steps=steps, bits=bits)
        assert outcome.outcome == "done", outcome.result
        (documents,) = outcome.allowed
    return path, documents


@pytest.fixture(scope="session")
def grown_bits(
    writer: WriterProcess, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, State]:
    """The same of bits, which has a vector file."""
    return _grow(writer, tmp_path_factory.mktemp("grown") / INDEX, bits=True)


@pytest.fixture
def copy_grown(grown: tuple[Path, State], tmp_path: Path) -> Callable[[], Path]:
    """A fresh copy of that index, in place of the one before."""

    def copy() -> Path:
        path = tmp_path / "root" / INDEX
        shutil.rmtree(path.parent, ignore_errors=True)
        shutil.copytree(grown[0], path)
        return path

    return copy


@pytest.fixture
def copy_grown_bits(grown_bits: tuple[Path, State], tmp_path: Path) -> Callable[[], Path]:
    """A fresh copy of the index of bits, in place of the one before."""

    def copy() -> Path:
        path = tmp_path / "root" / INDEX
        shutil.rmtree(path.parent, ignore_errors=True)
        shutil.copytree(grown_bits[0], path)
        return path

    return copy


@pytest.fixture(scope="session")
def record(
    writer: WriterProcess, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Recording]:
    """Record the life of an index, of texts or of ``bits``, with bugs planted or without.

    An add has so many ``workers``.
    """

    def made(life: Life = LIFE, plants: tuple[str, ...] = (), **kind: Any) -> Recording:
        folder = tmp_path_factory.mktemp("life")
        (folder / "root").mkdir()
        disk = Disk(folder / "root")
        documents: State = None
        for steps in life:
            outcome = writer.run(
                folder / "root" / INDEX,
                documents,
                steps=steps,
                log=str(folder / "log"),
                plants=plants,
                **kind,
            )
            assert plants or outcome.outcome == "done", outcome.result
            documents = outcome.allowed[0]
        return Recording(" ".join(("life", *plants)), disk, None, read_log(folder / "log"))

    return made


@pytest.fixture
def unpack_format_1() -> Callable[[Path], State]:
    """Unpack a golden index of format 1 at a path; what it holds."""
    return _unpack_format_1


def _unpack_format_1(path: Path) -> State:
    shutil.rmtree(path.parent, ignore_errors=True)
    path.parent.mkdir()
    unpack(FORMAT_1 / "0006.tar.gz", path.parent).rename(path)
    with contextlib.closing(sqlite3.connect(path / "index.db")) as database:
        rows = database.execute(
            "SELECT key, form, body FROM document JOIN content USING (doc_id)"
        ).fetchall()
    return {key: WITHOUT_DICTIONARY.unpack(form, body) for key, form, body in rows}


@pytest.fixture(scope="session")
def upgraded(writer: WriterProcess, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Record an upgrade of a golden index, and what comes after it."""
    folder = tmp_path_factory.mktemp("upgrade")
    path = folder / "root" / INDEX
    documents = _unpack_format_1(path)
    disk = Disk(path.parent)
    log = str(folder / "log")
    steps = ("upgrade", "cluster", "add_few")
    outcome = writer.run(path, documents, steps=steps, log=log, block_rows=OLD_BLOCK_ROWS)
    assert outcome.outcome == "done", outcome.result
    return Recording("upgrade", disk, documents, read_log(folder / "log"), is_old=True)


@pytest.fixture(scope="session")
def repaired(
    writer: WriterProcess,
    grown: tuple[Path, State],
    tmp_path_factory: pytest.TempPathFactory,
) -> Recording:
    """Record a repair of an index whose signatures and runs are damaged, and what comes after."""
    folder = tmp_path_factory.mktemp("repair")
    path = folder / "root" / INDEX
    shutil.copytree(grown[0], path)
    damage(path)
    disk = Disk(path.parent)
    log = str(folder / "log")
    steps = ("repair", "cluster", "add_few")
    outcome = writer.run(path, grown[1], steps=steps, log=log)
    assert outcome.outcome == "done", outcome.result
    return Recording("repair", disk, grown[1], read_log(folder / "log"), is_damaged=True)

"""Corpora, indexes and the PostgreSQL that many tests share."""

from __future__ import annotations

import faulthandler
import inspect
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from lshdb import Index
from tests.children import databases
from tests.postgres import (
    PostgresServer,
    PostgresUrl,
    ServerError,
    described,
    drop_schemas,
    fresh_schema,
)

# How fast a machine is decides about no test. Of the profile for CI the rest stays.
settings.register_profile("lshdb", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lshdb")

WORDS = [
    a + b for a in ("ba", "ke", "lo", "mi", "nu", "ra", "so") for b in ("d", "f", "g", "st", "x")
]

# Far more than any takes, however busy the machine is.
SECONDS_OF_A_TEST, SECONDS_OF_A_LONG_TEST, SECONDS_OF_THE_END = 1200, 4 * 3600, 60
STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults",
        choices=("short", "long"),
        default="short",
        help="how much of tests/fault, and of the longest of other tests, is run: a slice of each, "
        "or all of it (several hours)",
    )
    parser.addoption(
        "--fault-minutes",
        type=float,
        default=30.0,
        help="with --faults=long: how long readers look on at a writer",
    )
    parser.addoption(
        "--postgres-url",
        default=os.environ.get("LSHDB_TEST_POSTGRES") or None,
        help="a PostgreSQL for the tests, where they make and drop schemas of their own (default: "
        "LSHDB_TEST_POSTGRES, or a private one that they start)",
    )
    parser.addoption(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="where indexes lie for which a test names no database",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # what a test writes there is captured
    config.addinivalue_line(
        "markers", "sqlite(reason): about a file of SQLite; skipped with --database=postgres"
    )
    config.addinivalue_line(
        "markers", "fast: some tests of every folder; all that are marked so take under a minute"
    )
    config.addinivalue_line(
        "markers",
        "long(when): run with --faults=long alone; ``when`` says for which parameters",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Show where all threads are, and end the process, if a test waits for ever."""
    is_long = item.config.getoption("--faults") == "long" or item.config.getoption("usepdb")
    _end_after(item.config, SECONDS_OF_A_LONG_TEST if is_long else SECONDS_OF_A_TEST)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The same for threads that tests have left, and that the end of the process waits for.

    A process of many waits for the tests of the others, and is ended by the one that began them.
    """
    if not hasattr(config, "workerinput"):
        _end_after(config, SECONDS_OF_THE_END)


def _end_after(config: pytest.Config, seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[STDERR])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Spark's tests begin, so that one process has them all: others steal from the end.
    items.sort(key=lambda item: "spark_of_process" not in getattr(item, "fixturenames", ()))
    if config.getoption("--faults") != "long":
        for item in filter(takes_long, items):
            item.add_marker(pytest.mark.skip(reason="takes long; run with --faults=long"))
    if config.getoption("--database") == "postgres":
        faults = Path(__file__).parent / "fault"
        for item in items:
            for mark in item.iter_markers("sqlite"):
                item.add_marker(pytest.mark.skip(reason=f"SQLite alone: {mark.args[0]}"))
            if faults in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="copies directories, or names databases"))


def takes_long(item: pytest.Item) -> bool:
    """Whether a test is marked so, for its parameters."""
    mark = item.get_closest_marker("long")
    if mark is None or not mark.kwargs:
        return mark is not None
    (when,) = mark.kwargs.values()
    values: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    return bool(when(**{name: values[name] for name in inspect.signature(when).parameters}))


def pytest_report_header(config: pytest.Config) -> str:
    return f"PostgreSQL: {described(config.getoption('--postgres-url'))}"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process a core for folders, and two more, since tests wait for others to start and end.

    None for files and single tests, done before one is up.
    """
    if config.getoption("capture") == "no" or not any(
        Path(given).is_dir() for given in config.args
    ):
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, 4) + 2


def make_text(rng: random.Random, length: int) -> str:
    return " ".join(rng.choice(WORDS) + str(rng.randrange(40)) for _ in range(length))


def edited(rng: random.Random, text: str, edits: int) -> str:
    words = text.split()
    for _ in range(edits):
        words[rng.randrange(len(words))] = f"edit{rng.randrange(10**6)}"
    return " ".join(words)


def family_corpus(seed: int, families: int = 30, size: int = 4) -> list[tuple[str, str]]:
    """Families of texts that are edits of one another, with exact copies and unrelated texts."""
    rng = random.Random(seed)
    documents = []
    for family in range(families):
        original = make_text(rng, rng.randrange(20, 120))
        for member in range(size):
            text = edited(rng, original, member) if member else original
            documents.append((f"f{family:03d}-{member}", text))
        if family % 3 == 0:
            documents.append((f"f{family:03d}-copy", original.upper().replace(" ", "  ")))
        documents.append((f"u{family:03d}", make_text(rng, rng.randrange(3, 60))))
    return documents


@pytest.fixture(scope="session")
def is_long(request: pytest.FixtureRequest) -> bool:
    """Whether all of a test is run, and not a slice of it."""
    return bool(request.config.getoption("--faults") == "long")


@pytest.fixture
def no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither write frozen orders nor read them: SQL answers."""
    monkeypatch.setattr(
        "lshdb.storage.transactions.store.Store.use_orders", lambda store, banding: None
    )


@pytest.fixture
def corpus() -> list[tuple[str, str]]:
    return family_corpus(7)


@pytest.fixture
def make_index(tmp_path: Path) -> Iterator[Callable[..., Index]]:
    """Make an index in the test's folder; closed, and checked, at the end of the test."""
    made: list[Index] = []

    def make(name: str = "test.lshdb", **parameters: Any) -> Index:
        index = Index.create(tmp_path / name, **parameters)
        made.append(index)
        return index

    yield make
    for index in made:
        if index.path.exists():
            with Index.open(index.path) as again:
                assert again.check() == []
        index.close()


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[PostgresUrl]:
    """Where a PostgreSQL answers; started by the first test of a session that asks for it.

    Without one the test fails: a test that is passed over shows nothing.
    """
    given = request.config.getoption("--postgres-url")
    try:
        if given is not None:
            url = PostgresUrl.parse(given)
            url.version()
            yield url
            return
        server = PostgresServer()
    except ServerError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("PG")]:
            environment.delenv(name)  # such as PGOPTIONS, meant for another server
        try:
            yield server.url
        finally:
            server.remove()


@pytest.fixture(scope="session", autouse=True)
def places_made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path | None]:
    """With ``--database=postgres``: the file in which new indexes are noted, with their schemas."""
    if request.config.getoption("--database") != "postgres":
        yield None
        return
    from lshdb.maintain import copy as copying
    from lshdb.storage import dialects
    from lshdb.storage.place import creation

    url: PostgresUrl = request.getfixturevalue("postgres_url")
    made = tmp_path_factory.mktemp("places") / "made"
    made.touch()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(databases.URL, url.lshdb)
        patched.setenv(databases.MADE, str(made))
        patched.setenv("PYTHONPATH", databases.child_path())
        for module in (dialects, copying, creation):
            patched.setattr(module, "named_place", module.named_place)  # to be put back
            databases.patch(module, url.lshdb, made)
        yield made
    drop_schemas(url, databases.schemas_made(made, Path("/")))


@pytest.fixture(autouse=True)
def placed(request: pytest.FixtureRequest, places_made: Path | None) -> Iterator[None]:
    """Drop the schemas of the indexes in the test's folder, when all that used them is closed."""
    if places_made is None or "tmp_path" not in request.fixturenames:
        yield
        return
    url, folder = request.getfixturevalue("postgres_url"), request.getfixturevalue("tmp_path")
    yield
    drop_schemas(url, databases.schemas_made(places_made, folder))


@pytest.fixture
def postgres_schema(postgres_url: PostgresUrl) -> Iterator[str]:
    """The name of a schema that is not there; if the test makes it, it is dropped afterwards."""
    with fresh_schema(postgres_url) as name:
        yield name


@pytest.fixture
def make_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """Make a private server, for a test that stops it, kills it, or sets it up in its own way."""
    made: list[PostgresServer] = []

    def make(**settings: str) -> PostgresServer:
        try:
            made.append(PostgresServer(settings))
        except ServerError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        return made[-1]

    yield make
    for server in made:
        server.remove()


@pytest.fixture(scope="session")
def spark_of_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session of Apache Spark, the same for all tests of a process (``spark_session.py``)."""
    from tests import spark_session

    folder = tmp_path_factory.mktemp("spark")
    session = spark_session.start(folder)
    yield session
    spark_session.stop(session, folder)


@pytest.fixture
def spark(spark_of_process: Any) -> Iterator[Any]:
    """That session; what a test keeps in it is freed, or its heap would fill."""
    import lshdb.spark

    yield spark_of_process
    lshdb.spark.release(spark_of_process)


def pair_set(index: Index, **question: Any) -> set[tuple[str, str, float]]:
    """The answer of ``pairs`` without the order within pairs and among them."""
    pairs = [
        (*sorted((pair.key1, pair.key2)), round(pair.similarity, 9))
        for pair in index.pairs(**question)
    ]
    assert len(pairs) == len(set(pairs)), "a pair came twice"
    return set(pairs)  # type: ignore[arg-type]

"""Any change after any other, killed anywhere: the index holds and answers what the model says."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lshdb import ConflictError, Index
from tests.contract.conftest import DATABASES, Place
from tests.fault.killing import MOMENTS, REWRITING, Killing, copy_files
from tests.fault.model import Body, Model, Rules
from tests.postgres import PostgresUrl, drop_schemas
from tests.sizes import set_sizes

SIZE = 3
"""Documents a batch."""
KEYS = [f"k{number}" for number in range(14)]


def _bodies() -> list[Body]:
    """Families of texts alike, exact copies, tokens, texts shorter than a shingle, and none."""
    rng = random.Random(4)
    found: list[Body] = ["", " \n ", "word", "Word", "other", [], ["word"]]
    for family in range(4):
        words = [f"w{family}x{rng.randrange(9)}" for _ in range(9)]
        text = " ".join(words)
        found += [text, f"  {text.upper()}\n", " ".join(words[:7]), words, f"{text} {text}"]
        for place in (0, 4, 8):
            found.append(" ".join([*words[:place], f"e{place}", *words[place + 1 :]]))
    return found


BODIES = _bodies()
ITEM = st.tuples(st.sampled_from(KEYS), st.sampled_from(BODIES))
ITEMS = st.lists(ITEM, max_size=12)
SOME_KEYS = st.lists(st.sampled_from(KEYS), max_size=5)
THRESHOLDS = st.sampled_from([0.3, 0.5, 0.7, 1.0])
ON_CONFLICT = st.sampled_from(["replace", "replace", "skip", "error"])
KILL = st.none() | st.tuples(st.sampled_from(MOMENTS), st.booleans())
"""At which moment, and whether the files of that moment are gone on with, or this process is."""
KILL_REWRITING = st.none() | st.tuples(st.sampled_from(REWRITING), st.booleans())


class Life(RuleBasedStateMachine):
    """One index, copies that were left behind, and what each of them holds by the model."""

    steps = kills = 0
    made: Path
    place: Place

    @initialize(
        scheme=st.sampled_from(["fss", "universal"]),
        bag=st.booleans(),
        store_text=st.sampled_from([True, True, False]),
        items=st.lists(ITEM, min_size=12, max_size=20),
    )
    def begin(self, items: list[tuple[str, Body]], **rules: Any) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.names = (Path(self.folder.name) / f"{number}.lshdb" for number in itertools.count())
        self.patch = pytest.MonkeyPatch()
        set_sizes(self.patch, batch_documents=SIZE, merge_documents=SIZE, commit_postings=0)
        self.patch.setattr("lshdb.ingest.remove._DOCUMENTS_A_BATCH", SIZE)
        self.patch.setattr("lshdb.storage.orders.freezing.MOST_SORTED", 1)
        self.patch.setattr("lshdb.storage.orders.freezing.MOST_PARTS", 3)
        self.model = Model(Rules(**rules))
        self.index = self._create(next(self.names), self.model.rules)
        self.moments: list[datetime] = []
        self.left: list[tuple[Path, Model]] = []
        self.held: list[tuple[Index, Any, set[Any]]] = []
        self.add(items, "replace", None)

    def _create(self, path: Path, rules: Rules) -> Index:
        """An empty index; on SQLite made once for all that have its parameters, and copied."""
        if Life.place.name != "sqlite":
            return Index.create(path, **vars(rules), **Life.place.database())
        made = self.made / "-".join(map(str, vars(rules).values()))
        if not made.exists():
            Index.create(made, **vars(rules), **Life.place.database()).close()
        copy_files(made, path)
        return Index.open(path)

    def _now(self) -> int:
        """The time of a change, by number; the clock's is noted."""
        self.moments.append(datetime.now(UTC))
        return len(self.moments) - 1

    def _change(
        self,
        states: list[Model],
        kill: tuple[tuple[str, int], bool] | None,
        do: Callable[[], object],
        fails: type[Exception] | None = None,
    ) -> None:
        """Do it, killed or not; the model becomes that of the last commit."""
        at, takes_copy = kill or (None, False)
        with Killing(at, self.index.path, copy := next(self.names)) as killing:
            if fails is None:
                do()
            else:
                with pytest.raises(fails):
                    do()
        Life.kills += killing.happened
        reached = [self.model, *states]
        self.model = reached[killing.committed if killing.happened else -1]
        if killing.happened and takes_copy:
            self._go_on_with(copy)

    def _go_on_with(self, path: Path) -> None:
        self.index.close()
        self.index = Index.open(path)

    # Changes

    @rule(items=ITEMS, on_conflict=ON_CONFLICT, together=st.booleans(), kill=KILL)
    def add(
        self, items: list[tuple[str, Body]], on_conflict: str, kill: Any, together: bool = False
    ) -> None:
        """Each batch is a commit, or all of them are one: not in Postgres, which may repeat one."""
        now = self._now()
        states = self.model.add(items, now=now, size=SIZE, on_conflict=on_conflict)
        conflicts = len(states) < max(1, -(-len(items) // SIZE))
        if together and Life.place.name == "sqlite":
            states = states[-1:]

        def do() -> None:
            with pytest.MonkeyPatch.context() as patch:
                set_sizes(patch, commit_postings=10**6 if together else 0)
                set_sizes(patch, commit_seconds=1e9)  # however slow it is
                result = self.index.add(items, on_conflict=on_conflict, workers=1)
            assert result.rejected == len(items) - len(dict(items))
            assert result.documents == len(dict(items))

        self._change(states, kill, do, ConflictError if conflicts else None)

    @rule(kill=KILL)
    def add_what_is_there(self, kill: Any) -> None:
        """With copies of it beside: all are known contents."""
        there = [(key, held.body) for key, held in self.model.documents.items()][:3]
        items = [(key, body if isinstance(body, str) else list(body)) for key, body in there]
        items += [(f"copy of {key}"[:10], body) for key, body in items if len(key) < 5]
        states = self.model.add(items, now=self._now(), size=SIZE)
        self._change(states, kill, lambda: self.index.add(items, workers=1))

    @rule(keys=SOME_KEYS, kill=KILL)
    def remove(self, keys: list[str], kill: Any) -> None:
        there = set(keys) & self.model.documents.keys()

        def do() -> None:
            result = self.index.remove(keys)
            assert result.removed == len(there)
            assert result.missing == [key for key in dict.fromkeys(keys) if key not in there]

        self._change(self.model.remove(keys, size=SIZE), kill, do)

    @precondition(lambda self: self.model.documents)
    @rule(data=st.data(), kill=KILL)
    def expire(self, data: st.DataObject, kill: Any) -> None:
        seen = sorted(held.seen for held in self.model.documents.values())
        since = data.draw(st.sampled_from(seen[: 2 + len(seen) // 3]))
        states = self.model.expire(since, size=SIZE)
        gone = len(self.model.documents) - len((states or [self.model])[-1].documents)
        assert self.index.expire(self.moments[since], dry_run=True).removed == gone
        self._change(states, kill, lambda: self.index.expire(self.moments[since]))

    @rule(threshold=THRESHOLDS, kill=KILL)
    def cluster(self, threshold: float, kill: Any) -> None:
        if kill is None:
            found = [(one.label, one.keys) for one in self.index.clusters(threshold=threshold)]
            (self.model,) = self.model.cluster(threshold)
            assert found == self.model.clusters_at(threshold)
        else:
            do = self.index.update_clusters
            self._change(self.model.cluster(threshold), kill, lambda: do(threshold=threshold))

    @rule()
    def bring_up_to_date(self) -> None:
        """Cheap in a night's work, and so done often: what changed since is what is looked at."""
        self.index.update_clusters()
        (self.model,) = self.model.cluster()

    @rule(kill=KILL_REWRITING)
    def compact(self, kill: Any) -> None:
        self._rewrite(self.model.compact(), kill, lambda: self.index.compact())
        if kill is None:
            assert self.index.stats().unused_signatures == 0

    @rule(
        bands=st.sampled_from([(8, 2), (16, 1), (5, 3)]), threshold=THRESHOLDS, kill=KILL_REWRITING
    )
    def reband(self, bands: tuple[int, int], threshold: float, kill: Any) -> None:
        how: dict[str, Any] = {"bands": bands[0], "rows": bands[1], "threshold": threshold}
        do = Index.reband
        self._rewrite(self.model.reband(**how), kill, lambda: do(self.index.path, **how))

    def _rewrite(self, states: list[Model], kill: Any, do: Callable[[], object]) -> None:
        """It has no batch to go by: killed, the index is as before, or as after."""
        before = self.model
        self._change(states, kill, do)
        self._go_on_with(self.index.path)
        params, counts = self.index.params, self.index.stats()
        for model in (before, *states) if kill else states:
            rules = model.rules
            if (rules.bands, rules.rows, rules.threshold, model.n_signatures) == (
                params.bands, params.rows, params.threshold, counts.signatures,
            ):  # fmt: skip
                self.model = model

    # Other indexes

    @rule(goes_on=st.booleans())
    def copy(self, goes_on: bool) -> None:
        path = next(self.names)
        self.index.copy(path, **Life.place.database())
        self._leave(path, goes_on)

    @rule(goes_on=st.booleans())
    def export(self, goes_on: bool) -> None:
        folder, path = next(self.names), next(self.names)
        self.index.export(folder)
        Index.from_export(folder, path, **Life.place.database()).close()
        self._leave(path, goes_on)

    def _leave(self, path: Path, goes_on: bool) -> None:
        """Of two indexes that are equal now one is left as it is."""
        self.left.append((self.index.path if goes_on else path, self.model))
        if goes_on:
            self._go_on_with(path)

    @rule(items=ITEMS, gone=SOME_KEYS)
    def make_another(self, items: list[tuple[str, Body]], gone: list[str]) -> None:
        path, model = next(self.names), Model(self.model.rules)
        with self._create(path, model.rules) as other:
            for state in model.add(items, now=self._now(), size=SIZE):
                model = state
            other.add(items, workers=1)
            for state in model.remove(gone, size=SIZE):
                model = state
            other.remove(gone)
        self.left.append((path, model))

    @precondition(lambda self: self.left)
    @rule(data=st.data(), on_conflict=ON_CONFLICT, kill=KILL)
    def merge(self, data: st.DataObject, on_conflict: str, kill: Any) -> None:
        path, model = self.left[data.draw(st.integers(0, len(self.left) - 1))]
        states = self.model.merge(model, size=SIZE, on_conflict=on_conflict)
        conflicts = len(states) < max(1, -(-len(model.documents) // SIZE))
        with Index.open(path) as other:
            self._change(
                states,
                kill,
                lambda: self.index.merge(other, on_conflict=on_conflict),
                ConflictError if conflicts else None,
            )

    # Questions

    @rule()
    def reopen(self) -> None:
        self._go_on_with(self.index.path)

    @rule()
    def begin_to_read(self) -> None:
        """Another reader, in the middle of its answer for as long as it likes."""
        reader, expected = Index.open(self.index.path), self.model.pairs()
        pairs = iter(reader.pairs(workers=1))
        found = {(one.key1, one.key2, one.similarity) for one in itertools.islice(pairs, 1)}
        assert found <= expected
        self.held.append((reader, pairs, expected - found))

    @precondition(lambda self: self.held)
    @rule()
    def read_on(self) -> None:
        reader, pairs, expected = self.held.pop(0)
        assert sorted((one.key1, one.key2, one.similarity) for one in pairs) == sorted(expected)
        if reader.path == self.index.path:  # also where it was banded anew meanwhile
            assert _pairs(reader.pairs(workers=1)) == self.model.pairs()
        reader.close()

    @rule(body=st.sampled_from(BODIES), threshold=THRESHOLDS)
    def query(self, body: Body, threshold: float) -> None:
        model = self.model
        hits = self.index.query(body, top=None, threshold=threshold)
        assert [(hit.key, hit.similarity) for hit in hits] == model.query(body, threshold)
        assert self.index.query(body, top=2, threshold=threshold) == hits[:2]
        for key, held in model.documents.items():
            found = self.index.query(key=key, top=None, threshold=threshold)
            expected = model.query(held.body, threshold, without=key)
            assert [(hit.key, hit.similarity) for hit in found] == expected

    @rule(threshold=THRESHOLDS, back=st.integers(0, 6))
    def pairs(self, threshold: float, back: int) -> None:
        index, model = self.index, self.model
        assert _pairs(index.pairs(threshold=threshold, workers=1)) == model.pairs(threshold)
        since = max(1, model.n_batches - back)
        if model.n_batches:
            assert _pairs(index.pairs(since=since, workers=1)) == model.pairs(since=since)
        assert _pairs(index.pairs(since="last", workers=1)) == model.pairs(since=model.last_add)

    @precondition(lambda self: len(self.model.documents) > 1)
    @rule(data=st.data())
    def explain(self, data: st.DataObject) -> None:
        keys = st.sampled_from(list(self.model.documents))
        one, other = data.draw(st.lists(keys, min_size=2, max_size=2, unique=True))
        found = self.index.explain(one, other)
        linked = {frozenset(pair[:2]) for pair in self.model.pairs()}
        assert found.is_found == (frozenset((one, other)) in linked)
        shown = self.index.show(one)
        content = self.model.documents[one].content
        assert (other in shown.copies) == (
            content == self.model.documents[other].content and shown.document.n_shingles > 0
        )

    def _ask_groups(self) -> None:
        """What rests on stored edges, which may be behind."""
        index, model = self.index, self.model
        if model.edges is None:
            return
        how: dict[str, Any] = {"threshold": model.edge_threshold, "update": False}
        found = [(one.label, one.keys) for one in index.clusters(**how)]
        assert found == model.clusters()
        near = [(one.key, one.neighbor, one.similarity)
                for one in index.neighbors(top=1000, **how)]  # fmt: skip
        assert len(near) == len(set(near)) and set(near) == model.neighbors()
        decisions = list(index.dedup(**how))
        assert {one.key for one in decisions if one.keep} == model.kept()
        assert {(one.key, one.kept_key, one.similarity) for one in decisions if not one.keep} <= (
            model.neighbors()
        )

    # What holds after every step

    @invariant()
    def is_sound(self) -> None:
        if hasattr(self, "index"):
            Life.steps += 1
            _compare(self.index, self.model)
            self._ask_groups()

    def teardown(self) -> None:
        if not hasattr(self, "index"):
            return
        try:
            while self.held:
                self.read_on()
            for path, model in self.left:
                with Index.open(path) as left:
                    _compare(left, model)
        finally:
            self.index.close()
            for reader, *_ in self.held:
                reader.close()
            self.patch.undo()
            self.folder.cleanup()


def _pairs(found: Iterable[Any]) -> set[tuple[str, str, float]]:
    pairs = [(one.key1, one.key2, one.similarity) for one in found]
    assert len(pairs) == len(set(pairs)), "a pair came twice"
    return set(pairs)


def _compare(index: Index, model: Model) -> None:
    """All that costs little: findings, documents, counts, pairs."""
    assert index.check() == []
    with index._store.reading() as snapshot:
        there = [(key, snapshot.body(doc_id)) for doc_id, key in list(snapshot.document_keys())]
    expected = [
        (key, (body if isinstance(body, str) else list(body)) if model.rules.store_text else None)
        for key, body in model.bodies()
    ]
    assert there == expected
    stats = index.stats()
    assert {name: getattr(stats, name) for name in model.counts()} == model.counts()
    assert [one.batch_id for one in index.batches()] == list(range(1, model.n_batches + 1))
    found = _pairs(index.pairs(workers=1))
    assert found == model.pairs()
    if model.rules.store_text:
        assert {(one, other) for one, other, _ in found} <= model.alike(model.rules.threshold)


@pytest.mark.parametrize("database", DATABASES)
def test_a_life(is_long: bool, tmp_path: Path, postgres_url: PostgresUrl, database: str) -> None:
    """On Postgres a killed writer leaves its files, and a transaction that is rolled back."""
    Life.made = tmp_path
    Life.place = Place(database, tmp_path, postgres_url.lshdb)
    Life.steps = Life.kills = 0
    shorter = 1 if database == "sqlite" else 3  # DDL of a schema for each of its indexes
    try:
        run_state_machine_as_test(
            Life,
            settings=settings(
                max_examples=(120 if is_long else 6) // shorter,
                stateful_step_count=50 if is_long else 20,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        drop_schemas(postgres_url, Life.place.schemas)
    print(f"{Life.steps} steps, {Life.kills} kills")
    assert Life.steps > 30 / shorter

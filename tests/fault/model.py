"""What an index must hold and answer: a dictionary of documents, plain sets, and no file.

A ``Model`` goes through the same changes as an index. Each method that changes it returns the
models after each commit, oldest first: a writer that is killed leaves one of them. Nothing here
comes from ``lshdb`` but one number, the estimate below which texts are not compared: words are cut
by ``str.split``, similarities are those of sets, and signatures those of ``tests/golden/plain.py``.

Texts are to be made of ASCII letters, digits and white space.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lshdb.search.verification import prefilter
from tests.golden import plain

__all__ = ["Body", "Held", "Model", "Rules"]

Body = str | list[str]
Content = str | tuple[str, ...]
"""A text in small letters and single blanks, or tokens as they are."""


@dataclass(frozen=True)
class Rules:
    """The parameters that answers depend on."""

    threshold: float = 0.5
    k: int = 2
    bag: bool = False
    scheme: str = "fss"
    num_perm: int = 16
    seed: int = 1
    bands: int = 8
    rows: int = 2
    store_text: bool = True

    @property
    def method(self) -> str:
        return "exact" if self.store_text else "signature"


@dataclass(frozen=True)
class Held:
    """A document.

    Attributes
    ----------
    doc_id : int
    body : str or tuple of str
        As it came in.
    content : str or tuple of str
    signature : int or None
    seen : int
        When it last came in, by the caller's clock.
    batch : int
    """

    doc_id: int
    body: Content
    content: Content
    signature: int | None
    seen: int
    batch: int


def content_of(body: Content) -> Content:
    return " ".join(body.lower().split()) if isinstance(body, str) else body


@functools.lru_cache(maxsize=20_000)
def elements(content: Content, k: int, bag: bool) -> frozenset[tuple[str, int]]:
    """Shingles with 0; in a bag repetitions with 1, 2, ..."""
    words = content.split() if isinstance(content, str) else list(content)
    shingles = [" ".join(words[i : i + k]) for i in range(max(1, len(words) - k + 1))]
    counts = Counter(shingles if words else [])
    return frozenset((one, i) for one, n in counts.items() for i in range(n if bag else 1))


@functools.lru_cache(maxsize=20_000)
def signature_of(content: Content, rules: Rules) -> list[int]:
    found = elements(content, rules.k, rules.bag)
    hashes = [plain.murmur3_x64_128(one.encode(), i)[0] for one, i in found]
    return plain.SCHEMES[rules.scheme](hashes, num_perm=rules.num_perm, seed=rules.seed)


@functools.lru_cache(maxsize=200_000)
def similarity(one: Content, other: Content, rules: Rules) -> float | None:
    """As an index finds it that is asked down to ``rules.threshold``; None where it does not."""
    if not elements(one, rules.k, rules.bag) or not elements(other, rules.k, rules.bag):
        return None
    if one == other:
        return 1.0
    left, right, r = signature_of(one, rules), signature_of(other, rules), rules.rows
    if not any(left[j * r : j * r + r] == right[j * r : j * r + r] for j in range(rules.bands)):
        return None
    estimate = sum(map(int.__eq__, left, right)) / rules.num_perm
    if not rules.store_text:
        return estimate if estimate >= rules.threshold else None
    exact = jaccard(one, other, rules)
    enough = estimate >= prefilter(rules.threshold, rules.num_perm) and exact >= rules.threshold
    return exact if enough else None


def jaccard(one: Content, other: Content, rules: Rules) -> float:
    left, right = elements(one, rules.k, rules.bag), elements(other, rules.k, rules.bag)
    return len(left & right) / max(1, len(left | right))


@dataclass
class Model:
    """An index without its files.

    Attributes
    ----------
    rules : Rules
    documents : dict
        By key, in the order in which they came in.
    next_doc_id, n_signatures, n_batches, last_add : int
    unfinished : tuple of sets of int
        The batches of each add that did not end, and of which a document was left when one did.
    edges : dict or None
        What clusters are made of, as of the last time that they were brought up to date.
    edge_threshold : float
    labels : dict
        Signature to the doc_id that its cluster is called after, as of then.
    """

    rules: Rules
    documents: dict[str, Held] = field(default_factory=dict)
    next_doc_id: int = 1
    n_signatures: int = 0
    n_batches: int = 0
    last_add: int = 1
    unfinished: tuple[frozenset[int], ...] = ()
    edges: dict[tuple[int, int], float] | None = None
    edge_threshold: float = 2.0
    labels: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Model:
        """The same, which goes its own way."""
        other = copy.copy(self)
        other.documents = dict(self.documents)
        return other

    # Changes

    def add(
        self,
        items: Sequence[tuple[str, Body]],
        *,
        now: int,
        size: int,
        on_conflict: str = "replace",
    ) -> list[Model]:
        """Documents in batches of ``size``; up to the one that a conflict stops."""
        frozen = [(key, body if isinstance(body, str) else tuple(body), now) for key, body in items]
        # The first of several documents with one key counts.
        return self._take(frozen, size=size, on_conflict=on_conflict, once=True)

    def merge(self, other: Model, *, size: int, on_conflict: str = "replace") -> list[Model]:
        """All documents of another index, with the times at which they came in there."""
        items = [(key, held.body, held.seen) for key, held in other.documents.items()]
        return self._take(items, size=size, on_conflict=on_conflict)

    def _take(
        self,
        items: Sequence[tuple[str, Content, int]],
        *,
        size: int,
        on_conflict: str,
        once: bool = False,
    ) -> list[Model]:
        states, came, model = [], set[str](), self
        batches = [items[i : i + size] for i in range(0, len(items), size)]
        first, left = self.n_batches + 1, frozenset().union(*self.unfinished)
        for batch in batches or [[]]:
            if once:
                batch = [one for one in batch if one[0] not in came and not came.add(one[0])]
            model = model.copy()
            if not model._put(batch, on_conflict, left):
                break
            if any(held.batch == model.n_batches for held in model.documents.values()):
                model.last_add = first
            own = frozenset(range(first, model.n_batches + 1))
            model.unfinished = (*self.unfinished, own)
            states.append(model)
        if len(states) == len(batches or [[]]):
            there = {held.batch for held in model.documents.values()}
            model.unfinished = tuple(one for one in self.unfinished if one & there)
        return states

    def _put(
        self,
        batch: Sequence[tuple[str, Content, int]],
        on_conflict: str,
        left: frozenset[int] = frozenset(),
    ) -> bool:
        """One batch; False where a conflict stops it. What unfinished adds left is its own now."""
        self.n_batches += 1
        known = {held.content: held.signature for held in self.documents.values()}
        for key, body, seen in batch:
            before = self.documents.get(key)
            if before is not None:
                latest = max(seen, before.seen)
                if before.body == body or on_conflict == "skip":
                    is_left = before.body == body and before.batch in left
                    batch_id = self.n_batches if is_left else before.batch
                    self.documents[key] = replace(before, seen=latest, batch=batch_id)
                    continue
                if on_conflict == "error":
                    return False
                seen = latest
            content = content_of(body)
            if content not in known:
                known[content] = None
                if elements(content, self.rules.k, self.rules.bag):
                    known[content] = self.n_signatures
                    self.n_signatures += 1
            doc_id = self.next_doc_id if before is None else before.doc_id
            self.next_doc_id += before is None
            self.documents[key] = Held(doc_id, body, content, known[content], seen, self.n_batches)
        return True

    def remove(self, keys: Iterable[str], *, size: int) -> list[Model]:
        """Documents by key, ``size`` keys a batch; those that are not there are passed over."""
        asked = list(dict.fromkeys(keys))
        batches = [asked[i : i + size] for i in range(0, len(asked), size)]
        return self._drop([[key for key in batch if key in self.documents] for batch in batches])

    def expire(self, since: int, *, size: int) -> list[Model]:
        """Documents that have not come in since."""
        old = [key for key, held in self.documents.items() if held.seen < since]
        return self._drop([old[i : i + size] for i in range(0, len(old), size)])

    def _drop(self, batches: Iterable[Sequence[str]]) -> list[Model]:
        states, model = [], self
        for batch in filter(None, batches):
            model = model.copy()
            model.n_batches += 1
            for key in batch:
                del model.documents[key]
            states.append(model)
        return states

    def cluster(self, threshold: float | None = None) -> list[Model]:
        """Edges and clusters brought up to date."""
        model = self.copy()
        lowest = min(threshold or 1.0, self.rules.threshold, self.edge_threshold)
        rules = replace(self.rules, threshold=lowest)
        contents = {one.signature: one.content for one in self.documents.values()}
        contents.pop(None, None)
        model.edge_threshold, model.edges = lowest, {}
        for one, other in itertools.combinations(sorted(contents), 2):
            found = similarity(contents[one], contents[other], rules)
            if found is not None:
                model.edges[one, other] = found
        model.labels = {
            signature: group[0].doc_id
            for group in model._components(lowest)
            for signature in {held.signature for held in group}
        }
        return [model]

    def compact(self) -> list[Model]:
        """Signatures that no document has are gone, and the others have moved up."""
        alive = {one.signature for one in self.documents.values()} - {None}
        new = {old: number for number, old in enumerate(sorted(alive))}
        model = self.copy()
        model.n_signatures = len(new)
        model.documents = {
            key: replace(held, signature=new.get(held.signature))
            for key, held in self.documents.items()
        }
        if self.edges is not None:
            model.edges = {(new[one], new[other]): similar
                           for (one, other), similar in self.edges.items()
                           if one in new and other in new}  # fmt: skip
        model.labels = {new[one]: label for one, label in self.labels.items() if one in new}
        return [model]

    def reband(self, **rules: Any) -> list[Model]:
        """Other bands, or another threshold; compacted, and without edges."""
        (model,) = self.compact()
        model.rules = replace(self.rules, **rules)
        model.edges, model.edge_threshold, model.labels = None, 2.0, {}
        return [model]

    # Answers

    def pairs(
        self, threshold: float | None = None, since: int | None = None
    ) -> set[tuple[str, str, float]]:
        """All that an index finds, with the one that came in first first."""
        rules = replace(self.rules, threshold=threshold or self.rules.threshold)
        found = set()
        for (key1, one), (key2, other) in itertools.combinations(self.documents.items(), 2):
            if since is None or one.batch >= since or other.batch >= since:
                similar = similarity(one.content, other.content, rules)
                if similar is not None:
                    found.add((key1, key2, similar))
        return found

    def alike(self, threshold: float) -> set[tuple[str, str]]:
        """All pairs that there are, found or not: the precision of ``pairs`` is held to them."""
        return {
            (key1, key2)
            for (key1, one), (key2, other) in itertools.combinations(self.documents.items(), 2)
            if jaccard(one.content, other.content, self.rules) >= threshold
        }

    def query(
        self, body: Body, threshold: float | None = None, without: str | None = None
    ) -> list[tuple[str, float]]:
        """All hits, best first, equals in order of key."""
        rules = replace(self.rules, threshold=threshold or self.rules.threshold)
        asked = content_of(body if isinstance(body, str) else tuple(body))
        found = [
            (-similar, key)
            for key, held in self.documents.items()
            if key != without and (similar := similarity(asked, held.content, rules)) is not None
        ]
        return [(key, -similar) for similar, key in sorted(found)]

    def clusters(self) -> list[tuple[str, tuple[str, ...]]]:
        """As of the last time that they were brought up to date, by what is still there of them."""
        groups: dict[int, list[str]] = {}
        for key, held in self.documents.items():
            if held.signature in self.labels:
                groups.setdefault(self.labels[held.signature], []).append(key)
        return self._listed(groups)

    def clusters_at(self, threshold: float) -> list[tuple[str, tuple[str, ...]]]:
        """Components of the pairs at a threshold that edges reach down to; up to date."""
        keys = {held.doc_id: key for key, held in self.documents.items()}
        groups = self._components(threshold)
        return self._listed({one[0].doc_id: [keys[held.doc_id] for held in one] for one in groups})

    def _listed(self, groups: Mapping[int, list[str]]) -> list[tuple[str, tuple[str, ...]]]:
        large = [(label, keys) for label, keys in groups.items() if len(keys) > 1]
        large.sort(key=lambda group: (-len(group[1]), group[0]))
        doc_ids = {key: held.doc_id for key, held in self.documents.items()}
        return [
            (next((key for key in keys if doc_ids[key] == label), keys[0]), tuple(keys))
            for label, keys in large
        ]

    def _components(self, threshold: float) -> list[list[Held]]:
        """Documents that hang together by edges or copies, each group in order of doc_id."""
        root = {held.signature: held.signature for held in self.documents.values()}
        root.pop(None, None)

        def top(signature: int | None) -> int | None:
            while root[signature] != signature:
                signature = root[signature]
            return signature

        for (one, other), similar in (self.edges or {}).items():
            if similar >= threshold and one in root and other in root:
                root[top(one)] = top(other)
        groups: dict[int | None, list[Held]] = {}
        for held in self.documents.values():
            if held.signature is not None:
                groups.setdefault(top(held.signature), []).append(held)
        return [group for group in groups.values() if len(group) > 1]

    def neighbors(self) -> set[tuple[str, str, float]]:
        """Both ways round: copies, and what is still there of the edges."""
        return {
            (key1, key2, 1.0 if one.signature == other.signature else self.edges[ends])
            for (key1, one), (key2, other) in itertools.permutations(self.documents.items(), 2)
            if one.signature is not None and other.signature is not None and self.edges is not None
            for ends in [tuple(sorted((one.signature, other.signature)))]
            if one.signature == other.signature or ends in self.edges
        }

    def kept(self) -> set[str]:
        """What ``dedup`` keeps: all that repeats nothing that was kept before it."""
        linked = {(one, other) for one, other, _ in self.neighbors()}
        kept: list[str] = []
        for key in self.documents:
            if not any((key, other) in linked for other in kept):
                kept.append(key)
        return set(kept)

    def counts(self) -> dict[str, int]:
        """Those of ``stats`` that a model knows."""
        signatures = [one.signature for one in self.documents.values() if one.signature is not None]
        return {
            "documents": len(self.documents),
            "empty_documents": len(self.documents) - len(signatures),
            "exact_copies": len(signatures) - len(set(signatures)),
            "signatures": self.n_signatures,
            "unused_signatures": self.n_signatures - len(set(signatures)),
            "postings": self.n_signatures * self.rules.bands,
            "batches": self.n_batches,
        }

    def bodies(self) -> Iterator[tuple[str, Content]]:
        """Every document as it came in, in order."""
        return ((key, held.body) for key, held in self.documents.items())

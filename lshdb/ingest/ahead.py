"""Hash, pack and sign the documents of a batch, a part at a time, while the batch is being read.

Decided: whether a document is new is known only when its batch is complete and its keys are looked
up. While most documents of the batch before were new, a part is hashed, packed and signed at once,
in threads. Else only its body is hashed, and the rest is done for those documents that prove new:
a feed that comes in again as it was costs no signature.

Texts that the kernel takes as they are go through it in columns. Other bodies take the way of the
reference, one by one, when they are asked for: ready tokens, texts cut by Python, and texts of more
than 1 Mi characters, of which one at a time is held in several forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lshdb.ingest import add_sizes
from lshdb.ingest.batch import (
    PERSON_OF_TEXTS,
    Batch,
    Contents,
    HashedBodies,
    hash_bodies,
    hash_contents,
    hash_texts,
    sign_in_threads,
)
from lshdb.signatures.family import Family, SignedTexts
from lshdb.storage.tables.bodies import WITHOUT_DICTIONARY, BodyCodec, raw_body, train_dictionary
from lshdb.threads import Task, Workers

__all__ = ["Ahead", "BatchPart"]


class BatchPart(NamedTuple):
    """Neighbouring documents of a batch that are worked on together.

    Attributes
    ----------
    n : int
    task : Task
        Its result is their bodies' hashes and forms, packed or not, and their signatures, or None.
    """

    n: int
    task: Task[Any, tuple[HashedBodies, SignedTexts | None]]


class Ahead:
    """Works on the documents of batches; a context manager, as its threads are.

    Parameters
    ----------
    family : Family
    codec : BodyCodec or None
        Of the index; if it has no dictionary yet, one is trained on the first texts. Without one,
        bodies are not packed, and stay.
    workers : int
        Threads that work at a time, the caller's included; the results do not depend on it.
    expects_new : bool
        Whether most documents of the first batch are probably new.

    Attributes
    ----------
    most_characters : int
        So much may be read of a batch before the one before it is written; none without threads,
        which would not work on it meanwhile.
    expects_new : bool
        Whether most documents of the next batch are probably new.
    """

    def __init__(
        self, family: Family, codec: BodyCodec | None, *, workers: int, expects_new: bool
    ) -> None:
        self._family = family
        self._codec = WITHOUT_DICTIONARY if codec is None else codec
        self._may_train = codec is not None and not codec.dictionary
        self._keeps_bodies = codec is None
        self._workers = workers
        self.expects_new = expects_new
        self.most_characters = add_sizes.SIZES.ahead_characters if workers > 1 else 0
        self._threads = Workers(workers - 1)
        self._packs = codec is not None and family.params.keeps_texts
        self._packs_ahead = self._packs and not self._may_train
        self._signed: SignedTexts | None = None

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.__exit__(*error)

    @property
    def waits(self) -> bool:
        """Whether threads have done all that they were given, so that they wait for more."""
        return self._threads.is_idle

    def begin(self, bodies: list[Any], *, are_plain: bool) -> BatchPart:
        """Begin to work on the bodies of some documents; in a plain block, all are texts."""
        is_plain = (are_plain and self._family.takes_texts) or all(map(self._is_plain, bodies))
        work: Callable[[list[Any]], tuple[HashedBodies, SignedTexts | None]]
        if self.expects_new:
            work = self._sign if is_plain else self._pack
        else:
            work = _hash_texts if is_plain else _hash
        return BatchPart(len(bodies), self._threads.submit(work, bodies))

    def complete(self, batch: Batch, parts: list[BatchPart]) -> None:
        """Fill the columns of a batch that follow from its bodies, once all of these are in parts.

        Bodies are let go of where nothing more is needed of them; so are the parts.
        """
        signed_parts: list[tuple[int, SignedTexts]] = []
        parts.reverse()
        while parts:
            part = parts.pop()
            bodies, texts = part.task.result(helps=True)
            if texts is not None:
                signed_parts.append((len(batch.forms), texts))
            batch.forms += bodies.forms
            batch.body_hashes += bodies.hashes
            batch.packed += bodies.packed or repeat(b"", part.n)
        n = len(batch.forms)
        if sum(len(texts.hashes) for _, texts in signed_parts) == n:
            signed = _joined([texts for _, texts in signed_parts])
            batch.contents = Contents(range(n), signed.hashes, signed.n_unassigned, signed)
            if not (self._keeps_bodies or (self._packs and b"" in batch.packed)):
                batch.bodies = [None] * n  # as large as all the rest, and needed no more
            return
        batch.contents = Contents([None] * n, [b""] * n, [0] * n)
        for start, texts in signed_parts:
            _put(batch.contents, range(start, start + len(texts.hashes)), texts)

    def contents(self, batch: Batch, places: Sequence[int]) -> Contents:
        """Return the contents of some documents of a complete batch; pack their bodies.

        Raises
        ------
        TokenizerError
            Names the document whose text the tokenizer fails on.
        """
        self.expects_new = 2 * len(places) > len(batch.keys)
        contents = batch.contents or Contents([], [], [])
        left: list[int] = []
        if not isinstance(contents.values, range):
            left = [place for place in places if contents.values[place] is None]
        plain = [place for place in left if self._is_plain(batch.bodies[place])]
        if plain:
            self._sign_late(batch, contents, plain)
        if len(left) > len(plain):
            odd = [place for place in left if contents.values[place] is None]
            hashed = hash_contents(self._family, batch, odd)
            for place, value, digest, n_unassigned in zip(
                odd, hashed.values, hashed.hashes, hashed.n_unassigned, strict=True
            ):
                contents.put(place, value, digest, n_unassigned)
        if self._packs and b"" in batch.packed:
            unpacked = [place for place in places if not batch.packed[place]]
            raws = [raw_body(batch.bodies[place])[1] for place in unpacked]
            if self._may_train:
                self._train(raws)
            for place, packed in zip(unpacked, self._codec.pack_many(raws), strict=True):
                batch.packed[place] = packed
        batch.codec = self._codec
        self._signed = contents.signed
        return contents.at(places)

    def sign(self, values: list[Any]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return signature rows and numbers of shingles of some that :meth:`contents` gave last."""
        signed = self._signed
        if signed is not None and values == list(range(len(signed.rows))):
            return signed.rows, signed.counts
        numbers = np.array(
            [value if type(value) is int else -1 for value in values], dtype=np.int64
        )
        is_signed = numbers >= 0
        if signed is not None and is_signed.all():
            return signed.rows[numbers], signed.counts[numbers]
        rows = np.zeros((len(values), self._family.params.row_words), dtype=np.uint16)
        counts = np.zeros(len(values), dtype=np.int64)
        if signed is not None:
            rows[is_signed], counts[is_signed] = (
                signed.rows[numbers[is_signed]],
                signed.counts[numbers[is_signed]],
            )
        unsigned = [value for value in values if type(value) is not int]
        rows[~is_signed], counts[~is_signed] = sign_in_threads(
            unsigned, self._family, workers=self._workers
        )
        return rows, counts

    def _train(self, raws: list[bytes]) -> None:
        """Train the dictionary of the index on the first texts that are enough for one."""
        dictionary = train_dictionary(raws)
        if dictionary is not None:
            self._may_train = False
            self._codec = BodyCodec(dictionary)
            self._packs_ahead = True

    def _codec_ahead(self) -> BodyCodec | None:
        return self._codec if self._packs_ahead else None

    def _is_plain(self, body: Any) -> bool:
        is_text = self._family.takes_texts and type(body) is str
        return is_text and len(body) <= add_sizes.SIZES.long_text

    def _sign(self, texts: list[str]) -> tuple[HashedBodies, SignedTexts]:
        hashed = hash_texts(texts, self._codec_ahead())
        return hashed, self._family.sign_texts(texts, PERSON_OF_TEXTS)

    def _pack(self, bodies: list[Any]) -> tuple[HashedBodies, None]:
        return hash_bodies(bodies, self._codec_ahead()), None

    def _sign_late(self, batch: Batch, contents: Contents, places: Sequence[int]) -> None:
        """Sign, and pack, texts whose bodies alone were hashed."""
        texts = [batch.bodies[place] for place in places]
        size = add_sizes.SIZES.part_documents
        parts = (texts[start : start + size] for start in range(0, len(texts), size))
        tasks = [self._threads.submit(self._sign, part) for part in parts]
        results = [task.result(helps=True) for task in tasks]
        _put(contents, places, _joined([signed for _, signed in results]))
        if all(hashed.packed for hashed, _ in results):
            packed = chain.from_iterable(hashed.packed for hashed, _ in results)
            for place, frame in zip(places, packed, strict=True):
                batch.packed[place] = frame


def _hash_texts(texts: list[str]) -> tuple[HashedBodies, None]:
    return hash_texts(texts), None


def _hash(bodies: list[Any]) -> tuple[HashedBodies, None]:
    return hash_bodies(bodies), None


def _put(contents: Contents, places: Iterable[int], texts: SignedTexts) -> None:
    """Note texts as the contents of some places."""
    before = [] if contents.signed is None else [contents.signed]
    first = len(before[0].hashes) if before else 0
    contents.signed = _joined([*before, texts])
    columns = (texts.hashes, texts.n_unassigned)
    for number, (place, digest, n) in enumerate(zip(places, *columns, strict=True), first):
        contents.put(place, number, digest, n)


def _joined(parts: list[SignedTexts]) -> SignedTexts:
    if len(parts) == 1:
        return parts[0]
    return SignedTexts(
        list(chain.from_iterable(part.hashes for part in parts)),
        list(chain.from_iterable(part.n_unassigned for part in parts)),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.counts for part in parts]),
    )

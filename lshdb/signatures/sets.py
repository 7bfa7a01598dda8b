"""Metric ``jaccard``: texts and token lists as sets of shingles, signed by min-hash.

Slots are words; two are equal with probability J, the Jaccard similarity of the two sets, which is
also the exact value: (J1, J2, J1, J2)-sensitive for any two similarities. The schemes are in
``minhash.py``; :mod:`lshdb.shingling` turns texts into shingles.

The functions behind the family take many contents at once. The kernel does all steps of a content
together: words, shingles, hashes, sketch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.arguments import validate_body
from lshdb.arrays import distinct, np
from lshdb.kernel import kernel
from lshdb.kernel.lookup_tables import (
    SCHEMES,
    constants,
    folding_table,
    give_memo,
    kinds_table,
    take_memo,
    unit_number,
)
from lshdb.shingling import (
    NORMALISATION,
    Content,
    Shingler,
    canonical_content,
    count_unassigned,
    normalise,
    refuse_growth,
    shingle_hashes,
    shingle_texts,
)
from lshdb.signatures.family import Family, SignedQuery, SignedTexts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.params.index_params import IndexParams

__all__ = [
    "SetFamily",
    "canonical_contents",
    "compare_contents",
    "compare_sets",
    "exact_similarity",
    "normalise_texts",
    "shingle_content",
    "shingle_contents",
    "sign",
    "sign_contents",
    "split_digests",
]

Hashes: TypeAlias = "NDArray[np.uint64]"


class SetFamily(Family):
    """Jaccard similarity of texts.

    Parameters
    ----------
    params : IndexParams
    shingler : Shingler
        Built from the same parameters.
    """

    def __init__(self, params: IndexParams, shingler: Shingler) -> None:
        super().__init__(params)
        self.shingler = shingler
        self.split = shingler.split

    @property
    def takes_texts(self) -> bool:
        """Whether the kernel does all steps of a text."""
        return self._fold is not None

    @property
    def _fold(self) -> bool | None:
        """Whether the kernel folds case; None if it does not normalise these texts."""
        shingler = self.shingler
        return None if shingler.is_cut else _KERNEL_NORMALISATIONS.get(shingler.normalisation)

    def refusal(self, body: object) -> str | None:
        """Return why a body is not a text or tokens, or is too long once normalised."""
        if type(body) is str and body.isascii():  # as most are
            return None
        reason = validate_body(body)
        if reason is None and isinstance(body, str):
            reason = refuse_growth(body, self.shingler.normalisation)
        return reason

    def content(self, body: Any) -> Content:
        """Return the canonical content of one body, by the reference."""
        return self.shingler.canonical(body)

    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return normalised texts, without stop words; shingles of URLs; tokens unchanged."""
        return canonical_contents(self.shingler, bodies)

    def points(self, contents: Sequence[Any]) -> list[Hashes]:
        """Return the sorted distinct shingle hashes of each content."""
        shingler = self.shingler
        return [
            shingle_content(content, unit=shingler.unit, k=shingler.k, bag=shingler.bag)
            for content in contents
        ]

    def sets(self, contents: Sequence[Any]) -> tuple[Hashes, NDArray[np.int64]]:
        """Return the points of contents one after the other, and the size of each."""
        shingler = self.shingler
        return shingle_contents(contents, unit=shingler.unit, k=shingler.k, bag=shingler.bag)

    def sign(self, points: Sequence[Hashes]) -> NDArray[np.uint16]:
        """Return min-hash signatures of sets that are not empty."""
        params = self.params
        return sign(points, scheme=params.scheme, num_perm=params.num_perm, seed=params.seed)

    def sign_sets(self, hashes: Hashes, counts: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return signatures of what :meth:`sets` returned; no set is empty."""
        params = self.params
        return sketch(
            hashes, counts, scheme=params.scheme, num_perm=params.num_perm, seed=params.seed
        )

    def sign_contents(
        self,
        contents: Sequence[Any],
        into: tuple[NDArray[np.uint16], NDArray[np.int64]] | None = None,
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Shingle and sign contents; the kernel does so without the interpreter's lock."""
        params, shingler = self.params, self.shingler
        return sign_contents(
            contents, unit=shingler.unit, k=shingler.k, bag=shingler.bag,
            scheme=params.scheme, num_perm=params.num_perm, seed=params.seed, into=into,
        )  # fmt: skip

    def sign_texts(self, texts: Sequence[str], person: bytes) -> SignedTexts:
        """Normalise, hash and sign texts by the kernel."""
        params, shingler, n, fold = self.params, self.shingler, len(texts), bool(self._fold)
        hashes = bytearray(_DIGEST_BYTES * n)
        unassigned, counts = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        rows = np.zeros((n, params.num_perm), dtype=np.uint16)
        table, fill, _, segment = folding_table(fold)
        unit, k = unit_number(shingler.unit, shingler.k)
        memo = take_memo(fold=fold)
        try:
            kernel.sign_texts(
                list(texts), fold, table, fill, memo, segment,
                partial(normalise, steps=shingler.normalisation), *kinds_table(), person,
                unit, k, shingler.bag, SCHEMES[params.scheme], params.num_perm,
                constants(params.scheme, params.num_perm, params.seed),
                hashes, unassigned, rows, counts,
            )  # fmt: skip
        finally:
            give_memo(memo, fold=fold)
        return SignedTexts(split_digests(hashes), unassigned.tolist(), rows, counts)

    def sign_queries(self, contents: Sequence[Any]) -> list[SignedQuery]:
        """Shingle, sign and cut each text in one call."""
        params, shingler = self.params, self.shingler
        number, k = unit_number(shingler.unit, shingler.k)
        numbers = constants(params.scheme, params.num_perm, params.seed)
        return [
            SignedQuery(
                *kernel.sign_query(
                    content, number, k, shingler.bag, SCHEMES[params.scheme], params.num_perm,
                    numbers, params.bands, params.rows,
                )
            )
            if isinstance(content, str) and sys.byteorder == "little"
            else super(SetFamily, self).sign_queries([content])[0]
            for content in contents
        ]  # fmt: skip

    def query_of_row(self, row: bytes, content: Any = None) -> SignedQuery:
        """Cut a row, and shingle a text without an array."""
        if not isinstance(content, str):
            return super().query_of_row(row, content)
        shingler = self.shingler
        unit = unit_number(shingler.unit, shingler.k)
        hashes = kernel.shingle_text(content, *unit, shingler.bag)
        return SignedQuery(hashes, row, self._orders.keys_of_row(row))

    def size(self, point: Hashes | bytes) -> int:
        """Count the hashes of a point, or of a query's bytes."""
        return len(point) // 8 if isinstance(point, bytes | bytearray) else len(point)

    def point_of(self, query: SignedQuery) -> Hashes:
        """Return the sorted hashes of a query."""
        return np.sort(np.frombuffer(query.point, np.uint64))

    def levels_with(self, query: SignedQuery, contents: Sequence[Any]) -> list[float]:
        """Return Jaccard similarities; 0 for a content without shingles."""
        if any(not isinstance(content, str) or len(content) > _LONG for content in contents):
            return super().levels_with(query, contents)
        shingler, size = self.shingler, self.size(query.point)
        unit = unit_number(shingler.unit, shingler.k)
        shared = kernel.share_with(query.point, list(contents), *unit, shingler.bag)
        return [common / (size + size2 - common) for common, size2 in shared]

    def levels(self, left: Sequence[Hashes], right: Sequence[Hashes]) -> NDArray[np.float64]:
        """Return Jaccard similarities |A n B| / |A u B|; 0 if both are empty."""
        return np.array([exact_similarity(*pair) for pair in zip(left, right, strict=True)])

    def gather(self, contents: Sequence[Any]) -> tuple[Hashes, NDArray[np.int64]]:
        """Return what :meth:`sets` does."""
        return self.sets(contents)

    def levels_among(
        self,
        left: tuple[Hashes, NDArray[np.int64]],
        left_places: NDArray[np.int64],
        right: tuple[Hashes, NDArray[np.int64]],
        right_places: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return Jaccard similarities by one call of the kernel."""
        tables = [
            np.stack([np.full(len(counts), part), np.cumsum(counts) - counts, counts], axis=1)
            for part, (_, counts) in enumerate((left, right))
        ]
        places = len(tables[0]) + right_places
        return compare_sets([left[0], right[0]], np.concatenate(tables), left_places, places)

    def compare(self, left: Any, right: Any) -> float:
        """Return the Jaccard similarity of two contents."""
        shingler = self.shingler
        common, n_left, n_right = compare_contents(
            left, right, unit=shingler.unit, k=shingler.k, bag=shingler.bag
        )
        either = n_left + n_right - common
        return common / either if either else 0.0

    def elements(self, content: Any) -> list[str]:
        """Return the shingles of a content as texts."""
        shingler = self.shingler
        return shingle_texts(content, unit=shingler.unit, k=shingler.k, bag=shingler.bag)

    def n_unassigned(self, content: Any) -> int:
        """Count the characters that this interpreter's Unicode does not assign."""
        return count_unassigned(content)


def exact_similarity(left: Hashes, right: Hashes) -> float:
    """Return the Jaccard similarity of two sorted arrays of distinct hashes; 0 if both are empty.

    O(n log m) for n <= m.
    """
    if not len(left) or not len(right):
        return 0.0
    common: int = kernel.count_common(left, right)
    return common / (len(left) + len(right) - common)


_KERNEL_NORMALISATIONS = {NORMALISATION: True, "ignorable-nfkc-space": False}
_UNIT_NUMBERS = {"word": 0, "char": 1, "byte": 2, "line": 3, "token": 4, "tokenizer": 4}
_BLOCK_ELEMENTS = 1 << 18
_BLOCK_SETS = 1024
_LONG = 2**21
_DIGEST_BYTES = 16


def split_digests(column: bytearray) -> list[bytes]:
    """Return the digests of 16 bytes that lie one after the other."""
    digests: list[bytes] = np.frombuffer(column, dtype=f"V{_DIGEST_BYTES}").tolist()
    return digests


def normalise_texts(texts: Sequence[str], *, fold: bool = True) -> list[str]:
    """Normalise texts by default, or without folding letter case.

    O(total characters); each result equals that of :func:`lshdb.shingling.normalise`. The kernel
    handles nearly all texts. The reference handles those with very many different, or very long,
    runs of characters that do not normalise alone.
    """
    steps = NORMALISATION if fold else "ignorable-nfkc-space"
    results: list[Any] = kernel.normalise(list(texts), fold, *folding_table(fold))
    if None not in results:  # as nearly always
        return results
    return [
        normalise(text, steps) if normalised is None else normalised
        for text, normalised in zip(texts, results, strict=True)
    ]


def canonical_contents(shingler: Shingler, bodies: Sequence[Content]) -> list[Content]:
    """Return the canonical contents of bodies: as ``shingler.canonical``, but faster."""
    fold = _KERNEL_NORMALISATIONS.get(shingler.normalisation)
    if fold is None or shingler.is_cut:
        return [shingler.canonical(body) for body in bodies]
    texts = [body for body in bodies if isinstance(body, str)]
    normalised: list[Any] = normalise_texts(texts, fold=fold)
    if len(texts) == len(bodies):
        return normalised
    following = iter(normalised)
    return [
        next(following) if isinstance(body, str) else canonical_content(body) for body in bodies
    ]


def shingle_content(content: Content, *, unit: str, k: int, bag: bool) -> NDArray[np.uint64]:
    """Return sorted distinct hashes: as :func:`lshdb.shingling.shingle_hashes`, but faster."""
    if not isinstance(content, str):
        return shingle_hashes(content, unit=unit, k=k, bag=bag)
    hashes = np.frombuffer(kernel.shingle_text(content, *unit_number(unit, k), bag), np.uint64)
    hashes.sort()
    return hashes


def shingle_contents(
    contents: Sequence[Content], *, unit: str, k: int, bag: bool
) -> tuple[Hashes, NDArray[np.int64]]:
    """Shingle canonical contents together, without the interpreter's lock where they are texts.

    Parameters
    ----------
    contents : sequence of str, or of sequences or sets of str
    unit, k, bag
        As for :func:`lshdb.shingling.shingle_hashes`.

    Returns
    -------
    hashes : ndarray of uint64, shape (counts.sum(),)
        The sorted distinct hashes of each content, one content after the other.
    counts : ndarray of int64, shape (len(contents),)
    """
    counts = np.zeros(len(contents), dtype=np.int64)
    if all(isinstance(content, str) and len(content) <= _LONG for content in contents):
        hashes = kernel.shingle_texts(list(contents), *unit_number(unit, k), bag, counts)
        return np.frombuffer(hashes, dtype=np.uint64), counts
    points = [shingle_content(content, unit=unit, k=k, bag=bag) for content in contents]
    counts[:] = [len(point) for point in points]
    return np.concatenate([np.empty(0, dtype=np.uint64), *points]), counts


def compare_sets(
    parts: Sequence[Hashes],
    sets: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the Jaccard similarity of set left[i] and set right[i]; 0 if both are empty.

    Parameters
    ----------
    parts : sequence of ndarray of uint64
        What :func:`shingle_contents` returned.
    sets : ndarray of int64, shape (m, 3)
        For each set the number of its part, where it begins there, and its size.
    left, right : ndarray of int64, shape (n,)
        Numbers of sets.

    Returns
    -------
    ndarray of float64, shape (n,)
        O(sizes of the sets).
    """
    sizes = sets[left, 2] + sets[right, 2]
    common = np.empty(len(left), dtype=np.int64)
    kernel.compare_sets(list(parts), np.ascontiguousarray(sets), left, right, common)
    similarities: NDArray[np.float64] = common / np.maximum(sizes - common, 1)
    return similarities


def compare_contents(
    left: Content, right: Content, *, unit: str, k: int, bag: bool
) -> tuple[int, int, int]:
    """Count the shingles of two canonical contents, and the common ones.

    O(both texts). Their Jaccard similarity is common / (left + right - common).
    """
    if isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > _LONG:  # sorted hashes take a third of the memory
            points = [
                shingle_content(content, unit=unit, k=k, bag=bag) for content in (left, right)
            ]
            return kernel.count_common(*points), len(points[0]), len(points[1])
        numbers: tuple[int, int, int]
        numbers = kernel.compare_texts(left, right, *unit_number(unit, k), bag)
        return numbers
    sets = [shingle_hashes(content, unit=unit, k=k, bag=bag) for content in (left, right)]
    # Sorted, and not as numbers in a Python set, which chosen hashes can make slow.
    either = len(distinct(np.concatenate(sets)))
    return len(sets[0]) + len(sets[1]) - either, len(sets[0]), len(sets[1])


def sign_contents(
    contents: Sequence[Content],
    *,
    unit: str,
    k: int,
    bag: bool,
    scheme: str,
    num_perm: int,
    seed: int,
    into: tuple[NDArray[np.uint16], NDArray[np.int64]] | None = None,
) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Shingle and sign canonical contents.

    Parameters
    ----------
    contents : sequence of str, or of sequences or sets of str
        What :func:`lshdb.shingling.canonical_content` returned.
    unit, k, bag
        As for :func:`lshdb.shingling.shingle_hashes`.
    scheme, num_perm, seed
        As for :func:`sign`.
    into : pair of ndarray, optional
        Zeros in C order, to be filled and returned.

    Returns
    -------
    rows : ndarray of uint16, shape (len(contents), num_perm)
        Zeros for a content without shingles.
    counts : ndarray of int64, shape (len(contents),)
        Distinct shingles of each.

    Notes
    -----
    The kernel releases the interpreter's lock, so threads may sign parts of a list at once.
    """
    rows, counts = into or (
        np.zeros((len(contents), num_perm), dtype=np.uint16),
        np.zeros(len(contents), dtype=np.int64),
    )
    number, width = unit_number(unit, k)

    def fill(part: list[Any], k: int, into: tuple[Any, Any]) -> None:
        numbers = constants(scheme, num_perm, seed)
        kernel.sign_contents(part, number, k, bag, SCHEMES[scheme], num_perm, numbers, *into)

    if frozenset in map(type, contents):
        ordered = [[] if isinstance(content, frozenset) else content for content in contents]
        fill(ordered, width, (rows, counts))
        places = [place for place, content in enumerate(contents) if isinstance(content, frozenset)]
        of_sets = np.zeros_like(rows, shape=(len(places), num_perm)), np.zeros(len(places), "q")
        fill([list(contents[place]) for place in places], 1, of_sets)
        rows[places], counts[places] = of_sets
    else:
        fill(list(contents), width, (rows, counts))
    return rows, counts


def sign(
    sets: Sequence[NDArray[np.uint64]], *, scheme: str, num_perm: int, seed: int
) -> NDArray[np.uint16]:
    """Sign sets of shingle hashes.

    Parameters
    ----------
    sets : sequence of ndarray of uint64
        One array per document, none empty. Order and repeats within one make no difference.
    scheme : {"fss", "universal"}
    num_perm : int
        Slots of a signature.
    seed : int
        0 to 2^64 - 1.

    Returns
    -------
    ndarray of uint16, shape (len(sets), num_perm)
        Row i is the signature of sets[i]; it does not depend on the other sets.
    """
    if len(sets) == 1:  # a query
        length = np.array([len(sets[0])], dtype=np.int64)
        return sketch(sets[0], length, scheme=scheme, num_perm=num_perm, seed=seed)
    rows = np.empty((len(sets), num_perm), dtype=np.uint16)
    start = 0
    while start < len(sets):
        end, elements = start, 0
        while end < len(sets) and end - start < _BLOCK_SETS and elements < _BLOCK_ELEMENTS:
            elements += len(sets[end])
            end += 1
        block = sets[start:end]
        lengths = np.array([len(hashes) for hashes in block], dtype=np.int64)
        rows[start:end] = sketch(
            np.concatenate(block), lengths, scheme=scheme, num_perm=num_perm, seed=seed
        )
        start = end
    return rows


def sketch(
    hashes: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    *,
    scheme: str,
    num_perm: int,
    seed: int,
) -> NDArray[np.uint16]:
    """Sketch concatenated sets."""
    rows = np.empty((len(lengths), num_perm), dtype=np.uint16)
    numbers = constants(scheme, num_perm, seed)
    kernel.sketch(hashes, lengths, SCHEMES[scheme], num_perm, numbers, rows)
    return rows

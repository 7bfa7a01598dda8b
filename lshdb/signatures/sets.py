"""Metric ``jaccard``: texts and token lists as sets of shingles, signed by min-hash.

Slots are words; two are equal with probability J, the Jaccard similarity of the two sets, which is
also the exact value: (J1, J2, J1, J2)-sensitive for any two similarities. The schemes are in
``minhash.py``; :mod:`lshdb.shingling` turns texts into shingles.

The functions behind the family take many contents at once. The kernel does all steps of a content
together: words, shingles, hashes, sketch. The reference, without a kernel, goes step by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import validate_body
from lshdb.arrays import distinct
from lshdb.shingling import (
    Content,
    Shingler,
    canonical_content,
    count_unassigned,
    normalise,
    refuse_growth,
    shingle_hashes,
    shingle_texts,
)
from lshdb.signatures.family import Family
from lshdb.signatures.kernels import (
    SCHEME_NUMBERS,
    compiled,
    constants,
    folding_table,
)
from lshdb.signatures.minhash import SCHEMES

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = [
    "SetFamily",
    "canonical_contents",
    "compare_contents",
    "exact_similarity",
    "normalise_texts",
    "shingle_content",
    "sign",
    "sign_contents",
]

Hashes = NDArray[np.uint64]


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

    def refusal(self, body: object) -> str | None:
        """Return why a body is not a text or tokens, or is too long once normalised."""
        reason = validate_body(body)
        if reason is None and isinstance(body, str):
            reason = refuse_growth(body, self.shingler.normalisation)
        return reason

    def content(self, body: Any) -> Content:
        """Return the canonical content of one body, by the reference."""
        return self.shingler.canonical(body)

    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return normalised texts; shingles for unit ``url``; tokens unchanged."""
        return canonical_contents(self.shingler, bodies)

    def points(self, contents: Sequence[Any]) -> list[Hashes]:
        """Return the sorted distinct shingle hashes of each content."""
        shingler = self.shingler
        return [
            shingle_content(content, unit=shingler.unit, k=shingler.k, bag=shingler.bag)
            for content in contents
        ]

    def sign(self, points: Sequence[Hashes]) -> NDArray[np.uint32]:
        """Return min-hash signatures of sets that are not empty."""
        params = self.params
        return sign(points, scheme=params.scheme, num_perm=params.num_perm, seed=params.seed)

    def sign_contents(
        self,
        contents: Sequence[Any],
        into: tuple[NDArray[np.uint32], NDArray[np.int64]] | None = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Shingle and sign contents; the kernel does so without the interpreter's lock."""
        params, shingler = self.params, self.shingler
        return sign_contents(
            contents, unit=shingler.unit, k=shingler.k, bag=shingler.bag,
            scheme=params.scheme, num_perm=params.num_perm, seed=params.seed, into=into,
        )  # fmt: skip

    def levels(self, left: Sequence[Hashes], right: Sequence[Hashes]) -> NDArray[np.float64]:
        """Return Jaccard similarities |A n B| / |A u B|; 0 if both are empty."""
        return np.array([exact_similarity(*both) for both in zip(left, right, strict=True)])

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
    if len(left) > len(right):
        left, right = right, left
    if not len(left):
        return 0.0
    kernel = compiled()
    if kernel is not None:
        common = kernel.count_common(left, right)
        return float(common / (len(left) + len(right) - common))
    places = np.searchsorted(right, left)
    places[places == len(right)] = len(right) - 1
    common = int(np.count_nonzero(right[places] == left))
    return common / (len(left) + len(right) - common)


_KERNEL_NORMALISATIONS = {"nfkc-casefold-space": True, "nfkc-space": False}
_UNIT_NUMBERS = {"word": 0, "char": 1, "byte": 2, "line": 3, "token": 4, "tokenizer": 4}
_BLOCK_ELEMENTS = 1 << 18
_BLOCK_SETS = 1024
_LONG = 2**21


def normalise_texts(texts: Sequence[str], *, fold: bool = True) -> list[str]:
    """Apply NFKC to texts, fold letter case if asked to, and collapse white space.

    O(total characters); each result equals that of :func:`lshdb.shingling.normalise`. The kernel
    handles nearly all texts. The reference handles those with very many different, or very long,
    runs of characters that do not normalise alone.
    """
    steps = "nfkc-casefold-space" if fold else "nfkc-space"
    kernel = compiled()
    if kernel is None:
        return [normalise(text, steps) for text in texts]
    done: list[str] = kernel.normalise(list(texts), fold, *folding_table(fold))
    if None not in done:
        return done
    return [
        normalise(text, steps) if normalised is None else normalised
        for text, normalised in zip(texts, done, strict=True)
    ]


def canonical_contents(shingler: Shingler, bodies: Sequence[Content]) -> list[Content]:
    """Return the canonical contents of bodies: as ``shingler.canonical``, but faster."""
    fold = _KERNEL_NORMALISATIONS.get(shingler.normalisation)
    if fold is None or shingler.unit in ("url", "tokenizer"):
        return [shingler.canonical(body) for body in bodies]
    texts = iter(normalise_texts([body for body in bodies if isinstance(body, str)], fold=fold))
    return [next(texts) if isinstance(body, str) else canonical_content(body) for body in bodies]


def kernel_unit(unit: str, k: int) -> tuple[int, int]:
    """Return the kernel's number of a unit, and k; lines of a ``url`` content are shingles."""
    return (_UNIT_NUMBERS["line"], 1) if unit == "url" else (_UNIT_NUMBERS[unit], k)


def shingle_content(content: Content, *, unit: str, k: int, bag: bool) -> NDArray[np.uint64]:
    """Return sorted distinct hashes: as :func:`lshdb.shingling.shingle_hashes`, but faster."""
    kernel = compiled()
    if kernel is None or not isinstance(content, str):
        return shingle_hashes(content, unit=unit, k=k, bag=bag)
    hashes = np.frombuffer(kernel.shingle_text(content, *kernel_unit(unit, k), bag), np.uint64)
    hashes.sort()
    return hashes


def compare_contents(
    left: Content, right: Content, *, unit: str, k: int, bag: bool
) -> tuple[int, int, int]:
    """Count the shingles that two canonical contents share, and those of each.

    O(both texts). Their Jaccard similarity is common / (left + right - common).
    """
    kernel = compiled()
    if kernel is not None and isinstance(left, str) and isinstance(right, str):
        if len(left) + len(right) > _LONG:  # sorted hashes take a third of the memory
            points = [shingle_content(one, unit=unit, k=k, bag=bag) for one in (left, right)]
            return kernel.count_common(*points), len(points[0]), len(points[1])
        numbers: tuple[int, int, int]
        numbers = kernel.compare_texts(left, right, *kernel_unit(unit, k), bag)
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
    into: tuple[NDArray[np.uint32], NDArray[np.int64]] | None = None,
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
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
    rows : ndarray of uint32, shape (len(contents), num_perm)
        Zeros for a content without shingles.
    counts : ndarray of int64, shape (len(contents),)
        Distinct shingles of each.

    Notes
    -----
    The kernel releases the interpreter's lock, so threads may sign parts of a list at once.
    """
    rows, counts = into or (
        np.zeros((len(contents), num_perm), dtype=np.uint32),
        np.zeros(len(contents), dtype=np.int64),
    )
    kernel = compiled()
    numbers = constants(scheme, num_perm, seed)

    if kernel is not None:
        number, width = kernel_unit(unit, k)

        def by_kernel(some: list[Any], k: int, into: tuple[Any, Any]) -> None:
            kernel.sign_contents(
                some, number, k, bag, SCHEME_NUMBERS[scheme], num_perm, numbers, *into
            )

        if frozenset in map(type, contents):
            ordered = [[] if isinstance(one, frozenset) else one for one in contents]
            by_kernel(ordered, width, (rows, counts))
            places = [place for place, one in enumerate(contents) if isinstance(one, frozenset)]
            of_sets = np.zeros_like(rows, shape=(len(places), num_perm)), np.zeros(len(places), "q")
            by_kernel([list(contents[place]) for place in places], 1, of_sets)
            rows[places], counts[places] = of_sets
        else:
            by_kernel(list(contents), width, (rows, counts))
        return rows, counts
    sets = [shingle_hashes(content, unit=unit, k=k, bag=bag) for content in contents]
    counts[:] = [len(hashes) for hashes in sets]
    filled = counts > 0
    if filled.any():
        rows[filled] = sign(
            [hashes for hashes in sets if len(hashes)], scheme=scheme, num_perm=num_perm, seed=seed
        )
    return rows, counts


def sign(
    sets: Sequence[NDArray[np.uint64]], *, scheme: str, num_perm: int, seed: int
) -> NDArray[np.uint32]:
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
    ndarray of uint32, shape (len(sets), num_perm)
        Row i is the signature of sets[i]; it does not depend on the other sets.
    """
    rows = np.empty((len(sets), num_perm), dtype=np.uint32)
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
) -> NDArray[np.uint32]:
    """Sketch concatenated sets: as the schemes' own ``sketch``, but faster."""
    kernel = compiled()
    if kernel is None:
        return SCHEMES[scheme](hashes, lengths, num_perm=num_perm, seed=seed)
    rows = np.empty((len(lengths), num_perm), dtype=np.uint32)
    numbers = constants(scheme, num_perm, seed)
    kernel.sketch(hashes, lengths, SCHEME_NUMBERS[scheme], num_perm, numbers, rows)
    return rows

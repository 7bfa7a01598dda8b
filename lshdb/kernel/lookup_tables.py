"""What functions of the kernel look things up in: numbers from a seed, and tables of characters."""

from __future__ import annotations

import functools
import mmap
from array import array
from collections.abc import Callable

from lshdb.arrays import np
from lshdb.kernel.random_numbers import key_list, prime_coefficients
from lshdb.shingling import URL_UNITS
from lshdb.shingling.normalise import normalise_segment, point_kinds, table_entries

__all__ = [
    "SCHEMES",
    "UNITS_OF_NUMBERS",
    "constants",
    "folding_table",
    "give_memo",
    "kinds_table",
    "take_memo",
    "unit_number",
]

SCHEMES = {"fss": 0, "universal": 1}
"""The schemes of min-hash by name, and their numbers; the first is the default."""
UNITS_OF_NUMBERS = ("word", "char", "byte", "line", "token")
_UNIT_NUMBERS = {"word": 0, "char": 1, "byte": 2, "line": 3, "token": 4, "tokenizer": 4}
_TABLE_POINTS = 0x110000
_MEMO_WORDS = 0x20000


def unit_number(unit: str, k: int) -> tuple[int, int]:
    """Return the number of a unit, and k; the lines of URLs' content are shingles."""
    return (_UNIT_NUMBERS["line"], 1) if unit in URL_UNITS else (_UNIT_NUMBERS[unit], k)


@functools.lru_cache(maxsize=8)
def constants(scheme: str, num_perm: int, seed: int) -> memoryview:
    """Return the constants of a scheme's functions: 2 * num_perm numbers (uint64)."""
    if scheme == "fss":
        return memoryview(array("Q", key_list(seed, 0, 2 * num_perm))).toreadonly()
    return np.concatenate(prime_coefficients(num_perm, seed)).data.toreadonly()


def _zeros(count: int) -> memoryview:
    """Return so many bytes, which take memory as they are touched."""
    return memoryview(mmap.mmap(-1, count))


@functools.cache
def folding_table(
    fold: bool,
) -> tuple[memoryview, Callable[[int], None], memoryview, Callable[[str], str]]:
    """Return the last four arguments of the kernel's ``normalise``.

    They are the table of normalised code points and the function that fills it, 256 code points at
    a time, then the memo of characters that need their neighbours and the function that normalises
    those. They take 9 and 1 MiB of addresses; only the parts that texts use are ever touched.
    """
    table = _zeros(8 * _TABLE_POINTS).cast("Q")
    memo = _zeros(8 * _MEMO_WORDS).cast("Q")

    def fill(block: int) -> None:
        first = block * 256
        table[first : first + 256] = array("Q", table_entries(first, first + 256, fold=fold))

    return table, fill, memo, functools.partial(normalise_segment, fold=fold)


_memos: dict[bool, list[memoryview]] = {False: [], True: []}


def take_memo(*, fold: bool) -> memoryview:
    """Return a memo for the kernel's ``sign_texts``, until :func:`give_memo` no other caller's.

    It holds what calls before with the same ``fold`` put there. There are as many memos as there
    were calls at a time.
    """
    try:
        return _memos[fold].pop()
    except IndexError:
        return _zeros(8 * _MEMO_WORDS).cast("Q")


def give_memo(memo: memoryview, *, fold: bool) -> None:
    """Give a memo back."""
    _memos[fold].append(memo)


@functools.cache
def kinds_table() -> tuple[memoryview, Callable[[int], None]]:
    """Return the table of assigned code points, and the function that fills 256 of its entries."""
    kinds = _zeros(_TABLE_POINTS)

    def learn(block: int) -> None:
        first = block * 256
        kinds[first : first + 256] = bytes(point_kinds(first, first + 256))

    return kinds, learn

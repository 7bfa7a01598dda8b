"""Choose the implementation: the compiled kernel, or the Python reference without one.

Both give the same bits; tests compare them. The kernel (``kernel/``) is built with the package if
there is a C compiler. Without it everything works tens of times slower, and the first use warns
once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.cancel import stop_if_told
from lshdb.errors import KernelWarning, warn_caller
from lshdb.shingling.normalise import normalise_segment, table_entries
from lshdb.signatures import minhash
from lshdb.signatures.random_numbers import key_stream

__all__ = ["compiled", "constants", "folding_table", "kernel_name"]

SCHEME_NUMBERS = {"fss": 0, "universal": 1}
_TABLE_POINTS = 0x110000
_MEMO_WORDS = 0x20000


@functools.cache
def compiled() -> Any:
    """Return the compiled module, or None; warn once per process if it is missing."""
    try:
        from lshdb.signatures import _kernels
    except ImportError as error:
        warn_caller(KernelWarning.without(__file__, error), once=True)
        return None
    _kernels.hear_with(stop_if_told)
    return _kernels


def kernel_name() -> str:
    """Return ``compiled (avx2)`` or similar, or ``reference``."""
    kernel = compiled()
    return f"compiled ({kernel.use_level()})" if kernel else "reference"


@functools.lru_cache(maxsize=8)
def constants(scheme: str, num_perm: int, seed: int) -> NDArray[np.uint64]:
    """Return the constants of a scheme's functions (uint64, shape (2 * num_perm,))."""
    if scheme == "fss":
        numbers = key_stream(seed, 0, 2 * num_perm)
    else:
        numbers = np.concatenate(minhash.coefficients(num_perm, seed))
    numbers.flags.writeable = False
    return numbers


@functools.cache
def folding_table(
    fold: bool,
) -> tuple[NDArray[np.uint64], Callable[[int], None], NDArray[np.uint64], Callable[[str], str]]:
    """Return the last four arguments of the kernel's ``normalise``.

    They are the table of normalised code points and the function that fills it, 256 code points at
    a time, then the memo of characters that need their neighbours and the function that normalises
    those. They take 9 and 1 MiB of addresses; only the parts that texts use are ever touched.
    """
    table = np.zeros(_TABLE_POINTS, dtype=np.uint64)
    memo = np.zeros(_MEMO_WORDS, dtype=np.uint64)

    def fill(block: int) -> None:
        first = block * 256
        table[first : first + 256] = table_entries(first, first + 256, fold=fold)

    return table, fill, memo, functools.partial(normalise_segment, fold=fold)

"""The steps on texts, rows and bytes that take the time: compiled, or the Python reference.

``compiled`` is the C of this folder, built with the package if there is a C compiler; the files
``reference*.py`` have the same functions, which give the same bits tens of times more slowly.
Everybody else takes ``kernel``, which is one of the two, and never asks which. Without the compiled
one the first use warns, once.
"""

from __future__ import annotations

from typing import Any

from lshdb.cancel import stop_if_told
from lshdb.errors import KernelWarning, warn_caller

__all__ = ["compiled", "kernel", "kernel_name"]


compiled: Any
"""The built module; None if it cannot be imported."""
kernel: Any
try:
    from lshdb.kernel import compiled
except ImportError as error:
    warn_caller(KernelWarning.without(__file__, error), once=True)
    from lshdb.kernel import reference as kernel

    compiled = None
else:
    compiled.hear_with(stop_if_told)
    kernel = compiled


def kernel_name() -> str:
    """Return ``compiled (avx2)`` or similar, or ``reference``."""
    return f"compiled ({compiled.use_level()})" if compiled else "reference"

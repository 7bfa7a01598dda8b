"""The steps on texts, rows and bytes in C; ``lshdb.kernel.compiled`` is the built module."""

from __future__ import annotations

from typing import Any

from lshdb.cancel import stop_if_told
from lshdb.errors import KernelWarning, warn_caller


def load() -> Any:
    """Return the compiled module, or None; warn once per process if it is missing."""
    try:
        from lshdb.kernel import compiled
    except ImportError as error:
        warn_caller(KernelWarning.without(__file__, error), once=True)
        return None
    compiled.hear_with(stop_if_told)
    return compiled

"""Parameters of an index, from options by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lshdb import CreateOptions, IndexParams


def choose_params(*, levels: Iterable[float] | None = None, **options: Any) -> IndexParams:
    return CreateOptions(**options).params(levels)

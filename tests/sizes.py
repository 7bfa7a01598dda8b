"""Smaller batches, parts and commits, so that few documents make many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lshdb.ingest import add_sizes

__all__ = ["set_sizes"]


def set_sizes(patch: pytest.MonkeyPatch, **sizes: Any) -> None:
    """Set some sizes of an add (``lshdb.ingest.add_sizes.AddSizes``); the others stay."""
    patch.setattr(add_sizes, "SIZES", replace(add_sizes.SIZES, **sizes))

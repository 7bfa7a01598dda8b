"""Bytes read as a chain of choices: what a fuzzer mutates, and what a case is repeated from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


class Choices:
    """Bytes read as choices; past their end every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def rest(self) -> bytes:
        """All bytes that were not taken."""
        return self.take(max(0, len(self._data) - self._at))

    def number(self, limit: int) -> int:
        """0 to limit - 1."""
        return int.from_bytes(self.take(1 if limit <= 256 else 3), "little") % limit

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.number(len(items))]

    def rarely(self, one_in: int) -> bool:
        return self.number(one_in) == one_in - 1

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.number(1 << 16))

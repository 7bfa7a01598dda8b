"""Documents by columns: what a reader gives of many plain records at once.

A Python object a document costs more than reading, hashing and signing a short text together. So a
reader may yield a :class:`Block`, and whoever adds documents takes its columns. For everybody else
a :class:`DocumentStream` gives the same documents one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from lshdb.documents.document import Document, Rejected

__all__ = ["Block", "DocumentStream", "Item"]


@dataclass(frozen=True, slots=True)
class Block:
    """Documents without kept fields whose bodies are texts, as columns.

    Keys are valid (``validate_key``). Texts have at most 1 MiB in UTF-8 and no lone surrogate.

    Attributes
    ----------
    keys, texts, sources : list of str
    is_of_file : bool
        Whether they are of a regular file, whose next block comes without waiting.
    """

    keys: list[str]
    texts: list[str]
    sources: list[str]
    is_of_file: bool = False

    def __len__(self) -> int:
        return len(self.keys)

    def documents(self) -> Iterator[Document]:
        """Yield the documents, in order."""
        return map(Document, self.keys, self.texts, self.sources)


Item: TypeAlias = "Document | Rejected | Block"


class DocumentStream(Iterator["Document | Rejected"]):
    """Documents and rejections one by one, or by blocks where the reader gives them.

    Parameters
    ----------
    items : iterator of Document, Rejected or Block
    is_at_hand : bool
        Whether they come without waiting for somebody: from regular files alone.
    """

    def __init__(self, items: Iterator[Item], *, is_at_hand: bool = False) -> None:
        self.is_at_hand = is_at_hand
        self._items = items
        self._begun: Iterator[Document] = iter(())

    def __next__(self) -> Document | Rejected:
        while True:
            document = next(self._begun, None)
            if document is not None:
                return document
            item = next(self._items)
            if not isinstance(item, Block):
                return item
            self._begun = item.documents()

    def by_blocks(self) -> Iterator[Item]:
        """Yield what has not been taken yet, by blocks where there are some."""
        yield from self._begun
        yield from self._items

    def close(self) -> None:
        """Close the files that are open; nothing comes after it."""
        self._begun = iter(())
        close = getattr(self._items, "close", None)
        if close is not None:
            close()

"""What an add did, in counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from lshdb.documents.rejected import Rejected

__all__ = ["AddResult"]


@dataclass(slots=True)
class AddResult:
    """What an add did.

    Attributes
    ----------
    added, replaced, unchanged : int
        Documents with a new key, with a known key and another body, and with a known key and the
        same.
    copies : int
        Of those added and replaced, how many share the signature of an identical content.
    resumed : int
        Of those unchanged, how many an add that did not end had brought: they are this add's now.
    united : int
        Of those replaced, how many hosts got URLs besides those that they had
        (``on_conflict="unite"``).
    cut : int
        Documents that were cut into windows, in an index of passages. All other counts are then of
        windows.
    stale : int
        Windows that were removed because their document has another text now.
    short : int
        Of those added and replaced, how many have a text of one shingle at most: only another text
        of the same shingle is similar to it.
    rejected : int
        Inputs that were no acceptable document.
    rejections : list of Rejected
        The first hundred of them.
    batches : list of int
        The batches that were committed, by number.
    seconds : float
        Wall time.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    copies: int = 0
    resumed: int = 0
    united: int = 0
    cut: int = 0
    stale: int = 0
    short: int = 0
    rejected: int = 0
    rejections: list[Rejected] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def documents(self) -> int:
        """Documents that were accepted."""
        return self.added + self.replaced + self.unchanged

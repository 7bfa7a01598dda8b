"""What ``query`` and ``pairs`` share: a word about recall below the index's own threshold."""

from __future__ import annotations

from lshdb import Index
from lshdb.cli._output import note

__all__ = ["note_recall"]


def note_recall(index: Index, threshold: float | None, verify: str | None) -> None:
    """Say which recall holds where less is asked for than the index was made for."""
    params = index.params
    if threshold is None:
        return
    needs_files = not params.store_text or params.keeps_vectors
    is_unverified = verify is None and needs_files and not index.has_signatures
    if verify == "none" or is_unverified:
        note("--threshold does not apply with --verify none, which gives every candidate")
    elif 0.0 < threshold < params.threshold:
        note(
            f"a pair at similarity {threshold:g}, below this index's threshold of "
            f"{params.threshold:g}, is found with probability {params.recall_at(threshold):.4f}; "
            f"an index made with --threshold {threshold:g} finds more"
        )

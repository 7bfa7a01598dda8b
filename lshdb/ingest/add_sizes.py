"""How much an add takes at a time: one frozen set of sizes, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SIZES", "AddSizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSizes:
    """Sizes of the parts, batches and commits of an add, a merge or a reindex.

    Attributes
    ----------
    part_documents, part_characters : int
        Documents and characters that a thread works on at a time.
    part_vectors : int
        Vectors that are brought into the type of the index together.
    long_text : int
        Characters. Longer texts are signed by the calling thread, one after the other: only that
        thread can be interrupted by a signal, and several forms of one text are held.
    batch_documents, batch_characters : int
        What a batch has at most. No more documents than may be read ahead: all of a batch is
        signed while the one before is written.
    first_documents : int
        The first batch of a new index has no more, and each other batch at most twice the one
        before: until a first one is read and signed, nothing is written.
    ahead_characters : int
        So much of the next batch may be signed while a full one is written.
    merge_documents, merge_bytes : int
        What a batch of a merge has at most; bytes of texts as they are stored, and of vectors.
    commit_postings : int
        Postings of the batches of one commit, unless one batch has more: of 160,000 documents with
        17 each. Their bucket keys are held until then, 8 bytes a posting, and 12 more once they are
        sorted.
    commit_characters : int
        Characters, or numbers of vectors, of the batches of one commit, likewise.
    commit_seconds : float
        An interrupted or killed add loses no more work than this, and a batch.
    """

    part_documents: int = 1024
    part_characters: int = 2**20
    part_vectors: int = 256
    long_text: int = 2**20
    batch_documents: int = 20_000
    batch_characters: int = 32 * 2**20
    first_documents: int = 5_000
    ahead_characters: int = 8 * 2**20
    merge_documents: int = 40_000
    merge_bytes: int = 32 * 2**20
    commit_postings: int = 2_720_000
    commit_characters: int = 64 * 2**20
    commit_seconds: float = 5.0


SIZES = AddSizes()
"""The sizes of every add, unless a test sets others."""

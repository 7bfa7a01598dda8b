"""Windows of documents on their way into an index of passages, and what becomes of earlier ones.

A document is cut before its windows are signed, and all of them are in one batch, so in one
transaction. What is to be done is decided for the document: it is unchanged if the index holds
these windows and no others; else its new windows come in, and the stored ones that it no longer has
go out, with the same commit. Apart from ``pipeline.py`` because that knows nothing of what a key
means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from lshdb.documents.document import Document
from lshdb.errors import ConflictError, DamageError, KeyNotFoundError
from lshdb.ingest.batch import Batch
from lshdb.shingling import cut_windows, parse_window_key, window_key
from lshdb.storage.rows.row_reader import RowReader
from lshdb.storage.tables.records import StoredDocument

__all__ = [
    "Review", "cut_document", "refuse_cut_document", "review_documents", "whole_texts",
    "windows_of",
]  # fmt: skip


def cut_document(document: Document, window: tuple[int, int]) -> list[Document]:
    """Return the windows of a text as documents, in order; they keep its source and fields.

    Parameters
    ----------
    document : Document
        Its body is a text.
    window : (int, int)
        Words in a window, and words from one to the next.
    """
    text = str(document.body)
    return [
        replace(document, key=window_key(document.key, start, end), body=text[start:end])
        for start, end in cut_windows(text, *window)
    ]


def windows_of(reader: RowReader, keys: Iterable[str]) -> dict[str, list[StoredDocument]]:
    """Return the stored windows of some documents, in the order of their text.

    Parameters
    ----------
    reader : RowReader
    keys : iterable of str
        Keys of documents. One without windows is not in the index, and not in the result.

    Raises
    ------
    DamageError
    """
    return {
        key: [window for _, _, window in windows] for key, windows in _placed(reader, keys).items()
    }


def refuse_cut_document(reader: RowReader, key: str) -> None:
    """Raise an error if the key is that of a document which was cut into windows.

    Raises
    ------
    KeyNotFoundError
        It says so, and names windows. A key that nothing has is left to the caller.
    DamageError
    """
    if key in reader.documents_of_keys([key]):
        return
    windows = windows_of(reader, [key]).get(key)
    if windows:
        raise KeyNotFoundError(
            f"{key!r} was cut into {len(windows):,} windows, from {windows[0].key!r} to "
            f"{windows[-1].key!r}",
            key=key,
            hint="give the key of a window; lshdb query and lshdb explain look for passages of a "
            "document (Index.query_passages, Index.explain_passages), and Index.texts puts it "
            "together",
        )


_Placed = tuple[int, int, StoredDocument]
"""First and last character (left out) of a window, and the window."""


def _placed(reader: RowReader, keys: Iterable[str]) -> dict[str, list[_Placed]]:
    """Return the windows of documents with their places, in order."""
    documents = dict.fromkeys(keys)
    placed: dict[str, dict[int, _Placed]] = {}
    for window in reader.documents_beginning(f"{key}#" for key in documents):
        place = parse_window_key(window.key)
        # The windows of a document "a#1-2" begin with "a#", too, and come once for each prefix.
        if place is not None and place.document in documents:
            places = placed.setdefault(place.document, {})
            places[window.doc_id] = place.start, place.end, window
    return {
        key: sorted(windows.values(), key=lambda window: window[0])
        for key, windows in placed.items()
    }


def whole_texts(reader: RowReader, keys: Iterable[str]) -> dict[str, str]:
    """Return the texts of documents, as they were added, by key.

    Raises
    ------
    DamageError
        A window is missing, or not what was written.
    """
    placed = _placed(reader, keys)
    every = [window.doc_id for windows in placed.values() for _, _, window in windows]
    bodies = dict(reader.bodies_of_documents(every))
    texts: dict[str, str] = {}
    for key, windows in placed.items():
        parts: list[str] = []
        covered = 0
        for start, end, window in windows:
            body = bodies.get(window.doc_id)
            if start > covered or not isinstance(body, str):
                raise DamageError(
                    f"the window of {key!r} from character {covered} on is missing",
                    hint="run lshdb check, and add the document again",
                )
            parts.append(body[covered - start :])
            covered = max(covered, end)
        texts[key] = "".join(parts)
    return texts


@dataclass(slots=True)
class Review:
    """What to do with the documents of a batch.

    Attributes
    ----------
    stored : dict of str to StoredDocument
        Stored windows by key.
    places : list of int
        Windows in the batch of documents that are new, changed or unchanged.
    replacing : set of int
        Those of documents that are there with another text.
    left : list of StoredDocument
        Stored windows of documents that stay as they are, whatever came in.
    stale : list of StoredDocument
        Stored windows that their documents no longer have.
    """

    stored: dict[str, StoredDocument] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    replacing: set[int] = field(default_factory=set)
    left: list[StoredDocument] = field(default_factory=list)
    stale: list[StoredDocument] = field(default_factory=list)


def review_documents(
    reader: RowReader,
    batch: Batch,
    *,
    on_conflict: str,
    started_at: str,
    on_repeat: Callable[[str, str], None],
) -> Review:
    """Compare the documents of a batch with the stored ones.

    Parameters
    ----------
    reader : RowReader
    batch : Batch
        With ``cut``.
    on_conflict : {"replace", "skip", "error"}
    started_at : str
        The time of the run: a document that came in then came before in this input.
    on_repeat : callable
        Told the key and the source of a document that came before. It is left out.

    Raises
    ------
    ConflictError
        With ``"error"``, for a document that is there with another text.
    DamageError
    """
    stored = windows_of(reader, [key for key, _ in batch.cut])
    review, met, end = Review(), set[str](), 0
    for key, n_windows in batch.cut:
        places = range(end, end + n_windows)
        end += n_windows
        windows = stored.get(key, [])
        if key in met or any(window.last_seen_at == started_at for window in windows):
            on_repeat(key, batch.sources[places[0]])
            continue
        met.add(key)
        before = {window.key: window.body_hash for window in windows}
        now = {batch.keys[place]: batch.body_hashes[place] for place in places}
        if windows and before != now and on_conflict == "error":
            raise ConflictError(
                f"the key {key!r} is in the index already, with another text "
                f"({batch.sources[places[0]] or 'no source named'})",
                key=key,
                hint="use --on-conflict replace or skip; nothing of this batch was written",
            )
        if windows and before != now and on_conflict == "skip":
            review.left += windows
            continue
        review.places += places
        if windows and before != now:
            review.replacing.update(places)
        review.stored |= {window.key: window for window in windows if window.key in now}
        review.stale += [window for window in windows if window.key not in now]
    return review

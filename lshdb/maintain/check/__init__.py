"""Is what is on disk what was written? Every file and row is read, and each fault is a finding.

Checked:

* the database's own structure;
* header and length of the signature file and the vector file, and the CRC-32 of each block;
* every run has the postings that it counts; every posting is the one its signature has in that
  band, and none is missing; so it is with frozen orders;
* every document has its signature and text, its text or vector has the hash it came with, and every
  text has a document;
* rows have their checksums, batches count what there is, bucket sizes match the runs;
* signatures without a document were released; edges join signatures that documents have, and
  clusters follow from the edges.

Memory: eleven bytes a signature, and some sixty a document in a cluster. Time: everything is read
once; texts are decompressed.

A quick check (``document_checks.py``) reads only headers, counts and small tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lshdb.errors import LshdbError
from lshdb.maintain.check.document_checks import (
    count_findings,
    document_findings,
    integrity_findings,
    row_findings,
    vector_findings,
)
from lshdb.maintain.check.findings import Finding, notes
from lshdb.maintain.check.signature_checks import (
    block_findings,
    bucket_findings,
    cluster_findings,
    edge_findings,
    order_findings,
    posting_findings,
    release_findings,
    run_findings,
)
from lshdb.params.index_params import IndexParams
from lshdb.storage.store import Store
from lshdb.storage.transactions.snapshot import Snapshot

__all__ = ["Finding", "check_index", "check_store"]

_MOST_OF_A_KIND = 20


def check_store(
    store: Store, *, quick: bool, on_note: Callable[[str], None] | None
) -> list[Finding]:
    """Return all findings about one state of an index; see :meth:`lshdb.Index.check`."""
    with store.reading() as snapshot:
        snapshot.require_signatures()
        found = list(check_index(snapshot, store.params, quick=quick))
        if on_note is not None:
            try:
                for note in notes(store, snapshot, quick=quick):
                    on_note(note)
            except LshdbError as error:
                found.append(Finding("database", "index", error.message, "what was to be counted"))
    return found


def check_index(
    snapshot: Snapshot, params: IndexParams, *, quick: bool = False
) -> Iterator[Finding]:
    """Yield what is wrong; nothing for a sound index.

    Parameters
    ----------
    snapshot : Snapshot
        The state to check.
    params : IndexParams
    quick : bool
        Check only headers and counts.
    """
    steps: list[tuple[str, Iterator[Finding]]] = [("count", count_findings(snapshot, params))]
    if quick:
        steps += [("signatures", block_findings(snapshot, first_only=True))]
    else:
        steps = [
            ("database", integrity_findings(snapshot)),
            *steps,
            ("signatures", block_findings(snapshot)),
            ("run", run_findings(snapshot)),
            ("posting", posting_findings(snapshot, params)),
            ("order", order_findings(snapshot)),
            ("document", row_findings(snapshot)),
            ("text", document_findings(snapshot, params)),
            ("vectors", vector_findings(snapshot, params)),
            ("bucket size", bucket_findings(snapshot)),
            ("release", release_findings(snapshot)),
            ("edge", edge_findings(snapshot, params)),
            ("cluster", cluster_findings(snapshot)),
        ]
    for kind, step in steps:
        yield from _limited(kind, step)


def _limited(kind: str, step: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the first findings of a step; an error that ends the step becomes a finding."""
    found = 0
    try:
        for finding in step:
            found += 1
            if found > _MOST_OF_A_KIND:
                place = finding.where.split(",")[0]
                yield Finding(finding.kind, place, "more of the same; not listed", "not counted")
                return
            yield finding
    except LshdbError as error:
        yield Finding(kind, "index", error.message, "what comes after it was not compared")
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        what = f"a row holds other types or sizes than were written: {error}"
        yield Finding(kind, "index", what, "what comes after it was not compared")

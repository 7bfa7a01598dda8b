"""Read every file and row of an index, and report each fault as a finding.

Checked:

* the database's own structure;
* header and length of the signature file and the vector file, and the CRC-32 of each block;
* every signature has its buckets in the table ``band``; so it is with frozen orders;
* every document has its signature and text, its text or vector has the hash it came with, and every
  text has a document;
* rows have their checksums, batches count what there is;
* signatures without a document were released; edges join signatures that documents have, and
  clusters follow from the edges.

Memory: a byte a signature, and some sixty bytes a document in a cluster.
Time: everything is read once; texts are decompressed.

Steps that are long statements of SQL are done ahead by another thread, with a snapshot of the same
state, and texts are compared in threads. Findings come in the same order.

A quick check (``document_checks.py``) reads only headers, counts and small tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from lshdb.errors import DatabaseError, LshdbError
from lshdb.maintain.check.document_checks import (
    count_findings,
    document_findings,
    field_findings,
    integrity_findings,
    vector_findings,
)
from lshdb.maintain.check.findings import Finding, notes
from lshdb.maintain.check.signature_checks import (
    block_findings,
    cluster_findings,
    edge_findings,
    order_findings,
    posting_findings,
    release_findings,
)
from lshdb.params.index_params import IndexParams
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.storage.transactions.store import Store
from lshdb.threads import Lent, Workers, choose_workers

__all__ = ["Finding", "check_index", "check_store"]

_MOST_OF_A_KIND = 20
_AHEAD = ("database", "release")
"""Steps of long statements, for which another thread can wait."""

_Step = Callable[[Snapshot], Iterator[Finding]]


def check_store(
    store: Store, *, quick: bool, on_note: Callable[[str], None] | None
) -> list[Finding]:
    """Return all findings about one state of an index; see :meth:`lshdb.Index.check`."""
    with store.reading() as snapshot:
        snapshot.require_signatures()
        findings = list(
            check_index(snapshot, store.params, quick=quick, workers=choose_workers(None))
        )
        if on_note is not None:
            try:
                for note in notes(store, snapshot, quick=quick):
                    on_note(note)
            except LshdbError as error:
                findings.append(_finding("database", error, "what was to be counted"))
    return findings


def check_index(
    snapshot: Snapshot, params: IndexParams, *, quick: bool = False, workers: int = 1
) -> Iterator[Finding]:
    """Yield findings; none for a sound index.

    Parameters
    ----------
    snapshot : Snapshot
        The state to check.
    quick : bool
        Check only headers and counts.
    workers : int
        Threads, this one included. The findings and their order are the same.
    """
    steps: list[tuple[str, _Step]] = [("count", count_findings)]
    if quick:
        steps += [("signatures", partial(block_findings, is_quick=True))]
    else:
        steps = [
            ("database", integrity_findings),
            *steps,
            ("signatures", block_findings),
            ("posting", partial(posting_findings, params=params)),
            ("order", order_findings),
            ("kept_field", field_findings),
            ("text", partial(document_findings, params=params, workers=workers)),
            ("vectors", partial(vector_findings, params=params)),
            ("release", release_findings),
            ("edge", partial(edge_findings, params=params)),
            ("cluster", cluster_findings),
        ]
    ahead = [] if quick else [(kind, step) for kind, step in steps if kind in _AHEAD]
    with snapshot.twins(workers - 1) as twins, Workers(len(twins)) as threads:
        readers = Lent(twins)

        def work(named: tuple[str, _Step]) -> list[Finding]:
            kind, step = named
            with readers.one() as reader:
                return list(_limited(kind, step(reader)))

        tasks = {named[0]: threads.submit(work, named) for named in ahead if twins}
        own: dict[str, Iterable[Finding]] = {
            kind: _limited(kind, step(snapshot)) for kind, step in steps if kind not in tasks
        }
        if tasks:  # these steps are not put off until the other thread has done its own
            own = {kind: list(findings) for kind, findings in own.items()}
        for kind, _ in steps:
            yield from own[kind] if kind in own else tasks[kind].result(helps=threads.is_short)


def _limited(kind: str, step: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the first findings of a step; an error that ends the step becomes a finding.

    Raises
    ------
    DatabaseError
        It says nothing about what is stored: a timeout, or a connection that was lost.
    """
    counts: Counter[str] = Counter()
    try:
        for finding in step:
            counts[finding.kind] += 1
            if counts[finding.kind] <= _MOST_OF_A_KIND:
                yield finding
            elif counts[finding.kind] == _MOST_OF_A_KIND + 1:
                place = finding.where.split(",")[0]
                yield Finding(finding.kind, place, "more of the same; not listed", "not counted")
            if counts[kind] > _MOST_OF_A_KIND:
                return
    except LshdbError as error:
        yield _finding(kind, error, "what comes after it was not compared")
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        what = f"a row holds other types or sizes than were written: {error}"
        yield Finding(kind, "index", what, "what comes after it was not compared")


def _finding(kind: str, error: LshdbError, affected: str) -> Finding:
    """Return an error as a finding; raise it if it says nothing about what is stored."""
    if isinstance(error, DatabaseError) and error.is_passing:
        raise error
    return Finding(kind, "index", error.message, affected)

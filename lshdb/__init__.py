"""lshdb: a persistent, on-disk near-duplicate index. Public names, nothing else.

Each name is imported when it is first asked for (PEP 562): the command line must be able to say
what becomes of Ctrl-C before NumPy and the rest, which take most of its start, are loaded.
"""

from __future__ import annotations

__version__ = "0.2.0"
"""The library's version; not the number of the on-disk format (``index_params.FORMAT``)."""

TYPE_CHECKING = False  # importing typing takes longer than all the rest
if TYPE_CHECKING:  # the same names for type checkers, which run nothing; a test compares the two
    from lshdb.advice.advice import Advice as Advice
    from lshdb.advice.advice import Choice as Choice
    from lshdb.advice.advice import ExamplePair as ExamplePair
    from lshdb.advice.advice import LabelAgreement as LabelAgreement
    from lshdb.advice.advice import LabelRow as LabelRow
    from lshdb.advice.advice import SimilarityHistogram as SimilarityHistogram
    from lshdb.advice.advice import SimilaritySlice as SimilaritySlice
    from lshdb.advice.advice import WordDifference as WordDifference
    from lshdb.advice.advise import advise as advise
    from lshdb.advice.aims import Aim as Aim
    from lshdb.advice.aims import aims as aims
    from lshdb.advice.label_agreement import read_labels as read_labels
    from lshdb.documents.document import Body as Body
    from lshdb.documents.document import Document as Document
    from lshdb.documents.document import Rejected as Rejected
    from lshdb.documents.io.folders import WalkCounts as WalkCounts
    from lshdb.documents.read import read_documents as read_documents
    from lshdb.errors import AllRejectedError as AllRejectedError
    from lshdb.errors import ConflictError as ConflictError
    from lshdb.errors import DamageError as DamageError
    from lshdb.errors import DatabaseError as DatabaseError
    from lshdb.errors import FormatError as FormatError
    from lshdb.errors import IndexChangedError as IndexChangedError
    from lshdb.errors import IndexExistsError as IndexExistsError
    from lshdb.errors import IndexNotFoundError as IndexNotFoundError
    from lshdb.errors import InputError as InputError
    from lshdb.errors import KernelWarning as KernelWarning
    from lshdb.errors import KeyNotFoundError as KeyNotFoundError
    from lshdb.errors import LockedError as LockedError
    from lshdb.errors import LshdbError as LshdbError
    from lshdb.errors import LshdbWarning as LshdbWarning
    from lshdb.errors import ParameterError as ParameterError
    from lshdb.errors import ParameterMismatchError as ParameterMismatchError
    from lshdb.errors import QueryError as QueryError
    from lshdb.errors import ReadOnlyError as ReadOnlyError
    from lshdb.errors import RecallWarning as RecallWarning
    from lshdb.errors import SignaturesElsewhereError as SignaturesElsewhereError
    from lshdb.errors import TextNotStoredError as TextNotStoredError
    from lshdb.errors import TokenizerError as TokenizerError
    from lshdb.errors import TooManyRejectedError as TooManyRejectedError
    from lshdb.errors import UncheckedWarning as UncheckedWarning
    from lshdb.errors import UnknownParameterError as UnknownParameterError
    from lshdb.groups.deduplicated_table import DeduplicatedTable as DeduplicatedTable
    from lshdb.groups.deduplicated_table import DroppedRow as DroppedRow
    from lshdb.groups.deduplication import Decision as Decision
    from lshdb.groups.deduplication import Deduplication as Deduplication
    from lshdb.groups.listing import Cluster as Cluster
    from lshdb.groups.listing import Clusters as Clusters
    from lshdb.groups.listing import StoredAnswer as StoredAnswer
    from lshdb.groups.neighbors import NearestNeighbors as NearestNeighbors
    from lshdb.groups.neighbors import Neighbor as Neighbor
    from lshdb.groups.neighbors import NeighborColumns as NeighborColumns
    from lshdb.groups.neighbors import Neighbors as Neighbors
    from lshdb.groups.rewrite_files import FilterCounts as FilterCounts
    from lshdb.groups.rewrite_files import RewrittenFile as RewrittenFile
    from lshdb.groups.rewrite_files import RewrittenFiles as RewrittenFiles
    from lshdb.groups.rewrite_files import Survivors as Survivors
    from lshdb.handle import Listing as Listing
    from lshdb.index import Index as Index
    from lshdb.index import deduplicate as deduplicate
    from lshdb.ingest.add_result import AddResult as AddResult
    from lshdb.ingest.remove import RemoveResult as RemoveResult
    from lshdb.maintain.check.findings import Finding as Finding
    from lshdb.maintain.mend_times import MendedTimes as MendedTimes
    from lshdb.maintain.repair import RepairResult as RepairResult
    from lshdb.maintain.rewrite import RewriteResult as RewriteResult
    from lshdb.maintain.stats import BucketCounts as BucketCounts
    from lshdb.maintain.stats import IndexStats as IndexStats
    from lshdb.params.bands import candidate_probability as candidate_probability
    from lshdb.params.bands import choose_bands as choose_bands
    from lshdb.params.index_params import IndexParams as IndexParams
    from lshdb.params.options import CreateOptions as CreateOptions
    from lshdb.params.s_curve import SCurve as SCurve
    from lshdb.params.s_curve import s_curve as s_curve
    from lshdb.phases.bars import ProgressBar as ProgressBar
    from lshdb.phases.bars import progress as progress
    from lshdb.report import ReportResult as ReportResult
    from lshdb.search.candidates import LeftOut as LeftOut
    from lshdb.search.explain import Explanation as Explanation
    from lshdb.search.explain import ShownDocument as ShownDocument
    from lshdb.search.join import JoinedPairs as JoinedPairs
    from lshdb.search.loss import Loss as Loss
    from lshdb.search.loss import PairCount as PairCount
    from lshdb.search.measured_recall import MeasuredRecall as MeasuredRecall
    from lshdb.search.measured_recall import RecallSlice as RecallSlice
    from lshdb.search.pair_columns import Pair as Pair
    from lshdb.search.pair_columns import PairColumns as PairColumns
    from lshdb.search.pairs import PairSearch as PairSearch
    from lshdb.search.passages import Passage as Passage
    from lshdb.search.passages import PassageColumns as PassageColumns
    from lshdb.search.passages import PassageSearch as PassageSearch
    from lshdb.search.query import QueryAnswers as QueryAnswers
    from lshdb.search.query_blocks import HitColumns as HitColumns
    from lshdb.search.sql import SqlResult as SqlResult
    from lshdb.search.verification import Hit as Hit
    from lshdb.search.verification import Hits as Hits
    from lshdb.search.verification import NearestHits as NearestHits
    from lshdb.search.vote import Vote as Vote
    from lshdb.search.word_diff import DiffPart as DiffPart
    from lshdb.search.word_diff import TextDiff as TextDiff
    from lshdb.signatures import kernel_name as kernel_name
    from lshdb.signatures.estimates import IndexEstimate as IndexEstimate
    from lshdb.signatures.estimates import estimate as estimate
    from lshdb.storage.rows.edges import EdgeState as EdgeState
    from lshdb.storage.tables.records import Cursor as Cursor
    from lshdb.storage.tables.records import StoredBatch as StoredBatch
    from lshdb.storage.tables.records import StoredDocument as StoredDocument
    from lshdb.tokenizers import Tokenizer as Tokenizer
    from lshdb.tokenizers import published_stop_words as published_stop_words
    from lshdb.transient.contraction import Contraction as Contraction
    from lshdb.transient.table_answers import clusters as clusters
    from lshdb.transient.table_answers import pairs as pairs
    from lshdb.transient.transient_index import TransientIndex as TransientIndex

_HOMES = {
    "advice.advice": (
        "Advice Choice ExamplePair LabelAgreement LabelRow SimilarityHistogram SimilaritySlice "
        "WordDifference"
    ),
    "advice.advise": "advise",
    "advice.aims": "Aim aims",
    "advice.label_agreement": "read_labels",
    "transient.contraction": "Contraction",
    "groups.deduplicated_table": "DeduplicatedTable DroppedRow",
    "groups.deduplication": "Decision Deduplication",
    "groups.listing": "Cluster Clusters StoredAnswer",
    "groups.neighbors": "NearestNeighbors Neighbor NeighborColumns Neighbors",
    "groups.rewrite_files": "FilterCounts RewrittenFile RewrittenFiles Survivors",
    "phases.bars": "ProgressBar progress",
    "documents.document": "Body Document Rejected",
    "documents.io.folders": "WalkCounts",
    "documents.read": "read_documents",
    "errors": (
        "AllRejectedError ConflictError DamageError DatabaseError FormatError IndexChangedError "
        "IndexExistsError IndexNotFoundError InputError KernelWarning KeyNotFoundError LockedError "
        "LshdbError LshdbWarning ParameterError ParameterMismatchError QueryError ReadOnlyError "
        "RecallWarning SignaturesElsewhereError TextNotStoredError TokenizerError "
        "TooManyRejectedError UncheckedWarning UnknownParameterError"
    ),
    "handle": "Listing",
    "index": "Index deduplicate",
    "ingest.add_result": "AddResult",
    "ingest.remove": "RemoveResult",
    "maintain.check.findings": "Finding",
    "maintain.mend_times": "MendedTimes",
    "maintain.repair": "RepairResult",
    "maintain.rewrite": "RewriteResult",
    "maintain.stats": "BucketCounts IndexStats",
    "params.bands": "candidate_probability choose_bands",
    "params.index_params": "IndexParams",
    "params.options": "CreateOptions",
    "params.s_curve": "SCurve s_curve",
    "report": "ReportResult",
    "search.candidates": "LeftOut",
    "search.explain": "Explanation ShownDocument",
    "search.join": "JoinedPairs",
    "search.loss": "Loss PairCount",
    "search.measured_recall": "MeasuredRecall RecallSlice",
    "search.pair_columns": "Pair PairColumns",
    "search.pairs": "PairSearch",
    "search.passages": "Passage PassageColumns PassageSearch",
    "search.query": "QueryAnswers",
    "search.query_blocks": "HitColumns",
    "search.sql": "SqlResult",
    "search.verification": "Hit Hits NearestHits",
    "search.vote": "Vote",
    "search.word_diff": "DiffPart TextDiff",
    "signatures": "kernel_name",
    "signatures.estimates": "IndexEstimate estimate",
    "storage.rows.edges": "EdgeState",
    "storage.tables.records": "Cursor StoredBatch StoredDocument",
    "tokenizers": "Tokenizer published_stop_words",
    "transient.table_answers": "clusters pairs",
    "transient.transient_index": "TransientIndex",
}
"""Module to the public names that it holds: ``__all__`` and what is imported late."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(["__version__", *_HOME_OF])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from lshdb.arrays import limit_blas

    limit_blas()
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""lshdb: a persistent, on-disk near-duplicate index. Public names, nothing else.

Each name is imported when it is first asked for (PEP 562): the command line must be able to say
what becomes of Ctrl-C before NumPy and the rest, which take most of its start, are loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than all the rest
if TYPE_CHECKING:
    from lshdb.checking.findings import Finding
    from lshdb.documents import Document, Rejected, read_documents
    from lshdb.errors import (
        AllRejectedError,
        ConflictError,
        DamageError,
        DatabaseError,
        FormatError,
        IndexExistsError,
        IndexNotFoundError,
        InputError,
        KernelWarning,
        KeyNotFoundError,
        LockedError,
        LshdbError,
        LshdbWarning,
        ParameterError,
        ParameterMismatchError,
        QueryError,
        RecallWarning,
        SignaturesElsewhereError,
        TextNotStoredError,
        TokenizerError,
        TooManyRejectedError,
    )
    from lshdb.index import Index
    from lshdb.params import IndexParams, candidate_probability, choose_bands
    from lshdb.repairing import RepairResult
    from lshdb.search.explanation import Explanation
    from lshdb.search.loss import Loss, PairCount
    from lshdb.search.nearest import Answer
    from lshdb.search.pairs import Pair, PairSearch
    from lshdb.search.query import Hit
    from lshdb.showing import ShownDocument
    from lshdb.signatures import kernel_name
    from lshdb.tokenizers import Tokenizer
    from lshdb.tuned import Tuning, tune
    from lshdb.version import __version__

_HOMES = {
    "checking.findings": "Finding",
    "documents": "Document Rejected read_documents",
    "errors": (
        "AllRejectedError ConflictError DamageError DatabaseError FormatError IndexExistsError "
        "IndexNotFoundError InputError KernelWarning KeyNotFoundError LockedError LshdbError "
        "LshdbWarning ParameterError ParameterMismatchError QueryError RecallWarning "
        "SignaturesElsewhereError TextNotStoredError TokenizerError TooManyRejectedError"
    ),
    "index": "Index",
    "params": "IndexParams candidate_probability choose_bands",
    "repairing": "RepairResult",
    "search.explanation": "Explanation",
    "search.loss": "Loss PairCount",
    "search.pairs": "Pair PairSearch",
    "search.nearest": "Answer",
    "search.query": "Hit",
    "showing": "ShownDocument",
    "signatures": "kernel_name",
    "tokenizers": "Tokenizer",
    "tuned": "Tuning tune",
    "version": "__version__",
}
"""Module to the public names that it holds."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "AllRejectedError",
    "Answer",
    "ConflictError",
    "DamageError",
    "DatabaseError",
    "Document",
    "Explanation",
    "Finding",
    "FormatError",
    "Hit",
    "Index",
    "IndexExistsError",
    "IndexNotFoundError",
    "IndexParams",
    "InputError",
    "KernelWarning",
    "KeyNotFoundError",
    "LockedError",
    "Loss",
    "LshdbError",
    "LshdbWarning",
    "Pair",
    "PairCount",
    "PairSearch",
    "ParameterError",
    "ParameterMismatchError",
    "QueryError",
    "RecallWarning",
    "Rejected",
    "RepairResult",
    "ShownDocument",
    "SignaturesElsewhereError",
    "TextNotStoredError",
    "Tokenizer",
    "TokenizerError",
    "TooManyRejectedError",
    "Tuning",
    "__version__",
    "candidate_probability",
    "choose_bands",
    "kernel_name",
    "read_documents",
    "tune",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

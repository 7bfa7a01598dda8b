"""lshdb: a persistent, on-disk near-duplicate index. Public names, nothing else.

Each name is imported when it is first asked for (PEP 562): the command line must be able to say
what becomes of Ctrl-C before NumPy and the rest, which take most of its start, are loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than all the rest
if TYPE_CHECKING:
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
    from lshdb.maintain.check.findings import Finding
    from lshdb.maintain.repair import RepairResult
    from lshdb.params.index_params import IndexParams, candidate_probability, choose_bands
    from lshdb.search.explain import Explanation, ShownDocument
    from lshdb.search.loss import Loss, PairCount
    from lshdb.search.nearest import Answer
    from lshdb.search.pairs import Pair, PairSearch
    from lshdb.search.query import Hit
    from lshdb.signatures import kernel_name
    from lshdb.signatures.estimates import Tuning, tune
    from lshdb.tokenizers import Tokenizer
    from lshdb.version import __version__

_HOMES = {
    "maintain.check.findings": "Finding",
    "documents": "Document Rejected read_documents",
    "errors": (
        "AllRejectedError ConflictError DamageError DatabaseError FormatError IndexExistsError "
        "IndexNotFoundError InputError KernelWarning KeyNotFoundError LockedError LshdbError "
        "LshdbWarning ParameterError ParameterMismatchError QueryError RecallWarning "
        "SignaturesElsewhereError TextNotStoredError TokenizerError TooManyRejectedError"
    ),
    "index": "Index",
    "params.bands": "candidate_probability choose_bands",
    "params.index_params": "IndexParams",
    "maintain.repair": "RepairResult",
    "search.explain": "Explanation ShownDocument",
    "search.loss": "Loss PairCount",
    "search.pairs": "Pair PairSearch",
    "search.nearest": "Answer",
    "search.query": "Hit",
    "signatures": "kernel_name",
    "tokenizers": "Tokenizer",
    "signatures.estimates": "Tuning tune",
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

"""lshdb: a persistent, on-disk near-duplicate index. Public names, nothing else."""

from lshdb.documents import Document, Rejected, read_documents
from lshdb.errors import (
    ConflictError,
    DamageError,
    DatabaseError,
    FormatError,
    IndexExistsError,
    IndexNotFoundError,
    InputError,
    KeyNotFoundError,
    LockedError,
    LshdbError,
    ParameterError,
    ParameterMismatchError,
    QueryError,
    TextNotStoredError,
    TokenizerError,
    TooManyRejectedError,
)
from lshdb.index import Index
from lshdb.params import IndexParams, candidate_probability, choose_bands
from lshdb.search.explanation import Explanation
from lshdb.search.pairs import Pair, PairSearch
from lshdb.search.query import Hit
from lshdb.showing import ShownDocument
from lshdb.signatures import KernelWarning, kernel_name
from lshdb.tokenizers import Tokenizer
from lshdb.version import __version__

__all__ = [
    "ConflictError",
    "DamageError",
    "DatabaseError",
    "Document",
    "Explanation",
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
    "LshdbError",
    "Pair",
    "PairSearch",
    "ParameterError",
    "ParameterMismatchError",
    "QueryError",
    "Rejected",
    "ShownDocument",
    "TextNotStoredError",
    "Tokenizer",
    "TokenizerError",
    "TooManyRejectedError",
    "__version__",
    "candidate_probability",
    "choose_bands",
    "kernel_name",
    "read_documents",
]

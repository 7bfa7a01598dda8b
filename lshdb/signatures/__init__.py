"""Turn shingle hashes and vectors into signature rows. Pure: arrays in, arrays out."""

from lshdb.kernel import kernel_name
from lshdb.kernel.lookup_tables import SCHEMES
from lshdb.signatures.sets import (
    canonical_contents,
    compare_contents,
    shingle_content,
    sign,
    sign_contents,
)

__all__ = [
    "SCHEMES",
    "canonical_contents",
    "compare_contents",
    "kernel_name",
    "shingle_content",
    "sign",
    "sign_contents",
]

"""What the compiled kernel offers; see the head of ``_kernels.c``."""

from typing_extensions import Buffer

def use_level(name: str | None = None) -> str: ...
def sign_texts(
    texts: list[str],
    unit: int,
    k: int,
    bag: bool,
    scheme: int,
    num_perm: int,
    constants: Buffer,
    rows: Buffer,
    counts: Buffer,
) -> None: ...
def shingle_text(text: str, unit: int, k: int, bag: bool) -> bytes: ...
def sketch(
    hashes: Buffer, lengths: Buffer, scheme: int, num_perm: int, constants: Buffer, rows: Buffer
) -> None: ...
def bucket_keys(rows: Buffer, num_perm: int, bands: int, height: int, keys: Buffer) -> None: ...
def count_common(left: Buffer, right: Buffer) -> int: ...

"""The functions of the compiled kernel; see ``kernel/kernel.h``."""

from collections.abc import Callable

from typing_extensions import Buffer

def use_level(name: str | None = None) -> str: ...
def hear_with(asked: Callable[[], object] | None) -> None: ...
def use_pieces(shingles: int = 0) -> None: ...
def normalise(
    texts: list[str], fold: bool, table: Buffer, fill: Callable[[int], None]
) -> list[str | None]: ...
def sign_contents(
    contents: list[str | list[str]],
    unit: int,
    k: int,
    bag: bool,
    scheme: int,
    num_perm: int,
    constants: Buffer,
    rows: Buffer,
    counts: Buffer,
) -> None: ...
def shingle_text(text: str, unit: int, k: int, bag: bool) -> bytearray: ...
def sketch(
    hashes: Buffer, lengths: Buffer, scheme: int, num_perm: int, constants: Buffer, rows: Buffer
) -> None: ...
def bucket_keys(rows: Buffer, num_perm: int, bands: int, height: int, keys: Buffer) -> None: ...
def count_common(left: Buffer, right: Buffer) -> int: ...
def compare_rows(
    left_rows: Buffer,
    left: Buffer,
    right_rows: Buffer,
    right: Buffer,
    num_perm: int,
    bands: int,
    height: int,
    equal: Buffer,
    matched: Buffer,
    first: Buffer,
) -> None: ...
def compare_bits(
    left_rows: Buffer,
    left: Buffer,
    right_rows: Buffer,
    right: Buffer,
    words: int,
    bands: int,
    height: int,
    equal: Buffer,
    matched: Buffer,
    first: Buffer,
) -> None: ...
def compare_texts(left: str, right: str, unit: int, k: int, bag: bool) -> tuple[int, int, int]: ...
def walsh_hadamard(rows: Buffer, size: int) -> None: ...
def sample_weights(
    hashes: Buffer,
    weights: Buffer,
    logs: Buffer,
    lengths: Buffer,
    num_perm: int,
    keys: Buffer,
    rows: Buffer,
) -> None: ...

"""The functions of the compiled kernel; see ``kernel.h``."""

from collections.abc import Callable

from typing_extensions import Buffer

def use_level(name: str | None = None) -> str: ...
def hear_with(asked: Callable[[], object] | None) -> None: ...
def use_pieces(shingles: int = 0) -> None: ...
def normalise(
    texts: list[str],
    fold: bool,
    table: Buffer,
    fill: Callable[[int], None],
    memo: Buffer,
    segment: Callable[[str], str],
) -> list[str | None]: ...
def hash_texts(
    texts: list[str], person: bytes, headers: bytes | None, width: int, hashes: Buffer
) -> tuple[list[bytes], list[int]] | None: ...
def sign_texts(
    texts: list[str],
    fold: int,
    table: Buffer,
    fill: Callable[[int], None],
    memo: Buffer,
    segment: Callable[[str], str],
    whole: Callable[[str], str],
    kinds: Buffer,
    learn: Callable[[int], None],
    person: bytes,
    unit: int,
    k: int,
    bag: bool,
    scheme: int,
    num_perm: int,
    constants: Buffer,
    hashes: Buffer,
    unassigned: Buffer,
    rows: Buffer,
    counts: Buffer,
) -> None: ...
def scan_lines(
    block: Buffer,
    at: int,
    number: int,
    before: str,
    key_field: str,
    text_field: str,
    longest: int,
    keys: list[str],
    texts: list[str],
    sources: list[str],
) -> tuple[int, int]: ...
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
def shingle_texts(texts: list[str], unit: int, k: int, bag: bool, counts: Buffer) -> bytearray: ...
def agreeing_pairs(
    bands: Buffer,
    sizes: Buffer,
    members: Buffer,
    marks: Buffer,
    source: Buffer | int,
    offset: int,
    n_rows: int,
    words: int,
    n_bands: int,
    height: int,
    is_bits: bool,
    hot: Buffer | None,
    suffices: Buffer,
) -> bytearray: ...
def compare_sets(
    parts: list[Buffer], sets: Buffer, left: Buffer, right: Buffer, common: Buffer
) -> None: ...
def sketch(
    hashes: Buffer, lengths: Buffer, scheme: int, num_perm: int, constants: Buffer, rows: Buffer
) -> None: ...
def bucket_keys(
    rows: Buffer, words: int, slot_bits: int, bands: int, height: int, keys: Buffer
) -> None: ...
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
def count_in_rows(
    queries: Buffer,
    rows: Buffer,
    words: int,
    slot_bits: int,
    width: int,
    first: int,
    counts: Buffer,
) -> None: ...
def rank_counts(counts: Buffer, least: int, best: Buffer) -> int: ...
def table_sets(
    hashes: Buffer, counts: Buffer, bits: int, starts: Buffer, values: Buffer, owners: Buffer
) -> None: ...
def find_sharing(
    bits: int,
    starts: Buffer,
    values: Buffer,
    owners: Buffer,
    sizes: Buffer,
    hashes: Buffer,
    counts: Buffer,
    is_part: bool,
    most: int,
    least: float,
    below: float,
) -> bytearray: ...
def compare_texts(left: str, right: str, unit: int, k: int, bag: bool) -> tuple[int, int, int]: ...
def sign_query(
    text: str,
    unit: int,
    k: int,
    bag: bool,
    scheme: int,
    num_perm: int,
    constants: Buffer,
    bands: int,
    height: int,
) -> tuple[bytes, bytes, bytes]: ...
def compare_found(
    row: Buffer,
    ids: Buffer,
    least: int,
    source: int | Buffer,
    offset: int,
    n_rows: int,
    words: int,
    bands: int,
    height: int,
    is_bits: bool,
) -> list[tuple[int, int, int]]: ...
def find_agreeing(
    orders: list[tuple[Buffer | int, int, int, int, int]],
    limit: int,
    keys: Buffer,
    rows: Buffer,
    most: int,
    least: int,
    source: int | Buffer,
    offset: int,
    n_rows: int,
    words: int,
    bands: int,
    height: int,
    is_bits: bool,
) -> tuple[int, bytes]: ...
def share_with(
    hashes: Buffer, texts: list[str], unit: int, k: int, bag: bool
) -> list[tuple[int, int]]: ...
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
def pack_cells(
    buckets: Buffer,
    rows: Buffer,
    bits: int,
    first: int,
    end: int,
    place: int,
    seed: int,
    order: int,
    directory: Buffer,
    postings: Buffer,
) -> None: ...
def sort_orders(keys: Buffer, n_orders: int, planes: Buffer) -> None: ...
def find_keys(
    orders: list[tuple[Buffer | int, int, int, int, int]], keys: Buffer, limit: int, counts: Buffer
) -> bytes: ...
def group_keys(
    orders: list[tuple[Buffer | int, int, int, int, int]],
    first: int,
    last: int,
    limit: int,
    above: int,
) -> tuple[bytes, bytes, bytes]: ...
def lay_rows(
    columns: tuple[tuple[str | bytes | int | None, ...], ...],
) -> tuple[bytes, list[int]]: ...
def row_checksums(columns: tuple[tuple[str | bytes | int | None, ...], ...]) -> list[int]: ...
def cut_grams(text: str, way: int, k: int, hash_word: Callable[[str], int]) -> bytearray: ...
def align_words(
    texts: list[bytearray], pairs: Buffer, areas: Buffer, window: int, k: int
) -> bytearray: ...

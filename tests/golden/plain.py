"""Text -> bucket keys once more, in plain Python integers and from the documented definitions.

Nothing here is fast, and nothing here comes from ``lshdb``: no NumPy, no compiled hash, no separate
way for ASCII. Whoever wants to make the same signatures in another language can read this file as
the specification. The only things taken from Python itself are the Unicode tables
(``unicodedata``, ``str.casefold``, ``str.isspace`` and ``str.isalnum``).

    text -> normalise -> words -> shingles -> hash_shingles -> fss | universal -> bucket_keys
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from unicodedata import category, combining, normalize

__all__ = [
    "GOLDEN",
    "PRIME",
    "SCHEMES",
    "bucket_key",
    "bucket_keys",
    "content_key",
    "fss",
    "hash_shingles",
    "key_of_seed",
    "mix64",
    "murmur3_x64_128",
    "normalise",
    "seed_with_key",
    "shingle_hashes",
    "shingles",
    "signed",
    "universal",
    "universal_functions",
    "words",
]

HEXADECIMAL = "0123456789abcdefABCDEF"
MASK16 = 2**16 - 1
MASK32 = 2**32 - 1
MASK64 = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
PRIME = 2**61 - 1

# The scripts written without spaces. A copy on purpose: a change of the table in lshdb changes
# signatures, and has to be seen.
SPACELESS = """
    0E01-0E3A 0E40-0E4E 0E50-0E59
    0E81-0EBD 0EC0-0ECE 0ED0-0ED9 0EDC-0EDF
    1000-1049 1050-109D A9E0-A9FE AA60-AA76 AA7A-AA7F
    1780-17B3 17B6-17D3 17D7-17D7 17DC-17DD 17E0-17E9 17F0-17F9
    2E80-2FD5 3005-3007 3021-302D 3031-3035 3038-303C
    3041-3096 3099-309A 309D-309F
    30A1-30FA 30FC-30FF 31F0-31FF FF66-FF9F 1AFF0-1B16F
    3400-4DBF 4E00-9FFF F900-FAFF 20000-3FFFF
"""
RANGES = sorted(tuple(int(end, 16) for end in written.split("-")) for written in SPACELESS.split())

# Default_Ignorable_Code_Point, and the combining classes of accents, points and Arabic vowels.
IGNORABLE = frozenset([
    0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810),
    *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164,
    *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000),
])  # fmt: skip
ACCENTS = frozenset([1, *range(10, 37), *range(202, 241)])


# Text -> shingles


def normalise(text: str, steps: str = "ignorable-nfkc-casefold-space") -> str:
    """The steps of the procedure, one after the other, as docs/format.md lists them."""
    wanted = [] if steps == "none" else steps.split("-")
    form = "NFKC" if "nfkc" in wanted else "NFC"
    for step in wanted:
        if step == "ignorable":
            text = "".join(c for c in text if ord(c) not in IGNORABLE)
        elif step == "nfkc":
            text = normalize("NFKC", text)
        elif step == "casefold":
            text = text.casefold()
            text = normalize("NFKC", text) if "nfkc" in wanted else text
        elif step == "accents":
            marked = normalize("NFD", text)
            text = normalize(form, "".join(c for c in marked if combining(c) not in ACCENTS))
        elif step == "digits":
            text = numbers_to_zero(text)
        elif step == "punctuation":
            text = "".join(" " if category(c)[0] in "PS" else c for c in text)
        elif step == "space":
            text = one_line(text)
        else:
            lines = [one_line(line) for line in text.splitlines()]
            text = "\n".join(line for line in lines if line)
    return text


def numbers_to_zero(text: str) -> str:
    """Every run of digits, with single points and commas between digits, becomes 0."""
    out, place = "", 0
    while place < len(text):
        if not text[place].isdecimal():
            out += text[place]
            place += 1
            continue
        while place < len(text) and (
            text[place].isdecimal()
            or (text[place] in ".," and place + 1 < len(text) and text[place + 1].isdecimal())
        ):
            place += 1
        out += "0"
    return out


def one_line(text: str) -> str:
    """Each run of white space one blank, none at the ends."""
    kept: list[str] = []
    for character in text:
        if not character.isspace():
            kept.append(character)
        elif kept and kept[-1] != " ":
            kept.append(" ")
    return "".join(kept).removesuffix(" ")


def stands_alone(character: str) -> bool:
    """Whether a character belongs to a script written without spaces, and so is a word."""
    return any(first <= ord(character) <= last for first, last in RANGES)


def words(text: str) -> list[str]:
    r"""Maximal runs of ``\w`` (alphanumeric, or an underscore) and the marks that follow.

    Spaceless characters are words one by one, with the other marks that follow.
    """
    found: list[str] = []
    before = "none"
    for character in text:
        if stands_alone(character):
            found.append(character)
            before = "single"
        elif character.isalnum() or character == "_":
            if before == "word":
                found[-1] += character
            else:
                found.append(character)
            before = "word"
        elif category(character) in ("Mn", "Mc", "Me") and before != "none":
            found[-1] += character
        else:
            before = "none"
    return found


def path_tokens(url: str, *, steps: str, stop_tokens: Sequence[str]) -> list[str]:
    """Runs of letters of a URL's path and query, without the stop tokens."""
    url = url.strip()
    scheme, slashes, rest = url.partition("//")
    is_scheme = scheme[-1:] == ":" and scheme[:1].isascii() and scheme[:1].isalpha()
    is_scheme = is_scheme and all(c.isascii() and (c.isalnum() or c in "+.-") for c in scheme[:-1])
    ends = [place for place, c in enumerate(rest) if c in "/?#"]
    bare = min([place for place, c in enumerate(url) if c in "/?#"], default=len(url))
    host, _, port = url[:bare].partition(":")
    if slashes and (is_scheme or not scheme):
        path = rest[min(ends, default=len(rest)) :]
    elif (
        "." in host
        and any(c.isalnum() for c in host)
        and not any(c.isspace() or c == "@" for c in host)
        and all(c in "0123456789" for c in port)
    ):
        path = url[bare:]
    else:
        path = url
    path = path.partition("#")[0]
    data, decoded = path.encode("utf-8"), b""
    while data:
        escape = data[1:3].decode("ascii", "replace")
        if data[:1] == b"%" and len(escape) == 2 and all(c in HEXADECIMAL for c in escape):
            decoded, data = decoded + bytes([int(escape, 16)]), data[3:]
        else:
            decoded, data = decoded + data[:1], data[1:]
    text = normalise(decoded.decode("utf-8", "replace"), steps)
    letters = ""
    for c in text:
        is_mark = category(c) in ("Mn", "Mc", "Me")
        letters += c if c.isalpha() or (is_mark and letters[-1:].strip()) else " "
    return [token for token in letters.split(" ") if token and token not in stop_tokens]


def url_shingles(
    urls: Sequence[str], *, k: int, steps: str, stop_tokens: Sequence[str]
) -> list[bytes]:
    """Positional shingles of all URLs."""
    found = []
    for url in urls:
        tokens = path_tokens(url, steps=steps, stop_tokens=stop_tokens)
        for start in range(max(1, len(tokens) - k + 1) if tokens else 0):
            found.append(" ".join([*tokens[start : start + k], str(start)]).encode("utf-8"))
    return found


def shingles(
    body: str | Sequence[str],
    *,
    unit: str,
    k: int,
    steps: str = "ignorable-nfkc-casefold-space",
    stop_tokens: Sequence[str] = (),
) -> list[bytes]:
    """UTF-8 bytes of every shingle of a body, in order, repeats included."""
    if unit == "url":
        urls = body.split("\n") if isinstance(body, str) else body
        return url_shingles(urls, k=k, steps=steps, stop_tokens=stop_tokens)
    if not isinstance(body, str):
        tokens, glue = list(body), " "
    elif unit == "word":
        text = normalise(body, steps)
        # A text without a word is one shingle, unless it is blank.
        tokens, glue = words(text) or ([text] if one_line(text) else []), " "
    elif unit == "token":
        tokens, glue = (
            [token for token in one_line(normalise(body, steps)).split(" ") if token],
            " ",
        )
    elif unit == "line":
        tokens, glue = [line for line in normalise(body, steps).split("\n") if line], "\n"
    elif unit == "byte":
        data = normalise(body, steps).encode("utf-8")
        count = max(1, len(data) - k + 1) if data else 0
        return [data[start : start + k] for start in range(count)]
    else:
        tokens, glue = list(normalise(body, steps)), ""
    if not tokens:
        return []
    count = max(1, len(tokens) - k + 1)
    return [glue.join(tokens[start : start + k]).encode("utf-8") for start in range(count)]


# Shingles -> hashes


def rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK64


def murmur3_x64_128(data: bytes, seed: int = 0) -> tuple[int, int]:
    """MurmurHash3_x64_128 of Austin Appleby: the low and the high 64 bits of the hash."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = seed

    def scrambled_low(k1: int) -> int:
        return rotated(k1 * c1 & MASK64, 31) * c2 & MASK64

    def scrambled_high(k2: int) -> int:
        return rotated(k2 * c2 & MASK64, 33) * c1 & MASK64

    def finished(h: int) -> int:
        h = (h ^ (h >> 33)) * 0xFF51AFD7ED558CCD & MASK64
        h = (h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53 & MASK64
        return h ^ (h >> 33)

    whole = len(data) - len(data) % 16
    for start in range(0, whole, 16):
        h1 ^= scrambled_low(int.from_bytes(data[start : start + 8], "little"))
        h1 = ((rotated(h1, 27) + h2) * 5 + 0x52DCE729) & MASK64
        h2 ^= scrambled_high(int.from_bytes(data[start + 8 : start + 16], "little"))
        h2 = ((rotated(h2, 31) + h1) * 5 + 0x38495AB5) & MASK64
    tail = data[whole:]
    h2 ^= scrambled_high(int.from_bytes(tail[8:], "little"))
    h1 ^= scrambled_low(int.from_bytes(tail[:8], "little"))

    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & MASK64
    h2 = (h2 + h1) & MASK64
    h1, h2 = finished(h1), finished(h2)
    h1 = (h1 + h2) & MASK64
    h2 = (h2 + h1) & MASK64
    return h1, h2


def hash_shingles(found: Iterable[bytes], *, bag: bool) -> list[int]:
    """Sorted distinct hashes; in a bag, repetition i of a shingle is hashed with seed i."""
    seen: dict[bytes, int] = {}
    hashes = set()
    for shingle in found:
        repetition = seen.get(shingle, 0)
        seen[shingle] = repetition + 1
        hashes.add(murmur3_x64_128(shingle, repetition if bag else 0)[0])
    return sorted(hashes)


def shingle_hashes(
    body: str | Sequence[str],
    *,
    unit: str,
    k: int,
    bag: bool,
    steps: str = "ignorable-nfkc-casefold-space",
    stop_tokens: Sequence[str] = (),
) -> list[int]:
    """From a body as it came in: a text, ready tokens, or URLs."""
    found = shingles(body, unit=unit, k=k, steps=steps, stop_tokens=stop_tokens)
    return hash_shingles(found, bag=bag)


# Hashes -> signature


def mix64(value: int) -> int:
    """The output function of SplitMix64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK64
    return value ^ (value >> 31)


def key_of_seed(seed: int, number: int) -> int:
    """Key ``number`` of the stream of a seed."""
    return mix64((seed + (number + 1) * GOLDEN) & MASK64)


def seed_with_key(number: int, key: int) -> int:
    """The one seed whose key ``number`` is ``key``: the mixer run backwards."""

    def unshifted(value: int, bits: int) -> int:
        result = value
        for _ in range(64 // bits):
            result = value ^ (result >> bits)
        return result

    value = unshifted(key, 31) * pow(0x94D049BB133111EB, -1, 2**64) & MASK64
    value = unshifted(value, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK64
    return (unshifted(value, 30) - (number + 1) * GOLDEN) & MASK64


def fss(hashes: Iterable[int], *, num_perm: int, seed: int) -> list[int]:
    """Fast Similarity Sketching: 2 K rounds; the first that reaches a slot decides it.

    The lower half of a value is what is kept.
    """
    elements = list(hashes)
    slots: dict[int, int] = {}
    for number in range(2 * num_perm):
        key = key_of_seed(seed, number)
        thrown: dict[int, int] = {}
        for element in elements:
            mixed = mix64(element ^ key)
            high, value = mixed >> 32, mixed & MASK32
            slot = high * num_perm // 2**32 if number < num_perm else number - num_perm
            thrown[slot] = min(value, thrown.get(slot, value))
        slots = thrown | slots  # what a former round decided stays
        if len(slots) == num_perm:
            break
    return [slots[slot] & MASK16 for slot in range(num_perm)]


def universal_functions(num_perm: int, seed: int) -> list[tuple[int, int]]:
    """(a, b) of every slot: the upper 61 bits of the keys, those out of range passed over."""

    def upper_bits() -> Iterator[int]:
        number = 0
        while True:
            yield key_of_seed(seed, number) >> 3
            number += 1

    stream = upper_bits()
    return [
        (
            next(drawn for drawn in stream if 1 <= drawn < PRIME),
            next(drawn for drawn in stream if 0 <= drawn < PRIME),
        )
        for _ in range(num_perm)
    ]


def universal(hashes: Iterable[int], *, num_perm: int, seed: int) -> list[int]:
    """The lower half of the minimum of ((a x + b) mod p) mod 2^32, slot by slot."""
    elements = list(hashes)
    return [
        min([(a * x + b) % PRIME % 2**32 for x in elements]) & MASK16
        for a, b in universal_functions(num_perm, seed)
    ]


SCHEMES = {"fss": fss, "universal": universal}


# Signature -> bucket keys


def signed(value: int) -> int:
    """A number of 64 bits read as two's complement."""
    return value - 2**64 if value >= 2**63 else value


def bucket_key(band: int, slots: Sequence[int], *, slot_bits: int = 16) -> int:
    """The band's number over 32 bits of a hash of it and its slots, 64 bits of these at a time."""
    bits = sum(slot << slot_bits * place for place, slot in enumerate(slots))
    hashed = mix64(band + 1)
    for start in range(0, slot_bits * len(slots), 64):
        hashed = mix64(hashed ^ (bits >> start & MASK64))
    return band * 2**32 + hashed % 2**32


def bucket_keys(signature: Sequence[int], *, bands: int, rows: int) -> list[int]:
    """The key of every band."""
    return [bucket_key(band, signature[band * rows : (band + 1) * rows]) for band in range(bands)]


def content_key(content_hash: bytes) -> int:
    """The key, in band 255, of the first 32 bits of a content hash."""
    return 255 * 2**32 + int.from_bytes(content_hash[:4], "big")

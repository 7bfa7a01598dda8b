"""Write the known-answer vectors: ``python -m tests.golden.make_vectors NEW_FILE``.

The vectors are a promise: a signature written today can be compared with one written in ten years.
They come from ``plain.py`` alone, never from the code they test.

VECTORS ARE NEVER MADE AGAIN TO MAKE A TEST PASS. A test that fails on them has found a change that
makes every stored index unusable: take the change back, or give it a name of its own (a new scheme,
a new normalisation, a new format number) beside the old one. What may be done is to add inputs; the
lines that are there stay as they are, byte for byte. So this script never writes over a file.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.golden import plain

Body = str | list[str]

# The first key of this seed is zero, so that ``universal`` has to pass over it.
ZERO_KEY_SEED = 0x61C8864680B583EB

# Unit, k, whether a bag.
SHINGLINGS = [
    (unit, k, bag)
    for bag in (False, True)
    for unit, k in [("word", 5), ("word", 1), ("char", 9), ("char", 5)]
]

# Scheme, seed, num_perm, bands, rows. To keep the file small most shinglings have only the first.
SIGNATURES = [
    ("fss", 1, 128, 25, 5),
    ("universal", 1, 128, 25, 5),
    ("fss", ZERO_KEY_SEED, 100, 33, 3),
    ("universal", ZERO_KEY_SEED, 100, 33, 3),
    ("fss", 7, 255, 255, 1),
]
SIGNATURES_OF = {("word", 5, False): 5, ("char", 5, True): 2}


def long_text(length: int = 3000) -> str:
    """Words of a small vocabulary, so that some shingles come again."""
    rng = random.Random(3000)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopé", k=rng.randint(1, 9))) for _ in range(60)]
    phrase = rng.choices(vocabulary, k=40)
    words: list[str] = []
    while len(words) < length:
        words += phrase if rng.random() < 0.2 else rng.choices(vocabulary, k=40)
    return " ".join(words[:length])


INPUTS: list[tuple[str, Body]] = [
    ("ascii", "The quick brown fox jumps over the lazy dog, and the lazy dog sleeps."),
    ("accents composed", "Caf\xe9 d\xe9j\xe0 vu: \xe0 l'\xe9t\xe9, \xc5ngstr\xf6m"),
    (
        "accents decomposed",
        "Cafe\u0301 de\u0301ja\u0300 vu: a\u0300 l'e\u0301te\u0301, A\u030angstro\u0308m",
    ),
    ("ligature", "\ufb01nd an e\ufb03cient o\ufb03ce \ufb02oor, \u0133s en \xe6on"),
    ("sharp s", "Die STRASSE, die Stra\xdfe, die STRA\u1e9eE und der gro\xdfe Spa\xdf"),
    ("dotted i", "\u0130stanbul, ISPARTA, \u0131l\u0131k \u0130\u0130 i\u0307"),
    (
        "final sigma",
        "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 "
        "\u1f48\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2 "
        "\u03c3\u03bf\u03c6\u03cc\u03c2 \u03a3\u039f\u03a6\u038c\u03a3 \u1fb3 \u1f88",
    ),
    (
        "thai",
        "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0e01\u0e33\u0e25\u0e31\u0e07 "
        "\u0e51\u0e52\u0e53 \u0e3f5 \u0e01\u0e23\u0e38\u0e07\u0e40\u0e17\u0e1e\u0e2f "
        "\u0e5a",
    ),
    ("lao", "\u0e9e\u0eb2\u0eaa\u0eb2\u0ea5\u0eb2\u0ea7 \u0e99\u0ecd\u0ec9\u0eb2 \u0ed1\u0ed2"),
    (
        "chinese",
        "\u6211\u4eec\u7684\u5f81\u9014\u662f\u661f\u8fb0\u5927\u6d77\u3002\u7b2c\u4e8c\u5341"
        "\u3007\u53f7\uff0c\u4eba\u3005 "
        "\U00020000\U0002a6d6 \u2f00\u2e81 \uf900",
    ),
    (
        "kana",
        "\u6771\u4eac\u30bf\u30ef\u30fc\u30fb\u3072\u3089\u304c\u306a\u3001\uff76\uff9e\uff77 "
        "\u304b\u3099 \u30ab\u30bf\u30ab\u30ca\u30fd",
    ),
    (
        "khmer",
        "\u1797\u17b6\u179f\u17b6\u1781\u17d2\u1798\u17c2\u179a\u17d4 "
        "\u17e1\u17e2\u17e3 \u17d7 \u17db",
    ),
    (
        "burmese",
        "\u1019\u103c\u1014\u103a\u1019\u102c\u1018\u102c\u101e\u102c "
        "\u1041\u1042\u104a \u104f \uaa60\uaa77",
    ),
    (
        "korean",
        "\ub300\ud55c\ubbfc\uad6d \uc11c\uc6b8\uc740 \ud070 \ub3c4\uc2dc\ub2e4 "
        "\u1112\u1161\u11ab\u1100\u1173\u11af",
    ),
    (
        "emoji",
        "hello \U0001f600 w\xf6rld \U0001f469\u200d\U0001f469\u200d\U0001f467 "
        "\U0001f1eb\U0001f1f7 \u2764\ufe0f ok\U0001f600ok",
    ),
    ("digits", "3.14159 1,000 \u0663\u0664 x\xb2 \xbd \u2460 \uff11\uff12 \u2167 007"),
    ("underscore", "snake_case __init__ a_b _ __ a-b \u203f x_\u4e2d_y"),
    ("nul", "a\x00b c\x00\x00d \x00 the end\x00"),
    (
        "combining marks",
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e "
        "\u05e9\u05b8\u05dc\u05d5\u05b9\u05dd q\u0303x e\u0301\u0323 \u1e9b\u0323 "
        "\u0345 \u0301a",
    ),
    (
        "mathematical letters",
        "\U0001d407\U0001d41e\U0001d425\U0001d425\U0001d428 \U00010400\U00010428 "
        "\u210c\u2124 \u212b \u2126",
    ),
    (
        "full width",
        "\uff26\uff35\uff2c\uff2c\u3000\uff37\uff49\uff44\uff54\uff48 \u338f \u2103 "
        "\u2122 \xa8 \u2026",
    ),
    ("white space", "\xa0tab\tand\r\nline\u2003em\x1cfs\x85nel\u2028ls\u3000end\u200bzero\ufeff "),
    ("mixed scripts", "v2\u7684ABC\u0e44\u0e17\u0e22xyz\u306e\xe9t\xe9_\u4e2d9"),
    ("fewer than k", "Only three words"),
    ("exactly k", "one two three four five"),
    ("nine characters", "abcd efgh"),
    ("one token", "Word"),
    ("one character", "\xc9"),
    ("no token", "... !? \u2014 \U0001f600"),
    ("empty", ""),
    ("only white space", " \t\n\u3000"),
    ("repeats", "a rose is a rose is a rose is a rose is a rose is a rose"),
    ("one word again", "ha ha ha ha ha ha ha ha ha ha ha ha"),
    (
        "ready tokens",
        [
            "New York",
            "",
            "UPPER",
            "a  b",
            "\xc9",
            "E\u0301",
            "\ufb01",
            " ",
            "\u4e2d\u6587",
            "UPPER",
        ],
    ),
    ("ready tokens again", ["x y", "x", "y", "x y", "x", "y", "x y", "x", "y", "x y", "x", "y"]),
    ("one empty token", [""]),
    ("no ready tokens", []),
    ("long", long_text()),
    ("ascii underscore", "snake_case __init__ x2 a-b _ 1_000\x1fEND"),
    (
        "vowel signs",
        "\u0915\u093f\u0924\u093e\u092c \u0995\u09bf \u0a15\u0a3f \u0b95\u0bbf "
        "\u0c15\u0c3f \u0d15\u0d3f \u0dc0\u0dd2 \u0f56\u0f7c\u0f51\u0f0b\u0f66\u0f90\u0f51 "
        "\u078b\u07a8\u0788\u07ac \ua9b2\ua98f\ua9b8",
    ),
    (
        "vocalised",
        "\u0643\u064e\u062a\u064e\u0628\u064e \u0627\u0644\u0648\u064e\u0644\u064e\u062f\u064f "
        "\u05d4\u05b7\u05e1\u05bc\u05b5\u05e4\u05b6\u05e8 \u0721\u0730\u0720\u071f\u0733\u0710 "
        "\u1ecd\u0301 \u0915\u093c\u094d\u0937\u0951 \u304b\u3099 \u0e17\u0e35\u0e48",
    ),
    (
        "invisible",
        "gov\xadern\u200bment e\xad\u0301\u034f\u0323 \ufeff\u200e\u05d0\u200f\u2060 "
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u2764\ufe0f "
        "\u1100\u115f\u1161\u3164 \u4e2d\U000e0100 \U000e0041\U000e007f",
    ),
    (
        "marks after all",
        "\u4e2d\u0301\u0302x \u0e01\u0303\u0301 \u0301\u093fa 1\u20e3 !\u0301 \u309a\u0301",
    ),
    ("no word", "\U0001f389\U0001f389  \u2211\u222b \u28ff\n\u250c\u2500\u2510 \u0301"),
    ("only ignorable", "\xad\u200b \ufeff\U000e0041"),
    ("folded to marks", "\u01f0 \u0390\u03b0 \u1e96\u1e97 \u1e98\u1e99 \u1fb7"),
]


def digest(numbers: Iterable[int], width: int) -> str:
    """SHA-256 of the numbers' little-endian bytes."""
    content = b"".join((number % 2 ** (8 * width)).to_bytes(width, "little") for number in numbers)
    return hashlib.sha256(content).hexdigest()


def describe_text(text: str) -> dict[str, Any]:
    """A normalised text: itself where it is short, and its SHA-256."""
    answer: dict[str, Any] = {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    return answer if len(text) > 200 else {"text": text, **answer}


def describe_hashes(hashes: list[int]) -> dict[str, Any]:
    """Shingle hashes: how many, the first four, and all of them in a SHA-256."""
    return {"count": len(hashes), "first": hashes[:4], "sha256": digest(hashes, 8)}


def describe_signature(signature: list[int]) -> dict[str, Any]:
    """A signature: its first eight slots, and all of them in a SHA-256."""
    return {"slots": signature[:8], "sha256": digest(signature, 2)}


def describe_keys(keys: list[int]) -> dict[str, Any]:
    """Bucket keys: the first four and the last."""
    return {"keys": [*keys[:4], keys[-1]]}


def signatures(hashes: list[int], number: int) -> Iterator[dict[str, Any]]:
    """The first ``number`` kinds of signature of a document, with their bucket keys."""
    for scheme, seed, num_perm, bands, rows in SIGNATURES[:number]:
        signature = plain.SCHEMES[scheme](hashes, num_perm=num_perm, seed=seed)
        yield {
            "scheme": scheme,
            "seed": seed,
            "num_perm": num_perm,
            **describe_signature(signature),
            "bands": bands,
            "rows": rows,
            **describe_keys(plain.bucket_keys(signature, bands=bands, rows=rows)),
        }


def vector(name: str, body: Body) -> dict[str, Any]:
    """All answers for one input; a shingling with the hashes of an earlier one only names it."""
    answer: dict[str, Any] = {"name": name, "body": body}
    if isinstance(body, str):
        answer["normalised"] = describe_text(plain.normalise(body))
    answer["shinglings"] = []
    done: dict[tuple[int, ...], int] = {}
    for number, (unit, k, bag) in enumerate(SHINGLINGS):
        hashes = plain.shingle_hashes(body, unit=unit, k=k, bag=bag)
        first = done.setdefault(tuple(hashes), number)
        shingling: dict[str, Any] = {"unit": unit, "k": k, "bag": bag}
        if first < number:
            shingling["hashes_of"] = first
        else:
            shingling |= describe_hashes(hashes)
        count = SIGNATURES_OF.get((unit, k, bag), 1 if first == number else 0)
        if hashes and count:
            shingling["signatures"] = list(signatures(hashes, count))
        answer["shinglings"].append(shingling)
    return answer


def written(answer: dict[str, Any]) -> str:
    return json.dumps(answer, separators=(",", ":"))


def layout(vectors: list[dict[str, Any]]) -> str:
    """JSON, ASCII only, with a line for each shingling and each signature, for people to read."""
    lines = []
    for entry in vectors:
        head = {name: value for name, value in entry.items() if name != "shinglings"}
        lines.append(written(head)[:-1] + ',"shinglings":[')
        for shingling in entry["shinglings"]:
            signed = shingling.get("signatures", [])
            inner = ",\n    ".join(written(signature) for signature in signed)
            outer = written({key: shingling[key] for key in shingling if key != "signatures"})
            closing = f',"signatures":[\n    {inner}]}}' if signed else "}"
            lines.append("  " + outer[:-1] + closing + ",")
        lines[-1] = lines[-1].removesuffix(",") + "]},"
    lines[-1] = lines[-1].removesuffix(",")
    return '{"vectors":[\n' + "\n".join(lines) + "\n]}\n"


if __name__ == "__main__":
    made = layout([vector(name, body) for name, body in INPUTS])
    with Path(sys.argv[1]).open("x", encoding="ascii") as file:
        file.write(made)

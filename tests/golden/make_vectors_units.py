"""Write the known answers of the other units and normalisations, beside those of ``make_vectors``.

    python -m tests.golden.make_vectors_units NEW_FILE

What is said there holds here: they come from ``plain.py`` alone, they are never made again to make
a test pass, and this script never writes over a file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.golden import plain
from tests.golden.make_vectors import (
    INPUTS,
    Body,
    describe_hashes,
    describe_keys,
    describe_signature,
    describe_text,
)

LINES = "ignorable-nfkc-casefold-lines"
EVERY = "ignorable-nfkc-casefold-accents-digits-punctuation"

# Unit, k, whether a bag, steps: the defaults of each unit, what its options add and take away.
SHINGLINGS = [
    ("byte", 9, False, "none"),
    ("byte", 4, True, "casefold"),
    ("line", 3, False, LINES),
    ("line", 1, True, "ignorable-nfkc-lines"),
    ("line", 2, False, EVERY + "-lines"),
    ("token", 5, False, "space"),
    ("token", 2, True, "casefold-accents-space"),
    ("word", 5, False, "ignorable-nfkc-space"),
    ("word", 2, True, EVERY + "-space"),
    ("word", 3, False, "accents-digits-space"),
    ("char", 5, False, "ignorable-nfkc-casefold-digits-space"),
    ("char", 9, False, "punctuation-space"),
]

# k, whether a bag, steps, stop tokens.
URL_SHINGLINGS: list[tuple[int, bool, str, str]] = [
    (2, False, LINES, "bin default home htm html index main txt"),
    (2, True, LINES, ""),
    (1, False, "ignorable-nfkc-casefold-accents-lines", "html www"),
    (3, False, "ignorable-nfkc-lines", "htm"),
]

TEXTS: list[tuple[str, Body]] = [
    ("lines", "One line\r\n  two\tblanks  \n\n\x0b \nTHREE\u2028four\x85five\x1csix\n\nOne line"),
    (
        "numbers",
        "1 1.5 1,000.00 1.. 2.,3 v1.2.3-rc4 x1y2 \u0663.\u0664 \uff11\uff12 \xb2\u2460 .5 5.",
    ),
    (
        "signs",
        "a-b c_d (e) \xabf\xbb g+h \xa3i \u2014 j\u2019k \u203d l^m \U0001f600 n\u30fbo p\u2260q "
        "=\u0338",
    ),
    (
        "marks",
        "\xc9t\xe9 E\u0301te\u0301 \xf1 \u1e69 \u01f0 \u0130 \ud55c \u304c \u0439 \u0345 \xa8",
    ),
    (
        "ready tokens",
        ["tok1", "", "TOK2", "\xc9", "a b", "1.5", "x\ny", "tok1", "", "TOK2", "\xc9"],
    ),
    *(entry for entry in INPUTS if entry[0] in {
        "vocalised", "invisible", "ascii", "accents decomposed", "ligature", "dotted i",
        "final sigma", "chinese", "emoji", "digits", "underscore", "nul", "white space",
        "one token", "no token", "empty",
        "only white space", "repeats", "long",
    }),
]  # fmt: skip

URLS: list[tuple[str, Body]] = [
    ("mirror", "http://prison.example/cellblock16/inmates/dilbert/personal/foo.htm"),
    (
        "host",
        "https://www.example.org/\nhttps://www.example.org/index.html\n"
        "https://www.example.org/A/B/C/d.html?session=1&user=Tom#top\n"
        "https://www.example.org/a/b/c/D.txt\nhttps://www.example.org/caf%C3%A9/men%C3%BC/%E4/x",
    ),
    (
        "forms",
        ["//h.example/a/b/c", "h.example/a/b/c", "h.example:80/x/y", "/a/b/c", "a/b", " /q/r "],
    ),
    (
        "odd",
        "http://h/%2541/%zz/%4\nhttp://h/a%0Ab/\u4e2d\u6587/x2y\nhttp://h?a=b&c=d\nmailto:a@b.c",
    ),
    ("marks", "http://h/%E0%A4%95%E0%A4%BF%E0%A4%A4%E0%A4%BE%E0%A4%AC/\u0e17\u0e35\u0e48/\u0301a"),
    ("nothing", "\n \nhttp://h\nhttp://h/1/2.html#a"),
    ("none", []),
]  # fmt: skip


def answer(hashes: list[int]) -> dict[str, Any]:
    """The hashes, and their signature under ``fss``, seed 1, 128 slots, 25 bands of 5 rows."""
    described = describe_hashes(hashes)
    if not hashes:
        return described
    signature = plain.fss(hashes, num_perm=128, seed=1)
    keys = describe_keys(plain.bucket_keys(signature, bands=25, rows=5))
    return {**described, "signature": describe_signature(signature), **keys}


def vectors() -> list[dict[str, Any]]:
    """One entry for each input and shingling."""
    made = []
    for name, body in TEXTS:
        for unit, k, bag, steps in SHINGLINGS:
            if not isinstance(body, str) and unit != "line":
                continue  # ready tokens do not depend on the unit; once is enough
            head = {"name": name, "body": body, "unit": unit, "k": k, "bag": bag, "steps": steps}
            if isinstance(body, str):
                head["normalised"] = describe_text(plain.normalise(body, steps))
            hashes = plain.shingle_hashes(body, unit=unit, k=k, bag=bag, steps=steps)
            made.append({**head, **answer(hashes)})
    for name, body in URLS:
        for k, bag, steps, stop_tokens in URL_SHINGLINGS:
            head = {"name": name, "body": body, "unit": "url", "k": k, "bag": bag, "steps": steps}
            stops = stop_tokens.split()
            found = plain.shingles(body, unit="url", k=k, steps=steps, stop_tokens=stops)
            listed = sorted(found if bag else set(found))
            head |= {"stop_tokens": stop_tokens, "shingles": [each.decode() for each in listed]}
            made.append({**head, **answer(plain.hash_shingles(found, bag=bag))})
    for entry in made:
        if len(entry["body"]) > 2000:
            entry["body"] = None  # made by ``long_text`` of make_vectors
    return made


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in vectors())
    with Path(sys.argv[1]).open("x", encoding="ascii") as file:
        file.write('{"vectors":[\n' + lines + "\n]}\n")

"""Texts of every kind, made here, and what each costs beside clean ASCII.

A speed of clean text says nothing of scanned pages, decomposed accents or scripts whose characters
need their neighbours. So each kind is a corpus of its own, always the same: words put together at
random from the letters or syllables of a script, drawn by a Zipf law, in texts of about 1,500
characters. They are no language, but a normaliser, a tokenizer and a hash meet what they meet in
one.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import orjson

from benchmarks._corpora import Corpus, from_lines
from benchmarks._tables import table

__all__ = ["KINDS", "kinds_of_text", "report", "texts"]

_WORDS = 4000
_SENTENCE = 12
_LENGTH = 1500

Syllable = Callable[[random.Random], str]
Maker = Callable[[random.Random], Iterator[str]]


def _of(*choices: str) -> Syllable:
    """One character of each, one after the other; a blank stands for none."""
    return lambda rng: "".join(rng.choice(some) for some in choices).replace(" ", "")


def _span(first: int, last: int) -> str:
    return "".join(
        character
        for character in map(chr, range(first, last + 1))
        if category(character) not in ("Cn", "Cs")
    )


_ASCII = _of("bcdfghklmnprstvw", "aeiou", "      lmnrst")
_ACCENTED = _of("bcčçdfghklłmnñprřsštvwž", "aáàâäãåeéèêëěiíîïoóôöõøuúùûüů", "    nrs")
_VIETNAMESE = _of("bcdđghklmnprstvx", "aảạầẩậắăẳeẻẹếềểệioỏọốồổộớờởợuủụứừửựyỷ", " cnmt")
_GREEK = _of("βγδζθκλμνξπρστφχψ", "αεηιουωάέήίόύώᾶῆῖῦῶὰὲὴἀἐἡἰὁὐὥᾳῃῳᾴ", "    νρς")
_CYRILLIC = _of("бвгджзклмнпрстфхцчшщ", "аеёиоуыэюяй", "   нрст")
_ARABIC = _of("ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "   اوي")
_HARAKA = "\u064b\u064c\u064d\u064e\u064f\u0650\u0652\u064e\u064f\u0650"
_VOWELLED = _of("ابتثجحخدذرزسشصضطظعغفقكلمنهويأإ", "     \u0651", _HARAKA)
_HEBREW = _of("אבגדהוזחטיכלמנסעפצקרשת")
_POINTS = "\u05b0\u05b1\u05b4\u05b5\u05b6\u05b7\u05b8\u05b9\u05bb  "
_POINTED = _of("אבגדהוזחטיכלמנסעפצקרש", "    \u05bc\u05c1", _POINTS)
_DEVANAGARI = _of("कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह", "     \u093c", "   ािीुूृेैोौ्", "      \u0902")
_NUKTA = _of("कखगजडढफयनर\u0958\u0959\u095a\u095b\u095c\u095d\u095e", "  \u093c", "   ािीुूेैो्")
_BENGALI = _of("কখগঘচছজঝটঠডঢণতথদধনপফবভমযরলশষসহড়য়", "   ািীুূৃেৈোৌ্")
_THAI = _of(
    "      เแโใไ", "กขคงจฉชซญดตถทธนบปผพฟมยรลวสหอฮ", "  าะิีึืุูำั", "    \u0e48\u0e49", "   กงนมบด"
)
_HAN, _HAN_B = _span(0x4E00, 0x5FFF), _span(0x20000, 0x20FFF)
_KANA = _of(
    "かきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをんがぎぐげござじずだでどばび"
)
_KATAKANA = _of("アイウエオカキクケコサシスセソタチツテトナニネノハフホガギグゴジズバブポン")
_HALF = _of("ｱｲｳｴｵｶｷｸｹｺｻｼｽｾｿﾀﾁﾂﾃﾄﾊﾋﾌﾍﾎﾅﾆﾇﾏﾐﾑﾗﾘﾙﾜﾝ", "   \uff9e")
_HANGUL = _of("".join(chr(0xAC00 + 588 * lead + 28 * vowel + final)
                      for lead in range(19) for vowel in (0, 4, 5, 8, 13, 18, 20)
                      for final in (0, 0, 0, 1, 4, 8, 16, 21)))  # fmt: skip
_EMOJI = (
    "😀",
    "🎉",
    "👍🏽",
    "👩\u200d❤\ufe0f\u200d👨",
    "🇫🇷",
    "❤\ufe0f",
    "☀\ufe0f",
    "1\ufe0f\u20e3",
)


def _prose(
    syllable: Syllable,
    rng: random.Random,
    *,
    blank: str = " ",
    stop: str = ". ",
    short: bool = False,
) -> Iterator[str]:
    """Texts without end, of sentences of words of one to four syllables."""
    words = ["".join(syllable(rng) for _ in range(rng.randint(1, 4))) for _ in range(_WORDS)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, _WORDS + 1)))
    while True:
        drawn = rng.choices(words, cum_weights=weights, k=6 if short else _LENGTH // 5)
        parts = (
            f"{drawn[at].capitalize()}{blank}{blank.join(drawn[at + 1 : at + _SENTENCE])}"
            for at in range(0, len(drawn), _SENTENCE)
        )
        yield (stop.join(parts) + stop.rstrip())[:_LENGTH]


def _scanned(text: str, rng: random.Random) -> str:
    """As from a scanner: hyphens at the ends of lines, ligatures, page ends, signs not known."""
    text = text.replace("fi", "\ufb01").replace("ff", "\ufb00")
    parts = []
    for at in range(0, len(text), 70):
        end = rng.choice(("\n", "\n", "\n", "\r\n", "\u00ad\n", "-\n", "\x0c"))
        odd = rng.choice(
            ("", "", "", "\u2019", "\ue000", "\uf0b7", "\x02", "\ufffd", "¬", "•", "\x00")
        )
        parts += [text[at : at + 70], odd, end]
    return "".join(parts)


def _each(
    change: Callable[[str], str], syllable: Syllable = _ASCII
) -> Callable[..., Iterator[str]]:
    return lambda rng: map(change, _prose(syllable, rng))


def _plain(syllable: Syllable, **options: Any) -> Maker:
    return lambda rng: _prose(syllable, rng, **options)


def _any_characters(rng: random.Random) -> Iterator[str]:
    """All that is assigned below plane 3, at random: nothing that anybody writes."""
    pool = _span(0x20, 0x2FFFF)
    while True:
        yield "".join(rng.choices(pool, k=_LENGTH)) + " a"


def _decomposed(text: str) -> str:
    return normalize("NFD", text)


def _marked(mark: str) -> Callable[[str], str]:
    return lambda text: text[:900] + mark + text[900:]


KINDS: dict[str, Maker] = {
    "clean ASCII": _plain(_ASCII),
    "ASCII, CRLF": _plain(_ASCII, stop=".\r\n"),
    "ASCII, odd line separators": _plain(_ASCII, stop=".\u2028\x85\x0b"),
    "ASCII, no-break spaces": _plain(_ASCII, blank="\u00a0"),
    "ASCII, curly quotes": _plain(_ASCII, stop=".\u201d \u201c"),
    "ASCII, control characters": _plain(_ASCII, stop=".\x0c\x01"),
    "one soft hyphen a text": _each(_marked("\u00ad")),
    "one plane-16 character a text": _each(_marked("\U00100000")),
    "scanned (OCR)": lambda rng: (_scanned(text, rng) for text in _prose(_ASCII, rng)),
    "emoji": lambda rng: (
        text.replace(". ", f". {rng.choice(_EMOJI)} ") for text in _prose(_ASCII, rng)
    ),
    "Latin, NFC": _plain(_ACCENTED),
    "Latin, NFD": _each(_decomposed, _ACCENTED),
    "Vietnamese, NFC": _plain(_VIETNAMESE),
    "Vietnamese, NFD": _each(_decomposed, _VIETNAMESE),
    "Greek, polytonic": _plain(_GREEK),
    "Cyrillic": _plain(_CYRILLIC),
    "Arabic": _plain(_ARABIC),
    "Arabic, vowelled": _plain(_VOWELLED),
    "Hebrew": _plain(_HEBREW),
    "Hebrew, pointed": _plain(_POINTED),
    "Devanagari": _plain(_DEVANAGARI, stop="\u0964 "),
    "Devanagari, many nuktas": _plain(_NUKTA),
    "Bengali": _plain(_BENGALI),
    "Thai": _plain(_THAI, blank=""),
    "Han": _plain(_of(_HAN), blank="", stop="。"),
    "Han, one in ten of plane 2": _plain(
        lambda rng: rng.choice(_HAN if rng.random() < 0.9 else _HAN_B),
        blank="",
        stop="。",
    ),
    "kana": _plain(_KANA, blank="", stop="。"),
    "katakana": _plain(_KATAKANA, blank="・", stop="。"),
    "kana, half width": _plain(_HALF, stop="｡"),
    "ASCII, full width": _each(
        lambda text: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text)
    ),
    "Hangul": _plain(_HANGUL),
    "Hangul, NFD": _each(_decomposed, _HANGUL),
    "any characters": _any_characters,
    "very short (6 words), very many": _plain(_ASCII, short=True),
    "very short, Latin, NFD": lambda rng: map(_decomposed, _prose(_ACCENTED, rng, short=True)),
    "one very long": _plain(_ASCII),
    "one very long, scanned": lambda rng: (_scanned(text, rng) for text in _prose(_ASCII, rng)),
    "one very long, Latin, NFD": _each(_decomposed, _ACCENTED),
}
"""Makers of texts without end, by kind; the first is what the others are compared with."""


def texts(kind: str, size: int) -> Iterator[str]:
    """Texts of one kind, together of about so many bytes; always the same."""
    made = 0
    parts = []
    for text in KINDS[kind](random.Random(kind)):
        made += len(text.encode())
        if kind.startswith("one very long"):
            parts.append(text)
        else:
            yield text
        if made >= size:
            break
    if parts:
        yield "\n".join(parts)


def kinds_of_text(folder: Path, size: int, only: str = "") -> list[Corpus]:
    """A corpus of each kind; the first, and those whose names begin as one of ``only``."""
    first, *others = KINDS
    return [
        from_lines(
            kind,
            (
                orjson.dumps({"id": str(number), "text": text})
                for number, text in enumerate(texts(kind, size))
            ),
            folder,
        )
        for kind in [first, *(kind for kind in others if kind.startswith(tuple(only.split(","))))]
    ]


def report(
    job: dict[str, Any],
    options: argparse.Namespace,
    folder: Path,
    run: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """Run a job on every kind, in turn, and print the medians of its processor seconds.

    Those of one thread: what else the machine does is then left out of them.
    """
    size = options.kind_bytes
    corpora = kinds_of_text(folder, size, options.kinds)
    rounds: dict[str, list[float]] = {corpus.name: [] for corpus in corpora}
    for number in range(options.repeats):
        for corpus in corpora:
            result = run({**job, "path": str(corpus.path), "field": corpus.field, "threads": 1})
            rounds[corpus.name].append(result["cpu"])
        print(f"round {number + 1} {job['kind']}: {len(corpora)} kinds of text", file=sys.stderr)
    body = []
    clean = 0.0
    for corpus in corpora:
        spent = statistics.median(rounds[corpus.name])
        by_byte = spent / corpus.text_bytes * 1e9
        clean = clean or by_byte
        body.append(
            [
                corpus.name,
                f"{corpus.documents:,}",
                f"{spent / corpus.documents * 1e6:,.1f}",
                f"{by_byte:,.1f}",
                "-".join(
                    f"{f(rounds[corpus.name]) / corpus.text_bytes * 1e9:,.1f}" for f in (min, max)
                ),
                f"{by_byte / clean:.2f}",
            ]
        )
    head = ["kind of text", "documents", "us/document", "ns/byte", "min-max", "to clean ASCII"]
    print(f"\nKinds of text: {size:,} bytes of each, one thread, processor time\n")
    print(table(head, body, markdown=options.markdown), flush=True)

"""Text in other encodings than UTF-8: chunks of any encoding become chunks of UTF-8.

Decided: an encoding is guessed only where a byte order mark shows it (UTF-16, UTF-32), and that is
said. All else is UTF-8 unless the user names another encoding: what Latin-1 text looks like is what
damaged UTF-8 looks like.

The readers know UTF-8 alone. Bytes that the named encoding does not have reach them as bytes that
are not UTF-8, so that they reject the line or record and go on with the next.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from lshdb.documents.document import BrokenSourceError
from lshdb.errors import InputError, ParameterError

__all__ = [
    "Encoder",
    "encoding_of_mark",
    "exact_encoding",
    "find_encoding",
    "recoded",
    "undecodable",
]

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16's, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_FOR_FILES = {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "utf-7"}


def find_encoding(name: str) -> str | None:
    """Return Python's name of an encoding; None for UTF-8, which needs no decoding here.

    Raises
    ------
    ParameterError
        There is no such encoding for texts.
    """
    try:
        "a".encode(name)  # refuses what turns bytes into bytes, such as zlib
        codec = codecs.lookup(name).name
    except (LookupError, UnicodeError, TypeError, ValueError):
        codec = "undefined"
    if codec.replace("_", "-") in _NOT_FOR_FILES:
        raise ParameterError(
            f"encoding is {name!r}, which is no encoding of text files that Python knows",
            hint="for example latin-1, cp1252, utf-16, gb18030, shift_jis; see "
            "https://docs.python.org/3/library/codecs.html#standard-encodings",
        )
    return None if codec in ("utf-8", "utf-8-sig", "ascii") else codec


def encoding_of_mark(head: bytes) -> str | None:
    """Return the encoding that a byte order mark shows; None without one, or with UTF-8's."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def recoded(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the same text in UTF-8.

    Bytes that the encoding does not have stay as they are, and are not valid UTF-8 then.

    Raises
    ------
    BrokenSourceError
        The text ends within a character, or cannot be decoded any further.
    """
    marks = _kept(encoding)
    decoder = codecs.getincrementaldecoder(encoding)(marks)
    try:
        for chunk in chunks:
            text = decoder.decode(chunk)
            if text:
                yield text.encode("utf-8", marks)
        rest = decoder.decode(b"", final=True)
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise BrokenSourceError(f"is not valid {encoding}: {reason}") from error
    if rest:
        yield rest.encode("utf-8", marks)


def _kept(encoding: str) -> str:
    """Return the error handler that keeps bytes which an encoding cannot decode."""
    return "surrogatepass" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"


def exact_encoding(encoding: str | None, head: bytes) -> str | None:
    """Return an encoding with its byte order, so that :class:`Encoder` gives the same bytes.

    A byte order mark then counts as text, and comes out as UTF-8's.
    """
    if encoding not in ("utf-16", "utf-32"):
        return encoding
    big = codecs.BOM_UTF16_BE if encoding == "utf-16" else codecs.BOM_UTF32_BE
    return f"{encoding}-{'be' if head.startswith(big) else 'le'}"


class Encoder:
    """The way back from :func:`recoded`: from pieces of UTF-8, cut anywhere, to an encoding."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder("utf-8")(_kept(encoding))
        self._encoder = codecs.getincrementalencoder(encoding)(_kept(encoding))

    def __call__(self, data: bytes, *, is_final: bool = False) -> bytes:
        """Return the bytes of the next piece.

        Raises
        ------
        InputError
            The encoding does not have a character.
        """
        text = self._decoder.decode(data, is_final)
        try:
            return self._encoder.encode(text, is_final)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise InputError(
                f"the character {character!r} cannot be written in {self._encoding}",
                hint="convert the file to UTF-8 first",
            ) from error


def undecodable(position: str, encoding: str | None) -> str:
    """Return that a text cannot be decoded, and what to do.

    Parameters
    ----------
    position : str
        As in "at byte 3 of the line".
    encoding : str or None
        The one that the user named, if any.
    """
    if encoding is not None:
        return f"not valid {encoding} {position} (counted in UTF-8)"
    return f"not valid UTF-8 {position}; if it is in another encoding, give --encoding latin-1"

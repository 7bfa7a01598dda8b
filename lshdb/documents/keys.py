"""What a key and a body must be, whatever they came from.

Decided: a key is at most 1,024 bytes of UTF-8, so that it fits any database's index entry; it holds
no NUL, which PostgreSQL's text refuses; and neither keys nor texts hold lone surrogates, which no
UTF-8 can carry and no shingle hash is defined for. NUL in a text is allowed. Nothing is trimmed or
normalised: two keys are the same only if they are the same characters.

The answers are reasons, not exceptions, because a bad document is counted and stepped over.
"""

from __future__ import annotations

from lshdb.values import lone_surrogate, validate_body

__all__ = ["MAX_KEY_BYTES", "validate_body", "validate_key"]

MAX_KEY_BYTES = 1024
"""The longest key, in bytes of its UTF-8."""


def validate_key(key: str) -> str | None:
    """Say why a key cannot be used.

    Parameters
    ----------
    key : str
        The user's identifier of a document.

    Returns
    -------
    str or None
        The reason in one line, or None if the key is good.
    """
    if type(key) is str and key.isascii() and 0 < len(key) <= MAX_KEY_BYTES and "\0" not in key:
        return None  # nearly every key, in a third of the time
    if not isinstance(key, str):
        return f"the key is of type {type(key).__name__}, expected a string"
    if not key:
        return "the key is empty"
    position = lone_surrogate(key)
    if position is not None:
        return f"the key holds a lone surrogate at character {position + 1}"
    if "\0" in key:
        return f"the key holds a NUL at character {key.index(chr(0)) + 1}"
    size = len(key.encode("utf-8"))
    if size > MAX_KEY_BYTES:
        return f"the key has {size:,} bytes in UTF-8, at most {MAX_KEY_BYTES:,} are allowed"
    return None

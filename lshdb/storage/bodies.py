"""A document's body as it is stored: zstd over UTF-8 text, or over a JSON array of ready tokens."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

import orjson

from lshdb.errors import DamageError

__all__ = ["pack_body", "raw_body", "unpack_body"]

_LEVEL = 3


@functools.cache
def _module() -> Any:
    standard = sys.version_info >= (3, 14)
    return importlib.import_module("compression.zstd" if standard else "backports.zstd")


def raw_body(body: str | list[str]) -> tuple[str, bytes]:
    """Form (``text`` or ``tokens``) and bytes of a body, before compression."""
    if isinstance(body, str):
        return "text", body.encode()
    return "tokens", orjson.dumps(body)


def pack_body(raw: bytes) -> bytes:
    """Compress the bytes of a body."""
    packed: bytes = _module().compress(raw, _LEVEL)
    return packed


def unpack_body(form: str, packed: bytes) -> str | list[str]:
    """The body again.

    Raises
    ------
    DamageError
        The bytes are not what :func:`pack_body` made.
    """
    try:
        raw = _module().decompress(packed)
        if form == "text":
            return str(raw, "utf-8")
        tokens: list[str] = orjson.loads(raw)
        return tokens
    except (ValueError, _module().ZstdError) as error:
        raise DamageError(
            f"a stored text cannot be decoded: {error}", hint="run lshdb check"
        ) from error

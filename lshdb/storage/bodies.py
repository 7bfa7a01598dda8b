"""A document's body as it is stored: zstd over UTF-8 text, or over a JSON array of ready tokens."""

from __future__ import annotations

from typing import Any

import orjson

from lshdb.errors import DamageError

__all__ = ["pack_body", "raw_body", "unpack_body"]

_LEVEL = 3
_zstd: Any = None


def _module() -> Any:
    global _zstd
    if _zstd is None:
        try:
            from compression import zstd
        except ImportError:
            from backports import zstd
        _zstd = zstd
    return _zstd


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

"""The names of the fields, columns and arrays that hold keys and bodies."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lshdb.errors import ParameterError

__all__ = ["BODIES", "Fields"]

BODIES = ("text", "weights", "vector", "bits")
"""The kinds of bodies; a metric requires one of them (``lshdb.params.metrics``)."""


@dataclass(frozen=True, slots=True)
class Fields:
    """What the caller says about the input; None for what the caller leaves open.

    Attributes
    ----------
    key, text, vector : str or None
        Names of the fields that hold the key, the text or the weights, and the vector or the bits.
    body : str or None
        The kind of bodies to read, one of ``BODIES``.
    keys : path-like or None
        A side file with the keys.
    dim : int or None
        Numbers, or bits, that each vector must have, if known.
    """

    key: str | None = None
    text: str | None = None
    vector: str | None = None
    body: str | None = None
    keys: str | os.PathLike[str] | None = None
    dim: int | None = None

    def refuse_columns(self, n_columns: int) -> str | None:
        """Return why an array of ``n_columns`` cannot hold the vectors; None if it may."""
        if self.dim is None or n_columns == self.dim:
            return None
        if self.body != "bits":
            return f"holds vectors of {n_columns:,} numbers, expected {self.dim:,}"
        n_bytes = -(-self.dim // 8)
        if n_columns == n_bytes:
            return None
        return (
            f"holds rows of {n_columns:,}, expected {self.dim:,} bits, or {n_bytes:,} bytes of "
            "packed bits"
        )

    @property
    def key_name(self) -> str:
        """The field that holds the key."""
        return "id" if self.key is None else self.key

    @property
    def is_dense(self) -> bool:
        """Whether bodies are vectors or bits."""
        return self.body in ("vector", "bits") or (self.body is None and self.vector is not None)

    @property
    def is_text(self) -> bool:
        """Whether all bodies are texts or tokens."""
        return self.body != "weights" and not self.is_dense

    @property
    def bodies(self) -> tuple[str, ...]:
        """The fields that may hold the body; the first one present counts."""
        if self.is_dense:
            return (self.vector or "vector",)
        if self.body == "weights" and self.text is None:
            return ("text", "weights")
        return ("text" if self.text is None else self.text,)

    def check(self) -> None:
        """Refuse options that contradict one another.

        Raises
        ------
        ParameterError
        """
        if self.body is not None and self.body not in BODIES:
            raise ParameterError(f"body is {self.body!r}, expected one of {', '.join(BODIES)}")
        if self.is_dense and self.text is not None:
            raise ParameterError(
                "text_field is for texts, but vectors are expected",
                hint="name the field of the vectors with --vector-field",
            )
        if not self.is_dense and self.vector is not None:
            raise ParameterError(
                f"vector_field is for vectors and bits, but {self.body} is expected",
                hint="name the field with --text-field",
            )

"""Who takes part, and under which names; importing this imports no peer.

A contestant's own module is imported only in the process that measures it, so that a missing
package is a line in a table and not an error, and no library's threads or memory disturb another.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

__all__ = ["ADDERS", "CONTESTANTS", "SKETCHERS", "Contestant", "load"]


@dataclass(frozen=True)
class Contestant:
    """One line of a table.

    Attributes
    ----------
    name : str
        As printed.
    package : str
        Distribution that must be installed.
    module : str
        Module in this folder.
    variant : str
        Which of the module's ways.
    threads : {"given", "any", "one"}
        Whether it can be told a number of threads, takes what it likes, or knows no threads.
    given : str
        What the sketch-alone table hands it.
    """

    name: str
    package: str
    module: str
    variant: str
    threads: str = "given"
    given: str = "64-bit hashes, flat"

    def version(self) -> str | None:
        """Installed version, or None."""
        import importlib.metadata  # only the process that prints asks

        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


_LSHDB = [
    Contestant("lshdb fss", "lshdb", "lshdb_", "fss"),
    Contestant("lshdb universal", "lshdb", "lshdb_", "universal"),
]
_RENSA = [
    Contestant("rensa R-MinHash", "rensa", "rensa_", "full", threads="any"),
    Contestant("rensa rho (samples)", "rensa", "rensa_", "rho", threads="any"),
]
_FASTSKETCH = Contestant("FastSketchLSH", "FastSketchLSH", "fastsketchlsh", "fast", threads="any")
_INTEGERS = "32-bit integers, lists"

CONTESTANTS = [
    *_LSHDB,
    *_RENSA,
    _FASTSKETCH,
    Contestant("gaoya signatures", "gaoya", "gaoya_", "signatures"),
    Contestant("gaoya insert", "gaoya", "gaoya_", "insert"),
    Contestant("datasketch, mmh3", "datasketch", "datasketch_", "mmh3", threads="one"),
    Contestant("datasketch", "datasketch", "datasketch_", "sha1", threads="one"),
]
"""From text to signatures; the first is what the others are compared with."""

SKETCHERS = [
    *_LSHDB,
    *_RENSA,
    _FASTSKETCH,
    Contestant("datasketch", "datasketch", "datasketch_", "ready", given=_INTEGERS),
]
"""From ready hashes to signatures, on one thread."""


ADDERS = [
    _LSHDB[0],
    *_RENSA,
    _FASTSKETCH,
    Contestant("gaoya (own tokens)", "gaoya", "gaoya_", "insert", threads="any"),
    Contestant("datasketch, mmh3", "datasketch", "datasketch_", "mmh3", threads="one"),
    Contestant("datasketch", "datasketch", "datasketch_", "sha1", threads="one"),
]
"""From a file to an index, on disk or in memory."""


def load(contestant: Contestant) -> Any:
    """The module that knows the contestant's package."""
    return importlib.import_module(f"benchmarks.peers.{contestant.module}")

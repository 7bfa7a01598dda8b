"""Who takes part where near-duplicate pairs are wanted; importing this imports no peer."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.peers import Contestant

__all__ = ["PAIRERS", "PairContestant"]


@dataclass(frozen=True)
class PairContestant(Contestant):
    """One line of a table of pairs.

    Attributes
    ----------
    bands : str
        Bands x rows; with an asterisk where they are the package's own choice for 0.8.
    check : str
        What a candidate must pass to be written.
    saves : bool
        Whether it can persist its index; those that cannot build it again every night.
    beside : str
        Another distribution it cannot do without.
    """

    bands: str = "16 x 6"
    check: str = "signature"
    saves: bool = True
    beside: str = ""

    def version(self) -> str | None:
        """Installed version, or None where anything is missing."""
        if self.beside and not Contestant("", self.beside, "", "").version():
            return None
        return super().version()


PAIRERS = [
    PairContestant("lshdb", "lshdb", "pairs_lshdb", "exact", bands="16 x 6*", check="exact"),
    PairContestant(
        "lshdb, two commands", "lshdb", "pairs_lshdb", "commands", bands="16 x 6*", check="exact"
    ),
    PairContestant("lshdb, no texts", "lshdb", "pairs_lshdb", "signature", bands="16 x 6*"),
    PairContestant("SQLite by hand", "rensa", "pairs_sqlite", ""),
    PairContestant("DuckDB by hand", "duckdb", "pairs_duckdb", "", beside="rensa"),
    PairContestant("rensa", "rensa", "pairs_rensa", "own", bands="8 x 16*", check="none"),
    PairContestant("rensa, 16 bands", "rensa", "pairs_rensa", "wide"),
    PairContestant(
        "datasketch", "datasketch", "pairs_datasketch", "own", bands="9 x 13*", check="none"
    ),
    PairContestant("datasketch, 16 bands", "datasketch", "pairs_datasketch", "wide"),
    PairContestant("gaoya", "gaoya", "pairs_gaoya", "own", bands="21 x 6*", saves=False),
    PairContestant("gaoya, 9 bands", "gaoya", "pairs_gaoya", "few", bands="9 x 13", saves=False),
]
"""The first is what the others are compared with."""

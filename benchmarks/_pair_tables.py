"""Lines of the tables of pairs."""

from __future__ import annotations

from pathlib import Path

from benchmarks._jobs import Result
from benchmarks._tables import ratios
from benchmarks._truth import Truth
from benchmarks.peers.pairers import PAIRERS, PairContestant

__all__ = ["HEAD", "NOTE", "chosen", "line", "scored"]

HEAD = [
    "contestant", "bands x rows", "check", "s", "min-max", "CPU s", "index s", "pairs s",
    "peak MiB", "kept MB", "pairs", "precision", "recall", "lshdb is",
]  # fmt: skip
NOTE = (
    "* chosen for 0.8 by the package itself, by its own benchmark for rensa; the others are given."
)


def chosen(only: str) -> list[PairContestant]:
    """Contestants whose names begin with one of those named, or all."""
    return [one for one in PAIRERS if one.name.startswith(tuple(only.split(",")))]


def scored(result: Result, found: Path, truth: Truth | None) -> None:
    """Note precision and recall, where they can be known."""
    if truth is not None:
        result["precision"], result["recall"] = truth.score(found)


def line(one: PairContestant, result: Result | None, reference: Result | None) -> list[str]:
    """What a contestant took and found, compared with the reference."""
    name = [one.name, one.bands, one.check]
    if result is None:
        return [*name, "not installed", *[""] * (len(HEAD) - 4)]
    return [
        *name,
        f"{result['seconds']:.3f}",
        "-".join(f"{bound:.3f}" for bound in result["range"]),
        f"{result['cpu']:.3f}",
        f"{result['filling']:.3f}",
        f"{result['seconds'] - result['filling']:.3f}",
        f"{result['peak'] / 2**20:,.0f}",
        f"{result['disk'] / 1e6:,.1f}" if one.saves else "nothing",
        f"{result['pairs']:,.0f}",
        *(f"{result[name]:.5f}" if name in result else "" for name in ("precision", "recall")),
        ratios(result, reference)[1],
    ]

"""An index as pictures: figures of matplotlib, and files of them.

Each function returns a ``matplotlib.figure.Figure`` that belongs to nobody else: no window opens
and no setting of matplotlib changes. Figures are read in black and white, too. Needs the
extra ``lshdb[plot]``.
"""

from __future__ import annotations

from lshdb.plot.figures import (
    FIGURES,
    advice,
    batches,
    buckets,
    check_place,
    clusters,
    recall,
    s_curve,
    save,
    similarity,
)

__all__ = [
    "FIGURES",
    "advice",
    "batches",
    "buckets",
    "check_place",
    "clusters",
    "recall",
    "s_curve",
    "save",
    "similarity",
]

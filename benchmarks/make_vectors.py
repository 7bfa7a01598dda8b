"""Vectors made like GloVe's, where those cannot be fetched, as ``.npy``.

    python -m benchmarks.make_vectors FOLDER

341,479 vectors of 100 dimensions: a mixture of 20,000 Gaussians of heavy-tailed sizes, each vector
at its own distance from its centre, with falling variances of the components, a common mean, and
log-normal lengths. The cosine of the tenth nearest is 0.64 in the median (GloVe: 0.63), that of two
vectors 0.12 on average with a deviation of 0.14 (GloVe: 0.13 and 0.18). Writes ``FOLDER/made.npy``
(float32) in some 15 seconds; does nothing where it is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

VECTORS, DIM = 341_479, 100
_CENTRES = 20_000


def make(folder: Path, n: int = VECTORS) -> Path:
    """The file of vectors, made if it is not there."""
    path = folder / "made.npy"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    deviations = np.arange(1, DIM + 1) ** -0.35
    deviations /= np.sqrt((deviations**2).mean())
    turn, _ = np.linalg.qr(rng.standard_normal((DIM, DIM)))
    sizes = rng.pareto(1.2, _CENTRES) + 0.2
    of = rng.choice(_CENTRES, size=n, p=sizes / sizes.sum())
    centres = rng.standard_normal((_CENTRES, DIM)) * deviations
    mean = rng.standard_normal(DIM)
    mean *= 0.36 * np.sqrt(DIM) / np.linalg.norm(mean)
    share = rng.beta(3.2, 4.2, (n, 1))
    rows = np.sqrt(share) * centres[of]
    rows += np.sqrt(1.0 - share) * rng.standard_normal((n, DIM)) * deviations
    rows = (rows @ turn + mean) * np.exp(0.35 * rng.standard_normal((n, 1)))
    np.save(path, rows.astype(np.float32))
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    print(make(parser.parse_args().folder))

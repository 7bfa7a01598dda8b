"""The kernel's part in families gives what the reference gives, and checks what it is handed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lshdb.kernel import compiled, kernel, reference
from lshdb.signatures import weighted as icws
from tests.signatures.families import make
from tests.without_kernel import use_reference

pytestmark = pytest.mark.fast

needs_kernel = pytest.mark.skipif(compiled is None, reason="there is no compiled kernel")


@needs_kernel
@pytest.mark.parametrize(("dim", "num_perm"), [(1, 32), (256, 256), (300, 1056), (5000, 96)])
def test_hadamard(monkeypatch: pytest.MonkeyPatch, dim: int, num_perm: int) -> None:
    rng = np.random.default_rng(dim)
    vectors = list(rng.standard_normal((70, dim)).astype(np.float32))
    family = make("cosine", "hadamard", dim=dim, num_perm=num_perm)
    rows, margins = family.sign(vectors), family.margins(vectors[0])  # type: ignore[attr-defined]
    use_reference(monkeypatch)
    assert (family.sign(vectors) == rows).all()
    assert (family.margins(vectors[0]) == margins).all()  # type: ignore[attr-defined]


def test_the_transform_is_that_of_the_matrix() -> None:
    matrix = np.array([[1.0]])
    for _ in range(6):
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
        rows = np.random.default_rng(1).integers(-99, 99, (5, len(matrix))).astype(float)
        expected = rows @ matrix
        for each in (kernel, reference):
            found = rows.copy()
            each.walsh_hadamard(found, len(matrix))
            assert (found == expected).all()


@needs_kernel
@pytest.mark.parametrize("num_perm", [1, 128, 4096])
def test_icws(monkeypatch: pytest.MonkeyPatch, num_perm: int) -> None:
    rng = np.random.default_rng(num_perm)
    lengths = np.array([1, 2, 3, 40, 1, 600, 5], dtype=np.int64)
    parts = [np.sort(rng.integers(0, 2**64, n, dtype=np.uint64)) for n in lengths.tolist()]
    scales = [rng.choice([1e-150, 1e-9, 0.5, 1.0, 2.0, 3.7, 1e150], n) for n in lengths.tolist()]
    weights = [rng.uniform(1.0, 3.0, 1) * scales[0], *[np.sort(each) for each in scales[1:]]]
    hashes, flat = np.concatenate(parts), np.concatenate(weights)
    rows = icws.sketch(hashes, flat, lengths, num_perm=num_perm, seed=3)
    use_reference(monkeypatch)
    expected = icws.sketch(hashes, flat, lengths, num_perm=num_perm, seed=3)
    assert (rows == expected).all()


@needs_kernel
def test_the_kernel_refuses_what_does_not_fit() -> None:
    kernel = compiled
    with pytest.raises(ValueError, match="not a power of two"):
        kernel.walsh_hadamard(np.zeros(12), 12)
    for size in (0, -8):
        with pytest.raises(ValueError, match="not a power of two"):
            kernel.walsh_hadamard(np.zeros(8), size)
    with pytest.raises(ValueError, match="rows has 96 bytes"):
        kernel.walsh_hadamard(np.zeros(12), 8)
    with pytest.raises(ValueError, match="rows has 9 bytes"):
        kernel.walsh_hadamard(np.zeros(9, dtype=np.uint8), 1)
    kernel.walsh_hadamard(np.zeros(0), 8)

    def arguments(**changes: Any) -> list[Any]:
        good = {
            "hashes": np.zeros(3, dtype=np.uint64), "weights": np.ones(3), "logs": np.zeros(3),
            "lengths": np.array([1, 2]), "num_perm": 4, "keys": np.zeros(12, dtype=np.uint64),
            "rows": np.zeros((2, 4), dtype=np.uint16),
        }  # fmt: skip
        return list((good | changes).values())

    kernel.sample_weights(*arguments())
    for changes, message in [
        ({"weights": np.ones(2)}, "weights has 16 bytes"),
        ({"logs": np.ones(4)}, "logs has 32 bytes"),
        ({"keys": np.zeros(8, dtype=np.uint64)}, "keys has 64 bytes"),
        ({"rows": np.zeros((1, 4), dtype=np.uint16)}, "rows has 8 bytes"),
        ({"lengths": np.array([1, 1])}, "do not sum"),
        ({"lengths": np.array([1, 3])}, "do not sum"),
        ({"lengths": np.array([3, 0])}, "lengths are below 1"),
        ({"lengths": np.array([-1, 4])}, "lengths are below 1"),
        ({"lengths": np.array([2**62, 2**62])}, "do not sum"),
        ({"num_perm": 0}, "num_perm is out of range"),
        ({"num_perm": 4097}, "num_perm is out of range"),
        ({"hashes": np.zeros(25, dtype=np.uint8)}, "hashes has 25 bytes"),
    ]:
        with pytest.raises(ValueError, match=message):
            kernel.sample_weights(*arguments(**changes))

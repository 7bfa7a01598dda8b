"""The families of hash functions again, by their definitions and in Python's own numbers.

Nothing here comes from ``lshdb.signatures``: it is what the known answers are made with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.golden import plain

Vector = Sequence[float]

PROJECTIONS, OFFSETS, FLIPS, COMPONENTS, CUTS, WEIGHTS = range(1, 7)


def key(seed: int, purpose: int, number: int) -> int:
    return plain.key_of_seed(seed, purpose * 2**56 + number)


def to_uniform(word: int) -> float:
    return (word // 2**12 + 0.5) / 2**52


def uniform(seed: int, purpose: int, number: int) -> float:
    return to_uniform(key(seed, purpose, number))


def gaussian(seed: int, purpose: int, number: int) -> float:
    first = number - number % 2
    u, v = uniform(seed, purpose, first), uniform(seed, purpose, first + 1)
    wave = math.sin if number % 2 else math.cos
    return math.sqrt(-2.0 * math.log(u)) * wave(2.0 * math.pi * v)


def cauchy(seed: int, purpose: int, number: int) -> float:
    return math.tan(math.pi * (uniform(seed, purpose, number) - 0.5))


def place(seed: int, purpose: int, number: int, size: int) -> int:
    return math.floor(uniform(seed, purpose, number) * size)


def hyperplane(x: Vector, *, seed: int, num_perm: int) -> list[int]:
    sums = (
        math.fsum(gaussian(seed, PROJECTIONS, j * len(x) + i) * value for i, value in enumerate(x))
        for j in range(num_perm)
    )
    return [int(total >= 0.0) for total in sums]


def hadamard_row(row: int, x: Vector) -> float:
    return math.fsum(-v if (row & i).bit_count() % 2 else v for i, v in enumerate(x))


def hadamard(x: Vector, *, seed: int, num_perm: int) -> list[int]:
    size = max(256, 1 << (len(x) - 1).bit_length())
    slots: list[int] = []
    for block in range(-(-num_perm // size)):
        y = [*x, *[0.0] * (size - len(x))]
        for stage in range(3):
            first = (3 * block + stage) * size
            flipped = [v if key(seed, FLIPS, first + i) < 2**63 else -v for i, v in enumerate(y)]
            y = [hadamard_row(row, flipped) for row in range(size)]
        slots += [int(value >= 0.0) for value in y]
    return slots[:num_perm]


def stable(x: Vector, *, scheme: str, width: float, seed: int, num_perm: int) -> list[int]:
    draw = gaussian if scheme == "gaussian" else cauchy
    slots = []
    for j in range(num_perm):
        total = math.fsum(draw(seed, PROJECTIONS, j * len(x) + i) * v for i, v in enumerate(x))
        piece = math.floor(total / width + uniform(seed, OFFSETS, j))
        slots.append(min(2**31 - 1, max(-(2**31), piece)) % 2**16)
    return slots


def unary(x: Vector, *, largest: int, seed: int, num_perm: int) -> list[int]:
    return [
        int(x[place(seed, COMPONENTS, j, len(x))] >= 1 + place(seed, CUTS, j, largest))
        for j in range(num_perm)
    ]


def sampled_bits(bits: str, *, seed: int, num_perm: int) -> list[int]:
    return [int(bits[place(seed, COMPONENTS, j, len(bits))]) for j in range(num_perm)]


def bit_set(bits: str, *, scheme: str, seed: int, num_perm: int) -> list[int]:
    elements = [plain.mix64(i + 1) for i, bit in enumerate(bits) if bit == "1"]
    return plain.SCHEMES[scheme](elements, num_perm=num_perm, seed=seed)


def icws(weights: dict[str, float], *, seed: int, num_perm: int) -> list[int]:
    elements = {plain.murmur3_x64_128(token.encode())[0]: w for token, w in weights.items()}
    return [icws_slot(elements, seed=seed, slot=slot) for slot in range(num_perm)]


def icws_slot(elements: dict[int, float], *, seed: int, slot: int) -> int:
    best = (math.inf, 0)
    for x, weight in sorted(elements.items()):
        words = [plain.mix64(x ^ key(seed, WEIGHTS, 3 * slot + i)) for i in range(3)]
        p, q = (
            (word // 2**32 + 0.5) / 2**32 * ((word % 2**32 + 0.5) / 2**32) for word in words[:2]
        )
        b, c, r = to_uniform(words[2]), -math.log(p), -math.log(q)
        t = math.floor(math.log(weight) / r + b)
        rank = math.log(c) - r * (t - b + 1)
        if rank < best[0]:
            best = rank, plain.mix64((x + t * 0x9E3779B97F4A7C15) % 2**64) % 2**16
    return best[1]


def pack(slots: list[int]) -> list[int]:
    """One-bit slots in words of 16, from the least significant bit on."""
    return [
        sum(bit << i for i, bit in enumerate(slots[begin : begin + 16]))
        for begin in range(0, len(slots), 16)
    ]

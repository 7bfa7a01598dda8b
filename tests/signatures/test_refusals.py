"""Bodies that an index cannot take are refused in one line that says what is wrong and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.signatures.families import make

pytestmark = pytest.mark.fast

NAN, INF = float("nan"), float("inf")

VECTORS: list[tuple[str, dict[str, Any], Any, str]] = [
    ("l2", {}, "0110", "type str"),
    ("l2", {}, None, "type NoneType"),
    ("l2", {}, {"a": 1}, "type dict"),
    ("l2", {}, [1, 2, 3], "has 3 numbers, expected 4"),
    ("l2", {}, [], "has 0 numbers, expected 4"),
    ("l2", {}, np.zeros(5), "has 5 numbers, expected 4"),
    ("l2", {}, np.zeros((2, 2)), "2 axes, expected one of 4 numbers"),
    ("l2", {}, np.float64(1), "type float64"),
    ("l2", {}, np.array(["1", "2", "3", "4"]), "array of <U1"),
    ("l2", {}, np.zeros(4, dtype=complex), "array of complex128"),
    ("l2", {}, np.zeros(4, dtype=bool), "array of bool"),
    ("l2", {}, np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[0, 1, 0, 0]), "number 2 is masked"),
    ("cosine", {"dtype": "uint8"}, np.ma.masked_equal([1, 9, 9, 4], 4), "number 4 is masked"),
    ("l2", {}, [1, "2", 3, 4], "number 2 is of type str"),
    ("l2", {}, [1, 2, None, 4], "number 3 is of type NoneType"),
    ("l2", {}, [True, False, True, False], "number 1 is of type bool"),
    ("l2", {}, [[1, 2], [3], 4, 5], "number 1 is of type list"),
    ("l2", {}, [[1, 2], [3, 4]], "number 1 is of type list"),
    ("l2", {}, [1, 2, 3, 1j], "number 4 is of type complex"),
    ("l2", {}, [1, 2, 10**5000, 4], "number 3 is too large"),
    ("l2", {}, [1, NAN, INF, 4], "number 2 is NaN"),
    ("l2", {}, [1, 2, INF, NAN], "number 3 is infinity"),
    ("l2", {}, np.array([1, 2, 3, -INF], dtype=np.float32), "number 4 is minus infinity"),
    ("l2", {"dtype": "float32"}, [1, 2, 3, 1e39], "number 4 is 1e+39, more than float32"),
    ("l2", {"dtype": "float16"}, [1, -70000, 3, 1], "number 2 is -70000, more than float16"),
    ("l2", {"dtype": "float64"}, [1, 2, 3, 1e200], "squares of the numbers sum to more"),
    ("l2", {"dtype": "uint8"}, [1, 2, 300, 1], "number 3 is 300, but uint8"),
    ("l2", {"dtype": "uint8"}, [1, -1, 300, 1], "number 2 is -1, but uint8"),
    ("l2", {"dtype": "uint8"}, [0.5, 2, 3, 1], "number 1 is 0.5, but uint8"),
    ("l2", {"dtype": "uint8"}, [1, 2, 3, NAN], "number 4 is nan, but uint8"),
    ("cosine", {}, [0, 0, 0, -0.0], "is zero"),
    ("cosine", {"dtype": "uint8"}, [0, 0, 0, 0], "is zero"),
    ("cosine", {"dtype": "float16"}, [1e-9, 0, 0, 0], "is zero"),
    ("cosine", {"dtype": "float64"}, [1e-200, 0, 0, 0], "nearly zero"),
    (
        "unary",
        {},
        [1, 2, 3, -1],
        "number 4 is -1, but scheme unary takes whole numbers from 0",
    ),
    ("unary", {}, [10, 2, 3, 1], "number 1 is 10, but"),
    ("unary", {}, [1, 2.5, 3, 1], "number 2 is 2.5, but"),
    ("unary", {"dtype": "uint8"}, [1, 2, 3, 10], "takes whole numbers from 0 to 9"),
]


def vectors(name: str, changes: dict[str, Any]) -> Any:
    metric, scheme = {
        "l2": ("l2", "gaussian"), "cosine": ("cosine", "hyperplane"), "unary": ("l1", "unary"),
    }[name]  # fmt: skip
    width = {"width": 9.0} if name == "unary" else {}
    return make(metric, scheme, **({"dim": 4, "num_perm": 32} | width | changes))


@pytest.mark.parametrize(("name", "changes", "body", "expected"), VECTORS)
def test_no_vector(name: str, changes: dict[str, Any], body: Any, expected: str) -> None:
    reason = vectors(name, changes).refusal(body)
    assert reason is not None
    assert expected in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("name", "changes", "body"),
    [
        ("l2", {}, [0, 0, 0, 0]),
        ("l2", {}, (1, 2.5, np.float32(3), 2**63)),
        ("l2", {}, [1, 2, 2**70, 4]),
        ("l2", {}, np.arange(4)),
        ("l2", {}, np.ma.array([1.0, 2.0, 3.0, 4.0])),
        ("l2", {}, np.array([1e19, 2, 3, 4], dtype=">f4")),
        ("l2", {}, [1e-46, 1, 2, 3]),
        ("l2", {"dtype": "float16"}, [60000, 60000, 0, 1]),
        ("l2", {"dtype": "uint8"}, [0.0, 255.0, 1, 2]),
        ("l2", {"dtype": "uint8"}, np.array([0, 255, 1, 2], dtype=np.int64)),
        ("l2", {"dtype": "uint8"}, np.full(4, 255, dtype=np.uint8)),
        ("cosine", {}, [1e-30, 0, 0, 0]),
        ("cosine", {}, [3e38, 3e38, 3e38, 3e38]),
        ("cosine", {"dtype": "float16"}, [1e-4, 0, 0, 0]),
        ("unary", {}, [0, 9, 9.0, 1]),
    ],
)
def test_vectors(name: str, changes: dict[str, Any], body: Any) -> None:
    family = vectors(name, changes)
    assert family.refusal(body) is None
    (content,) = family.contents([body])
    dtype = changes.get("dtype", "float32")
    assert content.dtype == dtype
    assert content.tolist() == np.asarray(body, dtype=float).astype(dtype).tolist()
    assert not np.signbit(content).any()
    _, sizes = family.sign_contents([content])
    assert sizes.tolist() == [4]
    assert np.isfinite(family.levels([content], [content])).all()


def test_minus_zero_is_zero() -> None:
    family = vectors("l2", {})
    minus, zero = family.contents([[-0.0, 1, 0, 0], np.array([0.0, 1, -0.0, 0])])
    assert minus.tobytes() == zero.tobytes()


BITS: list[tuple[int, Any, str]] = [
    (12, None, "type NoneType"),
    (12, 5, "type int"),
    (12, "01", "has 2 characters, expected 12 digits 0 and 1, or 4 hexadecimal digits"),
    (12, "010101010121", "character 11 of the string is '2', expected 0 or 1"),
    (12, "ffg0", "character 3 of the string is 'g', expected a hexadecimal digit"),
    (12, "ff 0", "character 3 of the string is ' '"),
    (12, "٠١٠١٠١٠١٠١٠١", "character 1 of the string"),
    (12, "fff1", "the last byte is 0xf1, but bits past number 12 must be 0"),
    (12, b"\xff\xf1", "the last byte is 0xf1"),
    (12, np.array([255, 8], dtype=np.uint8), "the last byte is 0x08"),
    (12, np.zeros(13, dtype=np.uint8), "packed bits have shape (13,), expected (2,) for 12 bits"),
    (12, np.arange(12, dtype=np.uint8), "one of 12 bits is 11, expected 0 or 1"),
    (12, np.zeros(11, dtype=bool), "shape (11,), expected (12,)"),
    (12, np.zeros((1, 12), dtype=bool), "shape (1, 12), expected (12,)"),
    (12, np.zeros(12), "array of float64, expected bool, or uint8"),
    (12, np.ma.array([True] * 12, mask=[0] * 11 + [1]), "number 12 is masked"),
    (12, b"1", "shape (1,), expected (2,)"),
    (12, [0, 1], "the list has 2 bits, expected 12"),
    (12, [0, 1] * 5 + [2, 0], "bit 11 of the list is 2, expected 0 or 1"),
    (12, [0, 1] * 5 + ["1", 0], "bit 11 of the list is '1'"),
    (2, "2", "has 1 characters"),
]


@pytest.mark.parametrize(("dim", "body", "expected"), BITS)
@pytest.mark.parametrize("metric", ["hamming", "jaccard-bits"])
def test_no_bits(metric: str, dim: int, body: Any, expected: str) -> None:
    scheme = "bits" if metric == "hamming" else "fss"
    reason = make(metric, scheme, dim=dim).refusal(body)
    assert reason is not None
    assert expected in reason
    assert "\n" not in reason


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 12, 63, 64, 65, 400])
def test_bits_in_every_form_are_the_same(dim: int) -> None:
    rng = np.random.default_rng(dim)
    family = make("hamming", "bits", dim=dim, num_perm=32)
    for _ in range(5):
        bits = rng.random(dim) < 0.5
        packed = np.packbits(bits)
        forms = [
            bits, packed, packed.tobytes(), packed.tobytes().hex().upper(), bits.tolist(),
            [int(bit) for bit in bits], "".join("01"[int(bit)] for bit in bits),
            packed if dim == 1 else bits.astype(np.uint8),  # of one byte nobody can tell
        ]  # fmt: skip
        if dim == 2:  # two hexadecimal digits may be two bits, and then they are
            forms.pop(3)
        assert [family.refusal(form) for form in forms] == [None] * len(forms)
        for content in family.contents(forms):
            assert content.dtype == np.uint8
            assert content.tolist() == packed.tolist()


WEIGHTS: list[tuple[Any, str]] = [
    ({1: 2.0}, "token 1 is of type int"),
    ({"a": "2"}, "the weight of 'a' is of type str"),
    ({"a": True}, "the weight of 'a' is of type bool"),
    ({"a": None}, "the weight of 'a' is of type NoneType"),
    (
        {"b": 1, "a": -1},
        "the weight of 'a' is below 0, expected 0 or a number from 1e-150 to 1e+150",
    ),
    ({"a": NAN}, "the weight of 'a' is NaN"),
    ({"a": 1e-160}, "the weight of 'a' is below 1e-150"),
    ({"a": INF}, "the weight of 'a' is above"),
    ({"a": 10**5000}, "the weight of 'a' is above"),
    ({"\ud800": 1}, "holds a lone surrogate"),
    ("\ud800", "lone surrogate at character 1"),
    (["a", 1], "token 2 is of type int"),
    (5, "type int, expected a string, a list, tuple or set of strings, or weights by token"),
    (np.zeros(3), "type ndarray"),
]


@pytest.mark.parametrize(("body", "expected"), WEIGHTS)
def test_no_weights(body: Any, expected: str) -> None:
    reason = make("weighted-jaccard", "icws").refusal(body)
    assert reason is not None
    assert expected in reason
    assert "\n" not in reason
    assert len(reason) < 200

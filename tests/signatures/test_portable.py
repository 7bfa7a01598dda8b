"""The kernel as other machines than x86-64 build it: it compiles, and gives the same bits."""

from __future__ import annotations

import importlib.util
import platform
import re
import shlex
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import numpy as np

from lshdb.kernel import compiled, lookup_tables
from lshdb.shingling import normalise

SOURCES = Path(__file__).parents[2] / "lshdb" / "kernel"
TEXTS = ["to be or not to be that is the question", "Größe, ﬁrst 中文  ก็ x", "a"] + [
    " ".join(f"w{i * i % 97}" for i in range(length)) for length in (6, 12, 30, 400)
]


def test_without_the_instructions_of_x86(tmp_path: Path) -> None:
    module = tmp_path / f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    flags = ["-O2", "-std=c11", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    include = f"-I{sysconfig.get_path('include')}"
    sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
    subprocess.run(
        [*compiler, *flags, "-DLSHDB_NO_X86", include, *sources, "-o", str(module)], check=True
    )
    spec = importlib.util.spec_from_file_location("compiled", module)
    assert spec is not None and spec.loader is not None
    portable = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(portable)
    assert portable.use_level() == "plain"
    contents = portable.normalise(TEXTS, True, *lookup_tables.folding_table(True))
    assert contents == [normalise(text) for text in TEXTS]
    for num_perm in (7, 128):
        for scheme, number in lookup_tables.SCHEMES.items():
            constants = lookup_tables.constants(scheme, num_perm, 1)
            rows = np.zeros((2, len(TEXTS), num_perm), dtype=np.uint16)
            counts = np.zeros((2, len(TEXTS)), dtype=np.int64)
            for each, kernel in enumerate((portable, compiled)):
                kernel.sign_contents(
                    contents, 0, 3, False, number, num_perm, constants, rows[each], counts[each]
                )
            assert np.array_equal(rows[0], rows[1])
            assert np.array_equal(counts[0], counts[1])


def test_no_multiplication_and_addition_are_fused() -> None:
    """A fused one rounds once instead of twice, and samples of weights would differ by machine."""
    with open(SOURCES.parents[1] / "pyproject.toml", "rb") as file:
        (module,) = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
    flags = [flag for flag in module["extra-compile-args"] if not flag.startswith("-std=")]
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")

    def fused(*more: str) -> int:
        machine = ["-mfma"] if platform.machine() in ("x86_64", "AMD64") else []
        done = subprocess.run(
            [*compiler, "-S", "-std=gnu11", *machine, *flags, *more, "families.c", "-o", "-"],
            cwd=SOURCES, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return len(re.findall(r"\tv?fn?m(?:add|sub)", done.stdout))

    assert fused("-ffp-contract=fast") > 0
    assert fused() == 0

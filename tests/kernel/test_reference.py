"""The reference has every function of the compiled kernel, with the same arguments."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import lshdb.kernel
from lshdb.kernel import reference

STEERING = {"use_level", "use_pieces", "hear_with"}
"""What only the compiled code has: instructions, pieces and interruptions."""


@pytest.mark.fast
def test_functions_and_arguments_are_those_of_the_compiled_kernel() -> None:
    stub = Path(lshdb.kernel.__file__).with_name("compiled.pyi")
    functions = [
        node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    names = {node.name for node in functions} - STEERING
    assert set(reference.__all__) == names
    for node in functions:
        if node.name in reference.__all__:
            parameters = inspect.signature(getattr(reference, node.name)).parameters
            assert list(parameters) == [argument.arg for argument in node.args.args], node.name

"""A keyword that is misspelt is told by the name of the function that was called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lshdb
from lshdb import Index, LshdbError, UnknownParameterError
from lshdb.params.options import CreateOptions, Parameters

TEXTS = ["the mayor opened the new bridge", "the council closed the old one"]


def functions(path: Path) -> dict[str, Callable[..., Any]]:
    """Every public function that takes the parameters of an index by name."""
    index = Index.create(path / "i.lshdb")
    return {
        "deduplicate": lambda **given: lshdb.deduplicate(TEXTS, **given),
        "advise": lambda **given: lshdb.advise(enumerate(TEXTS), **given),  # type: ignore[arg-type]
        "estimate": lshdb.estimate,
        "Index.open": lambda **given: Index.open(index.path, **given),
        "Index.reindex": lambda **given: index.reindex(path / "new.lshdb", **given),
    }


@pytest.mark.parametrize(
    "name", ["deduplicate", "advise", "estimate", "Index.open", "Index.reindex"]
)
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("treshold", "threshold"), ("tresh", "threshold"), ("numperm", "num_perm"),
        ("num_perms", "num_perm"),
        ("recal", "recall"), ("Threshold", "threshold"), ("lower_case", "lowercase"),
        ("strip_accent", "strip_accents"), ("units", "unit"), ("xyz", ""),
    ],
)  # fmt: skip
def test_the_right_name_is_suggested(tmp_path: Path, name: str, given: str, meant: str) -> None:
    with pytest.raises(UnknownParameterError) as told:
        functions(tmp_path)[name](**{given: 1})
    said = f"{name} takes no parameter {given!r}"
    assert told.value.message == said + (f"; did you mean {meant!r}?" if meant else "")
    assert told.value.hint is not None and "threshold" in told.value.hint
    assert isinstance(told.value, LshdbError) and isinstance(told.value, TypeError)


def test_keywords_of_the_function_itself_are_suggested() -> None:
    for given, meant in (("text_field", "text"), ("keeps", "keep"), ("marks", "mark")):
        with pytest.raises(UnknownParameterError, match=f"did you mean '{meant}'"):
            lshdb.deduplicate(TEXTS, **{given: "first"})  # type: ignore[call-overload]
    with pytest.raises(UnknownParameterError, match="did you mean 'documents'"):
        lshdb.estimate(document=5)  # type: ignore[call-arg]
    with pytest.raises(UnknownParameterError, match="did you mean 'tokenizer'"):
        lshdb.advise([], tokeniser="x")  # type: ignore[call-arg]


def test_every_parameter_is_known() -> None:
    given: dict[str, Any] = {"metric": "jaccard", "threshold": 0.5, "recall": 0.9, "k": 2}
    assert given.keys() <= Parameters.__annotations__.keys()
    assert lshdb.deduplicate(TEXTS, **given) == TEXTS
    assert {*Parameters.__annotations__} == {*CreateOptions.__dataclass_fields__} - {"tokenizer"}

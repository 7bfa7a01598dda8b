"""Labels of a person, and how well each threshold agrees with them.

A label says whether two documents are near-duplicates: ``yes`` or ``no``. A threshold agrees with a
``yes`` at or above it, and with a ``no`` below it. The share of ``yes`` among labels at or above is
its precision, the share of all ``yes`` that are there its recall, and the harmonic mean of both is
F1. Labels are few, so every share comes with Wilson's interval.

Precision and recall are those of the labelled pairs. Where labels were given to pairs near one
threshold, they say nothing of pairs far from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lshdb.advice.advice import LabelAgreement, LabelRow
from lshdb.arguments import check_key
from lshdb.documents.written_keys import unescaped
from lshdb.errors import InputError, ParameterError
from lshdb.search.measured_recall import wilson
from lshdb.signatures.family import Family

__all__ = ["Label", "Labels", "agreement", "best_agreement", "read_labels"]

Label: TypeAlias = "tuple[str, str, bool]"
"""Two keys, and whether their documents are near-duplicates."""

_STEPS = 20
_ANSWERS = {"yes": True, "no": False}
_NAMES = ("key1", "key2", "label")
_LONGEST_LINE = 1 << 16


def read_labels(path: str | os.PathLike[str]) -> list[Label]:
    r"""Read a file of labels: lines of ``key1``, ``key2`` and ``yes`` or ``no``, with tabs between.

    Backslash, tab, line feed and carriage return in a key are written ``\\ \t \n \r``, as the
    listings of the command line write them; a backslash before anything else is refused. Further
    columns, empty lines and a first line of names are passed over.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    list of (str, str, bool)

    Raises
    ------
    InputError
        The file cannot be read, or a line is no label; the error names it.
    """
    labels = []
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), 1):
                cells = line.rstrip("\r\n").split("\t")
                if cells == [""] or (number == 1 and tuple(cells[:2]) == _NAMES[:2]):
                    continue
                labels.append(_label(cells, f"{os.fspath(path)}:{number}"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{os.fspath(path)} is not UTF-8, so it is no file of labels",
            hint="lines of key1, key2 and yes or no, with tabs between, are expected",
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot read the labels of {os.fspath(path)}: {error.strerror}",
            hint="check the path and its permissions",
        ) from error
    return labels


def _label(cells: Sequence[str], where: str) -> Label:
    answer = cells[2].strip().lower() if len(cells) > 2 else ""
    if answer not in _ANSWERS or not cells[0] or not cells[1]:
        raise InputError(
            f"{where} is {' '.join(cells)!r:.200}; expected key1, key2 and yes or no, with tabs "
            "between"
        )
    try:
        key1, key2 = map(unescaped, cells[:2])
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    return key1, key2, _ANSWERS[answer]


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels, sorted out.

    Attributes
    ----------
    answers : dict
        Each pair of keys once, in order, and the answer; without contradictions.
    contradictions : tuple of (str, str)
        Pairs that were labelled both ways.
    """

    answers: dict[tuple[str, str], bool]
    contradictions: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, labels: Iterable[Label]) -> Labels:
        """Sort labels out; the order of the keys of a pair does not count.

        Raises
        ------
        ParameterError
            One is not two keys and a truth value, or labels a document with itself.
        """
        answers: dict[tuple[str, str], set[bool]] = {}
        for label in labels:
            if not isinstance(label, tuple | list) or len(label) != 3:
                raise ParameterError(f"the labels hold {label!r:.80}; expected (key1, key2, bool)")
            key1, key2, answer = label
            if not isinstance(answer, bool):
                raise ParameterError(f"a label is {answer!r:.80}; expected True or False")
            pair = (check_key("key1", key1), check_key("key2", key2))
            if key1 == key2:
                raise ParameterError(f"the labels compare {key1!r:.80} with itself")
            answers.setdefault((min(pair), max(pair)), set()).add(answer)
        return cls(
            {pair: True in said for pair, said in answers.items() if len(said) == 1},
            tuple(pair for pair, said in answers.items() if len(said) > 1),
        )

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all labelled documents."""
        return frozenset(key for pair in self.answers for key in pair)


def agreement(labels: Labels, bodies: Mapping[str, Any], family: Family) -> LabelAgreement:
    """Compare labels with the similarities of one family.

    Parameters
    ----------
    labels : Labels
    bodies : mapping
        Texts by key; those that are absent are missing.
    family : Family
        Of texts.
    """
    pairs = [pair for pair in labels.answers if pair[0] in bodies and pair[1] in bodies]
    points = dict(zip(bodies, family.points(family.contents([*bodies.values()])), strict=True))
    levels = family.levels([points[key1] for key1, _ in pairs], [points[key2] for _, key2 in pairs])
    near = [float(level) for level, pair in zip(levels, pairs, strict=True) if labels.answers[pair]]
    far = [
        float(level) for level, pair in zip(levels, pairs, strict=True) if not labels.answers[pair]
    ]
    rows = tuple(_row(step / _STEPS, near, far) for step in range(1, _STEPS + 1))
    return LabelAgreement(
        unit=family.params.unit,
        k=family.params.k,
        yes=len(near),
        no=len(far),
        missing=tuple(sorted(key for key in labels.keys if key not in bodies)),
        contradictions=labels.contradictions,
        threshold=_best_threshold(rows) if near and far else None,
        rows=rows,
    )


def best_agreement(agreements: Sequence[LabelAgreement]) -> LabelAgreement:
    """Return the agreement with the highest F1; the first if several have it."""
    return max(agreements, key=lambda agreement: max(row.f1 for row in agreement.rows))


def _row(threshold: float, near: Sequence[float], far: Sequence[float]) -> LabelRow:
    found_yes = sum(level >= threshold - 1e-9 for level in near)
    found_no = sum(level >= threshold - 1e-9 for level in far)
    precision = _share(found_yes, found_yes + found_no)
    recall = _share(found_yes, len(near))
    total = (precision[0] or 0.0) + (recall[0] or 0.0)
    return LabelRow(
        threshold=threshold,
        found_yes=found_yes,
        found_no=found_no,
        missed_yes=len(near) - found_yes,
        missed_no=len(far) - found_no,
        precision=precision[0],
        precision_lower=precision[1],
        precision_upper=precision[2],
        recall=recall[0],
        recall_lower=recall[1],
        recall_upper=recall[2],
        f1=2.0 * (precision[0] or 0.0) * (recall[0] or 0.0) / total if total else 0.0,
    )


def _share(part: int, n: int) -> tuple[float | None, float | None, float | None]:
    if not n:
        return None, None, None
    return part / n, *wilson(part / n, n)


def _best_threshold(rows: Sequence[LabelRow]) -> float:
    """Return the middle of the thresholds of the highest F1."""
    best = max(row.f1 for row in rows)
    equal = [row.threshold for row in rows if row.f1 > best - 1e-12]
    return equal[(len(equal) - 1) // 2]

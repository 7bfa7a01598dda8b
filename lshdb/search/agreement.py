"""Which pairs count, by kept fields: those whose fields agree, or those in which one differs.

``agree`` leaves out a pair if one of the fields is there on both sides and differs. A field that is
missing on a side speaks neither for nor against: records of two databases rarely have the same
fields. ``differ`` leaves out a pair unless one of its fields is there on both sides and differs.

Values are compared by their words, so without case, punctuation and white space; those of ``pages``
with their ranges written out (``123-9`` is ``123-129``), those of ``doi`` without the address of a
resolver. Lists are compared element by element.

So to agree is no equivalence: a record without a year agrees with one of 1999 and with one of 2001,
which differ. Clusters join what pairs join, and representatives cut that.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.documents.document import REFERENCE_FIELDS
from lshdb.errors import LshdbWarning, ParameterError, warn_caller
from lshdb.shingling import normalise, split_words
from lshdb.storage.transactions.index_state import IndexState, OpenIndex

if TYPE_CHECKING:
    from lshdb.search.pair_columns import Pair

__all__ = ["Agreement", "Profile", "agreeing_pairs", "check_agreement", "normalised",
           "require_field"]  # fmt: skip

Profile: TypeAlias = "tuple[str, ...]"
"""The normalised values of one document's fields; an empty one is missing."""

_MOST_PAIRS = 1_000
_NAMES_SHOWN = 20
_RESOLVER = re.compile(r"\s*(?:https?://)?(?:dx\.)?(?:doi\.org/|doi:\s*)", re.IGNORECASE)
_RANGE = re.compile(r"\s*([^\W\d_]*)(\d+)\s*[-‐-―−]+\s*([^\W\d_]*)(\d+)\s*")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Conditions on the kept fields of a pair.

    Attributes
    ----------
    agree : tuple of str
        Each is equal, or missing on a side.
    differ : tuple of str
        At least one is there on both sides and differs; no condition if there are none.
    """

    agree: tuple[str, ...]
    differ: tuple[str, ...]

    def allows(self, first: Profile, second: Profile) -> bool:
        """Return whether two documents may be a pair."""
        n_agree = len(self.agree)
        for mine, theirs in zip(first[:n_agree], second[:n_agree], strict=True):
            if mine != theirs and mine and theirs:
                return False
        if not self.differ:
            return True
        return any(
            mine != theirs and mine and theirs
            for mine, theirs in zip(first[n_agree:], second[n_agree:], strict=True)
        )

    def profiles(self, snapshot: IndexState, doc_ids: Sequence[int]) -> dict[int, Profile]:
        """Return the values of documents, by doc_id."""
        import orjson

        fields_of = snapshot.fields_of(doc_ids)
        nothing = self._profile({})
        return {
            doc_id: self._profile(orjson.loads(fields_of[doc_id]))
            if doc_id in fields_of
            else nothing
            for doc_id in doc_ids
        }

    def _profile(self, fields: dict[str, Any]) -> Profile:
        return tuple(normalised(name, fields.get(name)) for name in (*self.agree, *self.differ))


def check_agreement(
    store: OpenIndex, agree: str | Iterable[str], differ: str | Iterable[str]
) -> Agreement | None:
    """Return the conditions on fields of pairs; None if there are none.

    Raises
    ------
    ParameterError
        No document has such a field and no reader makes it, or one is named for both.
    """
    agreement = Agreement(_names("agree", agree), _names("differ", differ))
    if not (agreement.agree or agreement.differ):
        return None
    common = set(agreement.agree) & set(agreement.differ)
    if common:
        raise ParameterError(f"the field {min(common)!r} can either agree or differ, not both")
    with store.reading() as snapshot:
        for name in (*agreement.agree, *agreement.differ):
            require_field(snapshot, name)
        if not snapshot.has_fields():
            shown = ", ".join((*agreement.agree, *agreement.differ))
            warning = LshdbWarning(
                f"no document has a kept field, so {shown} tells no two documents apart; fields "
                "are kept by --keep-fields when documents are added"
            )
            warn_caller(warning)
    return agreement


def require_field(snapshot: IndexState, name: str) -> None:
    """Raise ParameterError if no document has a kept field of this name.

    What readers of references keep is known, also where no reference has it.
    """
    if name in REFERENCE_FIELDS or snapshot.has_field(name):
        return
    names = snapshot.field_names(_NAMES_SHOWN)
    fields = f"the kept fields are {', '.join(names)}" if names else "none are kept"
    raise ParameterError(
        f"no document has the kept field {name!r}; {fields}",
        hint="fields are kept by lshdb add --keep-fields; adding the same files again with it "
        "keeps them for documents that are there",
    )


def _names(parameter: str, fields: str | Iterable[str]) -> tuple[str, ...]:
    names = tuple(fields.split(",") if isinstance(fields, str) and fields else fields)
    names = tuple(name.strip() if isinstance(name, str) else name for name in names)
    if not all(isinstance(name, str) and name for name in names):
        raise ParameterError(
            f"{parameter} is {fields!r:.200}, expected names of kept fields",
            hint="give one string, with commas between names, or a list",
        )
    return tuple(dict.fromkeys(names))


def agreeing_pairs(
    snapshot: IndexState, agreement: Agreement, pairs: Iterator[Pair]
) -> Iterator[Pair]:
    """Yield the pairs that count; look up fields for one pair at first, then for more at a time."""
    at_once = 1
    while block := list(islice(pairs, at_once)):
        at_once = min(2 * at_once, _MOST_PAIRS)
        keys = {key for pair in block for key in (pair.key1, pair.key2)}
        doc_ids = {key: row.doc_id for key, row in snapshot.documents_of_keys(keys).items()}
        profiles = agreement.profiles(snapshot, list(doc_ids.values()))
        for pair in block:
            if agreement.allows(profiles[doc_ids[pair.key1]], profiles[doc_ids[pair.key2]]):
                yield pair


@functools.lru_cache(maxsize=4_096)
def _plain(text: str) -> str:
    return " ".join(split_words(normalise(text).replace("_", " ")))


def normalised(name: str, value: object) -> str:
    """Return a value as it is compared; an empty one counts as missing.

    Parameters
    ----------
    name : str
        Of the field; ``pages`` and ``doi`` have rules of their own.
    value : JSON value
    """
    if isinstance(value, list):
        return "|".join(normalised(name, item) for item in value)
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    if name == "doi":
        text = _RESOLVER.sub("", text, count=1)
    if name == "pages":
        text = _written_out(text)
    return _plain(text)


def _written_out(pages: str) -> str:
    """Return a range of pages with both numbers whole: ``e123-9`` as ``e123-e129``."""
    match = _RANGE.fullmatch(pages)
    if match is None:
        return pages
    before, first, again, last = match.groups()
    if len(last) < len(first):
        last = first[: len(first) - len(last)] + last
    return f"{before}{first}-{again or before}{last}"

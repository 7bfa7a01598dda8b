"""The rows of tables in memory, dicts and texts -> documents.

Tables are read by :func:`table_documents`: only the columns that are needed are converted, some
thousand rows at a time; ``column_tables.py`` has the kinds, and ``formats/columns.py`` says what
columns may hold. Dicts are read as the records of JSON Lines are.

Decided: rows are numbered from 0, as in the libraries that the tables come from. Files number them
from 1, as their lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized, ValuesView
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lshdb.documents.blocks import DocumentStream, Item, in_blocks
from lshdb.documents.column_tables import (
    columns_of,
    is_missing,
    is_table,
    load_arrow,
    row_count,
    unusable,
)
from lshdb.documents.document import (
    MAX_DOCUMENT_BYTES,
    BrokenSourceError,
    Document,
    Fields,
    Rejected,
    SeenFields,
    shown_names,
)
from lshdb.documents.formats.objects import NoDocumentError, Records
from lshdb.documents.memory_tables import is_array
from lshdb.errors import LshdbError, ParameterError

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["given_rows", "table_documents"]


def table_documents(table: Any, fields: Fields, *, source: str, limit: int) -> Iterator[Item]:
    """Return blocks of documents; a row that cannot be a document gives a rejection.

    Parameters
    ----------
    fields : Fields
        With ``row_keys``, row numbers are keys: behind the source and a colon, if there is one.
    source : str
        For messages and keys.
    limit : int
        The longest body, in bytes.

    Raises
    ------
    ParameterError
        A column is missing or of a type that cannot be read, or the table is none.
    InputError
        pyarrow is not installed. Or later: values cannot be converted.
    """
    from lshdb.documents.formats.columns import ArrowRows
    from lshdb.documents.formats.objects import absent

    fields.check()
    arrow = load_arrow()
    try:
        opened = columns_of(table)
        names = list(opened.names)
        only = opened.only or (names[0] if fields.row_keys and len(names) == 1 else None)
        if only is not None and not fields.text:
            fields = replace(fields, text=(only,))
        missing = [*absent(fields, names), *(name for name in fields.keep if name not in names)]
        if missing:
            raise ParameterError(
                f"the table has no column {' and no '.join(map(repr, missing))}; the columns are: "
                f"{shown_names(names)}",
                hint="name the columns with key=, text= and keep=; key=None numbers the rows",
            )
        keys = [] if fields.row_keys else [fields.key_name]
        bodies = [name for name in fields.bodies if name in names]
        columns = list(dict.fromkeys([*keys, *bodies, *fields.keep]))
        twice = next((name for name in columns if names.count(name) > 1), None)
        if twice is not None:
            raise ParameterError(f"the table has more than one column {twice!r}")
        schema, batches = opened.read(columns)
        prefix = (f"{source}:" if source else "") if fields.row_keys else None
        rows = ArrowRows(
            arrow, schema, fields, SeenFields(fields.keep), name=source or "table", prefix=prefix,
            limit=limit, first=0,
        )  # fmt: skip
    except BrokenSourceError as error:
        raise ParameterError(f"the table {error.reason}") from error
    except LshdbError:
        raise
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise unusable(error) from error
    return _converted(arrow, rows.documents(batches))


def _converted(arrow: Any, items: Iterator[Item]) -> Iterator[Item]:
    try:
        yield from items
    except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise unusable(error) from error


def given_rows(
    documents: Any, *, key: str | None, text: str | Sequence[str] | None, vector: str | None,
    keep: str | Sequence[str], source: str, params: IndexParams, default_key: str | None = "id",
) -> Any:  # fmt: skip
    """Return the documents of a table, of dicts, or of texts that are to be numbered.

    Anything else is returned unchanged.

    Raises
    ------
    ParameterError
        Columns are named for what is no table; else as :func:`table_documents`.
    InputError
        As :func:`table_documents`.
    """
    names = {"text": text, "vector": vector, "keep": keep}
    for name, value in ({"key": key} | names).items():
        is_name = value is None or isinstance(value, str)
        if not is_name and (name not in ("text", "keep") or not isinstance(value, list | tuple)):
            raise ParameterError(f"{name} is {value!r:.200}, expected a name of a column")
    fields = Fields(
        key=key, vector=vector, body=params.kind.body, dim=params.dim or None,
        text=() if text is None else (text,) if isinstance(text, str) else tuple(text),
        row_keys=key is None, keep=(keep,) if isinstance(keep, str) else tuple(keep),
    )  # fmt: skip
    if is_table(documents):
        rows = table_documents(documents, fields, source=source, limit=MAX_DOCUMENT_BYTES)
        is_sized = isinstance(documents, Sized)
        return DocumentStream(rows, is_at_hand=is_sized, n_documents=row_count(documents))
    is_sized = isinstance(documents, Sized)
    documents, first = _with_first(documents)
    is_text = key is None and isinstance(first, str)
    if is_text or isinstance(first, dict):
        fields.check()
        prefix = (f"{source}:" if source else "") if fields.row_keys else None
        records = Records(fields, SeenFields(fields.keep), prefix)
        return DocumentStream(
            in_blocks(_of_records(records, documents, prefix), is_at_hand=is_sized),
            is_at_hand=is_sized, n_documents=len(documents) if is_sized else None,
        )  # fmt: skip
    named = [name for name, value in names.items() if value]
    is_empty = isinstance(documents, Sized) and len(documents) == 0
    if (named or key != default_key) and not is_empty:
        raise ParameterError(
            f"{(named or ['key'])[0]} names a column of a table, but the documents are of type "
            f"{type(documents).__name__}",
            hint="give a table of pyarrow, pandas, polars or datasets, dicts or texts in a list, "
            "or leave it out",
        )
    return documents


def _with_first(documents: Any) -> tuple[Any, Any]:
    """Return the same documents, and the first of them; None if nobody can look.

    Of texts that are missing, the first one that is not decides; it is empty if all are.
    """
    if is_array(documents):
        documents = documents.tolist()
    if isinstance(documents, Sequence | ValuesView) and not isinstance(documents, str | bytes):
        of_missing = "" if documents else None
        return documents, next(itertools.filterfalse(is_missing, documents), of_missing)
    if isinstance(documents, Iterator) and not isinstance(documents, DocumentStream):
        taken: list[Any] = []
        for first in documents:
            taken.append(first)
            if not is_missing(first):
                return itertools.chain(taken, documents), first
        return taken, None
    return documents, None


def _of_records(
    records: Records, rows: Iterable[Any], prefix: str | None
) -> Iterator[Document | Rejected]:
    """Yield the document of each dict, or of each text; a row that cannot be one is rejected."""
    for number, row in enumerate(rows):
        name = f"row {number}"
        try:
            if isinstance(row, dict):
                yield records.document(row, number, name)
            elif prefix is not None and isinstance(row, str):
                yield Document(f"{prefix}{number}", row, name)
            elif is_missing(row):
                yield Rejected(name, "the body is null")
            else:
                expected = "a dict" if prefix is None else "a text or a dict"
                yield Rejected(name, f"it is of type {type(row).__name__}, expected {expected}")
        except NoDocumentError as error:
            reason, is_advice, _ = str(error).partition("; give --")
            yield Rejected(name, reason + "; name them by key= and text=" * bool(is_advice))

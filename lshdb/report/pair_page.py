"""Two documents -> one page: their similarity, whether the index finds them, and a diff.

A module of its own because it asks for two documents and for nothing else of the index.
"""

from __future__ import annotations

from pathlib import Path

from lshdb import __version__
from lshdb.documents.document import Body
from lshdb.errors import TextNotStoredError
from lshdb.pages import Page, inline_assets, make_environment
from lshdb.pages.text_markup import SideBySide, lay_side_by_side
from lshdb.search.explain import explain_pair
from lshdb.search.word_diff import diff_documents
from lshdb.signatures.family import Family
from lshdb.storage.transactions.store import Store

__all__ = ["pair_page"]

MOST_SHINGLES = 200
"""Shingles of each kind that the page lists."""


def pair_page(store: Store, family: Family, key1: str, key2: str | None, body: Body | None) -> str:
    """Return the page of a pair; see :meth:`lshdb.Index.explain_page`."""
    params = family.params
    explanation = explain_pair(store, family, key1, key2, body)
    sides: SideBySide | None = None
    if params.kind.body == "text":
        try:
            sides = lay_side_by_side(diff_documents(store, family, key1, key2, body))
        except TextNotStoredError:
            sides = None
    unnamed = f"the {params.kind.body} given"
    page = Page(
        title=f"{key1} and {key2 or unnamed}",
        name=store.path.name,
        note="Two documents",
        assets=inline_assets(),
        footer=f"lshdb {__version__}",
    )
    template = make_environment(Path(__file__).parent / "templates").get_template("pair.html")
    page_text: str = template.render(
        page=page,
        explanation=explanation,
        params=params,
        value=params.curve.value,
        names=(key1, key2 or unnamed),
        sides=sides,
        most=MOST_SHINGLES,
    )
    return page_text + "\n"

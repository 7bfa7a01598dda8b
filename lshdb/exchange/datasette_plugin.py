"""Browse an index in Datasette: titles, a page for each document, ``text(doc_id)``, queries.

    pip install '.[datasette]'
    datasette news.lshdb/index.db

Datasette finds this module by its entry point and calls the hooks. They do nothing for any other
database than an index's. Nothing is written: Datasette opens files read-only, and the pages show
the similar documents and clusters that ``lshdb clusters`` stored.

Tables and views that people read have a title and a sentence; the other tables are folded away as
hidden, where they can still be opened. The queries are read from docs/guides/sql.md itself. A key
in them becomes a parameter.
"""

from __future__ import annotations

import re
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import markupsafe
from datasette import NotFound, Response, hookimpl
from datasette.utils import tilde_decode, tilde_encode

import lshdb
from lshdb.storage.dialects.sqlite.text_function import count_in_file, register_text
from lshdb.storage.tables.view_statements import (
    CLUSTER_KEYS,
    CLUSTER_LABEL,
    CLUSTER_UPDATE,
    COUNT_INDEX_TABLES,
    DOCUMENT,
    DOCUMENT_FIELDS,
    INDEX_TABLES,
    NEIGHBORS,
)

if TYPE_CHECKING:
    import sqlite3

__all__ = ["canned_queries", "get_metadata", "prepare_connection", "register_routes", "render_cell"]

_KEYS = frozenset({"key", "neighbor", "older_key", "label"})
"""Columns that hold the key of a document."""
_MOST_LISTED = 100
_MOST_CHARACTERS = 20_000
_IS_INDEX: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
"""Whether a database is that of an index; filled on first use."""
_QUERY = re.compile(
    r"^([^\n]+(?:\n[^\n]+)*?):\n\n<!-- sql: (\w+) -->\n```sql\n(.+?)\n```", re.MULTILINE | re.DOTALL
)
_PAGE = """{% extends "base.html" %}
{% block title %}{{ document.key }}{% endblock %}
{% macro link(key) %}<a href="{{ page }}?{{ {"key": key}|urlencode }}">{{ key }}</a>{% endmacro %}
{% block content %}
<h1>{{ document.key }}</h1>
<p><a href="{{ urls.database(database) }}">{{ database }}</a></p>
<table class="rows-and-columns">
{% for name, value in facts %}<tr><th>{{ name }}</th><td>{{ value }}</td></tr>
{% endfor %}</table>
<h2>Text</h2>
{% if document.body is none %}<p>No text is stored.</p>
{% else %}<pre style="white-space: pre-wrap">{{ document.body }}</pre>
{% if cut %}<p>The first {{ "{:,}".format(cut) }} of {{ "{:,}".format(document.n_chars) }} \
characters.</p>{% endif %}{% endif %}
<h2>Similar documents</h2>
{% if not updated_at %}<p>None are stored yet: run <code>lshdb clusters</code> on the index.</p>
{% elif not similar %}<p>None, as of {{ updated_at }}.</p>
{% else %}<p>As of {{ updated_at }}.</p>
<table class="rows-and-columns"><tr><th>key</th><th>{{ measure }}</th><th>method</th></tr>
{% for pair in similar[:most] %}<tr><td>{{ link(pair.neighbor) }}</td>
<td>{{ shown(pair[measure]) }}</td><td>{{ pair.method }}</td></tr>
{% endfor %}</table>
{% if similar|length > most %}<p>The first {{ most }}.</p>{% endif %}{% endif %}
<h2>Cluster</h2>
{% if not members %}<p>In no cluster.</p>
{% else %}<ul>{% for member in members[:most] %}<li>{{ link(member.key) }}</li>{% endfor %}</ul>
{% if members|length > most %}<p>The first {{ most }}.</p>{% endif %}{% endif %}
{% endblock %}
"""


_SHOWN = {
    "new_document": ("New documents", "The documents of the last add, or night."),
    "neighbor": (
        "Similar documents",
        "For each document, those that are similar to it, as lshdb clusters stored them last.",
    ),
    "cluster": (
        "Clusters",
        "Documents by cluster, as lshdb clusters stored them last. A cluster has the key of its "
        "oldest document as its label.",
    ),
    "document_field": ("Kept fields", "The fields that lshdb add kept, a row for each."),
    "document": (
        "Documents",
        "One row for each document. text(doc_id) is its text; the view document_time has its "
        "times.",
    ),
    "document_time": ("Times", "When each document was added, and last seen."),
    "cursor_document": ("Unread documents", "The documents that a cursor has not seen."),
    "batch": ("Batches", "What each batch of an add brought: new, replaced, unchanged, rejected."),
    "cursor": ("Cursors", "How far each reader of new documents has come."),
    "night": ("Nights", "The name of the night that an add belongs to."),
    "parameter": ("Parameters", "What the index is made of."),
    "bucket_size": ("Buckets by size", "How many buckets of each band have so many signatures."),
    "bucket": ("Buckets", "Each bucket and its number of signatures. Counting them takes a while."),
    "document_bucket": ("Documents by bucket", "Each document in each of its buckets."),
    "posting": ("Postings", "Each signature in each of its buckets."),
}
"""Title and description of the tables and views that people read; the most useful first."""
_FIRST = 4
_HIDDEN = (
    "alembic_version", "band", "cluster_member", "content", "edge", "edge_state", "kept_field",
    "segment", "signature_block", "signature_release", "state", "text_dictionary",
    "unfinished_add",
)  # fmt: skip
_INTERNAL = "For lshdb alone; see lshdb guide format."


@hookimpl
def get_metadata(datasette: Any) -> dict[str, Any]:
    """Return titles and descriptions for each database that is an index."""
    tables: dict[str, dict[str, Any]] = {
        name: {"title": title, "description": description}
        for name, (title, description) in _SHOWN.items()
    }
    tables |= {name: {"hidden": True, "description": _INTERNAL} for name in _HIDDEN}
    return {
        "databases": {
            name: {
                "title": "Near-duplicate index",
                "description_html": _start(datasette, name),
                "tables": tables,
            }
            for name, database in list(datasette.databases.items())
            if _is_index_file(database)
        }
    }


def _start(datasette: Any, database: str) -> str:
    """Return links to the views that most people look for."""
    links = [
        markupsafe.Markup('<a href="{}">{}</a>').format(datasette.urls.table(database, name), title)
        for name, (title, _) in list(_SHOWN.items())[:_FIRST]
    ]
    return markupsafe.Markup("Begin with {}.").format(markupsafe.Markup(", ").join(links))


@hookimpl
def prepare_connection(conn: sqlite3.Connection) -> None:
    """Give each connection to an index the function ``text``."""
    (n_tables,) = conn.execute(COUNT_INDEX_TABLES).fetchone()
    if n_tables == len(INDEX_TABLES):
        register_text(conn)


@hookimpl
def canned_queries(datasette: Any, database: str) -> Any:
    """Return the queries of the guide, for an index."""

    async def queries() -> dict[str, dict[str, str]]:
        return _queries() if await _is_index(datasette.get_database(database)) else {}

    return queries


@hookimpl
def register_routes() -> list[tuple[str, Any]]:
    """Return the address of the page of a document."""
    return [(r"^/-/lshdb/(?P<database>[^/]+)$", show_document)]


@hookimpl
def render_cell(value: object, column: str, database: str, datasette: Any) -> Any:
    """Return a key as a link to the page of its document."""

    async def link() -> Any:
        if not await _is_index(datasette.get_database(database)):
            return None
        address = datasette.urls.path(_address(database, str(value)))
        return markupsafe.Markup('<a href="{}">{}</a>').format(address, value)

    return link if column in _KEYS and isinstance(value, str) and value else None


async def show_document(request: Any, datasette: Any) -> Any:
    """Return the page of the document whose key is in the query string."""
    name = tilde_decode(request.url_vars["database"])
    try:
        database = datasette.get_database(name)
    except KeyError:
        raise NotFound(f"there is no database {name}") from None
    if not await _is_index(database):
        raise NotFound(f"the database {name} is not of an index")
    for table in ("document", "content", "neighbor", "cluster"):
        await datasette.ensure_permissions(
            request.actor,
            [("view-table", (name, table)), ("view-database", name), "view-instance"],
        )
    key = request.args.get("key") or ""
    values = {"most": _MOST_CHARACTERS, "key": key}
    document = (await database.execute(DOCUMENT, values)).first()
    if document is None:
        raise NotFound(f"there is no document with the key {key!r} in {name}")
    context = await _context(database, document)
    template = datasette.jinja_env.from_string(_PAGE)
    page = datasette.urls.path(_address(name))
    return Response.html(
        await datasette.render_template(
            template, {**context, "database": name, "page": page}, request=request
        )
    )


async def _context(database: Any, document: Any) -> dict[str, Any]:
    """Return what the page of a document shows."""

    async def rows(statement: str, **parameters: object) -> list[Any]:
        return list(await database.execute(statement, parameters))

    key, n_chars = document["key"], document["n_chars"]
    fields = await rows(DOCUMENT_FIELDS, doc_id=document["doc_id"])
    facts = [(name, document[name]) for name in document.keys() if name not in {"key", "body"}]  # noqa: SIM118
    similar = await rows(NEIGHBORS, key=key, most=_MOST_LISTED + 1)
    label = await rows(CLUSTER_LABEL, key=key)
    updated = await rows(CLUSTER_UPDATE)
    members = []
    if label:
        members = await rows(CLUSTER_KEYS, label=label[0][0], most=_MOST_LISTED + 1)
    has_distance = bool(similar) and similar[0]["distance"] is not None
    return {
        "document": document,
        "facts": [*facts, *((row["name"], row["value"]) for row in fields)],
        "cut": _MOST_CHARACTERS if isinstance(n_chars, int) and n_chars > _MOST_CHARACTERS else 0,
        "shown": _shown,
        "similar": similar,
        "measure": "distance" if has_distance else "similarity",
        "members": members,
        "updated_at": updated[0][0] if updated else None,
        "most": _MOST_LISTED,
    }


def _shown(value: object) -> str:
    """Return a similarity as text; a file of a stranger's may hold anything in its place."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


async def _is_index(database: Any) -> bool:
    if database not in _IS_INDEX:
        (n_tables,) = (await database.execute(COUNT_INDEX_TABLES)).first()
        _IS_INDEX[database] = n_tables == len(INDEX_TABLES)
    return _IS_INDEX[database]


def _is_index_file(database: Any) -> bool:
    """Do the same without waiting, for the hook that cannot."""
    if database not in _IS_INDEX:
        if database.path is None or not Path(database.path).is_file():
            return False
        n_tables = count_in_file(Path(database.path), COUNT_INDEX_TABLES)
        if not n_tables:
            return False
        _IS_INDEX[database] = n_tables == len(INDEX_TABLES)
    return _IS_INDEX[database]


def _address(database: str, key: str | None = None) -> str:
    query = "" if key is None else "?" + urlencode({"key": key})
    return f"/-/lshdb/{tilde_encode(database)}{query}"


def _queries() -> dict[str, dict[str, str]]:
    """Return the statements of the guide by name, with titles."""
    package = Path(lshdb.__file__).resolve().parent
    for folder in (package / "_docs", package.parent / "docs"):
        page = folder / "guides" / "sql.md"
        if page.is_file():
            queries = _QUERY.findall(page.read_text(encoding="utf-8"))
            return {
                f"lshdb_{name}": {
                    "sql": sql.rstrip(";").replace("'mon-1'", ":key"),
                    "title": " ".join(title.replace("`", "").split()),
                }
                for title, name, sql in queries
            }
    return {}

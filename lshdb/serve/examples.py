"""Requests to show for each route of the API: of this index's own documents, so that they work.

A test runs every command as it stands on the page.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from lshdb.errors import TextNotStoredError
from lshdb.pages.text_markup import first_words
from lshdb.storage.tables.view_statements import CLUSTER_MEMBERS, FIRST_KEYS

if TYPE_CHECKING:
    from lshdb.index import Index
    from lshdb.serve.cluster_lists import RankedClusters

__all__ = ["example_commands"]

_TEXT = 120
"""Characters of a text in a request."""
_TOKEN = "Authorization: Bearer $LSHDB_TOKEN"


def example_commands(
    index: Index, ranked: RankedClusters, *, base: str, has_token: bool
) -> dict[str, str]:
    """Return a command of curl for each route that this index can answer.

    Parameters
    ----------
    index : Index
    ranked : RankedClusters
        Its clusters.
    base : str
        The address of the server.
    has_token : bool
        Whether requests carry a token.

    Returns
    -------
    dict
        From the path of a route, as in the description of the API, to a command.
    """
    commands = {"/health": _command(base, "/health")}
    bodies: dict[str, tuple[str, dict[str, Any] | None]] = {
        "/api/stats": ("/api/stats", None),
        "/metrics": ("/metrics", None),
    }
    keys = [key for (key,) in index.sql(FIRST_KEYS)]
    if keys:
        asked = _text_of(index, keys[0])
        query = {"key": keys[0]} if asked is None else {"text": asked}
        bodies |= {
            "/api/query": ("/api/query", {**query, "top": 5}),
            "/api/explain": ("/api/explain", {"key1": keys[0], "key2": keys[-1]}),
            "/api/documents/{key}": (f"/api/documents/{quote(keys[0], safe='')}", None),
            "/api/documents": (f"/api/documents?{urlencode({'key': keys[0]})}", None),
        }
        if keys[0] in (".", ".."):  # curl takes them for folders
            del bodies["/api/documents/{key}"]
    if len(ranked.labels):
        values = {"label": int(ranked.labels[0]), "most": 1}
        label = next(iter(index.sql(CLUSTER_MEMBERS, values)))[0]
        bodies["/api/clusters"] = ("/api/clusters?limit=5&members=3&sort=similarity", None)
        bodies["/api/clusters/{label}"] = (f"/api/clusters/{quote(label, safe='')}", None)
    for route, (path, body) in bodies.items():
        commands[route] = _command(base, path, body, has_token=has_token)
    return commands


def _text_of(index: Index, key: str) -> str | None:
    """Return the first words of a document; None if no text is stored, or the body is another."""
    if index.params.kind.body != "text":
        return None
    try:
        body = index.texts([key]).get(key)
    except TextNotStoredError:
        return None
    return first_words(body, _TEXT) if isinstance(body, str) and body.strip() else None


def _command(
    base: str, path: str, body: dict[str, Any] | None = None, *, has_token: bool = False
) -> str:
    words = ["curl", shlex.quote(base + path)]
    if body is not None:
        words += ["--json", shlex.quote(json.dumps(body))]
    if has_token:
        words += ["-H", f'"{_TOKEN}"']  # the shell puts the token in
    return " ".join(words)

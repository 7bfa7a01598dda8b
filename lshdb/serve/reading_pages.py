"""Pages for people: the questions of the API as HTML that works without a script.

Decided: nothing is written, so no form changes anything and none needs a secret of its own. A
search has an address, ``/?text=…``, which can be kept and sent; a text too long for one is the body
of a form. Texts and keys stand in the query of an address, which does not come into the log. Links
name keys there too, because a browser would resolve dots in a path. A page is rendered in the
thread of its question: it is as long as the texts that it shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from lshdb import __version__
from lshdb.errors import KeyNotFoundError, ParameterError, TextNotStoredError
from lshdb.pages import (
    Link,
    Page,
    asset_version,
    make_environment,
    read_asset,
    served_assets,
)
from lshdb.pages.cards import Member
from lshdb.pages.text_markup import (
    ShownText,
    first_words,
    readable,
    show_difference,
    side_by_side,
    unchanged_text,
)
from lshdb.serve.answers import ErrorAnswer
from lshdb.serve.bucket_lists import BUCKET_SORTS, RANKED, BucketLists, shared_words
from lshdb.serve.cluster_lists import SORTS, ClusterLists
from lshdb.serve.examples import example_commands
from lshdb.serve.request_bodies import form_fields, real_number, whole_number
from lshdb.serve.workers import QuestionThreads
from lshdb.storage.tables.view_statements import (
    BUCKET_KEYS,
    CLUSTER_OF_KEY,
    DOCUMENT_ORIGIN,
)

if TYPE_CHECKING:
    from lshdb.index import Index

__all__ = ["ReadingPages"]

MEMBERS = 20
"""Members of a cluster that are compared side by side; more are listed."""
LISTED = 500
LEAD = 180
"""Characters of a text's first words."""
HITS = 20
"""Documents that a search lists if nobody says how many."""
MOST_HITS = 200
LONGEST_ADDRESS = 6_000
"""Bytes of a query that every proxy and browser takes; a longer text is sent as a body."""
COMPARED = 200_000
"""Characters of each of two texts that are compared word by word; a tenth of a second."""

_PIECE = 2**16
_FORM = "application/x-www-form-urlencoded"
_NOT_IN_HTML = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)
_SECTIONS = (
    ("/", "Search"),
    ("/clusters", "Clusters"),
    ("/buckets", "Buckets"),
    ("/index", "Contents"),
    ("/docs", "API"),
)


def _asked(values: Mapping[str, str]) -> dict[str, str]:
    """Return what a search asks beside its text, without fields that were left empty."""
    return {name: values[name] for name in ("top", "threshold") if values.get(name)}


def _shown_in_a_form(text: str) -> str:
    """Return a text without the characters that HTML has not."""
    return "".join(  # in pieces: the lock of all threads is held for the length of one
        _NOT_IN_HTML.sub("\ufffd", text[start : start + _PIECE])
        for start in range(0, len(text), _PIECE)
    )


class ReadingPages:
    """Routes that answer with pages.

    Parameters
    ----------
    index : Index
        Its public methods are called, in threads.
    workers : QuestionThreads
        Threads in which the index is asked.
    has_token : bool
        Whether requests carry a token, which examples then show.
    """

    def __init__(self, index: Index, workers: QuestionThreads, *, has_token: bool = False) -> None:
        self._index, self._workers, self._has_token = index, workers, has_token
        self._lists = ClusterLists(index)
        self._buckets = BucketLists(index)
        self.clusters_ranked = self._lists.ranked
        self._environment = make_environment(Path(__file__).parent / "templates")
        self._openapi: Callable[[], dict[str, Any]] = dict

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application; its API's description leaves them out."""
        self._openapi = app.openapi
        hidden: dict[str, Any] = {"include_in_schema": False, "response_class": HTMLResponse}
        app.get("/", **hidden)(self.home)
        app.post("/", **hidden)(self.search)
        app.get("/similar", **hidden)(self.similar)
        app.get("/document", **hidden)(self.document)
        app.get("/clusters", **hidden)(self.clusters)
        app.get("/cluster", **hidden)(self.cluster)
        app.get("/pair", **hidden)(self.pair)
        app.get("/buckets", **hidden)(self.buckets)
        app.get("/bucket", **hidden)(self.bucket)
        app.get("/index", **hidden)(self.contents)
        app.get("/docs", **hidden)(self.docs)
        app.get("/assets/{name}", include_in_schema=False)(self.asset)

    async def home(self, request: Request) -> Response:
        """Ask for a text, or list the documents most similar to the one in the address."""
        values = dict(request.query_params)
        if not values.get("text"):
            return await self._workers.ask(lambda: self._search(values))
        return await self._workers.ask(lambda: self._search(values, text=values["text"]))

    async def search(self, request: Request) -> Response:
        """Do the same with the text of a form, which may be too long for an address."""
        kind = request.headers.get("content-type", _FORM).partition(";")[0].strip().lower()
        if kind != _FORM:
            raise HTTPException(415, _FORM)
        received = await request.body()

        def question() -> Response:
            values = form_fields(received)
            return self._search(values, text=values["text"])

        return await self._workers.ask(question)

    async def similar(self, request: Request, key: str) -> Response:
        """List the documents most similar to one of the index."""
        values = dict(request.query_params)
        return await self._workers.ask(lambda: self._search(values, key=key))

    def _search(
        self, values: Mapping[str, str], *, text: str | None = None, key: str | None = None
    ) -> Response:
        """Show the form of a search, and the hits of one that was made."""
        params = self._index.params
        top = whole_number(values, "top", HITS, 1, MOST_HITS)
        threshold = real_number(values, "threshold", params.threshold)
        results: dict[str, Any] = {}
        address = ""
        crumb = "" if text is key is None else "like a text" if key is None else f"like {key}"
        if text is not None:
            if params.kind.body != "text":
                raise ParameterError("this index has no texts", hint="ask by key, or use the API")
            text = text.replace("\r\n", "\n")
            address = urlencode({**_asked(values), "text": text})
        if text is not None or key is not None:
            results = self._hits(text, key, top=top, threshold=threshold)
        return self._page(
            "/", "search.html", crumb=crumb, key=key,
            query=None if text is None else _shown_in_a_form(text),
            takes_texts=params.kind.body == "text",
            word="distance" if params.kind.is_distance else "similarity",
            threshold=threshold, default=params.threshold, top=top, most=MOST_HITS,
            recall=self._recall_beyond(threshold),
            documents=len(self._index), longest=LONGEST_ADDRESS,
            has_address=len(address) <= LONGEST_ADDRESS,
            has_texts=any(hit["text"] for hit in results.get("hits", ())), **results,
        )  # fmt: skip

    async def document(self, key: str) -> Response:
        """Show a document."""

        def question() -> Response:
            shown = self._index.show(key)
            text = self._text(key)
            return self._page(
                "/", "document.html", heading=key, crumb=key, key=key, shown=shown,
                text=None if text is None else unchanged_text(text),
                in_cluster=bool(list(self._index.sql(CLUSTER_OF_KEY, {"key": key}))),
                is_kept=self._lists.verdicts([key]).get(key),
            )  # fmt: skip

        return await self._workers.ask(question)

    async def clusters(self, request: Request) -> Response:
        """List a page of clusters in an order, those that contain some words if they are given."""
        values = dict(request.query_params)
        return await self._workers.ask(lambda: self._clusters(values))

    def _clusters(self, values: Mapping[str, str]) -> Response:
        params, state = self._index.params, self._index.clusters(update=False).state
        page = self._lists.page(values)
        n, documents = len(page.ranked.sizes), page.ranked.n_documents
        return self._page(
            "/clusters", "clusters.html", heading=f"{n:,} clusters of {documents:,} documents",
            crumb=SORTS[page.sort], listed=page, batch=state.batch_id, sorts=SORTS,
            threshold=params.curve.value(state.threshold), own_threshold=params.threshold,
            best=params.curve.value(params.curve.best),
            word="distance" if params.kind.is_distance else "similarity",
        )  # fmt: skip

    async def cluster(self, key: str) -> Response:
        """Show the members of a cluster side by side."""

        def question() -> Response:
            cluster = self._lists.cluster(key)
            if cluster is None:
                raise KeyNotFoundError(
                    f"no cluster has the document {key!r}", key=key,
                    hint="clusters are those that lshdb clusters stored last",
                )  # fmt: skip
            card, members = cluster
            params = self._index.params
            return self._page(
                "/clusters", "served_cluster.html", crumb=card.label, card=card,
                heading=f"{first_words(card.lead, LEAD // 2)} …" if card.lead else "",
                listed=members[MEMBERS:],
                compared=[self._with_texts(member, card.label) for member in members[:MEMBERS]],
                word="distance" if params.kind.is_distance else "similarity",
                has_texts=params.keeps_texts,
                ends=(params.threshold, params.curve.value(params.curve.best)),
            )  # fmt: skip

        return await self._workers.ask(question)

    async def pair(self, key1: str, key2: str) -> Response:
        """Show how similar two documents are, and what differs."""

        def question() -> Response:
            params = self._index.params
            explanation = self._index.explain(key1, key2, with_shingles=False)
            sides = None
            if params.kind.body == "text":
                left, right = self._text(key1), self._text(key2)
                if left is not None and right is not None:
                    sides = side_by_side(
                        left, right, steps=params.normalisation, longest=COMPARED, keep_folds=True
                    )
            return self._page(
                "/", "served_pair.html", heading=f"{key1} and {key2}",
                crumb=f"{key1} and {key2}", names=(key1, key2),
                explanation=explanation, params=params, value=params.curve.value, sides=sides,
            )  # fmt: skip

        return await self._workers.ask(question)

    async def buckets(self, request: Request) -> Response:
        """List a page of the largest buckets, and all by their sizes."""
        values = dict(request.query_params)

        def question() -> Response:
            page = self._buckets.page(values)
            word = "bucket holds" if page.n_shared == 1 else "buckets hold"
            return self._page(
                "/buckets", "buckets.html", crumb=BUCKET_SORTS[page.sort], listed=page,
                sorts=BUCKET_SORTS, bands=self._index.params.bands, ranked=RANKED,
                heading=f"{page.n_shared:,} {word} more than one text"
                + (f"; the largest holds {page.largest:,}" if page.largest else ""),
            )  # fmt: skip

        return await self._workers.ask(question)

    async def bucket(self, band: int, bucket: int) -> Response:
        """List the documents of a bucket."""
        if not (-(2**31) <= band < 2**31 and -(2**31) <= bucket < 2**31):
            raise ParameterError(f"there is no bucket {bucket} of band {band}")

        def question() -> Response:
            values = {"band": band, "bucket": bucket, "most": LISTED}
            keys = [key for (key,) in self._index.sql(BUCKET_KEYS, values)]
            texts = {key: self._text(key) for key in keys[:MEMBERS]}
            bodies = [readable(text) for text in texts.values() if text is not None]
            return self._page(
                "/buckets", "bucket.html", heading=f"A bucket of band {band}",
                crumb=f"band {band}, bucket {bucket}", most=LISTED, words=shared_words(bodies),
                compared=len(bodies),
                members=[
                    (key, "" if texts.get(key) is None else first_words(texts[key], LEAD))
                    for key in keys
                ],
            )  # fmt: skip

        return await self._workers.ask(question)

    async def contents(self) -> Response:
        """Show what is in the index."""
        return await self._workers.ask(
            lambda: self._page(
                "/index",
                "contents.html",
                stats=self._index.stats(),
                batches=self._index.batches()[-20:][::-1],
            )
        )

    async def docs(self, request: Request) -> Response:
        """List what the API answers, with requests that this index can answer."""
        base = str(request.base_url).rstrip("/")

        def question() -> Response:
            examples = example_commands(
                self._index, self.clusters_ranked(), base=base, has_token=self._has_token
            )
            return self._page("/docs", "api.html", api=self._openapi(), examples=examples)

        return await self._workers.ask(question)

    async def asset(self, request: Request, name: str) -> Response:
        """Answer with a style or a script, which a browser keeps until its address changes."""
        try:
            content, media_type = read_asset(name)
        except KeyError:
            raise KeyNotFoundError(f"there is no file {name!r}", key=name) from None
        is_this = request.url.query == f"v={asset_version(name)}"
        caching = "private, max-age=31536000, immutable" if is_this else "no-cache"
        return Response(content, media_type=media_type, headers={"cache-control": caching})

    def error(self, status: int, answer: ErrorAnswer, headers: dict[str, str]) -> Response:
        """Show an error as a page."""
        response = self._page("", "error.html", heading="That cannot be answered", answer=answer)
        response.status_code = status
        response.headers.update(headers)
        return response

    def _page(
        self, path: str, template: str, *, heading: str = "", crumb: str = "", **values: Any
    ) -> Response:
        """Render a page.

        Parameters
        ----------
        path : str
            The section that it belongs to; empty for none.
        template : str
        heading : str
            By default the name of the section.
        crumb : str
            What the page is within its section; empty for the section's first page.
        **values
            For the template.
        """
        name, section = self._index.path.name, dict(_SECTIONS).get(path, "")
        crumbs: tuple[Link, ...] = ()
        if crumb:
            crumbs = (Link(section, path), Link(crumb, "")) if section else ()
        page = Page(
            title=" · ".join(filter(None, (heading or section, name))),
            name=name,
            note=f"{len(self._index):,} documents" if path else "",
            heading=heading or section,
            assets=served_assets("/assets/"),
            links=tuple(Link(text, href, href == path) for href, text in _SECTIONS),
            crumbs=crumbs,
            footer=f"lshdb {__version__}, read-only",
        )
        return HTMLResponse(self._environment.get_template(template).render(page=page, **values))

    def _recall_beyond(self, threshold: float) -> float | None:
        """Return how probably a pair at a threshold beyond the index's own is found; else None."""
        params = self._index.params
        if params.curve.level(threshold) >= params.level:
            return None
        recall = params.recall_at(threshold)
        return recall if round(recall, 4) < round(params.recall, 4) else None

    def _hits(self, text: str | None, key: str | None, **options: Any) -> dict[str, Any]:
        if key is not None:
            hits = self._index.query(key=key, **options)
        else:
            hits = self._index.query(text, **options)
        own = text if key is None else self._text(key)
        curve, level = self._index.params.curve, self._index.params.curve.level
        lowest = level(options["threshold"])
        kept = self._lists.verdicts(hit.key for hit in hits)
        shown = []
        for hit in hits:
            origin = list(self._index.sql(DOCUMENT_ORIGIN, {"key": hit.key}))
            added_at, source = origin[0] if origin else ("", "")  # removed since it was found
            clusters = list(self._index.sql(CLUSTER_OF_KEY, {"key": hit.key}))
            reach = curve.best - lowest
            shown.append({
                "hit": hit,
                "text": self._difference(own, self._text(hit.key)),
                "added_at": added_at,
                "source": source,
                "cluster_size": clusters[0][1] if clusters else 0,
                "is_kept": kept.get(hit.key),
                "portion": (hit.similarity - lowest) / reach if reach > 0 else 1.0,
            })  # fmt: skip
        return {"hits": shown, "value": curve.value, "best": curve.value(curve.best)}

    def _difference(self, first: Any, text: Any) -> ShownText | None:
        """Return a text with its differences from another one marked, if both are stored."""
        if text is None or first is None:
            return None if text is None else unchanged_text(text)
        return show_difference(first, text, steps=self._index.params.normalisation)

    def _text(self, key: str) -> Any:
        """Return one text, or None; one at a time, so that memory holds one long text."""
        try:
            return self._index.texts([key]).get(key)
        except TextNotStoredError:
            return None

    def _with_texts(self, member: Member, label: str) -> Member:
        """Return a member with its text: the oldest one's alone, another's beside its nearest."""
        if member.is_copy:
            return member
        text = self._text(member.key)
        near = self._text(member.nearest) if member.nearest and member.key != label else None
        if None in (text, near):
            return replace(member, text=None if text is None else unchanged_text(text))
        sides = side_by_side(near, text, steps=self._index.params.normalisation)
        return replace(member, sides=sides)

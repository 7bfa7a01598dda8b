"""The routes: an open index -> an ASGI application.

Questions go to the index in threads (``workers.py``). Each sees the state of the last commit before
it, so an ``lshdb add`` elsewhere shows in the next answer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from lshdb.errors import (
    DamageError,
    DatabaseError,
    IndexChangedError,
    KeyNotFoundError,
    LockedError,
    LshdbError,
    ParameterError,
    ReadOnlyError,
    SignaturesElsewhereError,
)
from lshdb.serve.answers import (
    MOST_LISTED,
    ClusterAnswer,
    ClusterList,
    DocumentAnswer,
    ErrorAnswer,
    ExplainAnswer,
    ExplainRequest,
    HealthAnswer,
    QueryAnswer,
    QueryRequest,
    StatsAnswer,
)
from lshdb.serve.guard import LOCAL_NAMES, Guard, Limits
from lshdb.serve.reading_pages import ReadingPages
from lshdb.serve.request_counts import Metrics
from lshdb.serve.workers import BusyError, TooSlowError, Workers
from lshdb.version import __version__

if TYPE_CHECKING:
    from lshdb.index import Index

__all__ = ["make_application"]

_Answer = TypeVar("_Answer")
_log = logging.getLogger("lshdb.serve")

_HINT = "see /openapi.json"
_UNAVAILABLE = (DamageError, DatabaseError, IndexChangedError, LockedError)
_CONFLICTS = (ReadOnlyError, SignaturesElsewhereError)
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be answered as it is"},
    404: {"model": ErrorAnswer, "description": "There is no such document or cluster"},
    503: {"model": ErrorAnswer, "description": "Busy, too slow, or the index cannot be read now"},
}


def make_application(
    index: Index,
    *,
    token: str | None = None,
    names: Sequence[str] = (),
    limits: Limits | None = None,
) -> Guard:
    """Make the ASGI application of an open index.

    Parameters
    ----------
    index : Index
        Stays open, and is not closed here. Nothing is written to it.
    token : str, optional
        Answer only requests that carry it.
    names : sequence of str
        Further host names that are answered without a token, as of a proxy on this machine.
    limits : Limits, optional

    Returns
    -------
    ASGI application
    """
    limits = limits or Limits()
    workers = Workers(threads=limits.threads, waiting=limits.waiting, seconds=limits.seconds)
    metrics = Metrics()
    metrics.count_index(lambda: {"documents": len(index)})
    routes = _Routes(index, workers, metrics)
    pages = ReadingPages(index, workers)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        workers.close()

    app = FastAPI(
        title="lshdb",
        version=__version__,
        summary="Near-duplicates in one index, read-only.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        responses=_ERRORS,
    )
    routes.add_to(app)
    pages.add_to(app)
    app.state.pages = pages
    app.add_exception_handler(LshdbError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(BusyError, _busy)
    app.add_exception_handler(TooSlowError, _too_slow)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _failed)
    guarded = frozenset(name.lower() for name in names) | LOCAL_NAMES
    return Guard(app, token=token, names=guarded, limits=limits, metrics=metrics)


class _Routes:
    """One method for each question."""

    def __init__(self, index: Index, workers: Workers, metrics: Metrics) -> None:
        self._index, self._workers, self._metrics = index, workers, metrics

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        app.post("/api/query", response_model_exclude_none=True)(self.query)
        app.get("/api/documents/{key:path}")(self.document)
        app.post("/api/explain")(self.explain)
        app.get("/api/clusters")(self.clusters)
        app.get("/api/clusters/{label:path}")(self.cluster)
        app.get("/api/stats")(self.stats)
        app.get("/health")(self.health)
        app.get("/metrics", response_class=Response)(self.metrics)

    async def query(self, request: QueryRequest) -> QueryAnswer:
        """List the documents most similar to a text, a vector, or a document of the index."""
        body = _one_of(request, "key")

        def question() -> QueryAnswer:
            hits = self._index.query(
                body, key=request.key, top=request.top, threshold=request.threshold,
                below=request.below, measure=request.measure, verify=request.verify,
                recall=request.recall,
            )  # fmt: skip
            keys = [hit.key for hit in hits]
            texts = self._index.texts(keys) if request.with_text else {}
            fields = self._index.fields(keys) if request.with_fields else {}
            return QueryAnswer.of(hits, texts, fields)

        return await self._workers.ask(question)

    async def document(self, key: str) -> DocumentAnswer:
        """Show a document with everything that is stored about it."""
        return await self._workers.ask(lambda: DocumentAnswer.of(self._index.show(key)))

    async def explain(self, request: ExplainRequest) -> ExplainAnswer:
        """Explain why two documents are near-duplicates, or why not."""
        body = _one_of(request, "key2")

        def question() -> ExplainAnswer:
            found = self._index.explain(request.key1, request.key2, body=body)
            return ExplainAnswer.of(found, self._index.params, request.shingles)

        return await self._workers.ask(question)

    async def clusters(
        self,
        threshold: Annotated[
            float | None, Query(allow_inf_nan=False, description="By default the index's own.")
        ] = None,
        min_size: Annotated[int, Query(ge=2)] = 2,
        offset: Annotated[int, Query(ge=0, description="Clusters to pass over.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
        members: Annotated[int, Query(ge=1, le=MOST_LISTED, description="Most keys of each.")] = 20,
    ) -> ClusterList:
        """List clusters, the largest first, from the pairs that `lshdb clusters` stored last."""

        def question() -> ClusterList:
            found = self._index.clusters(threshold=threshold, min_size=min_size, update=False)
            page = list(islice(iter(found), offset, offset + limit + 1))
            return ClusterList(
                clusters=[ClusterAnswer.of(cluster, members) for cluster in page[:limit]],
                next=offset + limit if len(page) > limit else None,
                batch=found.state.batch_id,
            )

        return await self._workers.ask(question)

    async def cluster(
        self, label: str, members: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED
    ) -> ClusterAnswer:
        """Show the stored cluster of a document, by its label or any member's key."""

        def question() -> ClusterAnswer:
            rows = list(self._index.sql(_CLUSTER_OF, {"key": label}))
            if not rows:
                raise KeyNotFoundError(f"no cluster has the document {label!r}", key=label)
            keys = [
                key for (key,) in self._index.sql(_MEMBERS, {"label": rows[0][0], "most": members})
            ]
            return ClusterAnswer(label=rows[0][0], size=rows[0][1], keys=keys)

        return await self._workers.ask(question)

    async def stats(self) -> StatsAnswer:
        """Return the index's parameters, counts and sizes."""
        return await self._workers.ask(lambda: StatsAnswer.of(self._index.stats()))

    async def health(self) -> HealthAnswer:
        """Say whether the index can be read; needs no token."""
        return await self._workers.ask(lambda: HealthAnswer(documents=len(self._index)))

    async def metrics(self) -> Response:
        """Return counts for Prometheus."""
        text = await self._workers.ask(self._metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


_CLUSTER_OF = (
    "SELECT label, (SELECT count(*) FROM cluster AS other WHERE other.label = own.label) "
    "FROM cluster AS own WHERE key = :key"
)
_MEMBERS = "SELECT key FROM cluster WHERE label = :label ORDER BY doc_id LIMIT :most"


def _one_of(request: QueryRequest | ExplainRequest, key: str) -> Any:
    """Return the body of a request that has exactly one of text, vector and a key."""
    given = [request.text, request.vector, getattr(request, key)]
    if [one is None for one in given].count(False) != 1:
        raise ParameterError(f"give one of text, vector and {key}")
    return request.body()


def _error(request: Request, status: int, error: ErrorAnswer, **headers: str) -> Response:
    """Answer a program with JSON, and a browser with a page."""
    is_api = request.url.path.startswith("/api/")
    if not is_api and "text/html" in request.headers.get("accept", ""):
        pages: ReadingPages = request.app.state.pages
        return pages.error(status, error, headers)
    return JSONResponse(error.model_dump(), status, headers)


async def _refused(request: Request, error: Exception) -> Response:
    """Turn an error of the library into an answer."""
    name = type(error).__name__
    hint = getattr(error, "hint", None)
    status = 400
    if isinstance(error, KeyNotFoundError):
        status = 404
    elif isinstance(error, _UNAVAILABLE):
        status = 503
        _log.error("%s", error)
    elif isinstance(error, _CONFLICTS):
        status = 409
    return _error(request, status, ErrorAnswer(error=name, message=str(error), hint=hint))


async def _invalid(request: Request, error: Exception) -> Response:
    """Say which part of a request is not as it should be."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    where = ".".join(str(part) for part in first.get("loc", ())[1:])
    kind, message = first.get("type"), str(first.get("msg"))
    if kind == "json_invalid":
        message = f"the body is not JSON, at character {where}"
    elif not where:
        message = "the body is not a JSON object; is its Content-Type application/json?"
    elif kind == "extra_forbidden":
        message = f"{where}: there is no such name"
    else:
        message = f"{where}: {message}"
    return _error(request, 400, ErrorAnswer(error="InvalidRequest", message=message, hint=_HINT))


async def _busy(request: Request, _error_: Exception) -> Response:
    answer = ErrorAnswer(error="Busy", message="too many questions are waiting", hint="ask again")
    return _error(request, 503, answer, **{"Retry-After": "1"})


async def _too_slow(request: Request, error: Exception) -> Response:
    seconds = getattr(error, "seconds", 0.0)
    answer = ErrorAnswer(
        error="TooSlow",
        message=f"the answer took longer than {seconds:g} seconds",
        hint="ask for less, or start the server with a larger --timeout",
    )
    return _error(request, 503, answer)


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    if status == 400:  # bytes that are not UTF-8
        answer = ErrorAnswer(error="InvalidRequest", message="the body is not JSON", hint=_HINT)
    else:
        message = f"there is no {request.method} {request.url.path}"
        answer = ErrorAnswer(error="NoRoute", message=message, hint=_HINT)
    return _error(request, status, answer)


async def _failed(request: Request, _error_: Exception) -> Response:
    """Answer where the server has a bug; the traceback goes to its log alone."""
    return _error(
        request, 500, ErrorAnswer(error="InternalError", message="the server failed; see its log")
    )

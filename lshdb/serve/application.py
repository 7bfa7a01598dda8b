"""The routes: an open index -> an ASGI application.

Questions go to the index in threads (``workers.py``). Each sees the state of the last commit before
it, so an ``lshdb add`` elsewhere shows in the next answer.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from lshdb import __version__
from lshdb.errors import (
    DamageError,
    DatabaseError,
    IndexChangedError,
    IndexNotFoundError,
    KeyNotFoundError,
    LockedError,
    LshdbError,
    ParameterError,
    ReadOnlyError,
    SignaturesElsewhereError,
)
from lshdb.serve.answers import (
    MOST_HITS,
    MOST_LISTED,
    MOST_OFFSET,
    MOST_SHINGLED,
    MOST_TEXT,
    ClusterAnswer,
    ClusterList,
    DocumentAnswer,
    ErrorAnswer,
    ExplainAnswer,
    ExplainRequest,
    HealthAnswer,
    QueryAnswer,
    QueryAnswerList,
    QueryRequest,
    StatsAnswer,
)
from lshdb.serve.cluster_lists import OfState, RankedClusters
from lshdb.serve.guard import Guard, Limits, answered_names
from lshdb.serve.reading_pages import ReadingPages
from lshdb.serve.request_bodies import InvalidRequestError, json_request, message_of
from lshdb.serve.request_counts import Metrics
from lshdb.serve.workers import BusyError, QuestionThreads, TooSlowError
from lshdb.storage.tables.view_statements import (
    CLUSTER_KEYS,
    CLUSTER_MEMBERS,
    CLUSTER_OF_KEY,
    LENGTHS,
)

if TYPE_CHECKING:
    from lshdb.index import Index

__all__ = ["make_application"]

_log = logging.getLogger("lshdb.serve")

_HINT = "see /openapi.json"
_UNAVAILABLE = (
    DamageError,
    DatabaseError,
    IndexChangedError,
    IndexNotFoundError,
    LockedError,
)
_CONFLICTS = (ReadOnlyError, SignaturesElsewhereError)
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request cannot be answered as it is"},
    404: {"model": ErrorAnswer, "description": "There is no such document or cluster"},
    415: {"model": ErrorAnswer, "description": "The body has another type, or is compressed"},
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
        Stays open, and is not closed here. Nothing is written to it. If another index lies at its
        path, that one is opened in its place before the next question (:meth:`Index.refresh`).
    token : str, optional
        Answer only requests that carry it.
    names : sequence of str
        Further host names that are answered without a token, as of a proxy on this machine.
    limits : Limits, optional
        Threads, sizes and times; by default those of ``Limits``.

    Returns
    -------
    ASGI application

    Raises
    ------
    ParameterError
        One of ``names`` is no host name.
    """
    limits = limits or Limits()
    guarded = answered_names(names)

    refresh = _Refresh(index)

    def make_workers(threads: int) -> QuestionThreads:
        return QuestionThreads(
            threads=threads, waiting=limits.waiting, seconds=limits.seconds,
            before=refresh,
        )  # fmt: skip

    workers, counters = make_workers(limits.threads), make_workers(1)
    metrics = Metrics()
    metrics.count_index(lambda: {"documents": len(index)})
    pages = ReadingPages(index, workers, has_token=token is not None)
    routes = _Routes(index, workers, counters, metrics, pages.clusters_ranked)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        workers.close()
        counters.close()

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
    app.add_exception_handler(ValidationError, _damaged)
    app.add_exception_handler(PydanticSerializationError, _damaged)
    app.add_exception_handler(_UnavailableError, _unavailable)
    app.add_exception_handler(InvalidRequestError, _not_as_it_should_be)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(BusyError, _busy)
    app.add_exception_handler(TooSlowError, _too_slow)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, token=token, names=guarded, limits=limits, metrics=metrics)


class _UnavailableError(Exception):
    """The index at the path cannot be opened; ``__cause__`` is the library's error."""


class _Refresh:
    """Reopens the index before a question if another one is at its path now; logs changes."""

    def __init__(self, index: Index) -> None:
        self._index, self._failure = index, ""

    def __call__(self) -> None:
        try:
            if self._index.refresh():
                _log.warning("another index lies at %s now; it was opened", self._index.path)
        except LshdbError as error:
            if str(error) != self._failure:
                self._failure = str(error)
                _log.error("the index cannot be opened: %s", error)
            raise _UnavailableError from error
        if self._failure:
            self._failure = ""
            _log.warning("the index %s can be read again", self._index.path)


class _AnyKey(Convertor[str]):
    """The rest of a path: a key may hold slashes, and line feeds too."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any_key", _AnyKey())


class _Routes:
    """One method for each question.

    Parameters
    ----------
    index : Index
        Answers the questions.
    workers : QuestionThreads
        Threads in which the index is asked.
    counters : QuestionThreads
        For what takes microseconds, so that whoever watches the server waits for no question.
    metrics : Metrics
        Counters behind ``/metrics``.
    ranked : OfState
        The order of the stored clusters.
    """

    def __init__(
        self,
        index: Index,
        workers: QuestionThreads,
        counters: QuestionThreads,
        metrics: Metrics,
        ranked: OfState[RankedClusters],
    ) -> None:
        self._index, self._workers, self._counters = index, workers, counters
        self._metrics = metrics
        self._ranked = ranked

    def add_to(self, app: FastAPI) -> None:
        """Add the routes to an application."""
        get, post = app.get, app.post
        post(
            "/api/query",
            response_model=QueryAnswer | QueryAnswerList,
            openapi_extra=_body(QueryRequest),
        )(self.query)
        get("/api/documents/{key:any_key}", response_model=DocumentAnswer)(self.document)
        get("/api/documents", response_model=DocumentAnswer)(self.document)  # for keys as ".."
        post("/api/explain", response_model=ExplainAnswer, openapi_extra=_body(ExplainRequest))(
            self.explain
        )
        get("/api/clusters", response_model=ClusterList)(self.clusters)
        get("/api/clusters/{label:any_key}", response_model=ClusterAnswer)(self.cluster)
        get("/api/stats", response_model=StatsAnswer)(self.stats)
        get("/health", response_model=HealthAnswer)(self.health)
        get("/metrics", response_class=Response)(self.metrics)
        _describe(app, QueryRequest, ExplainRequest)

    async def _answer(self, question: Callable[[], BaseModel]) -> Response:
        """Ask and encode the answer as JSON in a thread, because an answer may be long."""
        return await self._workers.ask(lambda: _json(question()))

    async def query(self, request: Request) -> Response:
        """List the documents most similar to a text, a vector, a document, or to many texts."""
        received = await _json_body(request)

        def question() -> Response:
            query = json_request(received, QueryRequest)
            options: dict[str, Any] = {
                name: getattr(query, name)
                for name in ("top", "threshold", "below", "measure", "verify", "recall")
            }
            if query.texts is None:
                body = _body_of(query, "key", self._index)
                listed = [self._index.query(body, key=query.key, **options)]
            else:
                texts = _texts_of(query)
                listed = [hits for _, hits in self._index.query_many(texts, **options)]
            keys = list(dict.fromkeys(hit.key for hits in listed for hit in hits))
            bodies = self._texts(keys) if query.with_text else {}
            fields = self._index.fields(keys) if query.with_fields else {}
            answers = [QueryAnswer.of(hits, bodies, fields) for hits in listed]
            answer = answers[0] if query.texts is None else QueryAnswerList(answers=answers)
            return _json(answer, exclude_none=True)

        return await self._workers.ask(question)

    def _texts(self, keys: Sequence[str]) -> dict[str, Any]:
        """Return the texts of documents; refuse more than ``MOST_TEXT`` characters together."""
        texts: dict[str, Any] = {}
        n_chars = 0
        for key in keys:
            texts |= self._index.texts([key])
            n_chars += len(texts.get(key, ""))
            if n_chars > MOST_TEXT:
                raise ParameterError(
                    f"the texts of the first {len(texts):,} of these documents have more than "
                    f"{MOST_TEXT:,} characters together",
                    hint="ask for fewer with 'top', or for one at a time at /api/documents/KEY",
                )
        return texts

    async def document(self, key: str) -> Response:
        """Show a document with everything that is stored about it."""
        return await self._answer(lambda: DocumentAnswer.of(self._index.show(key)))

    async def explain(self, request: Request) -> Response:
        """Explain why two documents are near-duplicates, or why not."""
        received = await _json_body(request)

        def question() -> ExplainAnswer:
            pair = json_request(received, ExplainRequest)
            body = _body_of(pair, "key2", self._index)
            keys = {"key1": pair.key1, "key2": pair.key2 or pair.key1}
            n_chars = sum(n for (n,) in self._index.sql(LENGTHS, keys))
            n_chars += len(body) if isinstance(body, str) else 0
            explanation = self._index.explain(
                pair.key1, pair.key2, body=body, with_shingles=n_chars <= MOST_SHINGLED
            )
            return ExplainAnswer.of(explanation, self._index.params, pair.shingles)

        return await self._answer(question)

    async def clusters(
        self,
        threshold: Annotated[
            float | None, Query(allow_inf_nan=False, description="By default the index's own.")
        ] = None,
        min_size: Annotated[int, Query(ge=2)] = 2,
        offset: Annotated[
            int, Query(ge=0, le=MOST_OFFSET, description="Clusters to pass over.")
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 100,
        members: Annotated[int, Query(ge=1, le=MOST_LISTED, description="Most keys of each.")] = 20,
        sort: Annotated[
            Literal["size", "similarity", "-similarity", "date"],
            Query(description="Largest, most or least similar, or newest first."),
        ] = "size",
    ) -> Response:
        """List clusters, the largest first, from the pairs that `lshdb clusters` stored last."""

        def question() -> ClusterList:
            clusters = self._index.clusters(threshold=threshold, min_size=min_size, update=False)
            level = self._index.params.level
            if clusters.state.threshold == level and threshold in (
                None, self._index.params.threshold,
            ):  # fmt: skip
                ranked = self._ranked()
                order = ranked.chosen(sort, min_size=min_size)
                places = order[offset : offset + limit].tolist()
                return ClusterList(
                    clusters=[
                        ClusterAnswer(label=keys[0], size=int(ranked.sizes[place]), keys=keys)
                        for place in places
                        for keys in [self._keys(int(ranked.labels[place]), members)]
                    ],
                    next=offset + limit if offset + limit < len(order) else None,
                    batch=clusters.state.batch_id,
                )
            if sort != "size":
                raise ParameterError(
                    f"clusters are sorted by {sort} at the threshold of `lshdb clusters` alone",
                    hint="leave threshold or sort out",
                )
            page = list(islice(iter(clusters), offset, offset + limit + 1))
            return ClusterList(
                clusters=[ClusterAnswer.of(cluster, members) for cluster in page[:limit]],
                next=offset + limit if len(page) > limit else None,
                batch=clusters.state.batch_id,
            )

        return await self._answer(question)

    def _keys(self, label: int, most: int) -> list[str]:
        """Return the first documents of a cluster."""
        values = {"label": label, "most": most}
        return [row[0] for row in self._index.sql(CLUSTER_MEMBERS, values)]

    async def cluster(
        self, label: str, members: Annotated[int, Query(ge=1, le=MOST_LISTED)] = MOST_LISTED
    ) -> Response:
        """Show the stored cluster of a document, by its label or any member's key."""

        def question() -> ClusterAnswer:
            rows = list(self._index.sql(CLUSTER_OF_KEY, {"key": label}))
            if not rows:
                raise KeyNotFoundError(f"no cluster has the document {label!r}", key=label)
            keys = [
                key
                for (key,) in self._index.sql(CLUSTER_KEYS, {"label": rows[0][0], "most": members})
            ]
            return ClusterAnswer(label=rows[0][0], size=rows[0][1], keys=keys)

        return await self._answer(question)

    async def stats(self) -> Response:
        """Return the index's parameters, counts and sizes."""
        return await self._answer(lambda: StatsAnswer.of(self._index.stats()))

    async def health(self) -> Response:
        """Say whether the index can be read; needs no token."""
        return await self._counters.ask(lambda: _json(HealthAnswer(documents=len(self._index))))

    async def metrics(self) -> Response:
        """Return counts for Prometheus."""
        text = await self._counters.ask(self._metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


def _body(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body that a route reads itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _describe(app: FastAPI, *models: type[BaseModel]) -> None:
    """Add the bodies that routes read themselves to the description of an application."""
    describe_routes = app.openapi

    def describe() -> dict[str, Any]:
        description = describe_routes()
        schemas: dict[str, Any] = description["components"]["schemas"]
        for model in models:
            schemas.setdefault(model.__name__, model.model_json_schema())
        return description

    app.openapi = describe  # type: ignore[method-assign]


async def _json_body(request: Request) -> bytes:
    """Return the body of a request that says that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise HTTPException(415, "application/json")
    return await request.body()


def _json(answer: BaseModel, *, exclude_none: bool = False) -> Response:
    content = answer.model_dump_json(exclude_none=exclude_none)
    return Response(content, media_type="application/json")


def _body_of(request: QueryRequest | ExplainRequest, key: str, index: Index) -> Any:
    """Return the body of a request that has exactly one of text, vector and a key."""
    bodies = [request.text, request.vector, getattr(request, key)]
    if [body is None for body in bodies].count(False) != 1:
        more = ", or texts" if isinstance(request, QueryRequest) else ""
        raise ParameterError(f"give one of text, vector and {key}{more}")
    if request.vector is not None and index.params.kind.body == "text":
        raise ParameterError("the query has a vector, and this index holds texts")
    return request.body()


def _texts_of(request: QueryRequest) -> list[Any]:
    """Return the texts of a request of many, which may have no other query."""
    texts = request.texts or []
    if not request.text is request.vector is request.key is None:
        raise ParameterError("give one of text, vector and key, or texts")
    if None in texts:
        raise ParameterError(f"text {texts.index(None)} of texts is null", hint="give texts")
    if request.top * len(texts) > MOST_HITS:
        raise ParameterError(
            f"{len(texts):,} texts with top {request.top:,} may list more than {MOST_HITS:,} "
            "documents",
            hint="ask for fewer documents with 'top', or in several requests",
        )
    return texts


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
    if isinstance(error, _UNAVAILABLE):
        _log.error("%s", error)
        return _unreadable(request, name)
    if isinstance(error, KeyNotFoundError):
        status = 404
    elif isinstance(error, _CONFLICTS):
        status = 409
    return _error(request, status, ErrorAnswer(error=name, message=str(error), hint=hint))


async def _damaged(request: Request, error: Exception) -> Response:
    """Answer where the index holds a value that has no place in an answer."""
    _log.error("%s", error)
    answer = ErrorAnswer(
        error="DamageError",
        message="the index holds a value of another type than lshdb writes",
        hint="run lshdb check on the index",
    )
    return _error(request, 503, answer)


async def _unavailable(request: Request, error: Exception) -> Response:
    """Answer while no index at the path can be opened."""
    return _unreadable(request, type(error.__cause__).__name__)


def _unreadable(request: Request, name: str) -> Response:
    """Answer without the error's message: paths, hosts and roles are for the log alone.

    ``/health`` is answered to whoever asks.
    """
    answer = ErrorAnswer(
        error=name,
        message="the index is not at its place, or cannot be read now",
        hint="the server's log says more",
    )
    return _error(request, 503, answer)


async def _not_as_it_should_be(request: Request, error: Exception) -> Response:
    answer = ErrorAnswer(error="InvalidRequest", message=str(error), hint=_HINT)
    return _error(request, 400, answer)


async def _invalid(request: Request, error: Exception) -> Response:
    """Say which value of an address is invalid."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    message = message_of(first.get("loc", ())[1:], str(first.get("msg")))
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
    headers = dict(getattr(error, "headers", None) or {})
    if status == 415:
        answer = ErrorAnswer(
            error="UnsupportedType",
            message=f"the body has another type than {getattr(error, 'detail', '')}",
            hint="say what it is in the header Content-Type",
        )
    else:
        message = f"there is no {request.method} {request.url.path}"
        answer = ErrorAnswer(error="NoRoute", message=message, hint=_HINT)
    return _error(request, status, answer, **headers)


async def _failed(request: Request, _error_: Exception) -> Response:
    """Answer after a bug in the server; only its log gets the traceback."""
    return _error(
        request, 500, ErrorAnswer(error="InternalError", message="the server failed; see its log")
    )

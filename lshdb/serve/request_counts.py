"""Counts of requests and of the index, as Prometheus reads them.

A file of its own: everything that knows the names of the metrics, which dashboards depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "lshdb_requests", "Requests answered or refused.", ("route", "method", "status"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "lshdb_request_seconds", "Time from the request's head to the end of the answer.",
            ("route",), buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._in_flight = Gauge(
            "lshdb_requests_in_flight", "Requests that are being answered.", registry=self._registry
        )

    def count_index(self, counts: Callable[[], dict[str, float]]) -> None:
        """Add gauges that are read when the metrics are.

        Parameters
        ----------
        counts : callable
            Name to value; a name stands for ``lshdb_index_NAME``.
        """
        self._registry.register(_IndexCollector(counts))

    def begin(self) -> None:
        """Note a request."""
        self._in_flight.inc()

    def end(self, route: str, method: str, status: int, seconds: float) -> None:
        """Note the end of a request; the route is a pattern, so labels stay few."""
        self._in_flight.dec()
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _IndexCollector(Collector):
    def __init__(self, counts: Callable[[], dict[str, float]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in self._counts().items():
            yield GaugeMetricFamily(
                f"lshdb_index_{name}", f"{name.capitalize()} of the index.", value
            )

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing, so that registering reads no index."""
        return []

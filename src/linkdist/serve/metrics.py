"""What the service counts, for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Where several workers count together: the variable is the library's."""

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)


class Metrics:
    """The counters of one service.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("/v1/predict", 200, 0.003)
    >>> metrics.predicted("features", 2)
    >>> [line for line in metrics.text().decode().splitlines() if "rows_total{" in line]
    ['linkdist_rows_total{mode="features"} 2.0']
    """

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._requests = Counter(
            "linkdist_requests", "Requests, by path and status.", ["path", "status"], registry=own
        )
        self._seconds = Histogram(
            "linkdist_seconds", "From request to answer.", ["path"], buckets=SECONDS, registry=own
        )
        self._rows = Counter("linkdist_rows", "Rows predicted, by mode.", ["mode"], registry=own)
        self._batch = Histogram(
            "linkdist_batch_rows", "Rows computed together.", buckets=ROWS, registry=own
        )
        self._models = Counter(
            "linkdist_models", "Models put in place, and those refused.", ["outcome"], registry=own
        )

    def request(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def predicted(self, mode: str, rows: int) -> None:
        """Rows were predicted, from features or with links."""
        if rows:
            self._rows.labels(mode).inc(rows)

    def batch(self, rows: int) -> None:
        """Rows were computed together."""
        self._batch.observe(rows)

    def model(self, outcome: str) -> None:
        """A model was 'loaded' or 'refused'."""
        self._models.labels(outcome).inc()

    def text(self) -> bytes:
        """All of them, of every worker, as Prometheus reads them."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)

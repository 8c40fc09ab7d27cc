"""The counters of the service, for Prometheus."""

from __future__ import annotations

import os
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from linkdist.serve.drift import DriftGauges
from linkdist.serve.settings import SHARED

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)


class Metrics:
    """The counters of one service.

    Attributes
    ----------
    batch_rows : Histogram
        Rows of a batch.
    models : Counter
        Models that were 'loaded' or 'refused'.
    drift : DriftGauges
        How much the rows of requests differ from the training.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("/v1/predict", 200, 0.003)
    >>> metrics.predicted("features", 2)
    >>> [line for line in metrics.text().decode().splitlines() if "rows_total{" in line]
    ['linkdist_rows_total{mode="features"} 2.0']
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        about = "Requests, by path and status."
        self._requests = counter("linkdist_requests", about, ["path", "status"])
        about = "Seconds from request to answer."
        self._seconds = histogram("linkdist_seconds", about, ["path"], buckets=SECONDS)
        self._rows = counter("linkdist_rows", "Rows predicted, by mode.", ["mode"])
        self.batch_rows = histogram("linkdist_batch_rows", "Rows computed together.", buckets=ROWS)
        about = "Models that were loaded or refused."
        self.models = counter("linkdist_models", about, ["outcome"])
        self.drift = DriftGauges(self._registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def predicted(self, mode: str, rows: int) -> None:
        """Count rows that were predicted from 'features' or with 'links'."""
        if rows:
            self._rows.labels(mode).inc(rows)

    def text(self) -> bytes:
        """Return the counters of all workers in the format of Prometheus."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        workers = CollectorRegistry()
        MultiProcessCollector(workers)  # type: ignore[no-untyped-call]
        return generate_latest(workers)

"""Whether the rows of requests are like those of the training, as gauges for Prometheus.

No row is kept, only counts: those of the current window of N rows, and those of the window before.
The gauges show both together, the last N to 2 N rows. Rows are counted after the answers are sent.
If requests follow closely, only some of them are counted, so that counting takes at most a tenth of
the time. Tables and large requests, which other processes compute (`linkdist.serve.large`), are not
counted; `linkdist drift` compares a table.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from functools import partial

import numpy as np
from prometheus_client import CollectorRegistry, Gauge

from linkdist.errors import ModelError
from linkdist.inference.drift import compare
from linkdist.inference.drift_report import DriftReport
from linkdist.serve.schema import PredictionRequest
from linkdist.serve.served_model import ServedModel
from linkdist.serve.settings import SHARED
from linkdist.tables.column_summary import Counts, Summary, read_summary
from linkdist.tables.prediction_values import prediction_values

EVERY = 5.0
"""Seconds between two updates of the gauges, which cost more than counting."""

SHARE = 0.1
"""The largest share of the time that counting takes."""

log = logging.getLogger("linkdist.serve")


class DriftGauges:
    """Gauges of what has changed since the training; of several workers, the largest values.

    Parameters
    ----------
    registry : CollectorRegistry
        Where the gauges are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["column", "kind"]
        gauge = partial(Gauge, labelnames=labels, registry=registry, multiprocess_mode="livemax")
        self.psi = gauge("linkdist_drift_psi", "Population stability index of a column.")
        self.missing = gauge("linkdist_drift_missing", "Share of missing values.")
        self.unseen = gauge("linkdist_drift_unseen", "Share of values that training did not see.")
        about = "Correlation with related columns, as a share of that of the training."
        self.agreement = gauge("linkdist_drift_agreement", about)
        self.alarm = gauge("linkdist_drift_alarm", "1 if a column has an alarm, otherwise 0.")
        self.rows = Gauge(
            "linkdist_drift_rows", "Rows of small requests that were compared with the training.",
            registry=registry, multiprocess_mode="livesum",
        )  # fmt: skip

    def show(self, report: DriftReport) -> None:
        """Set the gauges."""
        self.rows.set(report.rows)
        for one in report.columns:
            names = one.name, one.kind
            self.psi.labels(*names).set(one.psi)
            self.missing.labels(*names).set(one.missing.now)
            self.alarm.labels(*names).set(bool(one.alarms))
            if one.unseen is not None:
                self.unseen.labels(*names).set(one.unseen.now)
            if one.agreement is not None:
                self.agreement.labels(*names).set(one.agreement.now / one.agreement.before)

    def clear(self) -> None:
        """Remove the columns of the previous model; with several workers, they stay."""
        self.rows.set(0)
        if SHARED not in os.environ:
            for gauge in (self.psi, self.missing, self.unseen, self.agreement, self.alarm):
                gauge.clear()


class DriftWatch:
    """Counts the rows of requests to one model.

    Parameters
    ----------
    model : ServedModel
        The model, which must have a summary of its training.
    rows : int
        N, the rows of a window.
    gauges : DriftGauges
        Show the comparison.
    every : float
        Seconds between two updates of the gauges.
    share : float
        The largest share of the time that counting takes.
    """

    def __init__(
        self,
        model: ServedModel,
        rows: int,
        gauges: DriftGauges,
        every: float = EVERY,
        share: float = SHARE,
    ) -> None:
        self._model, self._size, self._gauges = model, rows, gauges
        self._every, self._share = every, share
        self._summary: Summary = read_summary(model.header.about, model.header.encoders)
        self._now, self._before = self._counts(), self._counts()
        self._shown = self._free_from = -np.inf
        gauges.clear()

    def _counts(self) -> Counts:
        return Counts(self._summary, self._model.schema.encoders)

    def is_free(self) -> bool:
        """Whether counting has not taken too much time yet."""
        return time.monotonic() >= self._free_from

    def add(self, requests: Sequence[PredictionRequest], results: Sequence[object]) -> None:
        """Count the rows of requests with their results; never raises.

        Requests without a prediction are not counted. Predictions with links are not compared with
        those from features.
        """
        started = time.monotonic()
        try:
            pairs = zip(requests, results, strict=True)
            answered = [(one, p) for one, p in pairs if isinstance(p, np.ndarray) and one.rows]
            if answered:
                self._add(answered)
        except Exception:
            log.exception("unexpected error while rows were compared with the training")
        ended = time.monotonic()
        self._free_from = ended + (ended - started) * (1 / self._share - 1)

    def _add(self, answered: Sequence[tuple[PredictionRequest, object]]) -> None:
        columns = {
            name: [value for one, _ in answered for value in one.columns[name][: one.rows]]
            for name in self._model.schema.names
        }
        self._now.add(self._model.schema.arrays(columns))
        parts = [np.asarray(p) for one, p in answered if not len(one.links.pairs)]
        if parts:
            predicted = prediction_values(self._model.columns, np.concatenate(parts))
            self._now.add_predictions(predicted)
        if self._now.rows >= self._size:
            self._now, self._before = self._counts(), self._now
        if time.monotonic() - self._shown >= self._every:
            self._shown = time.monotonic()
            self._gauges.show(self.report())

    def report(self) -> DriftReport:
        """Compare the rows of both windows with the training."""
        both = self._counts()
        for part in (self._before, self._now):
            both.add_counts(part)
        return compare(both)


def make_watch(model: ServedModel, rows: int, gauges: DriftGauges) -> DriftWatch | None:
    """A watch of a model; None if it is off, or if the model has no summary of its training."""
    if not rows:
        return None
    try:
        return DriftWatch(model, rows, gauges)
    except ModelError as error:
        log.warning("rows are not compared with the training: %s", error)
        return None

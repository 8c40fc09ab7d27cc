"""The result of a comparison of a table with a model's training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Change:
    """A share or a mean in the training and in the table, or two counts of bins.

    Attributes
    ----------
    before, now : float
        The value in the training and in the table.
    psi : float
        The PSI of the shares; for agreement, the share that was lost.
    chance : float
        The probability of such a change by chance.
    """

    before: float
    now: float
    psi: float
    chance: float


@dataclass(frozen=True)
class Word:
    """A word, and the change of the share of rows that contain it."""

    name: str
    change: Change


@dataclass(frozen=True)
class Drift:
    """How a column, or a property of predictions, has changed.

    Attributes
    ----------
    name : str
        The column, or the property.
    kind : str
        The kind of the column, or 'prediction'.
    psi : float
        The PSI of its bins or, if it is larger, of the rows with and without one of its words.
    missing : Change
        The share of missing values.
    unseen : Change or None
        The share of unseen values; None for numbers.
    agreement : Change or None
        The agreement with related columns; None if there are none.
    word : Word or None
        The word that has changed most; None if the column has no words.
    alarms : tuple of str
        What has changed, in words; empty if there is no alarm.
    labels : list of str
        Names of the bins.
    before, now : list of float
        The share of rows in each bin, in the training and in the table.
    """

    name: str
    kind: str
    psi: float
    missing: Change
    unseen: Change | None
    agreement: Change | None
    word: Word | None
    alarms: tuple[str, ...]
    labels: list[str]
    before: list[float]
    now: list[float]

    def as_json(self) -> dict[str, Any]:
        """All numbers, as JSON values."""
        found: dict[str, Any] = {"name": self.name, "kind": self.kind, "psi": round(self.psi, 6)}
        for name in ("missing", "unseen", "agreement"):
            change: Change | None = getattr(self, name)
            if change is not None:
                found[name] = {"before": round(change.before, 6), "now": round(change.now, 6)}
        if self.word is not None:
            shares = {"before": self.word.change.before, "now": self.word.change.now}
            found["word"] = {"name": self.word.name, **shares}
        bins = zip(self.labels, self.before, self.now, strict=True)
        found["bins"] = [{"bin": bin, "before": b, "now": n} for bin, b, n in bins]
        return {**found, "alarms": list(self.alarms)}


@dataclass(frozen=True)
class DriftReport:
    """The comparison of a table with the training.

    Attributes
    ----------
    rows : int
        Number of rows of the table.
    mode : {'features', 'links'}
        How the rows were predicted.
    threshold : float
        The PSI above which there may be an alarm.
    columns : list of Drift
        The columns and the properties of predictions, the worst first.
    notes : tuple of str
        What could not be compared, in sentences.
    """

    rows: int
    mode: str
    threshold: float
    columns: list[Drift]
    notes: tuple[str, ...] = ()

    @property
    def alarms(self) -> list[str]:
        """Names of the columns and properties with an alarm, the worst first."""
        return [one.name for one in self.columns if one.alarms]

    def as_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        columns = [one.as_json() for one in self.columns]
        about = {"rows": self.rows, "mode": self.mode, "threshold": self.threshold}
        return {**about, "alarms": self.alarms, "columns": columns, "notes": list(self.notes)}

    def __str__(self) -> str:
        """The alarms in sentences."""
        if not self.alarms:
            return f"No alarm: {self.rows} rows are like those of the training."
        found = [f"{one.name}: {', '.join(one.alarms)}" for one in self.columns if one.alarms]
        plural = "s" * (len(found) != 1)
        return "\n".join([f"{len(found)} alarm{plural} in {self.rows} rows", *found])

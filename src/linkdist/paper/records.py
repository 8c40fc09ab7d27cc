"""Read and validate the results of a reproduction: results.json and run.json.

`results.json` is a list of records. A record is one cell of the paper's tables: a data set, a
setting, a method and the test accuracy of each run in percent. `run.json` is optional; it describes
how the records were made and why data sets are missing. The error for an invalid file lists all
problems at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from linkdist.data.splits import SETTINGS
from linkdist.errors import DataError
from linkdist.paper.published import METHODS, Published, Verdict, published


@dataclass(frozen=True)
class Record:
    """The result of one cell.

    Attributes
    ----------
    dataset, setting, method : str
        The cell.
    scores : tuple of float
        Test accuracy of each run in percent.
    mean, std : float
        Mean and standard deviation of the scores.
    seconds : float
        Training time. Records that come from the same training have the same time.
    device, precision : str
        Where and how precisely the training computed.
    sum_of_logits : tuple of float, optional
        Scores of the same runs if message passing sums logits, as in the paper's equation.
    """

    dataset: str
    setting: str
    method: str
    scores: tuple[float, ...]
    mean: float
    std: float
    seconds: float
    device: str
    precision: str | None = None
    sum_of_logits: tuple[float, ...] | None = None

    @property
    def published(self) -> Published | None:
        """The published result of this cell."""
        return published(self.dataset, self.setting, self.method)

    @property
    def deviation(self) -> float | None:
        """Our mean minus the published mean."""
        return self.published.deviation(self.mean) if self.published else None

    @property
    def verdict(self) -> Verdict | None:
        """Whether our mean is above, within or below tolerance."""
        return self.published.verdict(self.mean) if self.published else None


@dataclass(frozen=True)
class Run:
    """How records were made, and why data sets are missing, as text by name."""

    made: Mapping[str, str] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_amount(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < math.inf


def _is_percent(value: object) -> bool:
    return _is_amount(value) and value <= 100


def _are_percents(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_percent, value))


RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "dataset": (_is_text, "a name"),
    "setting": (SETTINGS.__contains__, f"one of {', '.join(SETTINGS)}"),
    "method": (METHODS.__contains__, f"one of {', '.join(METHODS)}"),
    "scores": (_are_percents, "a list of accuracies from 0 to 100"),
    "mean": (_is_percent, "an accuracy from 0 to 100"),
    "std": (_is_amount, "a number, 0 or more"),
    "seconds": (_is_amount, "a number, 0 or more"),
    "device": (_is_text, "a name"),
    "precision": (_is_text, "a name, if it is there"),
    "sum_of_logits": (_are_percents, "a list of accuracies from 0 to 100, if it is there"),
}
OPTIONAL = ("precision", "sum_of_logits")
RUN_AGAIN = "Run the experiments into this folder again."


def read_records(path: Path) -> list[Record]:
    """Read the records of a reproduction.

    Parameters
    ----------
    path : Path
        A `results.json`: a list of objects with the keys of `RULES`; other keys are ignored.

    Raises
    ------
    DataError
        If the file is missing or invalid, or contains a cell twice.

    Examples
    --------
    >>> read_records(Path("nowhere/results.json"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    linkdist.errors.DataError: nowhere/results.json cannot be read: No such file or directory...
    """
    items = _read_json(path)
    if not isinstance(items, list) or not items:
        found = f"found {_short(items)}. {RUN_AGAIN}"
        raise DataError(f"{path} must be a list of one record or more; {found}")
    problems = [
        f"\n  record {i + 1}: {problem}"
        for i, item in enumerate(items)
        for problem in _problems(item, items[:i])
    ]
    if problems:
        raise DataError(f"{path} is not a list of results:{''.join(problems)}\n{RUN_AGAIN}")
    return [_record(item) for item in items]


def read_run(path: Path) -> Run:
    """Read how a reproduction was made; the result is empty if the file is missing.

    Parameters
    ----------
    path : Path
        A `run.json`: an object. Its optional key `not_run` has a reason for each missing data set.
        All other values are converted to text: `{"gpu": {"name": "H200"}}` under `machine` becomes
        "gpu name H200".

    Raises
    ------
    DataError
        If the file is invalid.

    Examples
    --------
    >>> read_run(Path("nowhere/run.json"))
    Run(made={}, not_run={})
    """
    if not path.exists():
        return Run()
    made = _read_json(path)
    if not isinstance(made, dict):
        raise DataError(f"{path} must be an object; found {_short(made)}. Correct or remove it.")
    not_run = made.pop("not_run", {})
    if not isinstance(not_run, dict) or not all(map(_is_text, not_run.values())):
        rule = "must give a reason for each data set"
        raise DataError(f"not_run in {path} {rule}; found {_short(not_run)}. Correct or remove it.")
    words = {key.replace("_", " "): " · ".join(_leaves(item)) for key, item in made.items()}
    return Run(words, not_run)


def _leaves(value: object, path: str = "") -> Iterator[str]:
    """Yield the leaves of a nested value as text, each after the names that lead to it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}{key.replace('_', ' ')} ")
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, path)
    else:
        yield path + (value if isinstance(value, str) else json.dumps(value))


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. {RUN_AGAIN}") from error
    except ValueError as error:
        raise DataError(f"{path} must be JSON; found: {error}. {RUN_AGAIN}") from error


def _problems(item: object, before: Sequence[object]) -> list[str]:
    if not isinstance(item, dict):
        return [f"must be an object; found {_short(item)}."]
    problems = [
        f"{key} must be {rule}; found {_short(item.get(key))}."
        for key, (holds, rule) in RULES.items()
        if not holds(item.get(key)) and not (key in OPTIONAL and item.get(key) is None)
    ]
    return problems or _misfits(item, before)


def _misfits(item: Mapping[str, Any], before: Sequence[object]) -> list[str]:
    scores, sums = item["scores"], item.get("sum_of_logits")
    misfits = []
    if abs(item["mean"] - math.fsum(scores) / len(scores)) > 0.05:
        misfits.append(f"mean must be the mean of scores; found {item['mean']}.")
    if sums and len(sums) != len(scores):
        misfits.append(f"sum_of_logits must be as long as scores; found {len(sums)} accuracies.")
    if _cell(item) in map(_cell, before):
        cell = " / ".join(_cell(item))
        misfits.append(f"{cell} must occur once; an earlier record has it, too.")
    return misfits


def _cell(item: object) -> list[Any]:
    keys = ("dataset", "setting", "method")
    return [item.get(key) for key in keys] if isinstance(item, Mapping) else []


def _record(item: Mapping[str, Any]) -> Record:
    values: dict[str, Any] = {key: item.get(key) for key in RULES}
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    return Record(**values | lists)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

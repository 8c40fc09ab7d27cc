"""Read and validate the results of a reproduction: results.json and run.json.

`results.json` is a list of records. A record is one cell of the paper's tables: a data set, a
setting, a method and the test accuracy of each run in percent. `run.json` is optional; it describes
how the records were made and why data sets are missing. The error for an invalid file lists all
problems at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from linkdist.data.splits import SETTINGS
from linkdist.errors import DataError
from linkdist.paper.published import METHODS, Published, Verdict, published


def _one_of(names: Sequence[str]) -> Any:  # noqa: ANN401
    return Field(pattern=f"^({'|'.join(names)})$", description=f"one of {', '.join(names)}")


# A description is the rule that the message about an invalid value states.
Number = Annotated[float, Field(ge=0, strict=True, description="a number, 0 or more")]
Percent = Annotated[Number, Field(le=100, description="an accuracy from 0 to 100")]
Text = Annotated[str, Field(pattern=r"\S", strict=True, description="a name")]
ACCURACIES = "a list of accuracies from 0 to 100"
SUMS = f"{ACCURACIES}, if it is there"
Scores = Annotated[tuple[Percent, ...], Field(min_length=1, description=ACCURACIES)]


@validated(frozen=True, config=ConfigDict(allow_inf_nan=False, extra="ignore"))
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

    dataset: Text
    setting: Annotated[str, _one_of(SETTINGS)]
    method: Annotated[str, _one_of(METHODS)]
    scores: Scores
    mean: Percent
    std: Number
    seconds: Number
    device: Text
    precision: Annotated[Text | None, Field(description="a name, if it is there")] = None
    sum_of_logits: Annotated[Scores | None, Field(description=SUMS)] = None

    @property
    def cell(self) -> tuple[str, str, str]:
        """Data set, setting and method."""
        return self.dataset, self.setting, self.method

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


RECORD = TypeAdapter(Record)
RUN_AGAIN = "Run the experiments into this folder again."


def read_records(path: Path) -> list[Record]:
    """Read the records of a reproduction.

    Parameters
    ----------
    path : Path
        A `results.json`: a list of objects with the fields of `Record`; other keys are ignored.

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
        rule = f"must be a list of one record or more; found {_short(items)}"
        raise DataError(f"{path} {rule}. {RUN_AGAIN}")
    records: list[Record] = []
    problems: list[str] = []
    for number, item in enumerate(items, start=1):
        try:
            record = RECORD.validate_python(item)
        except ValidationError as error:
            found = _problems(item, error)
        else:
            found = _misfits(record, records)
            records.append(record)
        problems += [f"\n  record {number}: {problem}" for problem in found]
    if problems:
        raise DataError(f"{path} is not a list of results:{''.join(problems)}\n{RUN_AGAIN}")
    return records


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
    if not isinstance(not_run, dict) or not all(
        isinstance(why, str) and why.strip() for why in not_run.values()
    ):
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


def _problems(item: object, error: ValidationError) -> list[str]:
    if not isinstance(item, dict):
        return [f"must be an object; found {_short(item)}."]
    fields = RECORD.json_schema()["properties"]
    wrong = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors())
    return [
        f"{key} must be {fields[key]['description']}; found {_short(item.get(key))}."
        for key in wrong
    ]


def _misfits(record: Record, before: list[Record]) -> list[str]:
    scores, sums = record.scores, record.sum_of_logits
    misfits = []
    if abs(record.mean - math.fsum(scores) / len(scores)) > 0.05:
        misfits.append(f"mean must be the mean of scores; found {record.mean}.")
    if sums and len(sums) != len(scores):
        misfits.append(f"sum_of_logits must be as long as scores; found {len(sums)} accuracies.")
    if any(record.cell == other.cell for other in before):
        cell = " / ".join(record.cell)
        misfits.append(f"{cell} must occur once; an earlier record has it, too.")
    return misfits


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

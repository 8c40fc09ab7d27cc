"""The request schema of a served model, built from the model's columns.

`RequestSchema` makes a pydantic model of a row. The OpenAPI document shows it, and the rows of a
request are validated with it. Text in a numeric column is read by the function that reads a table.

Nothing in a request body is trusted. All problems are reported at once, by column and row. Rows
are numbered from 1, as in a table; positions in links are numbered from 0, as in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated, Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    create_model,
)

from linkdist.artifacts.manifest import Header
from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.errors import TableError
from linkdist.serve.errors import RefusedError
from linkdist.tables.encoders import FAR, Categorical, Encoder, Numeric, standardised
from linkdist.tables.schema import as_numbers, text_of
from linkdist.tables.validation import SHOWN, Problems

KEYS = ("rows", "neighbours", "links")

MOST_PROBLEMS = 1000
"""Reading stops after so many wrong values: a hostile request must not take long to refuse."""

LONGEST_NAME = 60
"""Unknown names that are longer are cut, and no similar column is searched for."""

Number = Annotated[float, Field(strict=True, ge=-FAR, le=FAR)]
# With a limit on its length, pydantic refuses text that is not valid Unicode.
Text = Annotated[StrictStr, Field(min_length=0)]
Position = Annotated[int, Field(ge=0)]
Links: TypeAlias = npt.NDArray[np.int64]

Columns: TypeAlias = dict[str, list[Any]]
"""Values by column name. The key '' holds the rows of a model that has no columns."""

DESCRIPTIONS = {
    "numeric": "A number, or a date such as 2004-05-31.",
    "categorical": "One value. A value that was not in the training table counts as missing.",
    "text": "Text.",
    "vector": "A list of numbers. An empty list counts as missing.",
}

DATE = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII
)
TIME = re.compile(r"\d\d:\d\d(:\d\d)?", re.ASCII)
TRUTH = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


class Prediction(BaseModel):
    """The predicted class of a row."""

    label: str
    confidence: Annotated[float, Field(ge=0, le=1, description="The label's probability.")]
    probabilities: dict[str, float]
    mode: Annotated[
        Literal["features", "links"], Field(description="'links' if the row has a link.")
    ]


class Answer(BaseModel):
    """Predictions in the order of the rows."""

    version: Annotated[str, Field(description="The version of the model that answered.")]
    predictions: list[Prediction]


@dataclass(frozen=True)
class PredictionRequest:
    """A validated request.

    Attributes
    ----------
    columns : Columns
        The values of the rows, followed by those of the neighbours.
    rows : int
        Number of rows to predict.
    count : int
        Number of rows and neighbours.
    links : (m, 2) array of int
        Pairs of positions.
    """

    columns: Columns
    rows: int
    count: int
    links: Links


class RequestSchema:
    """The schema of the requests to one model.

    Parameters
    ----------
    header : Header
        The header of the model.

    Attributes
    ----------
    model : type of BaseModel
        The pydantic model of a request, for the OpenAPI document.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self.encoders = () if header.encoders is None else header.encoders.columns
        self.names = [encoder.name for encoder in self.encoders]
        beside = (header.about.get(key) for key in ("id", "label"))
        self._ignored = {name for name in beside if isinstance(name, str)} - set(self.names)
        row = self._row_of_numbers() if header.encoders is None else self._row_of_columns()
        self._row: TypeAdapter[Any] = TypeAdapter(row)
        self.model = _request_model(row, self._example())

    def _row_of_columns(self) -> type[BaseModel]:
        """A pydantic model with a field for each column.

        Any text may name a column, so the columns' names are aliases of the fields.
        """
        fields: dict[str, Any] = {
            _field(k): (
                _type(encoder) | None,
                Field(None, alias=encoder.name, description=DESCRIPTIONS[encoder.kind]),
            )
            for k, encoder in enumerate(self.encoders)
        }
        for k, name in enumerate(sorted(self._ignored)):
            fields[f"ignored_{k}"] = (Any, Field(None, alias=name, description="Not used."))
        # Unknown columns are refused in `_check_names`: one error for each name, not for each row.
        config = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})
        about = "The values of a node; null, or left out, where a value is missing."
        return create_model("Row", __config__=config, __doc__=about, **fields)

    def _row_of_numbers(self) -> Any:  # noqa: ANN401
        d = self.header.shape.features
        return Annotated[list[Number], Field(min_length=d, max_length=d)]

    def _example(self) -> dict[str, Any]:
        if self.header.encoders is None:
            row: Any = [0.0] * self.header.shape.features
        else:
            row = {encoder.name: _example(encoder) for encoder in self.encoders}
        return {"rows": [row], "neighbours": [row], "links": [[0, 1]]}

    def read(self, body: bytes, max_rows: int) -> PredictionRequest:
        """Read and validate the JSON body of a request.

        Parameters
        ----------
        body : bytes
            The body.
        max_rows : int
            The largest number of rows and neighbours.

        Raises
        ------
        RefusedError
            With all problems.
        """
        request = _parse(body)
        rows, neighbours = (_list(request, key, max_rows) for key in KEYS[:2])
        if not rows:
            raise RefusedError(422, "'rows' must hold one row or more; found none.")
        nodes = rows + neighbours
        if len(nodes) > max_rows:
            rule = f"a request may hold {max_rows:,} rows and neighbours"
            raise RefusedError(413, f"{rule}; found {len(nodes):,}. Send several requests.")
        columns = self._columns(nodes)
        links = _links(_list(request, "links", 10 * max_rows), len(nodes))
        return PredictionRequest(columns, len(rows), len(nodes), links)

    def encode(self, columns: Columns) -> FeatureMatrix:
        """Encode columns that `read` returned, of one request or of several joined ones.

        Returns
        -------
        (n, d) float32 array or CSR matrix
            The features.
        """
        if self.header.encoders is None:
            return np.array(columns[""], dtype=np.float32)
        blocks: list[FeatureMatrix] = []
        for is_numeric, group in groupby(self.encoders, lambda encoder: encoder.kind == "numeric"):
            if is_numeric:  # all at once, since a request has few rows
                blocks.append(_standardise(list(group), columns))
            else:
                blocks += [one.encode(_arrow(one, columns[one.name])) for one in group]
        return self.header.encoders.side_by_side(blocks, blocks[0].shape[0])

    def _columns(self, nodes: Sequence[Any]) -> Columns:
        """Validate all rows and return their values by column."""
        general, by_column = Problems(), {name: Problems() for name in self.names}
        self._check_names(nodes, general)
        valid = self._validate(nodes, general, by_column)
        if self.header.encoders is None:
            _refuse(general, {})
            return {"": valid}
        columns: Columns = {}
        for k, encoder in enumerate(self.encoders):
            field, name = _field(k), encoder.name
            values = [getattr(row, field, None) for row in valid]
            if encoder.kind == "numeric":
                wrong = _read_numbers(values)
                shown = [nodes[place][name] for place in wrong]
                by_column[name].rows(_rule(encoder), [place + 1 for place in wrong], shown)
            elif encoder.kind != "vector":
                values = _spell(values)
            columns[name] = values
        _refuse(general, by_column)
        return columns

    def _validate(
        self, nodes: Sequence[Any], general: Problems, by_column: Mapping[str, Problems]
    ) -> list[Any]:
        """Validate rows one by one; wrong values and rows become None."""
        rules = {encoder.name: _rule(encoder) for encoder in self.encoders}
        valid: list[Any] = []
        problems = 0
        for place, node in enumerate(nodes):
            try:
                valid.append(self._row.validate_python(node))
            except ValidationError as error:
                wrong = self._wrong_columns(error) if isinstance(node, dict) else ()
                for name in wrong:
                    by_column[name].rows(rules[name], [place + 1], [node[name]])
                if wrong:  # the other values of the row are still to be checked
                    rest = {name: value for name, value in node.items() if name not in wrong}
                    valid.append(self._row.validate_python(rest))
                else:
                    valid.append(None)
                    general.rows(self._row_rule(), [place + 1], [self._shown(node)])
                problems += max(1, len(wrong))
                if problems >= MOST_PROBLEMS:
                    general.add(f"reading stopped at row {place + 1}: too many values are wrong")
                    break
                continue
            if self.names and all(node.get(name) is None for name in self.names):
                columns = ", ".join(self.names)
                rule = f"a row must have a value in one column or more; columns are {columns}"
                general.rows(rule, [place + 1], [node])
        return valid

    def _wrong_columns(self, error: ValidationError) -> list[str]:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return list(dict.fromkeys(str(one["loc"][0]) for one in found))

    def _check_names(self, nodes: Sequence[Any], problems: Problems) -> None:
        if self.header.encoders is None:
            return
        found = set().union(*(node for node in nodes if isinstance(node, dict)))
        unknown = sorted(found.difference(self.names, self._ignored))
        problems.names("column", map(_cut, unknown[:SHOWN]), self.names)
        if len(unknown) > SHOWN:
            problems.add(f"there are {len(unknown):,} unknown columns in all")

    def _row_rule(self) -> str:
        if self.header.encoders is not None:
            return "a row must be an object with a value for each column"
        d = self.header.shape.features
        return f"a row must be a list of {d} finite numbers, since the model has no columns"

    def _shown(self, node: object) -> object:
        d = self.header.shape.features
        is_other_length = not self.names and isinstance(node, list) and len(node) != d
        return f"{len(node)} entries" if is_other_length else node  # type: ignore[arg-type]


def answer(header: Header, request: PredictionRequest, p: FloatArray) -> tuple[bytes, int]:
    """Write the answer to a request.

    Parameters
    ----------
    header : Header
        The header of the model.
    request : PredictionRequest
        The request.
    p : (rows, C) array
        The probabilities of its rows.

    Returns
    -------
    content : bytes
        An `Answer` as JSON.
    with_links : int
        The number of rows that were predicted with links.
    """
    ends = request.links[request.links[:, 0] != request.links[:, 1]]
    linked = np.isin(np.arange(request.rows), ends).tolist()
    rounded = np.round(p.astype(np.float64), 6).tolist()
    # The label is that of the exact probabilities: rounded ones may be equal.
    best = p.argmax(axis=1).tolist()
    predictions = [
        {
            "label": header.classes[k],
            "confidence": row[k],
            "probabilities": dict(zip(header.classes, row, strict=True)),
            "mode": "links" if has_link else "features",
        }
        for k, row, has_link in zip(best, rounded, linked, strict=True)
    ]
    content = json.dumps({"version": header.version, "predictions": predictions})
    return content.encode(), sum(linked)


def _request_model(row: Any, example: dict[str, Any]) -> type[BaseModel]:  # noqa: ANN401
    pair = Annotated[list[Position], Field(min_length=2, max_length=2)]
    further = "Further nodes. They are not predicted; links to them are used."
    positions = "Pairs of positions: rows are numbered from 0, and neighbours follow the rows."
    config = ConfigDict(extra="forbid", json_schema_extra={"example": example})
    return create_model(
        "Request",
        __config__=config,
        __doc__="Nodes to classify, and their links if they are known.",
        rows=(list[row], Field(min_length=1, description="The nodes to classify.")),
        neighbours=(list[row], Field([], description=further)),
        links=(list[pair], Field([], description=positions)),
    )


def _field(k: int) -> str:
    return f"column_{k}"


def _type(encoder: Encoder) -> Any:  # noqa: ANN401
    """The JSON types that a column takes."""
    if encoder.kind == "numeric":
        return Number | StrictBool | Text
    if encoder.kind != "vector":
        return Text | StrictBool | StrictInt | Number
    if not encoder.width:
        return list[Number]
    full = Field(min_length=encoder.width, max_length=encoder.width)
    return Annotated[list[Number], full] | Annotated[list[Number], Field(max_length=0)]


def _rule(encoder: Encoder) -> str:
    held = {
        "numeric": "finite numbers, or dates like 2004-05-31",
        "categorical": "one value a row",
        "text": "text",
        "vector": f"vectors of length {encoder.width}, of finite numbers",
    }
    return f"{_cut(encoder.name)!r} must hold {held[encoder.kind]}"


def _example(encoder: Encoder) -> Any:  # noqa: ANN401
    if isinstance(encoder, Numeric):
        return float(f"{encoder.mean:.4g}")
    if isinstance(encoder, Categorical):
        return encoder.categories[0] if encoder.categories else "a"
    return [0.0] * encoder.width if encoder.kind == "vector" else "some words"


def _parse(body: bytes) -> dict[str, Any]:
    try:
        request = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise RefusedError(400, "the JSON is nested too deeply; rows are flat.") from None
    except ValueError as error:  # also raised for bytes that are not UTF-8
        raise RefusedError(400, f"the body must be JSON in UTF-8: {error}.") from None
    if not isinstance(request, dict):
        found = _json_type(request)
        raise RefusedError(422, f"the body must be a JSON object with 'rows'; found {found}.")
    unknown = sorted(request.keys() - set(KEYS))
    if unknown:
        names = ", ".join(repr(_cut(name)) for name in unknown[:SHOWN])
        raise RefusedError(422, f"unknown key {names}; known are {', '.join(KEYS)}.")
    return request


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number; send null where a value is missing")


def _list(request: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = request.get(key, [])
    if not isinstance(value, list):
        raise RefusedError(422, f"{key!r} must be a list; found {_json_type(value)}.")
    if len(value) > most:
        found = f"{key!r} holds {len(value):,}"
        raise RefusedError(413, f"{found}; a request may hold {most:,}. Send several requests.")
    return value


def _links(pairs: Sequence[Any], count: int) -> Links:
    wrong = [place for place, pair in enumerate(pairs) if not _is_link(pair, count)]
    if wrong:
        shown = ", ".join(f"link {k} is {_cut(json.dumps(pairs[k]))}" for k in wrong[:SHOWN])
        total = f", {len(wrong)} such in all" if len(wrong) > SHOWN else ""
        rule = f"a link must be two positions from 0 to {count - 1}, rows before neighbours"
        raise RefusedError(422, f"{rule}; {shown}{total}.")
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _is_link(pair: object, count: int) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    return all(type(end) is int and 0 <= end < count for end in pair)


def _read_numbers(values: list[Any]) -> list[int]:
    """Read text in a numeric column in place; return where it is neither number nor date.

    A table reads text by `as_numbers`, too, and dates, times and truth values by Arrow's CSV
    reader. Those formats are written out here, since Arrow reads whole columns only.
    """
    places = [place for place, value in enumerate(values) if isinstance(value, str)]
    if not places:
        return []
    texts = [values[place] for place in places]
    numbers, is_wrong = as_numbers(pa.array(texts, pa.string()))
    wrong = []
    read = zip(places, texts, numbers.tolist(), is_wrong.tolist(), strict=True)
    for place, text, number, is_text in read:
        value = _seconds(text.strip()) if is_text else number
        if value is None or abs(value) > FAR:
            wrong.append(place)
        else:
            values[place] = value
    return wrong


def _seconds(text: str) -> float | None:
    """Read a date as seconds since 1970, a time as seconds since midnight, a truth value as 0, 1.

    Examples
    --------
    >>> [_seconds(text) for text in ("1970-01-02", "00:01", "true", "soon")]
    [86400.0, 60.0, 1.0, None]
    """
    if TIME.fullmatch(text):
        text = f"1970-01-01 {text}"
    if not DATE.fullmatch(text):
        return TRUTH.get(text)
    try:
        date = datetime.fromisoformat(text)
    except ValueError:  # such as the 31st of February
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _spell(values: Sequence[Any]) -> list[str | None]:
    """Numbers and truth values as text, as a table spells them."""
    spelled = [str(value) if type(value) is int else value for value in values]
    for kind, arrow in ((float, pa.float64()), (bool, pa.bool_())):
        places = [place for place, value in enumerate(values) if type(value) is kind]
        if places:
            texts = text_of(pa.array([values[place] for place in places], arrow)).to_pylist()
            for place, text in zip(places, texts, strict=True):
                spelled[place] = text
    return spelled


def _arrow(encoder: Encoder, values: Sequence[Any]) -> pa.Array:
    is_vector = encoder.kind == "vector"
    return pa.array(values, pa.list_(pa.float64()) if is_vector else pa.large_string())


def _standardise(encoders: Sequence[Encoder], columns: Columns) -> FloatArray:
    """The features of numeric columns, (n, width); None becomes NaN, which means missing."""
    x = np.array([columns[one.name] for one in encoders], dtype=np.float64).T
    numeric = [one for one in encoders if isinstance(one, Numeric)]
    mean = np.array([one.mean for one in numeric])
    return standardised(x, mean, np.array([one.deviation for one in numeric]))


def _refuse(general: Problems, by_column: Mapping[str, Problems]) -> None:
    """Refuse the request if there is a problem."""
    columns = {name: _sentences(found) for name, found in by_column.items() if found}
    text = " ".join(filter(None, [_sentences(general), *columns.values()]))
    if text:
        raise RefusedError(422, text, columns)


def _sentences(problems: Problems) -> str:
    try:
        problems.check()
    except TableError as error:
        return str(error)
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    return "null" if value is None else names.get(type(value), "a number")

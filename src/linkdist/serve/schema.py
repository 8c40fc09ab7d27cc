"""The request schema of a served model, built from the model's columns.

`RequestSchema` makes a pydantic model of a row. The OpenAPI document shows it, and the rows of a
request are validated with it. The encoders of tables read their values (see
`linkdist.serve.json_values`), so a value counts as missing, unseen or wrong as in a table.

Nothing in a request body is trusted. All problems are reported at once, by column and row. Rows
are numbered from 1, as in a table; positions in links are numbered from 0, as in JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from linkdist.artifacts.manifest import Header
from linkdist.data.graph import FeatureMatrix, FloatArray
from linkdist.data.links import Links
from linkdist.errors import TableError
from linkdist.serve.errors import RefusedError
from linkdist.serve.json_values import are_clean, as_column, column_type
from linkdist.serve.link_schema import LinkSchema, cut
from linkdist.tables.bag_encoders import Categorical, Tags
from linkdist.tables.encoders import FAR, Encoder, Numeric
from linkdist.tables.standardise import standardise
from linkdist.tables.validation import SHOWN, Problems

KEYS = ("rows", "neighbours", "links")

MOST_PROBLEMS = 100
"""Reading stops after so many wrong values: a hostile request must not take long to refuse."""

WITHOUT_WEIGHTS = (
    "The model was trained with weights of links. The links of this request have no weights, so "
    "all of them weigh the same."
)

Number = Annotated[float, Field(strict=True)]
Finite = Annotated[float, Field(strict=True, ge=-FAR, le=FAR)]
Whole = Annotated[int, Field(strict=True)]
Truth = Annotated[bool, Field(strict=True)]
# With a limit on its length, pydantic refuses text that is not valid Unicode.
Text = Annotated[str, Field(strict=True, min_length=0)]

Columns: TypeAlias = dict[str, list[Any]]
"""Values by column name. The key '' holds the rows of a model that has no columns."""

DESCRIPTIONS = {
    "numeric": "A number; also as text, such as '$1,200' or '7 %', or a date such as 2004-05-31.",
    "date": "A date as in the training table, or ISO, such as 2004-05-31 or 2004-05-31T12:00.",
    "categorical": "One value. A value that was not in the training table counts as missing.",
    "text": "Text.",
    "tags": "A list of tags, or text in which they are separated as in the training table.",
    "tags:binary": "A list of tags, or text in which they are separated as in the training table.",
    "vector": "A list of numbers. An empty list counts as missing.",
}


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
    links : Links
        Links between positions, with the relations of the model.
    notices : list of str
        A sentence for each column with values that are missing, unseen or unsuitable, and one if
        links have no weights but those of the training had.
    """

    columns: Columns
    rows: int
    count: int
    links: Links
    notices: list[str]


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
    example : dict
        A request that is answered.
    """

    def __init__(self, header: Header) -> None:
        self.header = header
        self.encoders = () if header.encoders is None else header.encoders.columns
        self._fields = {f"column_{k}": encoder for k, encoder in enumerate(self.encoders)}
        self._rules = {encoder.name: _rule(encoder) for encoder in self.encoders}
        self._known = {encoder.name: frozenset(known_values(encoder)) for encoder in self.encoders}
        self.names = list(self._rules)
        roles = map(header.columns, ("id", "label", "graph"))
        self._ignored = {name for names in roles for name in names} - set(self.names)
        self._links = LinkSchema(header)
        row: Any
        example: Any
        if header.encoders is None:
            d = header.shape.features
            row, example = Annotated[list[Finite], Field(min_length=d, max_length=d)], [0.0] * d
            held = f"a list of {d} finite numbers, since the model has no columns"
        else:
            row = self._row_of_columns()
            example = {encoder.name: encoder.example() for encoder in self.encoders}
            held = "an object with a value for each column"
        self._row_rule = f"a row must be {held}"
        columns = ", ".join(self.names)
        self._empty_rule = f"a row must have a value in one column or more; columns are {columns}"
        self._row: TypeAdapter[Any] = TypeAdapter(row)
        link = self._links.example
        self.example = {"rows": [example], "neighbours": [example], "links": [link]}
        self.model = _request_model(row, self.example, self._links)

    def _row_of_columns(self) -> type[BaseModel]:
        """A pydantic model with a field for each column.

        Any text may name a column, so the columns' names are aliases of the fields.
        """
        fields: dict[str, Any] = {}
        for field, encoder in self._fields.items():
            about = Field(None, alias=encoder.name, description=DESCRIPTIONS[encoder.kind])
            fields[field] = (_type(encoder) | None, about)
        for k, name in enumerate(sorted(self._ignored)):
            fields[f"ignored_{k}"] = (Any, Field(None, alias=name, description="Not used."))
        # Unknown columns are refused in `_check_names`: one error for each name, not for each row.
        config = ConfigDict(extra="ignore", json_schema_extra={"additionalProperties": False})
        doc = "The values of a node; null, or left out, where a value is missing."
        return create_model("Row", __config__=config, __doc__=doc, **fields)

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
        general, by_column = Problems(), {name: Problems() for name in self.names}
        columns = self._columns(nodes, general, by_column)
        links = self._links.read(_list(request, "links", 10 * max_rows), len(nodes), general)
        _refuse(general, by_column)
        notices = [notice for problems in by_column.values() for notice in problems.notices()]
        if self._links.is_weighted and len(links.pairs) and links.weights is None:
            notices.append(WITHOUT_WEIGHTS)
        return PredictionRequest(columns, len(rows), len(nodes), links, notices)

    def work(self, body: bytes) -> int:
        """Return an upper bound of the number of values that reading a body takes."""
        return body.count(b"{") * max(1, len(self.names)) + 8 * body.count(b"[")

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
                blocks += [one.transform(_array(one, columns)) for one in group]
        return self.header.encoders.concatenate(blocks, blocks[0].shape[0])

    def arrays(self, columns: Columns) -> dict[str, pa.Array]:
        """Return columns that `read` returned as those of a table."""
        return {one.name: _array(one, columns) for one in self.encoders}

    def _columns(
        self, nodes: Sequence[Any], general: Problems, by_column: Mapping[str, Problems]
    ) -> Columns:
        """Validate all rows and return their values by column."""
        has_columns = self.header.encoders is not None
        if has_columns:
            self._check_names(nodes, general)
        valid = self._validate(nodes, general, by_column)
        columns: Columns = {} if has_columns else {"": valid}
        for field, encoder in self._fields.items():
            name = encoder.name
            values = [getattr(row, field, None) for row in valid]
            if not are_clean(encoder, values, self._known[name]):
                values = _checked(encoder, values, by_column[name])
            columns[name] = values
        return columns

    def _validate(
        self, nodes: Sequence[Any], general: Problems, by_column: Mapping[str, Problems]
    ) -> list[Any]:
        """Validate rows one by one; wrong values and rows become None."""
        valid: list[Any] = []
        problems = 0
        for place, node in enumerate(nodes):
            try:
                valid.append(self._row.validate_python(node))
            except ValidationError as error:
                wrong = _wrong_columns(error) if type(node) is dict and self.names else ()
                for name in wrong:
                    by_column[name].rows(self._rules[name], [place + 1], [node[name]])
                if wrong:  # the other values of the row are still to be checked
                    rest = {name: value for name, value in node.items() if name not in wrong}
                    valid.append(self._row.validate_python(rest))
                else:
                    valid.append(None)
                    general.rows(self._row_rule, [place + 1], [node])
                problems += max(1, len(wrong))
            else:
                problems += self._check_empty(node, place, general)
            if problems >= MOST_PROBLEMS:
                general.add(f"reading stopped at row {place + 1}: too many values are wrong")
                break
        return valid

    def _check_empty(self, node: Any, place: int, general: Problems) -> bool:  # noqa: ANN401
        """Whether a row has no value in any column, which is a problem."""
        is_empty = bool(self.names) and all(node.get(name) is None for name in self.names)
        if is_empty:
            general.rows(self._empty_rule, [place + 1], [node])
        return is_empty

    def _check_names(self, nodes: Sequence[Any], problems: Problems) -> None:
        known = {*self.names, *self._ignored}
        sent = dict.fromkeys(name for node in nodes if isinstance(node, dict) for name in node)
        unknown = [name for name in sent if name not in known]
        problems.names("column", map(cut, unknown[:SHOWN]), self.names)
        if len(unknown) > SHOWN:
            problems.add(f"there are {len(unknown):,} unknown columns in all")


def _request_model(
    row: Any,  # noqa: ANN401
    example: Mapping[str, Any],
    links: LinkSchema,
) -> type[BaseModel]:
    link: Any = links.type
    further = "Further nodes. They are not predicted; links to them are used."
    positions = "Pairs of positions: rows are numbered from 0, and neighbours follow the rows."
    config = ConfigDict(extra="forbid", json_schema_extra={"example": dict(example)})
    return create_model(
        "Request",
        __config__=config,
        __doc__="Nodes to predict, and their links if they are known.",
        rows=(list[row], Field(min_length=1, description="The nodes to predict.")),
        neighbours=(list[row], Field([], description=further)),
        links=(list[link], Field([], description=positions + links.about())),
    )


def _wrong_columns(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return list(dict.fromkeys(str(one["loc"][0]) for one in found))


def _type(encoder: Encoder) -> Any:  # noqa: ANN401
    """The JSON types that a column takes."""
    if encoder.kind == "numeric":
        return Number | Truth | Text
    if encoder.kind == "date":
        return Text
    if isinstance(encoder, Tags):
        return list[Text | Whole | None] | Text
    if encoder.kind != "vector":
        return Text | Truth | Whole | Number
    if not encoder.width:
        return list[Finite]
    full = Field(min_length=encoder.width, max_length=encoder.width)
    return Annotated[list[Finite], full] | Annotated[list[Finite], Field(max_length=0)]


def _rule(encoder: Encoder) -> str:
    """The message for values of other JSON types; the encoder words all other problems."""
    contained = {
        "numeric": "numbers",
        "date": f"dates such as {encoder.example()}",
        "tags": "lists or separated text",
        "tags:binary": "lists or separated text",
        "vector": f"vectors of length {encoder.width}, of finite numbers",
    }
    rule = contained.get(encoder.kind, "one value per row, in valid Unicode")
    return f"column {cut(encoder.name)!r} must contain {rule}"


def known_values(encoder: Encoder) -> Sequence[str]:
    """Return the categories or tags of a column, the most frequent first."""
    if isinstance(encoder, Tags):
        return list(encoder.frequencies)
    return encoder.categories if isinstance(encoder, Categorical) else ()


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
        names = ", ".join(repr(cut(name)) for name in unknown[:SHOWN])
        raise RefusedError(422, f"unknown key {names}; choose from {', '.join(KEYS)}.")
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


def _checked(encoder: Encoder, values: Sequence[Any], problems: Problems) -> list[Any]:
    """Values in one form; what is missing, unseen or wrong goes to the problems."""
    column = as_column(encoder, values)
    parsed = encoder.parse(column, 1, problems)
    encoder.count_unseen(parsed, problems)
    checked: list[Any] = (parsed[:, 0] if encoder.kind == "numeric" else column).tolist()
    return checked


def _array(encoder: Encoder, columns: Columns) -> pa.Array:
    return pa.array(columns[encoder.name], column_type(encoder))


def _standardise(encoders: Sequence[Encoder], columns: Columns) -> FloatArray:
    """The features of numeric columns, (n, width); NaN where missing."""
    x = np.array([columns[one.name] for one in encoders], dtype=np.float64).T
    numeric = [(one.mean, one.deviation) for one in encoders if isinstance(one, Numeric)]
    return standardise(x, *np.array(numeric).T)


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


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a truth value"}
    return "null" if value is None else names.get(type(value), "a number")

"""Links in a request: pairs of positions, or objects with a relation and a weight.

    [0, 1]
    {"source": 0, "target": 1, "relation": "cites", "weight": 2.5}

A pair has the only relation of the model. A link of a model of several relations names its own. If
the links of the model are directed, they lead from the first position to the second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, create_model

from linkdist.artifacts.manifest import Header
from linkdist.data.links import Links
from linkdist.tables.validation import SHOWN, Problems

LIGHTEST, HEAVIEST = 1e-30, 1e30
"""The limits of weights: sums of weights between them are finite and above 0 in float32."""

LONGEST_NAME = 60
"""Longer names and values are cut in messages."""

Position = Annotated[int, Field(ge=0)]
Pair = Annotated[list[Position], Field(min_length=2, max_length=2)]


class Link(NamedTuple):
    """A link whose positions are valid; its relation and weight are as they were sent."""

    source: int
    target: int
    relation: Any = None
    weight: Any = None


class LinkSchema:
    """The schema of the links in requests to one model.

    Parameters
    ----------
    header : Header
        The header of the model.

    Attributes
    ----------
    type : type
        The type of a link, for the OpenAPI document.
    example : JSON value
        A link from the first row to the first neighbour.
    """

    def __init__(self, header: Header) -> None:
        self.relations = header.relations
        self.is_weighted = header.about.get("weight") is not None
        several = len(self.relations) > 1
        none = np.empty((0, 2), np.int64)
        relation = none[:, 0] if several else None
        self.none = Links(none, relation, None, self.relations, header.directed)
        self.type = self._model() if several else Pair | self._model()
        more: dict[str, Any] = {}
        if several:
            more["relation"] = self.relations[0]
        if self.is_weighted:
            more["weight"] = 1.5
        self.example = {"source": 0, "target": 1, **more} if more else [0, 1]

    def _model(self) -> Any:  # noqa: ANN401
        several = len(self.relations) > 1
        relation: Any = Literal[self.relations]
        fields: dict[str, Any] = {
            "source": (Position, Field(description="The position from which the link leads.")),
            "target": (Position, Field(description="The position to which the link leads.")),
            "relation": (relation, ...) if several else (relation | None, None),
            "weight": (
                Annotated[float, Field(ge=LIGHTEST, le=HEAVIEST)] | None,
                Field(None, description="By default all links weigh the same."),
            ),
        }
        doc = "A link from one position to another."
        config = ConfigDict(extra="forbid")
        model: type[BaseModel] = create_model("Link", __config__=config, __doc__=doc, **fields)
        return model

    def about(self) -> str:
        """A sentence about the links of the model, for the OpenAPI document."""
        ways = "directed, from the first position to the second" if self.none.directed else ""
        names = f"of the relations {', '.join(self.relations)}" if len(self.relations) > 1 else ""
        weights = "weighted" if self.is_weighted else ""
        facts = ", ".join(filter(None, [ways, names, weights]))
        return f" The links of this model are {facts}." if facts else ""

    def read(self, values: Sequence[Any], count: int, problems: Problems) -> Links:
        """Read the links of a request.

        Parameters
        ----------
        values : sequence of JSON values
            The links.
        count : int
            The number of rows and neighbours.
        problems : Problems
            Collects what is wrong. Links are numbered from 0, as in JSON.

        Returns
        -------
        Links
            Each link once; duplicates are merged as in a table.
        """
        if not values:
            return self.none
        links = [_link(value, count) for value in values]
        wrong = {k: values[k] for k, link in enumerate(links) if link is None}
        _add(problems, self._rule(count), "is", wrong)
        valid = {k: link for k, link in enumerate(links) if link is not None}
        before = len(problems)
        self._check_relations(valid, problems)
        _check_weights(valid, problems)
        if wrong or len(problems) > before:
            return self.none
        return self._merged(list(valid.values()), count)

    def _rule(self, count: int) -> str:
        positions = f"two positions from 0 to {count - 1}, rows before neighbours"
        keys = "'source', 'target' and, where it has them, 'relation' and 'weight'"
        return f"a link must be {positions}, as a list or as an object of {keys};"

    def _check_relations(self, links: Mapping[int, Link], problems: Problems) -> None:
        several = len(self.relations) > 1
        missing = {k: link for k, link in links.items() if several and link.relation is None}
        texts = {k: [*link[:2]] for k, link in missing.items()}
        rule = f"a link must have a 'relation', one of {', '.join(self.relations)};"
        _add(problems, rule, "is", texts)
        sent = {k: one.relation for k, one in links.items() if one.relation is not None}
        _add(
            problems,
            "the 'relation' of a link must be text;",
            "has",
            {k: name for k, name in sent.items() if not isinstance(name, str)},
        )
        names = dict.fromkeys(name for name in sent.values() if isinstance(name, str))
        unknown = [cut(name) for name in names if name not in self.relations]
        problems.names("relation", unknown[:SHOWN], self.relations)
        if len(unknown) > SHOWN:
            problems.add(f"there are {len(unknown):,} unknown relations in all")

    def _merged(self, links: Sequence[Link], count: int) -> Links:
        place = {name: k for k, name in enumerate(self.relations)}
        relation = weights = None
        if len(place) > 1:
            relation = np.array([place[link.relation] for link in links], dtype=np.int64)
        if links[0].weight is not None:
            weights = np.array([link.weight for link in links], dtype=np.float32)
        pairs = np.array([link[:2] for link in links], dtype=np.int64)
        return replace(self.none, pairs=pairs, relation=relation, weights=weights).merged(count)


def join_links(links: Sequence[tuple[Links, int]]) -> Links | None:
    """Join the links of several requests, each with the position of its first row.

    Examples
    --------
    >>> one, other = Links(np.array([[0, 1]])), Links(np.array([[0, 1]]), weights=np.array([2.0]))
    >>> joined = join_links([(one, 0), (other, 2)])
    >>> joined.pairs.tolist(), joined.weights.tolist()
    ([[0, 1], [2, 3]], [1.0, 2.0])
    """
    some = [(one, start) for one, start in links if len(one.pairs)]
    if not some:
        return None
    parts = [one for one, _ in some]
    relation = weights = None
    if parts[0].relation is not None:
        relation = np.concatenate([one.relation for one in parts if one.relation is not None])
    if any(one.weights is not None for one in parts):
        equal = (np.ones(len(one.pairs), np.float32) for one in parts)
        given = (one.weights for one in parts)
        weights = np.concatenate(
            [one if own is None else own for own, one in zip(given, equal, strict=True)]
        )
    pairs = np.concatenate([one.pairs + start for one, start in some])
    return replace(parts[0], pairs=pairs, relation=relation, weights=weights)


def cut(text: str) -> str:
    """A text for a message, with at most 60 characters."""
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 3]}..."


def _link(value: object, count: int) -> Link | None:
    """A link, or None if the value has another form or other positions."""
    link = None
    if isinstance(value, list) and len(value) == 2:
        link = Link(*value)
    elif isinstance(value, dict) and {"source", "target"} <= value.keys() <= set(Link._fields):
        link = Link(**value)
    if link is None or not all(type(end) is int and 0 <= end < count for end in link[:2]):
        return None
    return link


def _check_weights(links: Mapping[int, Link], problems: Problems) -> None:
    sent = {k: link.weight for k, link in links.items() if link.weight is not None}
    rule = f"the 'weight' of a link must be a number from {LIGHTEST:g} to {HEAVIEST:g};"
    _add(problems, rule, "has", {k: one for k, one in sent.items() if not _is_weight(one)})
    if sent:
        without = {k: [*link[:2]] for k, link in links.items() if k not in sent}
        _add(problems, "all links of a request must have a 'weight', or none;", "is", without)


def _is_weight(value: object) -> bool:
    return type(value) in (int, float) and LIGHTEST <= value <= HEAVIEST  # type: ignore[operator]


def _add(problems: Problems, rule: str, verb: str, found: Mapping[int, Any]) -> None:
    """Add the links that break a rule, by their positions in the list."""
    shown = [f"link {k} {verb} {cut(json.dumps(found[k]))}" for k in list(found)[:SHOWN]]
    problems.examples(rule, shown, len(found))

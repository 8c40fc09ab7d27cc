"""What each of several relations of links is worth in prediction with links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from linkdist.report.score_text import gain_text, is_number, named, score_text
from linkdist.training.measures import Measure

NOTHING = 0.005
"""A smaller α is 0 in the table: the relation carries nothing."""
HOW_TO_READ = (
    "α is the weight of the neighbours' predictions over a relation, next to the prediction of "
    "the node itself. A relation is worth the difference between the score with all links and the "
    "score without it. Relations that tell the same are worth little one by one, even if α is "
    "large."
)


class RelationRow(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    name : str
        The relation, with its direction if links are directed.
    alpha : str
        α.
    without : str
        The score with the links of all other relations.
    worth : str
        The gain in the score by this relation.
    """

    name: str
    alpha: str
    without: str
    worth: str


def relation_rows(
    relations: Sequence[tuple[object, object, object]], with_links: object, measure: Measure
) -> list[RelationRow]:
    """The rows of the table of relations.

    Parameters
    ----------
    relations : sequence of (name, alpha, without)
        The values of `RelationWorth`; a score that is not known is None or NaN.
    with_links : float or None
        The score with all links.
    measure : Measure
        What the scores are.

    Examples
    --------
    >>> from linkdist.report.score_text import measure_named
    >>> accuracy = measure_named("accuracy")
    >>> [row] = relation_rows([("cites", 0.75, 0.8)], 0.84, accuracy)
    >>> row.name, row.alpha, row.worth
    ('cites', '0.75', '+4.0 points')
    """
    rows = []
    for name, alpha, without in relations:
        known = without if isinstance(without, float) and is_number(without) else None
        gain = None
        if known is not None and isinstance(with_links, float):
            gain = (with_links - known) * (1 if measure.higher_is_better else -1)
        shown = f"{alpha:.2f}" if isinstance(alpha, int | float) else "unknown"
        rows.append(
            RelationRow(str(name), shown, score_text(known, measure), gain_text(gain, measure))
        )
    return rows


def carry_nothing(relations: Sequence[tuple[object, object, object]]) -> str:
    """A sentence about relations with α = 0; empty if there are none.

    Examples
    --------
    >>> carry_nothing([("cites", 0.75, 0.8), ("spam", 0.0, 0.84)])
    'With α = 0, the relation spam carries nothing: predictions do not use its links.'
    """
    names = [
        str(name)
        for name, alpha, _ in relations
        if isinstance(alpha, int | float) and abs(alpha) < NOTHING
    ]
    if not names:
        return ""
    if len(names) == 1:
        which, whose = f"relation {names[0]} carries", "its"
    else:
        which, whose = f"relations {named(names)} carry", "their"
    return f"With α = 0, the {which} nothing: predictions do not use {whose} links."

"""Sections of the model card about scores: estimates, relations, validation and decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linkdist.artifacts.card_curve import describe_curve
from linkdist.artifacts.markdown import (
    About,
    as_list,
    as_mapping,
    flat,
    number_text,
    share,
    table,
    text,
)
from linkdist.report.certainty import ABSTAINED
from linkdist.report.relations import HOW_TO_READ, carry_nothing, relation_rows
from linkdist.report.score_text import KNOWN, MODES, is_number, measure_named
from linkdist.tables.certainty import Certainty
from linkdist.training.measures import Measure

LARGEST_CONFUSION = 20
"""Largest number of classes for which the card has a confusion matrix."""

STALE = (
    "These values were measured in training, before the model was updated. An update writes no "
    "report, because the training nodes are not available."
)

SCORED = {"new_rows": "", "known_rows": "rows of the table", "baselines": ""}
"""The lists of scores in 'estimates' and the rows they are measured on; empty: see 'rows'."""

OTHER_GRAPHS = (
    "Each label was predicted by networks that were trained without its whole graph: the scores "
    "are those of rows of an unseen graph."
)


def estimates_title(about: About) -> str:
    """The title of the section of estimates.

    Examples
    --------
    >>> estimates_title({"estimates": {"measure": "r2"}}), estimates_title({})
    ('Estimated R²', 'Estimated accuracy')
    """
    return f"Estimated {_measure(about).title}"


def _measure(about: About) -> Measure:
    return measure_named(as_mapping(about.get("estimates")).get("measure"))


def estimates_section(about: About) -> str:
    """Return a summary, scores of the model and of baselines, and warnings."""
    known, measure = as_mapping(about.get("estimates")), _measure(about)
    rows_named = str(known.get("rows", "new rows"))
    rows = [
        _score(part, rows_of or rows_named, measure)
        for key, rows_of in SCORED.items()
        for part in as_list(known.get(key))
        if isinstance(part, Mapping)
    ]
    if not rows:
        return ""
    nodes, by = number_text(known.get("labels")), known.get("by")
    how = "cross-validation" if by == "folds" else by
    measured = f"The scores were measured on {nodes} labelled nodes, by {how}."
    if rows_named == "rows of other graphs":
        measured += f" {OTHER_GRAPHS}"
    warnings = "\n".join(f"- {text(said)}" for said in as_list(known.get("warnings")))
    parts = [
        " ".join(map(text, as_list(known.get("verdict")))),
        table(["model", measure.title, "90 % interval", "needs links"], rows),
        text(measured),
        f"Limitations of these scores:\n\n{warnings}" if warnings else "",
        STALE if about.get("updates") else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _score(part: About, rows_of: str, measure: Measure) -> list[str]:
    """Return a row of the table of scores."""
    name = text(f"{part.get('name')}, {rows_of}")
    between = f"{share(part.get('low'), measure)} to {share(part.get('high'), measure)}"
    value = share(part.get("value"), measure)
    return [name, value, between, "yes" if part.get("links") else "no"]


def relations_section(about: About) -> str:
    """Return α and worth of each of several relations; empty if there is one."""
    known, measure = as_mapping(about.get("estimates")), _measure(about)
    found = [
        (part.get("name"), part.get("alpha"), part.get("without"))
        for part in as_list(known.get("relations"))
        if isinstance(part, Mapping)
    ]
    if not found:
        return ""
    linked = [part for part in as_list(known.get("new_rows")) if as_mapping(part).get("links")]
    value = linked[0].get("value") if linked else None
    rows = relation_rows(found, value, measure)
    head = ["relation", "α", f"{measure.title} without it", "worth"]
    cells = [[text(cell) for cell in row] for row in rows]
    parts = [table(head, cells), text(carry_nothing(found)), text(HOW_TO_READ)]
    return "\n\n".join(part for part in parts if part)


def validation_title(about: About) -> str:
    """The title of the section of validation scores.

    Examples
    --------
    >>> validation_title({}), validation_title({"task": "regression"})
    ('Validation accuracy', 'Validation scores')
    """
    return "Validation accuracy" if _of_classes(about) else "Validation scores"


def _of_classes(about: About) -> bool:
    """Whether all scores are accuracies."""
    names = as_mapping(about.get("scores"))
    return about.get("task", "classification") == "classification" and all(
        _measure_of(str(name)).name == "accuracy" for name in names
    )


def validation_section(about: About) -> str:
    """Return the scores on validation nodes and the learning curve."""
    rows = [
        [text(key), share(value, _measure_of(key))]
        for key, value in flat(as_mapping(about.get("scores")))
    ]
    scores = table(["", "accuracy" if _of_classes(about) else "score"], rows)
    description = describe_curve(about)
    picture = f"![{text(description)}](curve.svg)" if description else ""
    stale = STALE if about.get("updates") else ""
    return "\n\n".join(part for part in (scores if rows else "", picture, stale) if part)


def _measure_of(key: str) -> Measure:
    """The measure that the name of a score starts with; accuracy if it is none."""
    named = (one for one in KNOWN.values() if key.startswith(f"{one.title} "))
    return next(named, KNOWN["accuracy"])


def confusion_section(about: About, classes: Sequence[str]) -> str:
    """Return the confusion matrix; empty if there are too many classes."""
    counts: Sequence[Sequence[int]] | None = about.get("confusion")
    if not counts or len(counts) != len(classes) or len(classes) > LARGEST_CONFUSION:
        return ""
    names = [text(name) for name in classes]
    rows = [
        [f"**{name}**", *(f"**{n}**" if i == j else str(n) for j, n in enumerate(row))]
        for i, (name, row) in enumerate(zip(names, counts, strict=True))
    ]
    caption = "Rows are true classes, columns are predicted classes. Correct predictions are bold."
    nodes, total = as_mapping(about.get("scores")).get("validation nodes"), sum(map(sum, counts))
    if isinstance(nodes, int) and nodes != total:
        caption += (
            f" The replicas made {total:,} predictions for {nodes:,} validation nodes; each "
            "replica predicts its own validation nodes."
        )
    return f"{caption}\n\n{table(['', *names], rows)}"


def decision_section(about: About, classes: Sequence[str]) -> str:
    """Return prediction intervals, thresholds of labels or factors of classes."""
    decision = as_mapping(about.get("decision"))
    widths, thresholds = (as_mapping(decision.get(key)) for key in ("widths", "thresholds"))
    parts = []
    if "widths" in decision:
        parts.append(_widths(widths))
    columns = {mode: as_list(thresholds.get(mode)) for mode in MODES if mode in thresholds}
    if columns and all(len(part) == len(classes) for part in columns.values()):
        head = ["label", *(f"threshold {MODES[mode]}" for mode in columns)]
        cells = zip(*columns.values(), strict=True)
        rows = [
            [text(name), *(text(number_text(one)) for one in row)]
            for name, row in zip(classes, cells, strict=True)
        ]
        rule = "A label is predicted if it is at least as probable as its threshold."
        parts.append(f"{rule}\n\n{table(head, rows)}")
    factors = as_list(decision.get("factors"))
    if factors and len(factors) == len(classes):
        rows = [
            [text(name), text(number_text(one))] for name, one in zip(classes, factors, strict=True)
        ]
        rule = "The class probabilities contain these factors, which raise or lower a class."
        parts.append(f"{rule}\n\n{table(['class', 'factor'], rows)}")
    return "\n\n".join(parts)


def certainty_section(about: About) -> str:
    """Return the accuracy of answers if some rows are left unanswered, and conformal sets.

    An update changes the weights, so that nothing of this is known afterwards.
    """
    certainty = None if about.get("updates") else Certainty.read(about.get("certainty"))
    if certainty is None:
        return ""
    held = (certainty.features, certainty.links)
    answers = [
        [f"{100 * (1 - part):.0f} %", *(f"{one.accuracy_of(part):.1%}" for one in held)]
        for part in ABSTAINED
    ]
    sets = [
        [f"{100 * both[0].level:.0f} %", *(f"{score.size:.2f}" for score in both)]
        for both in zip(*(one.sets for one in held), strict=True)
    ]
    modes = list(MODES.values())
    return (
        "Accuracy if only the rows with the highest confidence are answered (`--abstain`), "
        f"measured on {certainty.labels:,} labels that the predicting network had not seen:\n\n"
        f"{table(['answered', *modes], answers)}\n\n"
        "Average number of classes in a conformal set (`--sets`), which contains the true class "
        "of at least this share of new rows, if they are like the labelled ones:\n\n"
        f"{table(['level', *modes], sets)}"
    )


def _widths(widths: About) -> str:
    known = {mode: widths[mode] for mode in MODES if is_number(widths.get(mode))}
    if not known:
        return "There were too few labels for prediction intervals."
    each = " and ".join(f"± {number_text(half)} {MODES[mode]}" for mode, half in known.items())
    return text(
        f"The prediction interval is the prediction {each}. It contains the true number of 90 % of "
        "new rows, if they are like the labelled ones (conformal prediction)."
    )

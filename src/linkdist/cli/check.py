"""`linkdist check`, `evaluate` and `suggest`: what is in a table, and what a model makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from linkdist.cli.console import Bars, note
from linkdist.cli.options import (
    Device,
    JsonFile,
    LinkTable,
    ModelDir,
    MoreLinks,
    NodeTable,
    RawText,
    check_json,
    grouped,
    read_tables,
    split_names,
    write_json,
)


@grouped(required=("nodes", "id", "label", "edges"))
def check(nodes: NodeTable, links: LinkTable) -> None:
    """Print what 'linkdist train' understands of your tables, and what is suspicious.

    linkdist check --nodes nodes.csv --edges links.csv --id paper --label field
    """
    from linkdist.pipeline import summarise_tables

    with Bars() as bars:
        summary = summarise_tables(read_tables(nodes, links), bars)
    note(str(summary))


def evaluate(
    model: ModelDir,
    nodes: Annotated[
        Path,
        Argument(metavar="TABLE", help="The node table, with the columns and labels of the model."),
    ],
    edges: MoreLinks = None,
    label: Annotated[
        str | None,
        Option(
            metavar="COLUMN,...",
            help="The columns with the labels. By default, they are those of the training.",
        ),
    ] = None,
    device: Device = "auto",
    json_file: JsonFile = None,
) -> None:
    """Evaluate a model on labelled rows that it was not trained on.

    For a number, the scores are R², the errors and the coverage of prediction intervals; for
    several labels, micro and macro F1. Intervals cover 90 %. Without --edges, the table may be
    larger than memory.
    """
    from linkdist.trained_model import load_model

    check_json(json_file)
    columns = None if label is None else split_names(label)
    with Bars() as bars:
        scores = load_model(model).evaluate(
            nodes, edges, label=columns, device=device, callback=bars
        )
    note(str(scores))
    write_json(json_file, scores.as_json())


def suggest(
    model: ModelDir,
    nodes: Annotated[
        Path, Option(metavar="TABLE", help="The node table of the training, with its labels.")
    ],
    edges: Annotated[
        list[Path],
        Option(
            metavar="TABLE",
            help="The link table of the training. Repeat the option if there were several.",
        ),
    ],
    out: Annotated[
        Path, Option(metavar="FILE", help="The .csv or .parquet file to write and to fill in.")
    ],
    labels: Annotated[
        Path | None,
        Option(metavar="TABLE", help="The --labels of the training. They are not suggested again."),
    ] = None,
    count: Annotated[int, Option("--count", "-n", help="Number of rows to suggest.", min=1)] = 20,
    seed: Annotated[int, Option(help="Random seed of the choice.")] = 0,
    raw_text: RawText = False,
) -> None:
    """Suggest which rows to label next, and write a table to fill in.

    The rows are those that the model is least certain of, spread over the graph; for a number, they
    are only spread. Fill in the empty columns and pass the table to 'linkdist train' as --labels.
    """
    from linkdist.tables.csv_text import KEEP_TEXT, escape_notice
    from linkdist.tables.predictions import write_table
    from linkdist.trained_model import load_model

    trained = load_model(model)
    with Bars() as bars:
        table = trained.suggest(nodes, edges, count, labels=labels, seed=seed, callback=bars)
    if notice := escape_notice(write_table(table, out, raw_text), KEEP_TEXT):
        note(notice)
    form = trained.label_format
    columns = ", ".join(map(repr, form.columns))
    if form.task == "multilabel" and not form.binary:
        columns += f", with {form.separator or ' '!r} between labels"
    note(
        f"{table.num_rows} rows to label: {out}. Fill in {columns}; then train with --labels {out}"
    )

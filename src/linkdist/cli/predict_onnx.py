"""`linkdist-serve predict`: predict a table with ONNX Runtime instead of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from linkdist.cli.options import Abstain, ModelDir, MoreLinks, Quiet, RawText, Sets
from linkdist.errors import OptionError


def predict(
    model: ModelDir,
    nodes: Annotated[
        Path, Argument(metavar="NODES", help="The nodes to predict: a Parquet or CSV table.")
    ],
    out: Annotated[Path, Option(metavar="FILE", help="The .parquet or .csv file to write.")],
    edges: MoreLinks = None,
    sets: Sets = None,
    abstain: Abstain = None,
    raw_text: RawText = False,
    quiet: Quiet = False,
) -> None:
    """Predict nodes from features or, with --edges, with links.

    The columns are the ids and, for classes, label, confidence and the probability of each class;
    for a number, predicted, and low and high, the ends of a prediction interval that contains the
    true number with a probability of 90 %; for several labels, the labels as in the training and
    their probabilities. Links are read with the columns of the training.

    --sets and --abstain are for classes. They use predictions of labels that training had not seen,
    so they hold for rows that are like those of the training.
    """
    from linkdist.cli.console import Bars, note
    from linkdist.inference.predict import predict
    from linkdist.tables.certainty import Caution

    if nodes.is_dir():
        raise OptionError(
            f"NODES must be one table; {nodes} is a directory. Predict its files one by one, or "
            "use 'linkdist predict', which predicts directories."
        )
    with Bars(quiet, lambda: f"{out} was not changed.") as bars:
        caution = Caution(sets, abstain)
        count = predict(
            model, nodes, out, edges=edges, callback=bars, caution=caution, raw_text=raw_text
        )
    note(f"{count} nodes predicted: {out}")

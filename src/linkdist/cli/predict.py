"""`linkdist predict`, `update` and `export`: commands that use a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from linkdist.cli.console import Bars, note
from linkdist.cli.options import (
    Abstain,
    Address,
    Device,
    Force,
    LinkTable,
    ModelDir,
    MoreLinks,
    Quiet,
    RawText,
    Sets,
    grouped,
    same_command,
)
from linkdist.errors import OptionError


def predict(
    model: ModelDir,
    nodes: Annotated[
        Path,
        Argument(
            metavar="NODES",
            help="The nodes to predict: a Parquet or CSV table, or a directory of Parquet files.",
        ),
    ],
    out: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="The .parquet or .csv file to write. If NODES is a directory, it is a directory.",
        ),
    ],
    edges: MoreLinks = None,
    sets: Sets = None,
    abstain: Abstain = None,
    device: Device = "auto",
    workers: Annotated[
        int | None,
        Option(help="Number of Ray processes that share the files of a directory.", min=1),
    ] = None,
    address: Address = None,
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

    If an interrupted prediction of a directory is started again, it continues with the files that
    are not done.
    """
    from linkdist import prediction
    from linkdist.distributed.ray_predict import predict_directory
    from linkdist.tables.certainty import Caution

    if address is not None and workers is None:
        raise OptionError("--address needs --workers, the number of processes.")
    if nodes.is_dir() and edges is not None:
        raise OptionError(
            "--edges needs one table, not a directory, because a link may lead to any node."
        )
    if not nodes.is_dir() and workers is not None:
        raise OptionError(f"--workers share the files of a directory; {nodes} is not a directory.")

    def kept() -> str:
        if not nodes.is_dir():
            return f"{out} was not changed."
        return f"The files that are done are kept. Continue with:\n{same_command()}"

    caution = Caution(sets, abstain)
    with Bars(quiet, kept) as bars:
        if nodes.is_dir():
            count = predict_directory(
                model, nodes, out, workers=workers, address=address, device=device, callback=bars,
                caution=caution,
            )  # fmt: skip
        else:
            count = prediction.predict(
                model,
                nodes,
                out,
                edges=edges,
                device=device,
                raw_text=raw_text,
                callback=bars,
                caution=caution,
            )
    note(f"{count} nodes predicted: {out}")


@grouped(required=("edges",))
def update(
    model: ModelDir,
    nodes: Annotated[
        Path, Option(metavar="FILE", help="The table of new nodes, a Parquet or CSV file.")
    ],
    links: LinkTable,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="The directory of the new model. By default, it is MODEL-updated."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        Option(
            help="Number of passes over the new links and the sample of old ones. By default, an "
            "update takes a sixteenth of the steps of a training from scratch."
        ),
    ] = None,
    seed: Annotated[int, Option(help="Random seed for sampling.")] = 0,
    device: Device = "auto",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Update a model with new nodes and links, without the old data.

    The node table must also contain the old nodes to which new links lead. The old model is not
    changed unless --out names it.
    """
    from linkdist import updating
    from linkdist.artifacts.model_dir import load_model
    from linkdist.tables.source import Tables

    saved = load_model(model)
    about = saved.about
    if not (about.get("id") and about.get("label")):
        raise OptionError(f"{model} was not trained on a table; update it from Python.")
    old = model.resolve()
    new = old.with_name(f"{old.name}-updated") if out is None else out
    assert links.edges is not None
    tables = Tables(
        nodes, links.edges, about["id"], about["label"],
        source=links.source or about.get("source"), target=links.target or about.get("target"),
        relation=links.relation, weight=links.weight, directed=links.directed, strict=links.strict,
        unknown=about.get("unknown") or (),
    )  # fmt: skip
    with Bars(quiet, lambda: f"{model} was not changed; nothing else is kept.") as bars:
        updating.update(
            saved, tables, new, epochs=epochs, seed=seed, device=device, callback=bars,
            force=force or new.resolve() == old,
        )  # fmt: skip
    note(f"Model: {new}")


def export(
    model: ModelDir,
    file: Annotated[
        Path | None, Argument(metavar="FILE", help="The ONNX file to write.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Write a web page to this folder that predicts inside the browser, without a "
            "service. Open its index.html.",
        ),
    ] = None,
    runtime: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The unpacked npm package onnxruntime-web for --page. By default, npm fetches it.",
        ),
    ] = None,
    with_neighbour_head: Annotated[
        bool,
        Option(
            "--with-neighbour-head",
            help="Also write the outputs that predictions with links need: to a second file such "
            "as model.neighbours.onnx or, if the input is `features`, to the same file.",
        ),
    ] = False,
    features_only: Annotated[
        bool,
        Option(
            "--features-only",
            help="Export the network alone: its input is `features`, which your program computes "
            "from the columns.",
        ),
    ] = False,
    rows: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="The nodes on which both models are compared. By default, they are the sample "
            "that the model directory contains.",
        ),
    ] = None,
) -> None:
    """Export a model to ONNX after checking that both give the same results.

    The inputs of the file are the columns of the table: text and numbers as they are. If a column
    cannot be an input, the command says why, and the only input is `features`.
    """
    from linkdist import exporting
    from linkdist.artifacts.model_dir import load_model

    if file is None and page is None:
        raise OptionError("name the ONNX file to write, a folder with --page, or both.")
    if page is not None:
        from linkdist.static_page.page import write_page

        written = write_page(model, page, runtime)
        size = sum(one.stat().st_size for one in written) / 1e6
        note(f"{page}: {len(written)} files, {size:.1f} MB. Open {page / 'index.html'}.")
    if file is None:
        return
    done = exporting.export(
        load_model(model),
        file,
        with_neighbour_head=with_neighbour_head,
        features_only=features_only,
        rows=rows,
    )
    if done.obstacles:
        reasons = "; ".join(done.obstacles)
        note(f"The input is `features`, because columns cannot be inputs: {reasons}.")
    for path in done.files:
        note(f"{path}: largest difference to the model on {done.rows} rows {done.difference:.2g}")

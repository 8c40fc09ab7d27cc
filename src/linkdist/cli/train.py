"""`linkdist train`: a model from your own tables or from a store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Context, Option

from linkdist.cli.console import Bars, note, print_table
from linkdist.cli.options import (
    Address,
    Device,
    Epochs,
    Force,
    JsonFile,
    LinkTable,
    NodeTable,
    Quiet,
    Replicas,
    Seed,
    check_json,
    given,
    grouped,
    same_command,
    table_arguments,
    write_json,
)
from linkdist.errors import OptionError

if TYPE_CHECKING:
    from linkdist.artifacts.model_dir import Saved
    from linkdist.training.measures import Measure


FOR_TABLES = ("--budget", "--hold-out-graphs")
"""Options of a training that need tables."""


@dataclass(frozen=True)
class Store:
    """Store."""

    store: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The store to train on instead of tables. 'linkdist store build' writes it.",
        ),
    ] = None
    memory: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="The memory that training may use beyond that of the program itself, such as "
            "500MB.",
            show_default="2GB; on a GPU, its free memory",
        ),
    ] = None
    workers: Annotated[
        int | None, Option(help="Number of Ray processes that share the links of the store.")
    ] = None
    gpus_per_worker: Annotated[
        float,
        Option(
            help="Number of GPUs of each of the --workers. Two workers with 0.5 share one. With "
            "0, the workers train on CPUs.",
            min=0,
        ),
    ] = 0.0
    address: Address = None
    checkpoints: Annotated[
        str | None,
        Option(
            metavar="PLACE",
            help="The place where the --workers save their state: a path that all of them can "
            "read, or an address such as s3://bucket/training. By default, it is next to --out.",
        ),
    ] = None


@dataclass(frozen=True)
class Network:
    """Network."""

    hidden_size: Annotated[int, Option(help="Width of the hidden layers.", min=1)] = 256
    dropout: Annotated[
        float | None,
        Option(
            help="Probability of dropping a hidden unit, from 0 to below 1.",
            show_default="0.5; 0.1 for regression",
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        Option(
            help="Number of links in a training step, or of nodes for selflinkdist.",
            show_default="1024; more for a --store on a GPU",
            min=1,
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        Option(
            help="Learning rate of the Adam optimiser.",
            show_default="0.003 for selflinkdist, 0.01 for the other methods",
        ),
    ] = None


@dataclass(frozen=True)
class Training:
    """Training."""

    method: Annotated[
        str | None,
        Option(
            help="The training method. 'selflinkdist' trains one network with a panel of "
            "teachers. 'linkdist' and 'colinkdist' are the paper's methods; the second also uses "
            "random node pairs.",
            show_default="selflinkdist",
        ),
    ] = None
    epochs: Epochs = None
    held_out: Annotated[
        float | None,
        Option(
            help="Share of the labels that form the validation split, which selects the weights. "
            "By default, selflinkdist uses cross-validation for up to 1,000 labels; otherwise the "
            "share is 0.1. With 0, training uses all labels and nothing is evaluated."
        ),
    ] = None
    hold_out_graphs: Annotated[
        bool,
        Option(
            "--hold-out-graphs",
            help="Validation and folds hold out whole graphs, which estimates the scores on an "
            "unseen graph. It needs several graphs.",
        ),
    ] = False
    metric: Annotated[
        str | None,
        Option(
            help="What validation chooses by: accuracy, macro-f1, roc-auc or average-precision; "
            "for several labels also micro-f1; for a number r2 or mae.",
            show_default="accuracy, micro-f1 or r2",
        ),
    ] = None
    class_weight: Annotated[
        str | None,
        Option(
            help="With 'balanced', rare classes count as much as frequent ones. By default, all "
            "labels count alike."
        ),
    ] = None
    loss: Annotated[
        str, Option(help="The error that a regression minimises: squared or absolute.")
    ] = "squared"
    budget: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Time limit for selflinkdist, such as 60s or 5m. It trains the best model "
            "that fits into this time, so the result depends on the machine.",
        ),
    ] = None
    seed: Seed = 0
    replicas: Replicas = 1
    device: Device = "auto"

    def arguments(self, network: Network) -> dict[str, Any]:
        """Return the keyword arguments of `linkdist.pipeline.Options.of`."""
        options = {**asdict(self), **asdict(network)}
        if self.method is None:
            del options["method"]
        options["budget"] = None if self.budget is None else parse_time(self.budget)
        return options


@dataclass(frozen=True)
class Output:
    """Output."""

    out: Annotated[
        Path | None, Option(metavar="DIR", help="The model directory to write. It is required.")
    ] = None
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Training continues from the last checkpoint of an interrupted training with the "
            "same data and options.",
        ),
    ] = False
    force: Force = False
    quiet: Quiet = False
    json_file: JsonFile = None


@grouped()
def train(
    context: Context,
    nodes: NodeTable,
    links: LinkTable,
    store: Store,
    training: Training,
    network: Network,
    output: Output,
) -> None:
    """Train a model on your own tables or on a store.

    linkdist train --nodes nodes.csv --edges links.csv --id paper --label field --out model
    """
    if context.args:
        raise OptionError(
            f"train takes options only; found {' '.join(context.args)!r}. Your own data is given "
            "by --nodes and --edges or by --store. To measure the methods on a named data set, "
            f"use 'linkdist benchmark {context.args[0]}'."
        )
    check_json(output.json_file)
    if store.store is None:
        saved = _train_on_tables(nodes, links, store, training, network, output)
    else:
        saved = _train_on_store(store, given(nodes) + given(links), training, network, output)
    _print_result(saved, output)


def _train_on_tables(
    nodes: NodeTable,
    links: LinkTable,
    store: Store,
    training: Training,
    network: Network,
    output: Output,
) -> Saved:
    from linkdist import trained_model

    if misplaced := given(store):
        raise OptionError(
            "--memory, --workers, --gpus-per-worker, --address and --checkpoints are for training "
            "on a --store; "
            f"found {', '.join(misplaced)}."
        )
    there = {*given(nodes), *given(links), *given(output)}
    required = ("--nodes", "--edges", "--id", "--label", "--out")
    missing = [option for option in required if option not in there]
    if output.out is None or missing:
        raise OptionError(
            "train needs your own tables, with --nodes, --edges, --id, --label and --out, or "
            f"--store and --out; found no {', '.join(missing)}."
        )
    with Bars(output.quiet, partial(_kept, output.out)) as bars:
        return trained_model.train(
            **table_arguments(nodes, links),
            **training.arguments(network),
            out=output.out,
            resume=output.resume,
            force=output.force,
            callback=bars,
        )


def _train_on_store(
    store: Store, for_tables: list[str], training: Training, network: Network, output: Output
) -> Saved:
    from linkdist.distributed.pipeline import train_store
    from linkdist.distributed.ray_train import train_by_workers
    from linkdist.pipeline import Options
    from linkdist.store.plan import parse_memory

    assert store.store is not None
    misplaced = for_tables + [option for option in given(training) if option in FOR_TABLES]
    if output.out is None or misplaced:
        raise OptionError(
            "training on a --store needs --out. It takes no tables, no columns and no "
            f"{' and no '.join(FOR_TABLES)}, because a store contains one graph and its columns. "
            f"Found {', '.join(misplaced) or 'no --out'}."
        )
    if store.workers is None and (store.address or store.checkpoints or store.gpus_per_worker):
        raise OptionError(
            "--address, --checkpoints and --gpus-per-worker need --workers, the number of "
            "processes."
        )
    options = Options.of(**training.arguments(network))
    memory = None if store.memory is None else parse_memory(store.memory)
    where = (store.store, output.out, options, memory)
    with Bars(output.quiet, partial(_kept, output.out)) as bars:
        if store.workers is None:
            return train_store(*where, resume=output.resume, force=output.force, callback=bars)
        return train_by_workers(
            *where, store.workers, address=store.address, checkpoints=store.checkpoints,
            gpus=store.gpus_per_worker, resume=output.resume, force=output.force, callback=bars,
        )  # fmt: skip


def _kept(out: Path) -> str:
    """Say what an interrupted training leaves, and how to continue."""
    from linkdist.training.checkpoint import stage_folder, state_file

    if not state_file(out).exists() and not stage_folder(out).exists():
        return "Interrupted before the first checkpoint, so nothing is kept."
    return f"What is done is kept. Continue with:\n{same_command('--resume')}"


def parse_time(text: str) -> float:
    """Return the seconds in a time such as '60s', '5m', '1h' or '90'.

    Examples
    --------
    >>> parse_time("60s"), parse_time("5m"), parse_time("90")
    (60.0, 300.0, 90.0)
    """
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = math.nan
    if not seconds > 0 or math.isinf(seconds):
        raise OptionError(f"a time must be a number of s, m or h, such as 60s; found {text!r}.")
    return seconds


def _print_result(saved: Saved, output: Output) -> None:
    from linkdist.report.score_text import measure_named

    estimates = saved.about.get("estimates")
    if estimates is not None:
        measure = measure_named(estimates.get("measure"))
        what = f"{measure.title} in percent" if measure.percent else measure.title
        print_table(
            f"Estimated {what}, from {estimates['labels']} labels",
            list(_estimate_rows(estimates, measure)),
        )
        if relations := list(_relation_rows(estimates, measure)):
            print_table("Relations", relations)
        for sentence in _sentences(estimates):
            note(sentence)
    elif scores := saved.about.get("scores"):
        rows = [{"": key, "value": value} for key, value in scores.items()]
        print_table("Validation nodes", rows)
    report = "; report.html shows the results of the training" if saved.report_html else ""
    note(f"Model: {output.out}. Its README.md explains how to use it{report}.")
    write_json(output.json_file, saved.about)


def _estimate_rows(estimates: Mapping[str, Any], measure: Measure) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table of estimates: this model, then the baselines."""
    new = estimates["rows"]
    groups = ((new, "new_rows"), ("rows of the table", "known_rows"), (new, "baselines"))
    for rows, key in groups:
        for score in estimates[key]:
            low, value, high = (_bare(score[part], measure) for part in ("low", "value", "high"))
            yield {
                "": score["name"],
                "for": rows,
                measure.title: value,
                "90 % interval": f"{low} to {high}",
                "needs links": "yes" if score["links"] else "no",
            }


def _bare(value: float | None, measure: Measure) -> str:
    """Return a score without the sign of percent, which the title of the table has."""
    from linkdist.report.score_text import score_text

    return score_text(value, measure).removesuffix("\xa0%")


def _relation_rows(estimates: Mapping[str, Any], measure: Measure) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table of relations, if there are several."""
    from linkdist.report.relations import relation_rows

    with_links = estimates["new_rows"][1]["value"]
    for row in relation_rows(_relations(estimates), with_links, measure):
        yield {
            "": row.name,
            "α": row.alpha,
            f"{measure.title} without it": row.without,
            "worth": row.worth,
        }


def _relations(estimates: Mapping[str, Any]) -> list[tuple[Any, Any, Any]]:
    return [(one["name"], one["alpha"], one["without"]) for one in estimates["relations"]]


def _sentences(estimates: Mapping[str, Any]) -> Iterator[str]:
    """Yield the conclusions, then the warnings."""
    from linkdist.report.relations import carry_nothing

    yield from estimates["verdict"]
    if nothing := carry_nothing(_relations(estimates)):
        yield nothing
    yield from estimates["warnings"]

"""The command line: parse, one call, exit code."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from linkdist import pipeline
from linkdist._files import replace_text
from linkdist.artifacts.model_dir import Saved, load
from linkdist.cli import store as store_module
from linkdist.cli.console import Bars, Stages, note, print_table, spread
from linkdist.cli.options import Features, Kinds, Source, Strict, Target, kinds_in, names_in
from linkdist.cli.serve import serve
from linkdist.data import datasets as named
from linkdist.data.splits import PROTOCOLS, SETTINGS
from linkdist.distributed.pipeline import METHOD as STORE_METHOD
from linkdist.distributed.pipeline import train_store
from linkdist.distributed.ray_predict import predict_directory
from linkdist.distributed.ray_train import train_by_workers
from linkdist.errors import LinkDistError, OptionError, check_names
from linkdist.nn.inputs import make_inputs
from linkdist.paper.protocol import Entry, graph_of, make_task, train_plain_mlp
from linkdist.paper.published import METHODS
from linkdist.paper.report import write_report
from linkdist.paper.run import Plan, check_seeds
from linkdist.paper.run import reproduce as reproduce_plan
from linkdist.pipeline import Options, Tables
from linkdist.store.plan import MEMORY, parse_memory
from linkdist.training.fit import METHODS as LINK_METHODS
from linkdist.training.fit import fit
from linkdist.training.history import Best
from linkdist.training.loop import find_device

INTERRUPTED = 130
"""The exit code that shells give to Ctrl-C."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with the raw files. Default: LINKDIST_DATA, then the cache folder, then "
        "a download.",
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda; auto takes a GPU if there is one.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the result here as JSON, too.")
]


@app.callback()
def program(
    debug: Annotated[bool, typer.Option("--debug", help="Show an error's traceback.")] = False,
) -> None:
    """Train on a graph's links, keep an MLP.

    LinkDist learns from a graph's links and leaves a plain MLP, which classifies a node from its
    features alone. Where links are at hand, a second mode uses them too. To begin with:
    linkdist train digits
    """


@app.command()
def datasets(data: Data = None, json_file: JsonFile = None) -> None:
    """List the named graphs, their sizes, and which raw files are at hand and where."""
    rows = [_describe(info, data) for info in named.DATASETS.values()]
    print_table("Named graphs", rows)
    _write_json(json_file, rows)


def _describe(info: named.DatasetInfo, data: Path | None) -> dict[str, Any]:
    found = named.find_raw(info.name, data)
    missing = f"not at hand; {len(info.files)} file(s), fetched when first used"
    return {
        "name": info.name,
        "nodes": info.n,
        "features": info.d,
        "classes": info.C,
        "edges": info.e,
        "degree": round(info.e / info.n, 2),
        "raw files": "embedded" if not info.files else str(found or missing),
    }


Method = Annotated[
    str | None,
    typer.Option(
        help="The method: selflinkdist trains one network by a panel of teachers, and not from a "
        "--store; linkdist and colinkdist are the paper's, the second with random node pairs.",
        show_default=f"{Options.method}; for a --store {STORE_METHOD}",
    ),
]
Seed = Annotated[
    int, typer.Option(help="Random seed for the split, the initial weights and sampling.")
]
NodeFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Your node table, Parquet or CSV.")
]
EdgeFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Your link table: two columns of ids.")
]
ModelDir = Annotated[Path, typer.Argument(metavar="MODEL", help="A model directory of 'train'.")]

SETTING, PROTOCOL = "transductive", "paper"

Address = Annotated[
    str | None,
    typer.Option(help="Of a Ray cluster, for --workers; auto: the one that runs here."),
]


@app.command()
def train(
    name: Annotated[
        str | None, typer.Argument(help="A named graph; 'linkdist datasets' lists them.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A graph on disk that 'linkdist store' made."),
    ] = None,
    nodes: NodeFile = None,
    edges: EdgeFile = None,
    id: Annotated[str | None, typer.Option(help="Node table's column of ids.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Node table's column of labels, empty where unknown.")
    ] = None,
    features: Features = None,
    kinds: Kinds = None,
    source: Source = None,
    target: Target = None,
    strict: Strict = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Model directory to write, for tables.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a killed training was, for tables.")
    ] = False,
    method: Method = None,
    setting: Annotated[
        str,
        typer.Option(
            help="For a named graph. transductive: training sees all nodes and links; inductive: "
            "not those of validation and test nodes; full-supervised: 60 % of the labels; "
            "production, of the protocol glnn: not a fifth of the test nodes."
        ),
    ] = SETTING,
    protocol: Annotated[
        str,
        typer.Option(
            help="For a named graph. paper: LinkDist's splits; glnn: GLNN's, on the largest "
            "component, with 30 validation nodes a class and the rest for testing."
        ),
    ] = PROTOCOL,
    seed: Seed = 0,
    replicas: Annotated[
        int, typer.Option(help="Train this many at once, on seeds seed, seed + 1, ...")
    ] = 1,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Passes over the nodes for selflinkdist (default: 30), over the links for the "
            "other methods (default: 200 / average degree)."
        ),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Share of a table's labels that are held out to choose the weights. By default "
            "selflinkdist uses folds for up to 1,000 labels; otherwise a tenth is held out. 0 "
            "trains on all labels and judges nothing."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time that selflinkdist may take, such as 60s or 5m: the best model that fits "
            "into it. The result then depends on the machine.",
        ),
    ] = None,
    device: Device = "auto",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="For a store: what training may hold of it.",
            show_default=f"{MEMORY}; on a GPU, what is free there",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="For a store: processes of Ray that share its links.")
    ] = None,
    address: Address = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="For --workers: where their state is kept, a path that all see or an address "
            "such as s3://bucket/training; default: beside --out.",
        ),
    ] = None,
    data: Data = None,
    json_file: JsonFile = None,
) -> None:
    """Train on your own tables and keep a model, or on a named graph to see how it does.

    linkdist train --nodes nodes.csv --edges links.csv --id paper --label field --out model
    """
    method = method or (Options.method if store is None else STORE_METHOD)
    check_names("method", [method], LINK_METHODS)
    check_seeds(seed, replicas, "--replicas")
    _check_json(json_file)
    seconds = None if budget is None else parse_time(budget)
    options = Options(method, replicas, epochs, held_out, seed, device, seconds)
    if store is not None:
        elsewhere = {
            "a named graph": name, "--nodes": nodes, "--edges": edges, "--id": id, "--label": label,
            "--features": features, "--kinds": kinds, "--source": source, "--target": target,
            "--strict": strict, "--data": data, "--setting": setting != SETTING,
            "--protocol": protocol != PROTOCOL, "--budget": budget,
        }  # fmt: skip
        surplus = [option for option, value in elsewhere.items() if value]
        if out is None or surplus:
            raise OptionError(
                "training on a --store needs --out, and takes no named graph, no tables and "
                "nothing about them: it has all that in it. Found "
                f"{', '.join(surplus) or 'no --out'}."
            )
        if workers is None and (address or checkpoints):
            raise OptionError("--address and --checkpoints are for --workers; say how many.")
        which = (store, out, options, None if memory is None else parse_memory(memory))
        with Stages() as stages:
            if workers is None:
                saved = train_store(*which, resume=resume, callback=stages)
            else:
                saved = train_by_workers(
                    *which, workers, address=address, checkpoints=checkpoints, resume=resume,
                    callback=stages,
                )  # fmt: skip
        _told(saved, out, json_file)
        return
    for_stores = {
        "--memory": memory, "--workers": workers, "--address": address, "--checkpoints": checkpoints
    }  # fmt: skip
    if meant := [option for option, value in for_stores.items() if value is not None]:
        raise OptionError(
            f"{' and '.join(for_stores)} are for training on a --store; found {', '.join(meant)}."
        )
    if nodes is None and edges is None:
        if name is None:
            raise OptionError("train needs a named graph, or your own --nodes and --edges.")
        if out is not None or resume:
            raise OptionError(
                "a named graph's training is measured and not kept, so --out and --resume have no "
                "meaning; they are for your own --nodes and --edges."
            )
        _train_named(
            name, method, protocol, setting, seed, replicas, epochs, device, data, json_file
        )
        return
    if name is not None or not (nodes and edges and id and label and out):
        given = {"--nodes": nodes, "--edges": edges, "--id": id, "--label": label, "--out": out}
        missing = ", ".join(option for option, value in given.items() if not value)
        found = f"the named graph {name!r}, too" if name is not None else f"no {missing}"
        raise OptionError(
            "training on tables needs --nodes, --edges, --id, --label and --out and no named "
            f"graph; found {found}."
        )
    tables = Tables(
        nodes, edges, id, label, None if features is None else names_in(features),
        kinds_in(kinds), source, target, strict,
    )  # fmt: skip
    with Stages() as stages:
        saved = pipeline.train(tables, out, options, resume=resume, callback=stages)
    _told(saved, out, json_file)


def parse_time(text: str) -> float:
    """Seconds that '60s', '5m', '1h' or '90' name.

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


def _told(saved: Saved, out: Path, json_file: Path | None) -> None:
    estimates = saved.about.get("estimates")
    if estimates is not None:
        title = f"Estimated accuracy in percent, from {estimates['judges']} labels"
        print_table(title, list(estimate_rows(estimates)))
        for sentence in (*estimates["verdict"], *estimates["warnings"]):
            note(sentence)
    else:
        scores = saved.about.get("scores", {})
        print_table("Held-out nodes", [{"": key, "value": value} for key, value in scores.items()])
    page = ", its report.html what training showed" if saved.report else ""
    note(f"Model: {out}; its README.md says how to use it{page}.")
    _write_json(json_file, saved.about)


def estimate_rows(estimates: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of the table of estimates: this model, then the baselines."""
    new = estimates["rows"]
    groups = ((new, "new_rows"), ("rows of the table", "known_rows"), (new, "baselines"))
    for rows, key in groups:
        for score in estimates[key]:
            low, high = 100 * score["low"], 100 * score["high"]
            yield {
                "": score["name"],
                "for": rows,
                "accuracy": f"{100 * score['accuracy']:.1f}",
                "90 % interval": f"{low:.1f} to {high:.1f}",
                "needs links": "yes" if score["links"] else "no",
            }


@app.command()
def predict(
    model: ModelDir,
    nodes: Annotated[
        Path,
        typer.Argument(
            metavar="NODES", help="A table, Parquet or CSV, or a directory of Parquet files."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Predictions: .parquet or .csv; a directory for a directory."
        ),
    ],
    edges: EdgeFile = None,
    device: Device = "auto",
    workers: Annotated[
        int | None,
        typer.Option(help="For a directory: processes of Ray that share its files.", min=1),
    ] = None,
    address: Address = None,
) -> None:
    """Predict a table of nodes from features or, with --edges, with links among them.

    A directory is predicted file by file; killed, it goes on where it was.
    """
    if address is not None and workers is None:
        raise OptionError("--address is for --workers; say how many.")
    if nodes.is_dir() and edges is not None:
        raise OptionError("links can lead to any node: --edges needs one table, not a directory.")
    if not nodes.is_dir() and workers is not None:
        raise OptionError(f"--workers share the files of a directory; {nodes} is none.")
    with Stages() as stages:
        if nodes.is_dir():
            done = predict_directory(
                model, nodes, out, workers=workers, address=address, device=device, callback=stages
            )
        else:
            done = pipeline.predict(model, nodes, out, edges=edges, device=device, callback=stages)
    note(f"{done} nodes predicted: {out}")


@app.command()
def update(
    model: ModelDir,
    nodes: Annotated[Path, typer.Option(metavar="FILE", help="New nodes, Parquet or CSV.")],
    edges: Annotated[Path, typer.Option(metavar="FILE", help="New links: two columns of ids.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New model; default: MODEL-updated.")
    ] = None,
    source: Source = None,
    target: Target = None,
    strict: Strict = False,
    epochs: Annotated[
        int | None, typer.Option(help="Passes; default: a sixteenth of the steps of training anew.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
) -> None:
    """Bring a model up to date with new nodes and links, without the old ones.

    Old nodes that new links lead to come along in the node table. The old model stays as it is
    unless --out names it.
    """
    saved = load(model)
    about = saved.about
    if "id" not in about or "label" not in about:
        raise OptionError(f"{model} was not trained on a table; use it from Python.")
    there = model.resolve()
    to = out if out is not None else there.with_name(f"{there.name}-updated")
    tables = Tables(
        nodes, edges, about["id"], about["label"], source=source, target=target, strict=strict
    )
    with Stages() as stages:
        pipeline.update(saved, tables, to, epochs=epochs, seed=seed, device=device, callback=stages)
    note(f"Model: {to}")


@app.command()
def export(
    model: ModelDir,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The ONNX file to write.")],
    with_neighbour_head: Annotated[
        bool, typer.Option("--with-neighbour-head", help="Add the outputs for use with links.")
    ] = False,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Nodes to compare on; default: the model's sample."),
    ] = None,
) -> None:
    """Write a model as ONNX, once it has been found to give the same on real rows."""
    saved = load(model)
    count, difference = pipeline.export(
        saved, file, with_neighbour_head=with_neighbour_head, rows=rows
    )
    note(f"{file}: largest difference to the model on {count} rows {difference:.2g}")


app.command()(serve)
app.add_typer(store_module.store, name="store")


def _train_named(
    name: str,
    method: str,
    protocol: str,
    setting: str,
    seed: int,
    replicas: int,
    epochs: int | None,
    device: str,
    data: Path | None,
    json_file: Path | None,
) -> None:
    check_names("protocol", [protocol], tuple(PROTOCOLS))
    check_names("setting", [setting], PROTOCOLS[protocol])
    where = find_device(device)
    graph = graph_of(named.load(name, data), protocol)
    with Bars() as bars:
        seeds = range(seed, seed + replicas)
        inputs = make_inputs(graph.features, where)
        task = make_task(graph, setting, seeds, inputs, data, bars.progress, protocol)
        bars.stage("a plain MLP")
        plain = train_plain_mlp(task)
        bars.stage(method)
        result = fit(
            graph,
            task.splits,
            setting,
            method=method,
            seeds=seeds,
            epochs=epochs,
            device=where.type,
            inputs=inputs,
            progress=bars.progress,
        )
    scores = {
        "plain MLP": plain,
        f"{method}, from features": result.history.best("features"),
        f"{method}, with links": result.history.best("mean"),
    }
    title = f"{name}, {setting}, {replicas} replica(s): accuracy in percent"
    print_table(title, [{"": mode, **_row(best)} for mode, best in scores.items()])
    evaluations = len(result.history.curve("features"))
    took = f"{result.seconds:.1f} s on {where.type}"
    note(f"{result.epochs} epochs of {method} with {evaluations} evaluation(s) in {took}")
    _write_json(
        json_file,
        {
            "dataset": name,
            "protocol": protocol,
            "setting": setting,
            "method": method,
            "seeds": list(seeds),
            "epochs": result.epochs,
            "seconds": round(result.seconds, 3),
            "device": where.type,
            "precision": result.precision,
            "scores": {mode: _plain(best) for mode, best in scores.items()},
        },
    )


def _row(best: Best) -> dict[str, str]:
    return {
        "validation": spread(best.validation * 100),
        "test": spread(best.test * 100),
        "evaluation kept": ", ".join(map(str, best.epochs)),
    }


def _plain(best: Best) -> dict[str, list[float]]:
    return {
        "validation": (best.validation * 100).round(4).tolist(),
        "test": (best.test * 100).round(4).tolist(),
        "best_epochs": best.epochs.tolist(),
    }


@app.command()
def reproduce(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")],
    datasets: Annotated[
        str | None,
        typer.Option(help="Comma-separated. Default: the paper's sets whose files can be had."),
    ] = None,
    settings: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(SETTINGS),
    methods: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(METHODS),
    runs: Annotated[int, typer.Option(help="Runs a cell, each with a seed of its own.")] = 10,
    seed: Annotated[int, typer.Option(help="The first run's seed.")] = 0,
    device: Device = "auto",
    data: Data = None,
    json_file: JsonFile = None,
) -> None:
    """Train the asked cells of the paper's tables; killed, it goes on where it was."""
    _check_json(json_file, out)
    asked = None if datasets is None else names_in(datasets)
    plan = Plan(out, asked, names_in(settings), names_in(methods), runs, seed, device, data)
    with Bars() as bars:
        records = reproduce_plan(plan, bars)
    for title, rows in _overview(records).items():
        print_table(title, rows)
    _write_json(json_file, records)
    note(f"Report: {write_report(out)[0]}")


def _overview(records: list[Entry]) -> dict[str, list[dict[str, str]]]:
    """A table a setting: methods down, data sets across, ours beside the published."""
    tables: dict[str, dict[str, dict[str, str]]] = {}
    beside = " (published)" if any(record["published_mean"] for record in records) else ""
    for record in records:
        rows = tables.setdefault(f"{record['setting']}: test accuracy{beside}", {})
        row = rows.setdefault(record["method"], {"": record["method"]})
        known = record["published_mean"]
        row[record["dataset"]] = spread(record["scores"]) + (f" ({known:.2f})" if known else "")
    return {title: list(rows.values()) for title, rows in tables.items()}


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of 'reproduce'.")],
) -> None:
    """Write DIR/report.html, one page that needs no network, and DIR/tables.md."""
    for path in write_report(directory):
        note(str(path))


def _write_json(path: Path | None, value: object) -> None:
    if path is not None:
        replace_text(path, json.dumps(value, indent=1) + "\n")


def _check_json(path: Path | None, out: Path | None = None) -> None:
    """Refuse a file that cannot be written while no training is lost by it; `out` gets made."""
    if path is None:
        return
    made = out is not None and out.resolve().is_relative_to(path.resolve().parent)
    if path.is_dir() or not (made or os.access(path.parent, os.W_OK)):
        rule = "must be a file in a folder that is there and that you may write to"
        raise OptionError(f"--json {rule}; found {path}.")


def _take_any_character() -> None:
    """Let a stream that has no '±' show '?' for it, rather than fail after the training."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def main() -> None:
    """Run the command line; a user's mistake is told in plain words, exit code 2."""
    _take_any_character()
    try:
        app()
    except LinkDistError as error:
        if "--debug" in sys.argv:
            raise
        print(f"linkdist: {error}", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, SystemExit) as end:
        # Typer makes an exit of most interruptions, and says nothing of them.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        print("linkdist: interrupted.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        print(f"linkdist: unexpected {type(error).__name__}: {error}", file=sys.stderr)
        print("linkdist: 'linkdist --debug ...' shows where; please report it.", file=sys.stderr)
        sys.exit(1)

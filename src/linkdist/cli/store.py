"""`linkdist store`: build, make, describe and check a graph on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from linkdist.artifacts.manifest import some
from linkdist.cli.console import Stages, note, print_table
from linkdist.cli.options import Features, Kinds, Source, Strict, Target, kinds_in, names_in
from linkdist.store.build import build as build_store
from linkdist.store.manifest import bucket_file, buckets
from linkdist.store.plan import MEMORY, format_memory, parse_memory, training_memory
from linkdist.store.reader import Store
from linkdist.store.synthetic import Planted
from linkdist.store.synthetic import synth as make_store
from linkdist.store.verify import check as check_store
from linkdist.tables.source import Tables

SHOWN = 20
"""How many classes `info` tells of one by one."""

store = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown", help="Graphs larger than memory, on disk."
)

StoreDir = Annotated[Path, typer.Argument(metavar="STORE", help="A store's directory.")]
Out = Annotated[Path, typer.Option(metavar="STORE", help="The store to write, a directory.")]
Memory = Annotated[
    str,
    typer.Option(help="What building and training may take: 500MB, 2GB, 1.5GiB or plain bytes."),
]
Parts = Annotated[
    int | None, typer.Option(help="How many; default: as few as suit the memory.", min=1)
]
Dtype = Annotated[str, typer.Option(help="Of dense features: float16 or float32.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a store that is there.")]


@store.command()
def build(
    nodes: Annotated[Path, typer.Option(metavar="FILE", help="Node table, Parquet or CSV.")],
    edges: Annotated[Path, typer.Option(metavar="FILE", help="Link table: two columns of ids.")],
    id: Annotated[str, typer.Option(help="Node table's column of ids.")],
    label: Annotated[str, typer.Option(help="Node table's column of labels, empty where unknown.")],
    out: Out,
    memory: Memory = MEMORY,
    parts: Parts = None,
    dtype: Dtype = "float16",
    features: Features = None,
    kinds: Kinds = None,
    source: Source = None,
    target: Target = None,
    strict: Strict = False,
    overwrite: Overwrite = False,
) -> None:
    """Build a store from your own tables; killed, the same command goes on where it was.

    linkdist store build --nodes nodes.csv --edges links.csv --id paper --label field --out store
    """
    tables = Tables(
        nodes, edges, id, label, None if features is None else names_in(features),
        kinds_in(kinds), source, target, strict,
    )  # fmt: skip
    size = parse_memory(memory)
    with Stages() as stages:
        build_store(
            tables, out, parts=parts, memory=size, dtype=dtype, overwrite=overwrite, callback=stages
        )
    _describe(out)


@store.command()
def synth(
    nodes: Annotated[int, typer.Option(help="How many.")],
    links: Annotated[int, typer.Option(help="How many are drawn; those that come twice drop out.")],
    out: Out,
    features: Annotated[int, typer.Option(help="Of a node.")] = 64,
    classes: Annotated[int, typer.Option(help="How many.")] = 40,
    labelled: Annotated[
        float, typer.Option(help="Share of the nodes whose label is given.")
    ] = 0.01,
    homophily: Annotated[
        float, typer.Option(help="Share of the links that are drawn within a class.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 0,
    memory: Memory = MEMORY,
    parts: Parts = None,
    dtype: Dtype = "float16",
    overwrite: Overwrite = False,
) -> None:
    """Make a graph of planted classes, of any size, to try things on.

    linkdist store synth --nodes 1000000 --links 10000000 --out store
    """
    planted = Planted(nodes, links, features, classes, labelled, homophily, seed, dtype)
    size = parse_memory(memory)
    with Stages() as stages:
        make_store(out, planted, parts=parts, memory=size, overwrite=overwrite, callback=stages)
    _describe(out)


@store.command()
def info(directory: StoreDir) -> None:
    """Show what a store holds, and how much memory training from it takes."""
    _describe(directory)


@store.command()
def check(directory: StoreDir) -> None:
    """Read all of a store and tell every problem; exit code 1 where there is one."""
    with Stages() as stages:
        problems = check_store(directory, stages)
    for problem in problems:
        note(problem)
    if problems:
        note(f"{directory}: {len(problems)} problem(s). Build it again, or copy it again.")
        raise typer.Exit(1)
    note(f"{directory} is whole: all digests match, and all links, labels and features are sound.")


def _describe(directory: Path) -> None:
    found = Store.open(directory)
    print_table(f"Store {directory}", [{"": key, "value": value} for key, value in _rows(found)])


def _rows(found: Store) -> list[tuple[str, Any]]:
    manifest, P = found.manifest, found.P
    files = {name: file.size for name, file in manifest.files.items()}
    held = found.part_bytes
    part = max(range(P), key=lambda p: held[p])
    bucket = max(zip(manifest.counts, buckets(P), strict=True))
    counts = zip(manifest.classes, manifest.labelled, strict=True)
    classes = [f"{name}: {number}" for name, number in counts]
    listed = ", ".join(classes) if len(classes) <= SHOWN else some(classes)
    return [
        ("nodes", found.n),
        ("links", f"{found.m}, {found.loops} of them self-loops"),
        ("features", f"{found.d}, {found.kind}"),
        ("classes", f"{found.C}, labels of each: {listed}"),
        ("labelled", sum(manifest.labelled)),
        ("parts", P),
        ("on disk", format_memory(sum(files.values()))),
        ("largest part", f"{part:04}: {manifest.sizes[part]} nodes, {format_memory(held[part])}"),
        ("largest bucket", f"{bucket_file(*bucket[1])}: {bucket[0]} links"),
        ("training takes", f"about {format_memory(training_memory(held, manifest.counts))}"),
    ]

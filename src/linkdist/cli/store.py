"""`linkdist store`: commands that build, extend, generate, describe and check a graph on disk."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from linkdist.cli.console import Bars, note, print_table
from linkdist.cli.options import LinkTable, NodeTable, Quiet, grouped, read_tables, same_command

if TYPE_CHECKING:
    from linkdist.store.reader import Store

SHOWN = 20
"""The number of classes up to which `info` lists them all."""

store = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Manage stores, which are graphs on disk that may be larger than memory.",
)

StoreDir = Annotated[Path, Argument(metavar="STORE", help="The directory of the store.")]


@dataclass(frozen=True)
class Layout:
    """Store."""

    out: Annotated[
        Path, Option(metavar="STORE", help="The directory to which the store is written.")
    ]
    memory: Annotated[
        str,
        Option(
            metavar="SIZE",
            help="The memory that building the store and training on it may use: 500MB, 2GB, "
            "1.5GiB or a number of bytes.",
        ),
    ] = "2GB"
    parts: Annotated[
        int | None,
        Option(
            help="Number of parts. By default, it is the smallest number that suits the memory.",
            min=1,
        ),
    ] = None
    dtype: Annotated[str, Option(help="The data type of dense features: float16 or float32.")] = (
        "float16"
    )
    overwrite: Annotated[bool, Option("--overwrite", help="An existing store is replaced.")] = False
    quiet: Quiet = False

    def bars(self) -> Bars:
        """Return the progress bars of a command that writes the store."""
        advice = "What is done is kept. Continue with:"
        return Bars(self.quiet, lambda: f"{advice}\n{same_command()}")

    def arguments(self) -> dict[str, Any]:
        """The arguments that a table and a synthetic graph share."""
        from linkdist.store.plan import parse_memory

        memory = parse_memory(self.memory)
        return {"parts": self.parts, "memory": memory, "overwrite": self.overwrite}


@dataclass(frozen=True)
class Synthetic:
    """Graph."""

    nodes: Annotated[int, Option(help="Number of nodes.")]
    links: Annotated[
        int, Option(help="Number of links to draw. Duplicates among them are removed.")
    ]
    features: Annotated[int, Option(help="Number of features of a node.")] = 64
    classes: Annotated[int, Option(help="Number of classes.")] = 40
    labelled: Annotated[float, Option(help="Share of the nodes that have a label.")] = 0.01
    homophily: Annotated[
        float, Option(help="Share of the links that are drawn between nodes of the same class.")
    ] = 0.8
    seed: Annotated[int, Option(help="Random seed for the whole graph.")] = 0


@store.command()
@grouped(required=("nodes", "id", "label", "edges"))
def build(nodes: NodeTable, links: LinkTable, layout: Layout) -> None:
    """Build a store from your own tables.

    If an interrupted build is started again, it continues where it stopped.

    linkdist store build --nodes nodes.csv --edges links.csv --id paper --label field --out store
    """
    from linkdist.store.build import build

    tables, arguments = read_tables(nodes, links), layout.arguments()
    with layout.bars() as bars:
        build(tables, layout.out, dtype=layout.dtype, callback=bars, **arguments)
    info(layout.out)


@store.command()
@grouped()
def synth(graph: Synthetic, layout: Layout) -> None:
    """Generate a graph with planted classes, of any size, for experiments.

    linkdist store synth --nodes 1000000 --links 10000000 --out store
    """
    from linkdist.store.synthetic import Planted, synth

    planted, arguments = Planted(**asdict(graph), dtype=layout.dtype), layout.arguments()
    with layout.bars() as bars:
        synth(layout.out, planted, callback=bars, **arguments)
    info(layout.out)


@store.command()
def append(
    directory: StoreDir,
    nodes: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="A table of new nodes, with the columns of the node table that the store was "
            "built from.",
        ),
    ] = None,
    edges: Annotated[
        list[Path] | None,
        Option(
            metavar="TABLE",
            help="A table of new links between any two nodes, with the columns of the link table "
            "that the store was built from. Repeat --edges if each table was a relation.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        Option(help="The column with the first id of a link. By default, it is that of the store."),
    ] = None,
    target: Annotated[
        str | None,
        Option(help="The column with the second id. By default, it is that of the store."),
    ] = None,
    memory: Annotated[
        str,
        Option(metavar="SIZE", help="The memory to use: 500MB, 2GB, 1.5GiB or a number of bytes."),
    ] = "2GB",
    quiet: Quiet = False,
) -> None:
    """Append new nodes, new links or both to a store, without building it again.

    The kinds of columns, their statistics, the classes and the relations stay as they are. Only
    files that change are written. If the command is interrupted, the store is as it was.

    linkdist store append store --nodes new_nodes.csv --edges new_links.csv
    """
    from linkdist.store.append import append
    from linkdist.store.plan import parse_memory

    size = parse_memory(memory)
    advice = "The store is not damaged. Start again with:"
    with Bars(quiet, lambda: f"{advice}\n{same_command()}") as bars:
        append(
            directory, nodes, edges or None, source=source, target=target, memory=size,
            callback=bars,
        )  # fmt: skip
    info(directory)


@store.command()
def info(directory: StoreDir) -> None:
    """Show what a store contains and how much memory training on it takes."""
    from linkdist.store.reader import Store

    rows = [{"": key, "value": value} for key, value in _rows(Store.open(directory))]
    print_table(f"Store {directory}", rows)


@store.command()
def check(directory: StoreDir) -> None:
    """Read a whole store and report every problem; with problems, the exit code is 1."""
    from linkdist.store.verify import check

    with Bars() as bars:
        problems = check(directory, bars)
    for problem in problems:
        note(problem)
    if problems:
        note(f"{directory}: {len(problems)} problem(s). Build the store again, or copy it again.")
        raise typer.Exit(1)
    note(f"{directory} is valid: all digests match, and all links, labels and features are valid.")


def _rows(found: Store) -> list[tuple[str, Any]]:
    from linkdist.store.format import bucket_file, buckets
    from linkdist.store.plan import format_memory, training_memory

    manifest, P = found.manifest, found.P
    files = {name: file.size for name, file in manifest.files.items()}
    held = found.part_bytes
    part = max(range(P), key=lambda p: held[p])
    bucket = max(zip(manifest.counts, buckets(P), strict=True))
    return [
        ("nodes", found.n),
        ("links", f"{found.m}, {found.loops} of them self-loops"),
        ("relations", f"{len(found.relations)}: {', '.join(found.relations)}"),
        ("directed", "yes" if found.directed else "no"),
        ("weights", "yes" if found.weighted else "no"),
        ("features", f"{found.d}, {found.kind}"),
        ("task", found.task),
        *_label_rows(found),
        ("parts", f"{P}, {P - manifest.hashed} of them appended" if manifest.hashed < P else P),
        ("on disk", format_memory(sum(files.values()))),
        ("largest part", f"{part:04}: {manifest.sizes[part]} nodes, {format_memory(held[part])}"),
        ("largest bucket", f"{bucket_file(*bucket[1])}: {bucket[0]} links"),
        ("training takes", f"about {format_memory(training_memory(held, manifest.counts))}"),
    ]


def _label_rows(found: Store) -> list[tuple[str, Any]]:
    from linkdist.artifacts.manifest import some

    names, labelled = found.classes, found.manifest.labelled
    if found.task == "regression":
        return [("number", f"{names[0]}, known for {labelled[0]} nodes")]
    classes = [f"{name}: {number}" for name, number in zip(names, labelled, strict=True)]
    listed = ", ".join(classes) if len(classes) <= SHOWN else some(classes)
    if found.task == "multilabel":  # a node may have several labels, so they are not added up
        return [("classes", f"{found.C}, nodes with each: {listed}")]
    return [
        ("classes", f"{found.C}, labels of each: {listed}"),
        ("labelled", sum(labelled)),
    ]

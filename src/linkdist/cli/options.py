"""Options that several commands share, and option groups.

An option group is a frozen dataclass whose fields are options. `grouped` turns the fields of a
command's groups into options of that command, so a command takes a few objects instead of thirty
values::

    @dataclass(frozen=True)
    class Output:
        '''Output.'''                                   # the title of the panel in the help

        out: Annotated[Path, Option(help="...")]        # required
        resume: Annotated[bool, Option(help="...")] = False

    @grouped()
    def train(output: Output) -> None: ...              # linkdist train --out DIR --resume
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_type_hints

from typer import Argument, Option

from linkdist._files import replace_text
from linkdist.errors import OptionError, check_names

if TYPE_CHECKING:
    from linkdist.tables.source import Tables

Command: TypeAlias = Callable[..., None]
Value = TypeVar("Value")

# Options of several commands.

ModelDir = Annotated[
    Path, Argument(metavar="MODEL", help="The model directory that 'linkdist train' wrote.")
]
Device = Annotated[
    str,
    Option(help="The device to compute on: auto, cpu or cuda. 'auto' uses a GPU if there is one."),
]
Seed = Annotated[int, Option(help="Random seed for the split, the initial weights and sampling.")]
Replicas = Annotated[
    int,
    Option(help="Number of networks to train, with the seeds seed, seed + 1 and so on."),
]
Epochs = Annotated[
    int | None,
    Option(
        help="Number of passes over the nodes for selflinkdist (default: 30), and over the links "
        "for the other methods (default: 200 / average degree)."
    ),
]
Address = Annotated[
    str | None,
    Option(
        help="Address of the Ray cluster that runs the --workers. 'auto' is the cluster that this "
        "machine belongs to. By default, Ray is started on this machine."
    ),
]
Force = Annotated[
    bool,
    Option("--force", help="A model of another training in the directory is replaced."),
]
Sets: TypeAlias = Annotated[
    float | None,
    Option(
        metavar="SHARE",
        help="Add a column with a set of classes, which contains the true class of this share "
        "of rows, such as 0.9 (conformal prediction).",
    ),
]
Abstain: TypeAlias = Annotated[
    float | None,
    Option(
        metavar="SHARE",
        help="Leave the label of the least certain rows empty: this share of rows that are "
        "like the training, such as 0.2.",
    ),
]

Quiet = Annotated[
    bool, Option("--quiet", "-q", help="Only warnings, errors and the result are printed.")
]
RawText = Annotated[
    bool,
    Option(
        "--raw-text",
        help="Text in a CSV file stays as it is. By default, text that a spreadsheet would take "
        "for a formula gets a leading apostrophe.",
    ),
]
DataDir = Annotated[
    Path | None,
    Option(
        "--data",
        metavar="DIR",
        help="The folder that contains the raw files. By default, they are read from the folder "
        "in LINKDIST_DATA or from the cache folder, or they are downloaded.",
    ),
]
MoreLinks = Annotated[
    list[Path] | None,
    Option(
        metavar="TABLE",
        help="The link table, with links among these nodes. Predictions then use the links. Repeat "
        "the option if each relation has a table.",
    ),
]
JsonFile = Annotated[
    Path | None,
    Option("--json", metavar="FILE", help="A file to which the result is also written, as JSON."),
]

# Option groups of several commands.


@dataclass(frozen=True)
class NodeTable:
    """Node table."""

    nodes: Annotated[
        list[Path] | None,
        Option(
            metavar="TABLE",
            help="The node table, with one row per node: a Parquet, CSV or JSON lines file, or a "
            "folder of Parquet files. Repeat --nodes and --edges, in the same order, if each graph "
            "has its own tables; the graph is the name of the file or, if these are equal, of the "
            "folder.",
        ),
    ] = None
    id: Annotated[str | None, Option(help="The column of the node table with the ids.")] = None
    label: Annotated[
        str | None,
        Option(
            metavar="COLUMN,...",
            help="The column with the labels, which is empty where the label is unknown. Several "
            "columns of 0 and 1 are several labels of a row.",
        ),
    ] = None
    task: Annotated[
        str | None,
        Option(
            help="What the labels are: 'classification' (one class), 'regression' (a number) or "
            "'multilabel' (any number of classes). By default, it is guessed from the labels, and "
            "the guess is printed."
        ),
    ] = None
    features: Annotated[
        str | None,
        Option(
            metavar="COLUMN,...",
            help="The columns to use as features. By default, all suitable columns are used.",
        ),
    ] = None
    kinds: Annotated[
        str | None,
        Option(
            metavar="COLUMN=KIND,...",
            help="The kinds of columns for which the guess is wrong. A kind is one of numeric, "
            "date, categorical, text, tags, tags:binary and vector.",
        ),
    ] = None
    unknown: Annotated[
        str | None,
        Option(
            metavar="VALUE,...",
            help="The values of the label column that mean an unknown label, such as NA.",
        ),
    ] = None
    labels: Annotated[
        Path | None,
        Option(
            metavar="TABLE",
            help="A table of ids and labels that adds labels to the node table. 'linkdist suggest' "
            "writes such a table to fill in.",
        ),
    ] = None
    graph: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="The column of the node table with the names of graphs, if the table contains "
            "several.",
        ),
    ] = None


@dataclass(frozen=True)
class LinkTable:
    """Link table."""

    edges: Annotated[
        list[Path] | None,
        Option(
            metavar="TABLE",
            help="The link table, with two columns of ids: a file or folder like the node table. "
            "Repeat the option if each relation has a table; the relation is the name of the file.",
        ),
    ] = None
    source: Annotated[
        str | None,
        Option(help="The column with the first id of a link. By default, it is the first column."),
    ] = None
    target: Annotated[
        str | None,
        Option(help="The column with the second id. By default, it is the second column."),
    ] = None
    relation: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="The column with the relation of a link, such as 'cites'. The model has a "
            "neighbour head for each relation, up to 20.",
        ),
    ] = None
    weight: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="The column with the weight of a link, a positive number. By default, all links "
            "have the same weight.",
        ),
    ] = None
    directed: Annotated[
        bool,
        Option(
            "--directed",
            help="Links lead from the first id to the second, and the two directions may tell "
            "different things. By default, links have no direction.",
        ),
    ] = False
    strict: Annotated[
        bool,
        Option(
            "--strict",
            help="Warnings about the tables, duplicate links, links to unknown nodes and "
            "self-loops are errors. By default, they are reported.",
        ),
    ] = False


def table_arguments(nodes: NodeTable, links: LinkTable) -> dict[str, Any]:
    """Return the arguments of `linkdist.train`; raise OptionError if a table or role is missing."""
    required: dict[str, Any] = {"--nodes": nodes.nodes, "--edges": links.edges, "--id": nodes.id}
    required["--label"] = split_names(nodes.label or "")
    missing = [option for option, value in required.items() if not value]
    if missing:
        raise OptionError(
            "your own tables are given by --nodes, --edges, --id and --label; found no "
            f"{', '.join(missing)}."
        )
    return {
        "nodes": one_or_all(nodes.nodes or []),
        "links": one_or_all(links.edges or []),
        "id": nodes.id,
        "label": one_or_all(split_names(nodes.label or "")),
        "task": nodes.task,
        "graph": nodes.graph,
        "features": None if nodes.features is None else split_names(nodes.features),
        "kinds": parse_kinds(nodes.kinds),
        "unknown": split_names(nodes.unknown or ""),
        "labels": nodes.labels,
        "source": links.source,
        "target": links.target,
        "relation": links.relation,
        "weight": links.weight,
        "directed": links.directed,
        "strict": links.strict,
    }


def one_or_all(values: list[Value]) -> Value | list[Value]:
    """Return the value of an option that may have several, or all of them if there are several.

    Examples
    --------
    >>> one_or_all(["even"]), one_or_all(["even", "loop"])
    ('even', ['even', 'loop'])
    """
    return values[0] if len(values) == 1 else values


def read_tables(nodes: NodeTable, links: LinkTable) -> Tables:
    """Return the tables that the options describe."""
    from linkdist.tables.source import Tables

    arguments = table_arguments(nodes, links)
    return Tables(edges=arguments.pop("links"), **arguments)


# How groups become options.


def grouped(required: Collection[str] = ()) -> Callable[[Command], Command]:
    """Return a decorator that turns the fields of a command's option groups into its options.

    Parameters
    ----------
    required : collection of str
        Fields that this command requires although they have a default.

    Examples
    --------
    >>> @grouped(required=["edges"])
    ... def count(links: LinkTable) -> None:
    ...     print(*links.edges, links.strict)
    >>> ", ".join(inspect.signature(count).parameters)
    'edges, source, target, relation, weight, directed, strict'
    >>> count(**vars(LinkTable(edges=[Path("links.csv")], strict=True)))
    links.csv True
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        groups: dict[str, Any] = {
            name: parameter.annotation
            for name, parameter in signature.parameters.items()
            if is_dataclass(parameter.annotation)
        }

        @functools.wraps(command)
        def run(**values: object) -> None:
            objects = {
                name: group(**{field.name: values.pop(field.name) for field in fields(group)})
                for name, group in groups.items()
            }
            command(**values, **objects)

        flat: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            if name in groups:
                flat += _parameters(groups[name], required)
            else:
                flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(group: Any, required: Collection[str]) -> Iterator[inspect.Parameter]:  # noqa: ANN401
    """Yield a parameter for each field of a group, in the help panel with the group's title."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind, option = hints[field.name].__origin__, copy(hints[field.name].__metadata__[0])
        option.rich_help_panel = str(group.__doc__).partition(".")[0]
        optional = field.name not in required and field.default is not MISSING
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default if optional else inspect.Parameter.empty,
            annotation=Annotated[kind, option],
        )


def given(group: Any) -> list[str]:  # noqa: ANN401
    """Return the options of a group whose values differ from the defaults.

    Examples
    --------
    >>> given(LinkTable(edges=[Path("links.csv")], strict=True))
    ['--edges', '--strict']
    """
    return [
        f"--{field.name.removesuffix('_file').replace('_', '-')}"
        for field in fields(group)
        if getattr(group, field.name) != field.default
    ]


def same_command(*more: str) -> str:
    """Return the command that runs, with further options, as a line for a shell."""
    missing = [option for option in more if option not in sys.argv]
    return shlex.join(["linkdist", *sys.argv[1:], *missing])


# Values of options.


def split_names(text: str) -> list[str]:
    """Return comma-separated names as a list.

    Examples
    --------
    >>> split_names("age, field,")
    ['age', 'field']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_kinds(text: str | None) -> dict[str, str]:
    """Return the columns in the value of `--kinds` and their kinds.

    Examples
    --------
    >>> parse_kinds("age=numeric, field=text")
    {'age': 'numeric', 'field': 'text'}
    >>> parse_kinds("age")
    Traceback (most recent call last):
    linkdist.errors.OptionError: --kinds takes COLUMN=KIND, comma-separated; found age.
    """
    from linkdist.tables.schema import KINDS

    pairs = [pair.partition("=") for pair in split_names(text or "")]
    wrong = [f"{column}{sign}{kind}" for column, sign, kind in pairs if not (column and kind)]
    if wrong:
        raise OptionError(f"--kinds takes COLUMN=KIND, comma-separated; found {', '.join(wrong)}.")
    check_names("kind", [kind.strip() for _, _, kind in pairs], KINDS)
    return {column.strip(): kind.strip() for column, _, kind in pairs}


def check_json(path: Path | None, out: Path | None = None) -> None:
    """Raise OptionError before any work is done if `path` cannot be written.

    The command creates the folder `out` and its parents, so `path` may be in one of them.
    """
    if path is None:
        return
    created = out is not None and out.resolve().is_relative_to(path.resolve().parent)
    if path.is_dir() or not (created or os.access(path.parent, os.W_OK)):
        raise OptionError(
            f"--json must be a file in an existing folder that you may write to; found {path}."
        )


def write_json(path: Path | None, value: object) -> None:
    """Write a result to the file that `--json` names, if any."""
    if path is not None:
        replace_text(path, json.dumps(value, indent=1) + "\n")

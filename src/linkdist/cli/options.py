"""Options that several commands have, and the lists that are given as text."""

from __future__ import annotations

from typing import Annotated

import typer

from linkdist.errors import OptionError, check_names
from linkdist.tables.schema import KINDS

Features = Annotated[
    str | None, typer.Option(help="Comma-separated columns; default: all that can be.")
]
Kinds = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN=KIND,...",
        help="Where the guess is wrong: numeric, categorical, text or vector.",
    ),
]
Source = Annotated[
    str | None, typer.Option(help="Link table's first column of ids; default: its first column.")
]
Target = Annotated[
    str | None, typer.Option(help="Link table's second column of ids; default: its second column.")
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Links of unknown nodes, duplicates and self-loops are errors."),
]


def names_in(text: str) -> list[str]:
    """Comma-separated names.

    Examples
    --------
    >>> names_in("age, field,")
    ['age', 'field']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def kinds_in(text: str | None) -> dict[str, str]:
    """Columns and their kinds.

    Examples
    --------
    >>> kinds_in("age=numeric, field=text")
    {'age': 'numeric', 'field': 'text'}
    >>> kinds_in("age")
    Traceback (most recent call last):
    linkdist.errors.OptionError: --kinds takes COLUMN=KIND, comma-separated; found age.
    """
    pairs = [pair.partition("=") for pair in names_in(text or "")]
    wrong = [f"{column}{sign}{kind}" for column, sign, kind in pairs if not (column and kind)]
    if wrong:
        raise OptionError(f"--kinds takes COLUMN=KIND, comma-separated; found {', '.join(wrong)}.")
    check_names("kind", [kind.strip() for _, _, kind in pairs], KINDS)
    return {column.strip(): kind.strip() for column, _, kind in pairs}

"""The errors that a user can act on.

Every message says what was found, what the rule is and what to do::

    LinkDistError
    ├── GraphError      the arrays do not form a valid graph (also a ValueError)
    ├── DataError       a data set's raw files are missing, truncated or not the published ones
    ├── TableError      a table of nodes or links cannot be used (also a ValueError)
    ├── ModelError      a model's directory is missing, newer, cut off or tampered with
    ├── StoreError      a graph's directory is missing, half-built, newer, cut off or changed
    ├── SplitError      a split cannot be drawn from this graph
    ├── OptionError     an option's value is unknown or out of range
    └── DeviceError     the requested device is not available

The command line prints such an error without a traceback and exits with code 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_SEARCHED, MOST_SEARCHED = 40, 200
"""Characters of a name, and comparisons, up to which similar names are searched.

A request may contain many unknown names, and the search must not take long.
"""


class LinkDistError(Exception):
    """Base of all errors that a user can act on."""


class GraphError(LinkDistError, ValueError):
    """The graph's arrays do not fit together."""


class DataError(LinkDistError):
    """A data set's raw files are missing, truncated or not the published ones."""


class TableError(LinkDistError, ValueError):
    """A table of nodes or links cannot be used as it is."""


class ModelError(LinkDistError):
    """A model's directory is missing, newer than this program, truncated or changed."""


class StoreError(LinkDistError):
    """A graph's directory is missing, half-built, newer than this program, truncated or changed."""


class SplitError(LinkDistError, ValueError):
    """A split cannot be drawn from this graph."""


class OptionError(LinkDistError, ValueError):
    """An option's value is unknown or out of range."""


class DeviceError(LinkDistError, RuntimeError):
    """The requested device is not available."""


def check_names(what: str, asked: Iterable[str], known: Iterable[str]) -> None:
    """Raise an error that lists all unknown names, and similar names that are known.

    Parameters
    ----------
    what : str
        The kind of thing that the names refer to, in the singular.
    asked, known : iterable of str
        The given names and the valid ones.

    Examples
    --------
    >>> check_names("data set", ["cora"], ["cora", "pubmed"])
    >>> check_names("data set", ["coral"], ["cora", "pubmed"])
    Traceback (most recent call last):
    linkdist.errors.OptionError: unknown data set 'coral' (near: cora); choose from cora, pubmed.
    """
    known = list(known)
    folded = {name.lower(): name for name in known}
    unknown = []
    searched = 0
    for name in asked:
        if name not in known:
            near: list[str] = []
            if len(name) <= LONGEST_SEARCHED and searched + len(known) <= MOST_SEARCHED:
                near = difflib.get_close_matches(name.lower(), folded, n=3)
                searched += len(known)
            hint = f" (near: {', '.join(folded[key] for key in near)})" if near else ""
            unknown.append(f"{name!r}{hint}")
    if unknown:
        names = f"unknown {what} {', '.join(unknown)}"
        raise OptionError(f"{names}; choose from {', '.join(known)}.")


def check_seeds(seed: int, count: int, option: str) -> None:
    """Check that `count` seeds from `seed` on exist and fit into 32 bits.

    Parameters
    ----------
    seed, count : int
        The first seed and the number of seeds.
    option : str
        The option whose value is `count`.

    Examples
    --------
    >>> check_seeds(0, 10, "--runs")
    >>> check_seeds(0, 0, "--runs")
    Traceback (most recent call last):
    linkdist.errors.OptionError: --runs must be 1 or more; found 0.
    """
    if count < 1:
        raise OptionError(f"{option} must be 1 or more; found {count}.")
    if not 0 <= seed <= 2**32 - count:
        rule = f"must be 0 or more, and with {option} added at most 2**32"
        raise OptionError(f"--seed {rule}; found {seed} and {count}.")

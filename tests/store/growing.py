"""What the tests of appends share: a path of nodes, and the tables that let it grow."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa

from linkdist.pipeline import Tables
from linkdist.progress import Callback
from linkdist.store.append import append
from linkdist.store.build import build
from tests.stores import write


class Report(Callback):
    """Keeps the last report of links, and all notes."""

    report = None

    def __init__(self):
        self.notes = []

    def links(self, report):
        self.report = report

    def note(self, text):
        self.notes.append(text)


def link_columns(rows):
    return {"s": pa.array([a for a, _ in rows], "str"), "t": pa.array([b for _, b in rows], "str")}


def build_from(folder, nodes, rows, name="store", **options):
    """Build a store from columns."""
    paths = [
        write(folder / f"{name}.{what}.parquet", columns)
        for what, columns in (("nodes", nodes), ("links", link_columns(rows)))
    ]
    kinds = {"words": "text"} if "words" in nodes else {}
    return build(Tables(*paths, "id", "class", kinds=kinds), folder / name, **options)


def path_nodes(start, end):
    """Some rows of the node table."""
    numbers = range(start, end)
    ids, classes = [f"n{i}" for i in numbers], ["ab"[i % 2] for i in numbers]
    return {"id": ids, "class": classes, "age": [float(i % 7) for i in numbers]}


OLD_LINKS = [(f"n{i}", f"n{i + 1}") for i in range(2, 19)]
NEW_LINKS = [("n20", "n0"), ("n21", "n3"), ("n20", "n21"), ("n4", "n9"), ("n2", "n3")]


def append_new(store, **options):
    with mock.patch("os.fsync"):
        return append(store, path_nodes(20, 23), link_columns(NEW_LINKS), **options)

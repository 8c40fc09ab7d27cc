"""What the tests of stores share: stores as arrays, tables, trees of bytes."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from scipy import sparse

from linkdist.pipeline import Tables
from linkdist.store import plan
from linkdist.store.build import build


@contextmanager
def small():
    """Let buckets be as fine as tests want them, and the disk be quick."""
    finest = mock.patch.object(plan, "largest_parts", return_value=plan.MAX_PARTS)
    with finest, mock.patch("os.fsync"):
        yield


def write(path, columns):
    """A table of named columns as CSV or Parquet, by the path's ending."""
    table = pa.table(columns)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path, row_group_size=5)
    return path


def tree(folder):
    """All files of a folder with their bytes."""
    paths = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def papers_tables(papers, **options):
    return Tables(papers / "nodes.csv", papers / "links.csv", "paper", "field", **options)


def build_papers(papers, out, parts=3, **options):
    with small():
        return build(papers_tables(papers), out, parts=parts, **options)


def dense(features):
    return features.toarray() if sparse.issparse(features) else np.asarray(features)


def as_arrays(store, ids):
    """A store's features, labels and links in the order of the ids given, as a graph has them."""
    order = {text: i for i, text in enumerate(ids)}
    places = [np.array([order[t] for t in store.ids(p).to_pylist()], int) for p in range(store.P)]
    every = np.concatenate(places)
    assert sorted(every.tolist()) == list(range(len(ids))), "each node lies in one part"
    back = np.argsort(every)
    x = np.concatenate([dense(store.features(p)) for p in range(store.P)])[back]
    y = np.concatenate([store.labels(p) for p in range(store.P)])[back]
    pairs = []
    for a in range(store.P):
        for b in range(a, store.P):
            links = store.links(a, b).astype(np.int64)
            rows = [tuple(link) for link in links.tolist()]
            assert rows == sorted(set(rows)), "each link stands once, in order"
            if a == b:
                assert (links[:, 0] <= links[:, 1]).all()
            pairs.append(np.stack([places[a][links[:, 0]], places[b][links[:, 1]]], axis=1))
    links = np.sort(np.concatenate(pairs), axis=1)
    return x, y, links[np.lexsort((links[:, 1], links[:, 0]))]

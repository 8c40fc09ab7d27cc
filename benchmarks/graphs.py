"""The graphs that choices and measurements use: the paper's sets, and others from LINKDIST_DATA.

`load(name)` reads any of `PAPER` and `OTHERS`, `load_numbers(name)` those of `NUMBERS`, with a
number to predict. None of their files is in the repository. `draw`, `random_split` and
`stratified_split` draw labels.
"""

import json
import os
from pathlib import Path

import numpy as np
from scipy import io, sparse

from linkdist.data import datasets
from linkdist.data.graph import Graph, stacked
from linkdist.data.splits import Split

PAPER = [name for name in datasets.DATASETS if name not in ("digits", "cora-full")]
TWITCH = ["twitch-DE", "twitch-ENGB", "twitch-ES", "twitch-PTBR"]
OTHERS = ["actor", "blogcatalog", "tolokers", "minesweeper", *TWITCH, "counties"]
NO_BINS = ", no bins"
NUMBERS = ["counties", *TWITCH, *(name + NO_BINS for name in TWITCH)]
BIN, FEWEST = 0.41, 5
"""Columns of at least so many streamers whose log of views differs by no more are bins of views."""


def load(name):
    """A graph by its name."""
    if name in datasets.DATASETS:
        return datasets.load_dataset(name)
    root = Path(os.environ["LINKDIST_DATA"])
    if name == "blogcatalog":
        return _blogcatalog(root)
    if name == "counties":
        return _counties(root)
    if name.startswith("twitch-"):
        return _twitch(root, name)
    found = np.load(root / "heterophilous" / "raw" / f"{name}.npz")
    features, labels = found["node_features"], found["node_labels"]
    if name == "actor":  # words, most of them absent
        features = sparse.csr_matrix(features)
    elif name == "tolokers":  # numbers of any size; minesweeper's are 0 or 1
        features = _standardised(features)
    return Graph.build(features, found["edges"], labels, name=name)


def load_numbers(name):
    """A graph by its name, with a number to predict: the margin of 2016, or the log of views.

    Some columns of twitch are bins of the views themselves: 24 columns of at least 20 streamers
    each span log(1.5) of them, side by side from 8.5 on. The sets without bins leave such columns
    out, which are found by the views of all countries.
    """
    root = Path(os.environ["LINKDIST_DATA"])
    if name == "counties":
        table, features, pairs = _counties_table(root)
        numbers = table["margin_2016"]
    else:
        table, features, pairs = _twitch_table(root, name.removesuffix(NO_BINS))
        numbers = np.log1p(table["views"])
        if name.endswith(NO_BINS):
            features = features[:, ~_bins_of_views(root)]
    return Graph.build(features, pairs, numbers, ("number",), name, task="regression")


def _bins_of_views(root):
    """Which columns (d,) of twitch are bins of the views."""
    tables = [_twitch_table(root, name) for name in TWITCH]
    views = np.log1p(np.concatenate([table["views"] for table, _, _ in tables]))
    x = sparse.vstack([features for _, features, _ in tables], format="csc")
    bins = np.zeros(x.shape[1], dtype=bool)
    for column in np.flatnonzero(np.diff(x.indptr) >= FEWEST):
        inside = views[x.indices[x.indptr[column] : x.indptr[column + 1]]]
        bins[column] = np.ptp(inside) <= BIN
    return bins


def together(graphs):
    """Several graphs with the same features and classes as one, with their numbers as groups."""
    sizes = [graph.n for graph in graphs]
    starts = np.cumsum([0, *sizes[:-1]])
    links = np.concatenate([g.links + start for g, start in zip(graphs, starts, strict=True)])
    labels = np.concatenate([graph.labels for graph in graphs])
    groups = np.repeat(np.arange(len(graphs)), sizes)
    features, classes = stacked([graph.features for graph in graphs]), graphs[0].classes
    return Graph.build(features, links, labels, classes, task=graphs[0].task, groups=groups)


def everything(graph):
    """A split with all labels for training."""
    none = np.array([], dtype=np.int64)
    return Split(np.arange(graph.n), none, none)


def random_split(graph, share, seed):
    """A share of the nodes for training, drawn at random; the others are test nodes."""
    order = np.random.default_rng([13, seed]).permutation(graph.n)
    return _two_parts(graph, order[: round(share * graph.n)])


def stratified_split(graph, share, seed):
    """A share of each class for training, drawn at random; the others are test nodes."""
    order = np.random.default_rng([13, seed]).permutation(graph.n)
    of_class = [order[graph.labels[order] == c] for c in range(graph.C)]
    return _two_parts(graph, np.concatenate([c[: max(1, round(share * len(c)))] for c in of_class]))


def _two_parts(graph, train):
    none = np.array([], dtype=np.int64)
    return Split(np.sort(train), none, np.setdiff1d(np.arange(graph.n), train))


def draw(graph, kind, seed, final=True, most=2000):
    """A few labels and hidden test nodes, without validation nodes.

    `kind` is '5' or '20' labels of each class, '100' in all with at least one of each class, or a
    share such as '5%'. Final measurements test on one half of a graph's nodes, choices are judged
    on the other half.
    """
    random = np.random.default_rng([7, seed])
    half = np.zeros(graph.n, dtype=bool)
    half[np.random.default_rng(12345).permutation(graph.n)[: graph.n // 2]] = True
    order = random.permutation(graph.n)
    test = order[half[order] != final][: min(most, graph.n // 5)]
    rest = order[~np.isin(order, test)]
    of_class = [rest[graph.labels[rest] == c] for c in range(graph.C)]
    if kind in ("5", "20"):
        train = np.concatenate([nodes[: int(kind)] for nodes in of_class])
    else:
        count = round(float(kind[:-1]) / 100 * graph.n) if kind.endswith("%") else int(kind)
        first = np.array([nodes[0] for nodes in of_class if len(nodes)])
        others = rest[~np.isin(rest, first)]
        train = np.concatenate([first, others])[:count]
    none = np.array([], dtype=np.int64)
    return Split(np.sort(train), none, np.sort(test))


def _standardised(x):
    return (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)


def _blogcatalog(root):
    found = io.loadmat(root / "blogcatalog" / "raw" / "BlogCatalog.mat")
    links = np.stack(sparse.coo_matrix(found["Network"]).nonzero(), axis=1).astype(np.int64)
    labels = found["Label"].ravel().astype(np.int64)
    features = sparse.csr_matrix(found["Attributes"], dtype=np.float32)
    return Graph.build(features, links, labels - labels.min(), name="blogcatalog")


def _twitch(root, name):
    """Streamers of one country: the games they like, and whether they use mature language."""
    table, features, links = _twitch_table(root, name)
    mature = np.char.lower(table["mature"].astype(str)) == "true"
    return Graph.build(features, links, mature.astype(np.int64), name=name)


def _twitch_table(root, name):
    """The table of a country in the order of its nodes, the games as features, and the links."""
    folder = root / "twitch" / name.split("-")[1]
    games = json.loads((folder / "features.json").read_text())
    table = np.genfromtxt(folder / "target.csv", delimiter=",", names=True, dtype=None)
    table = table[np.argsort(table["new_id"])]
    rows = np.repeat([int(node) for node in games], [len(set(g)) for g in games.values()])
    columns = np.concatenate([sorted(set(g)) for g in games.values()])
    ones = np.ones(len(rows), dtype=np.float32)
    features = sparse.csr_matrix((ones, (rows, columns)), (len(table), 3170))
    links = np.loadtxt(folder / "edges.csv", delimiter=",", skiprows=1, dtype=np.int64)
    return table, features, links


def _counties(root):
    """US counties: did the margin of 2016 grow against that of 2012? A label of two classes."""
    table, features, pairs = _counties_table(root)
    grew = (table["margin_2016"] > table["margin_2012"] + 0.05).astype(np.int64)
    return Graph.build(features, pairs, grew, name="counties")


def _counties_table(root):
    """The table of US counties, its standardised columns without the margins, and the links."""
    table = np.genfromtxt(root / "counties" / "nodes.csv", delimiter=",", names=True)
    links = np.loadtxt(root / "counties" / "edges.csv", delimiter=",", skiprows=1, dtype=np.int64)
    ids = table["fips"].astype(np.int64)
    place = {fips: row for row, fips in enumerate(ids.tolist())}
    pairs = [(place[a], place[b]) for a, b in links.tolist() if a in place and b in place]
    columns = [
        name for name in table.dtype.names if name not in ("fips", "margin_2012", "margin_2016")
    ]
    x = np.stack([np.nan_to_num(table[name]) for name in columns], axis=1)
    return table, _standardised(x).astype(np.float32), pairs

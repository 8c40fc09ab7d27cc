"""Graphs from the objects of PyTorch Geometric, DGL and NetworkX, which need not be installed.

================ =============== =============== ============================== =================
object           features        labels          masks                          several graphs
================ =============== =============== ============================== =================
PyG              x               y               train_mask, val_mask,          batch
                                                 test_mask
DGL              ndata['feat']   ndata['label']  the same in ndata              batch_num_nodes()
NetworkX         attribute 'x'   attribute 'y'   the same attributes
================ =============== =============== ============================== =================

`linkdist.data.interchange` says how links are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data.graph import TASKS, Graph, IntArray
from linkdist.data.graph import known_labels as are_known
from linkdist.data.interchange import as_links, links_with_loops
from linkdist.data.link_readers import array_of, check_one_type, is_dgl, is_hetero_data, is_networkx
from linkdist.data.splits import Split
from linkdist.data.user_arrays import group_numbers, results_of
from linkdist.data.user_labels import class_numbers, known_labels, numbers_of, sets_of, task_of
from linkdist.errors import GraphError, OptionError, check_names

MASKS = ("train_mask", "val_mask", "test_mask")

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class NodeData:
    """The nodes of a graph of another library.

    Attributes
    ----------
    features : (n, d) array or sparse matrix
        Features.
    labels : array, optional
        Labels, if there are any.
    masks : mapping of str to (n,) bool array
        The masks of training, validation and test nodes that there are.
    nodes : list, optional
        The names of the nodes; by default their numbers.
    groups : (n,) array, optional
        The number of the graph that each node belongs to, if there are several.
    """

    features: Any
    labels: npt.NDArray[Any] | None
    masks: Mapping[str, Mask]
    nodes: list[Hashable] | None = None
    groups: npt.NDArray[Any] | None = None

    @property
    def taught(self) -> Mask | None:
        """The nodes (n,) whose labels training may use, for training or validation."""
        given = [self.masks[name] for name in MASKS[:2] if name in self.masks]
        return np.logical_or.reduce(given) if "train_mask" in self.masks else None


def node_data(source: Any, features: Any = None, labels: Any = None) -> NodeData:  # noqa: ANN401
    """Read features, labels and masks of an object that `graph_from` takes.

    Parameters
    ----------
    source : object
        The graph.
    features, labels : array or str, optional
        Given features and labels, or the names of attributes.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> data = SimpleNamespace(x=np.eye(2), y=np.array([0, 1]), edge_index=np.array([[0], [1]]))
    >>> node_data(data).labels
    array([0, 1])
    """
    get, names, nodes = _attributes(source)
    x, y = (
        get(given or default) if given is None or isinstance(given, str) else given
        for given, default in zip((features, labels), names, strict=True)
    )
    if x is None:
        name = features or names[0]
        raise GraphError(f"the graph has no features {name!r}; pass them with features=.")
    if y is None and isinstance(labels, str):
        raise GraphError(f"the graph has no labels {labels!r}; pass them with labels=.")
    x = x if sparse.issparse(x) or hasattr(x, "columns") else array_of(x)
    masks = {name: _mask(mask, name) for name in MASKS if (mask := get(name)) is not None}
    wrong = [f"{name} has {len(mask)}" for name, mask in masks.items() if len(mask) != x.shape[0]]
    if wrong:
        rule = f"masks must have an entry for each of {x.shape[0]} nodes"
        raise GraphError(f"{rule}; {', '.join(wrong)}.")
    return NodeData(x, None if y is None else _column(y), masks, nodes, _groups(source, get))


def graph_from(
    source: Any,  # noqa: ANN401
    features: Any = None,  # noqa: ANN401
    labels: Any = None,  # noqa: ANN401
    *,
    task: str | None = None,
    relation: Any = None,  # noqa: ANN401
    edge_weight: Any = None,  # noqa: ANN401
    directed: bool | None = None,
    name: str = "graph",
) -> tuple[Graph, Split]:
    """A graph and a split for `linkdist.fit`, from an object of another library.

    Parameters
    ----------
    source : object
        `Data` or `HeteroData` of PyTorch Geometric, a DGL graph or a NetworkX graph. A graph with
        edge types must have one node type. With given features, also any links that
        `LinkDistClassifier.fit` takes.
    features, labels : array or str, optional
        Features (n, d) and labels, or the names of the node attributes with them; by default those
        of the library (see `linkdist.data.graph_objects`). The rows of arrays are in the order of
        the nodes of the graph.
    task : {'classification', 'regression', 'multilabel'}, optional
        What the labels are. By default, a column for each class is multilabel, and numbers with
        fractions are a regression.
    relation, edge_weight, directed
        As in `LinkDistClassifier.fit`.
    name : str, optional
        Name of the graph in tables.

    Returns
    -------
    Graph, Split
        The split has the nodes of the masks `train_mask`, `val_mask` and `test_mask`; without
        `train_mask`, all other nodes with a label are training nodes.

    Raises
    ------
    GraphError
        Lists all problems of the links and labels.

    Examples
    --------
    >>> import networkx
    >>> source = networkx.DiGraph()
    >>> source.add_nodes_from([("a", {"x": [0.0], "y": 1.5}), ("b", {"x": [1.0]})])
    >>> source.add_edge("a", "b", weight=2.0)
    >>> graph, split = graph_from(source)
    >>> graph.task, graph.labels, graph.heads, graph.link_weights, split.train
    ('regression', array([1.5, nan]), ('links (out)', 'links (in)'), array([2.], dtype=float32), \
array([0]))
    """
    check_names("task", filter(None, [task]), TASKS)
    found = node_data(source, features, labels)
    n = int(found.features.shape[0])
    if found.labels is None:
        raise GraphError("the graph has no labels; pass them with labels=.")
    task = task or task_of(found.labels)
    said = {"relation": relation, "edge_weight": edge_weight, "directed": directed}
    (y, classes), links, groups = results_of(
        lambda: _labels(found.labels, n, task),
        lambda: as_links(source, n, found.nodes, **said),
        lambda: group_numbers(found.groups, n),
    )
    links = links_with_loops(links, n)
    graph = Graph.build(found.features, links, y, classes, name, task=task, groups=groups)
    return graph, _split(graph, found.masks)


def _attributes(
    source: Any,  # noqa: ANN401
) -> tuple[Callable[[str], Any], tuple[str, str], list[Hashable] | None]:
    """How to read a node attribute, the names of features and labels, and the names of nodes."""
    if is_dgl(source):
        check_one_type(source.ntypes, "graph.node_type_subgraph")
        return source.ndata.get, ("feat", "label"), None
    if is_hetero_data(source):
        source = source[check_one_type(source.node_types, "data.node_type_subgraph")]
    if hasattr(source, "edge_index") or hasattr(source, "x"):
        return lambda name: getattr(source, name, None), ("x", "y"), None
    if not is_networkx(source):
        return lambda name: None, ("x", "y"), None
    nodes = list(source.nodes)

    def get(name: str) -> Any:  # noqa: ANN401
        values = [source.nodes[node].get(name) for node in nodes]
        absent = [node for node, value in zip(nodes, values, strict=True) if value is None]
        if name == "x" and absent and len(absent) < len(nodes):
            raise GraphError(
                f"all nodes must have features {name!r}; {len(absent)} have none, such as "
                f"{absent[0]!r}."
            )
        return None if len(absent) == len(nodes) else values

    return get, ("x", "y"), nodes


def _column(y: Any) -> npt.NDArray[Any]:  # noqa: ANN401
    """Labels as an array; one column as a vector."""
    if isinstance(y, list):  # of a NetworkX graph: numbers beside None, or lists
        known = next((one for one in y if one is not None), None)
        wide = len(known) if isinstance(known, list | tuple | np.ndarray) else None
        y = y if wide is None else [[None] * wide if one is None else one for one in y]
        found = np.array(y, dtype=object)
    else:
        found = array_of(y)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def _mask(values: Any, name: str) -> Mask:  # noqa: ANN401
    mask = np.asarray(array_of(values), dtype=bool)
    if mask.ndim != 1:
        raise OptionError(f"{name} must be one mask; found shape {mask.shape}. Choose a column.")
    return mask


def _groups(source: Any, get: Callable[[str], Any]) -> npt.NDArray[Any] | None:  # noqa: ANN401
    """The graph of each node of a batch of graphs."""
    if is_dgl(source):
        sizes = array_of(source.batch_num_nodes())
        return np.repeat(np.arange(len(sizes)), sizes) if len(sizes) > 1 else None
    batch = get("batch")
    return None if batch is None else array_of(batch)


def _labels(y: Any, n: int, task: str) -> tuple[npt.NDArray[Any], tuple[str, ...] | None]:  # noqa: ANN401
    if task == "regression":
        return numbers_of(y, n), None
    if task == "multilabel":
        return sets_of(y, n), None
    values, known = known_labels(y)
    classes = np.unique(values[known])
    return class_numbers(y, classes, n), tuple(map(str, classes.tolist()))


def _split(graph: Graph, masks: Mapping[str, Mask]) -> Split:
    known = are_known(graph.labels)
    none = np.zeros(graph.n, dtype=bool)
    validation, test = (masks.get(name, none) for name in MASKS[1:])
    train = masks.get(MASKS[0], ~validation & ~test)
    parts: list[IntArray] = [np.flatnonzero(part & known) for part in (train, validation, test)]
    return Split(*parts)

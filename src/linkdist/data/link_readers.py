"""Read pairs, relations, weights and direction from the objects that contain links.

An object is recognised by its attributes, so no graph library is imported. What `as_links` does
with the result, such as turning names of nodes into row numbers, is the same for all objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from linkdist.data.csr import check_indices
from linkdist.data.links import LINKS, IntArray, Links
from linkdist.errors import GraphError

Array = npt.NDArray[Any]


class Asked(NamedTuple):
    """What the user says about links; see `linkdist.data.interchange.as_links`."""

    relation: Any = None
    weight: Any = None
    directed: bool | None = None


@dataclass(frozen=True)
class Found:
    """What an object says about its links.

    Attributes
    ----------
    pairs : (m, 2) array
        Row numbers or names of nodes.
    relation : (m,) int array, optional
        The position of each link's relation in `relations`.
    relations : tuple of str
        Names of the relations.
    weights : (m,) array, optional
        Weights of the links.
    directed : bool, optional
        Whether links are directed; None if the object does not say it.
    problems : list of str
        What is wrong, in sentences.
    """

    pairs: Array
    relation: IntArray | None = None
    relations: tuple[str, ...] = LINKS
    weights: Array | None = None
    directed: bool | None = None
    problems: list[str] = field(default_factory=list)


def read_edges(edges: Any, n: int, asked: Asked) -> Found:  # noqa: ANN401
    """Read the links between n nodes from any object that `as_links` takes.

    Examples
    --------
    >>> read_edges({"cites": [(0, 1)], "knows": [(1, 0)]}, 2, Asked()).relations
    ('cites', 'knows')
    """
    found = _read(edges, n, asked)
    if asked.directed is None:
        return found
    # Other objects that say a direction may be used without it.
    wrong = found.directed is False and asked.directed
    if (isinstance(edges, Links) and edges.directed != asked.directed) or wrong:
        ways = {True: "directed", False: "undirected"}
        rule = f"links must be {ways[asked.directed]}, as in training or by directed="
        return _with(found, f"{rule}; found {ways[not asked.directed]} links.")
    return replace(found, directed=asked.directed)


def array_of(values: Any) -> Array:  # noqa: ANN401
    """An array, from a tensor on any device too.

    Examples
    --------
    >>> array_of([1, 2])
    array([1, 2])
    """
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def check_one_type(types: Sequence[str], how: str) -> str:
    """The only node type of a graph; several raise a GraphError.

    Examples
    --------
    >>> check_one_type(["author", "paper"], "data.node_type_subgraph")
    Traceback (most recent call last):
    linkdist.errors.GraphError: a graph must have one node type; found 2: author, paper. Keep one \
with data.node_type_subgraph(['author']), or give all nodes the same features and use \
to_homogeneous().
    """
    if len(types) == 1:
        return types[0]
    keep = f"Keep one with {how}([{types[0]!r}])" if types else "Add nodes"
    raise GraphError(
        f"a graph must have one node type; found {len(types)}: {', '.join(types)}. {keep}, or give "
        "all nodes the same features and use to_homogeneous()."
    )


def is_dgl(source: Any) -> bool:  # noqa: ANN401
    """Whether an object is a DGL graph."""
    return hasattr(source, "canonical_etypes") and hasattr(source, "ndata")


def is_hetero_data(source: Any) -> bool:  # noqa: ANN401
    """Whether an object is `HeteroData` of PyTorch Geometric."""
    return hasattr(source, "edge_types") and hasattr(source, "node_types")


def is_networkx(source: Any) -> bool:  # noqa: ANN401
    """Whether an object is a NetworkX graph."""
    return hasattr(source, "nodes") and hasattr(source, "edges") and not is_dgl(source)


def _read(edges: Any, n: int, asked: Asked) -> Found:  # noqa: ANN401
    if isinstance(edges, Links):
        return _from_links(edges, asked)
    if sparse.issparse(edges):
        return _from_matrix(edges, n, asked)
    if is_dgl(edges):
        return _from_dgl(edges, asked)
    if is_hetero_data(edges):
        check_one_type(edges.node_types, "data.node_type_subgraph")
        kinds = {kind[1]: kind for kind in edges.edge_types}
        stores = {
            name: _from_store(edges[kind], _by_part(asked, *kind)) for name, kind in kinds.items()
        }
        return _joined(stores, asked)
    if hasattr(edges, "edge_index"):
        return _from_store(edges, asked)
    if is_networkx(edges):
        return _from_networkx(edges, asked)
    if isinstance(edges, Mapping):
        named = {_relation_name(key): key for key in edges}
        if len(named) < len(edges):
            raise GraphError(f"relations must have different names; found {list(edges)}.")
        parts = {
            name: _read(edges[key], n, _by_part(asked, key, name)) for name, key in named.items()
        }
        return _joined(parts, asked)
    return _completed(_pairs(edges), asked, lambda name: None)


def _from_links(links: Links, asked: Asked) -> Found:
    found = Found(links.pairs, links.relation, links.relations, links.weights, links.directed)
    if asked.relation is False:
        found = replace(found, relation=None, relations=LINKS)
    if asked.weight is False:
        found = replace(found, weights=None)
    if not all(option is None or option is False for option in (asked.relation, asked.weight)):
        return _with(found, "Links contain relations and weights; do not pass them again.")
    return found


def _from_matrix(matrix: sparse.spmatrix, n: int, asked: Asked) -> Found:
    if matrix.shape != (n, n):
        raise GraphError(
            f"an adjacency matrix must have one row and one column per node, {n} by {n}; "
            f"found {matrix.shape[0]} by {matrix.shape[1]}."
        )
    try:
        check_indices(matrix)
    except ValueError as error:
        raise GraphError(f"links are not a valid adjacency matrix: {error}.") from error
    found = sparse.coo_matrix(matrix)
    found.sum_duplicates()
    stored = found.data != 0
    pairs = np.stack([found.row[stored], found.col[stored]], axis=1).astype(np.int64)
    weight = found.data[stored] if asked.weight is True else asked.weight
    return _completed(pairs, asked._replace(weight=weight), lambda name: None)


def _from_store(data: Any, asked: Asked) -> Found:  # noqa: ANN401
    """Links of PyTorch Geometric's `Data`, or of one edge type of its `HeteroData`."""
    index = getattr(data, "edge_index", None)
    if index is None:
        raise GraphError(
            "links of a PyTorch Geometric object must be in edge_index; found none. If there is "
            "adj_t, set edge_index to torch.stack(adj_t.t().coo()[:2])."
        )
    pairs = array_of(index)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise GraphError(f"edge_index must have shape (2, m); found {pairs.shape}.")
    get = lambda name: getattr(data, name, None)  # noqa: E731
    return _completed(pairs.T, asked, get, ("edge_weight",), ("edge_type",))


def _from_dgl(graph: Any, asked: Asked) -> Found:  # noqa: ANN401
    check_one_type(graph.ntypes, "graph.node_type_subgraph")
    kinds = list(graph.canonical_etypes)
    plain = len(kinds) == 1 and kinds[0][1] == "_E"
    found = {}
    for kind in kinds:
        ends = [array_of(end) for end in graph.edges(etype=kind)]
        data = graph.edata if len(kinds) == 1 else graph.edges[kind].data
        part = asked if plain else _by_part(asked, *kind)
        found[kind[1]] = _completed(np.stack(ends, axis=1), part, data.get, ("weight", "w"))
    return found["_E"] if plain else _joined(found, asked)


def _from_networkx(graph: Any, asked: Asked) -> Found:  # noqa: ANN401
    several = hasattr(graph, "is_multigraph") and graph.is_multigraph()
    listed = list(graph.edges(keys=True, data=True) if several else graph.edges(data=True))
    pairs = np.empty((len(listed), 2), dtype=object)  # names may be tuples
    for row, (a, b, *_) in enumerate(listed):
        pairs[row, 0], pairs[row, 1] = a, b
    keys = [key for _, _, key, _ in listed] if several else []
    if asked.relation is None and keys and all(isinstance(key, str) for key in keys):
        asked = asked._replace(relation="key")

    def get(name: str) -> list[Any] | None:
        if several and name == "key":
            return keys
        values = [one[-1].get(name) for one in listed]
        return values if any(value is not None for value in values) else None

    found = _completed(pairs, asked, get, ("weight",))
    return replace(found, directed=bool(graph.is_directed()))


def _pairs(edges: Any) -> Array:  # noqa: ANN401
    try:
        pairs = array_of(edges)
        if pairs.dtype.kind in "US":  # NumPy turns numbers beside text into text
            pairs = np.asarray(edges, dtype=object)
    except (ValueError, TypeError) as error:
        raise GraphError(f"links must be pairs, (m, 2) or (2, m): {error}.") from error
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim == 2 and pairs.shape[0] == 2 and pairs.shape[1] != 2:
        pairs = pairs.T
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise GraphError(f"links must be pairs, (m, 2) or (2, m); found shape {pairs.shape}.")
    return pairs


def _completed(
    pairs: Array,
    asked: Asked,
    get: Callable[[str], Any],
    weights: Sequence[str] = (),
    relations: Sequence[str] = (),
) -> Found:
    """Pairs with the weights and relations that were asked for, or the first attribute there is."""
    problems: list[str] = []
    weight = _chosen(asked.weight, get, weights, "edge_weight", problems)
    relation = _chosen(asked.relation, get, relations, "relation", problems)
    numbers = None if weight is None else _numbers(weight, problems)
    codes, names = (None, LINKS) if relation is None else _names(relation, problems)
    return Found(pairs, codes, names, numbers, None, problems)


def _chosen(
    asked: Any,  # noqa: ANN401
    get: Callable[[str], Any],
    defaults: Sequence[str],
    option: str,
    problems: list[str],
) -> Any:  # noqa: ANN401
    """The values of an option: an array, an attribute, or the first default that is there."""
    if asked is False:
        return None
    if asked is not None and asked is not True and not isinstance(asked, str):
        return asked
    names = [asked] if isinstance(asked, str) else defaults
    values = next((value for value in map(get, names) if value is not None), None)
    if values is None and asked is not None:
        what = f"links with the attribute {asked!r}" if isinstance(asked, str) else "an object"
        rule = f"{option}={asked!r} needs {what}"
        problems.append(f"{rule}; found none. Pass an array with a value for each link.")
    return values


def _numbers(values: Any, problems: list[str]) -> Array | None:  # noqa: ANN401
    """Weights as an array of numbers, NaN where missing."""
    if isinstance(values, Mapping):
        problems.append("edge_weight may be a mapping only if edges are one; pass an array.")
        return None
    found = array_of(values)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.dtype.kind != "O":
        return found
    try:
        return np.array([np.nan if _missing(one) else float(one) for one in found.tolist()])
    except (TypeError, ValueError) as error:
        problems.append(f"link weights must be positive numbers; {error}.")
        return None


def _names(values: Any, problems: list[str]) -> tuple[IntArray | None, tuple[str, ...]]:  # noqa: ANN401
    """The codes (m,) and names of relations."""
    found = array_of(values)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim != 1:
        problems.append(f"there must be one relation for each link; found shape {found.shape}.")
        return None, LINKS
    missing = np.array([_missing(one) for one in found.tolist()], dtype=bool)
    if missing.any():
        row = int(missing.argmax())
        rule = "links must have a relation"
        problems.append(f"{rule}; link {row} has none, {int(missing.sum())} in total.")
        return None, LINKS
    if found.dtype.kind == "O":
        found = np.array(list(map(str, found.tolist())), dtype=str)
    names, codes = np.unique(found, return_inverse=True)
    return codes.astype(np.int64), tuple(map(str, names.tolist())) or LINKS


def _missing(value: Any) -> bool:  # noqa: ANN401
    return value is None or type(value).__name__ == "NAType" or value != value


def _relation_name(key: Any) -> str:  # noqa: ANN401
    """The name of a relation: a key, or the middle of (node type, relation, node type)."""
    if not (isinstance(key, tuple) and len(key) == 3):
        return str(key)
    check_one_type(list(dict.fromkeys([key[0], key[2]])), "a mapping of relations between nodes of")
    return str(key[1])


def _by_part(asked: Asked, *keys: Any) -> Asked:  # noqa: ANN401
    """What is asked of one relation, whose weights may be in a mapping."""
    weight = asked.weight
    if isinstance(weight, Mapping):
        weight = next((weight[key] for key in (keys, *keys) if key in weight), None)
    elif not isinstance(weight, bool | str):
        weight = None  # `_joined` reports other values
    return Asked(False, weight, asked.directed)


def _joined(parts: Mapping[str, Found], asked: Asked) -> Found:
    """The links of several relations, in one."""
    full = {name: part for name, part in parts.items() if len(part.pairs)}
    ways = {part.directed for part in full.values()}
    problems = [problem for part in parts.values() for problem in part.problems]
    problems += _part_problems(parts, asked)
    weights: list[Array] = [part.weights for part in full.values() if part.weights is not None]
    if weights and len(weights) < len(full):
        weights = []
        without = ", ".join(repr(name) for name, part in full.items() if part.weights is None)
        problems.append(f"either all relations have weights or none; {without} has none.")
    if True in ways and len(ways) > 1 and asked.directed is None:
        problems.append("either all relations are directed or none; pass directed=False or True.")
    codes = np.repeat(np.arange(len(parts)), [len(part.pairs) for part in parts.values()])
    merged = asked.relation is False or not parts
    return Found(
        _stacked([part.pairs for part in full.values()]),
        None if merged else codes,
        LINKS if merged else tuple(parts),
        np.concatenate(weights) if weights else None,
        next(iter(ways)) if len(ways) == 1 else None,
        problems,
    )


def _part_problems(parts: Mapping[str, Found], asked: Asked) -> list[str]:
    """What is wrong with options for links that are relations already."""
    problems = []
    if asked.relation is not None and asked.relation is not False:
        problems.append("relation= is for links without relations; these have names already.")
    if isinstance(asked.weight, Mapping):
        known = {key[1] if isinstance(key, tuple) else key for key in asked.weight}
        if other := sorted(map(str, known.difference(parts))):
            problems.append(f"edge_weight has unknown relations: {', '.join(other)}.")
    elif not (asked.weight is None or isinstance(asked.weight, bool | str)):
        problems.append("edge_weight must be a mapping of relations to weights, as edges are.")
    return problems


def _stacked(parts: Iterable[Array]) -> Array:
    parts = list(parts)
    if not parts:
        return np.empty((0, 2), dtype=np.int64)
    if len({part.dtype.kind for part in parts}) > 1:  # NumPy turns numbers beside text into text
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)


def _with(found: Found, problem: str) -> Found:
    return replace(found, problems=[*found.problems, problem])

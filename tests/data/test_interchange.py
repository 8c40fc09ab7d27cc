"""Links from NetworkX and SciPy, and from stand-ins with the attributes of PyG and DGL objects."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from linkdist.data.interchange import as_links, links_with_loops
from linkdist.data.links import LINKS, Links
from linkdist.errors import GraphError

PAIRS = np.array([[0, 1], [1, 2], [3, 0]])
WEIGHTS = np.array([0.5, 2.0, 3.0])


class HeteroData:
    """The attributes of PyTorch Geometric's `HeteroData`."""

    def __init__(self, nodes, edges):
        self.stores = {**nodes, **edges}
        self.node_types, self.edge_types = list(nodes), list(edges)

    def __getitem__(self, kind):
        return self.stores[kind]


class DGLGraph:
    """The attributes of a DGL graph with one node type and some edge types."""

    class Edges:
        def __init__(self, ends, data):
            self.ends, self.data = ends, data

        def __call__(self, etype=None):
            return self.ends[etype]

        def __getitem__(self, etype):
            return SimpleNamespace(data=self.data[etype])

    def __init__(self, ends, data, ndata=None, ntypes=("_N",), sizes=(4,)):
        kinds = {("_N", name, "_N"): name for name in ends}
        self.canonical_etypes, self.ntypes = list(kinds), list(ntypes)
        tensors = {
            kind: tuple(torch.from_numpy(end.copy()) for end in ends[name].T)
            for kind, name in kinds.items()
        }
        stores = {
            kind: {key: torch.from_numpy(values) for key, values in data.get(name, {}).items()}
            for kind, name in kinds.items()
        }
        self.edges, self.nodes = self.Edges(tensors, stores), None
        self.ndata, self.sizes = ndata or {}, sizes
        if len(kinds) == 1:
            self.edata = stores[self.canonical_etypes[0]]

    def batch_num_nodes(self):
        return torch.tensor(self.sizes)


def described(links):
    """The links as a set of (from, to, relation, weight)."""
    relation = np.zeros(len(links.pairs), int) if links.relation is None else links.relation
    weights = np.ones(len(links.pairs)) if links.weights is None else links.weights
    names = np.array(links.relations)[relation]
    return sorted(
        (a, b, str(name), round(float(weight), 6))
        for (a, b), name, weight in zip(links.pairs.tolist(), names, weights, strict=True)
    )


def expected(relation=("links",) * 3, weights=(1.0,) * 3):
    rows = zip(PAIRS.tolist(), relation, weights, strict=True)
    return sorted((a, b, name, weight) for (a, b), name, weight in rows)


def data(**more):
    return SimpleNamespace(edge_index=torch.from_numpy(PAIRS.T.copy()), **more)


def hetero(**more):
    """Three links of two relations, as `expected(KINDS)`."""
    stores = {
        ("n", name, "n"): SimpleNamespace(
            edge_index=torch.from_numpy(PAIRS[rows].T.copy()),
            **{key: torch.from_numpy(values[rows]) for key, values in more.items()},
        )
        for name, rows in (("cites", [0, 2]), ("knows", [1]))
    }
    return HeteroData({"n": SimpleNamespace()}, stores)


KINDS = ("cites", "knows", "cites")


def networkx_graph(make, **attributes):
    graph = make()
    graph.add_nodes_from(range(4))
    for row, pair in enumerate(PAIRS.tolist()):
        graph.add_edge(*pair, **{name: values[row] for name, values in attributes.items()})
    return graph


# Pairs and SciPy matrices.


def test_pairs_have_what_is_given():
    links = as_links(PAIRS, 4, relation=KINDS, edge_weight=WEIGHTS, directed=True)
    assert described(links) == expected(KINDS, WEIGHTS)
    assert (links.relations, links.directed) == (("cites", "knows"), True)
    plain = as_links(PAIRS, 4)
    assert (plain.relation, plain.weights, plain.relations, plain.directed) == (
        None,
        None,
        LINKS,
        False,
    )


def test_relations_are_in_the_order_of_their_names_or_numbers():
    assert as_links(PAIRS, 4, relation=["b", "a", "b"]).relations == ("a", "b")
    assert as_links(PAIRS, 4, relation=np.array([10, 2, 10])).relations == ("2", "10")
    assert as_links(PAIRS, 4, relation=["only"] * 3).relation is None


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_matrix, sparse.csr_array])
def test_values_and_asymmetry_of_a_matrix_count_when_asked(form):
    matrix = form((WEIGHTS, PAIRS.T), (4, 4))
    assert described(as_links(matrix, 4)) == expected()
    asked = as_links(matrix, 4, edge_weight=True, directed=True)
    assert (described(asked), asked.directed) == (expected(weights=WEIGHTS), True)


def test_negative_values_of_a_matrix_are_no_weights():
    matrix = sparse.csr_matrix((-WEIGHTS, PAIRS.T), (4, 4))
    assert described(as_links(matrix, 4)) == expected()
    with pytest.raises(GraphError, match=r"positive numbers; link 0 has -0\.5, 3 in total"):
        as_links(matrix, 4, edge_weight=True)


# NetworkX.


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_a_networkx_graph_says_its_direction_and_weights(kind):
    graph = networkx_graph(kind, weight=WEIGHTS.tolist())
    links = as_links(graph, 4)
    assert links.directed == graph.is_directed()
    ends = [(*sorted(pair), name, weight) for *pair, name, weight in described(links)]
    assert sorted(ends) == sorted(
        (*sorted(pair), name, weight) for *pair, name, weight in expected(weights=WEIGHTS)
    )
    assert as_links(graph, 4, edge_weight=False).weights is None
    assert not as_links(graph, 4, directed=False).directed


def test_an_attribute_or_the_keys_of_a_multigraph_are_relations():
    graph = networkx_graph(nx.DiGraph, kind=KINDS, strength=WEIGHTS)
    links = as_links(graph, 4, relation="kind", edge_weight="strength")
    assert described(links) == expected(KINDS, WEIGHTS)
    assert as_links(graph, 4).relations == LINKS
    several = nx.MultiDiGraph()
    for (a, b), name in zip(PAIRS.tolist(), KINDS, strict=True):
        several.add_edge(a, b, key=name)
    assert described(as_links(several, 4)) == expected(KINDS)
    assert as_links(several, 4, relation=False).relations == LINKS
    numbered = networkx_graph(nx.MultiDiGraph)
    assert as_links(numbered, 4).relations == LINKS
    assert as_links(numbered, 4, relation="key").relations == ("0",)


def test_parallel_links_are_one_with_the_sum_of_their_weights():
    graph = nx.MultiGraph([(0, 1, {"weight": 1.0}), (1, 0, {"weight": 2.5})])
    links = as_links(graph, 2).merged(2)
    assert (links.pairs.tolist(), links.weights.tolist()) == ([[0, 1]], [3.5])


def test_names_of_nodes_may_be_tuples_or_of_several_types():
    grid = nx.grid_2d_graph(2, 2)
    names = list(grid)
    links = as_links(grid, 4, names)
    found = {frozenset((names[a], names[b])) for a, b in links.pairs.tolist()}
    assert found == {frozenset(edge) for edge in grid.edges}
    assert as_links([(1, "a"), ("a", 2)], 3, [1, 2, "a"]).pairs.tolist() == [[0, 2], [2, 1]]


# PyTorch Geometric and DGL.


def test_pyg_data_has_weights_and_types():
    plain = as_links(data(edge_weight=None, is_directed=lambda: True), 4)
    assert (described(plain), plain.directed) == (expected(), False)
    weighted = data(edge_weight=torch.from_numpy(WEIGHTS), edge_type=torch.tensor([0, 1, 0]))
    links = as_links(weighted, 4, directed=True)
    assert described(links) == expected(("0", "1", "0"), WEIGHTS)
    assert links.directed
    column = data(edge_attr=torch.from_numpy(WEIGHTS[:, None]))
    assert as_links(column, 4).weights is None
    assert described(as_links(column, 4, edge_weight="edge_attr")) == expected(weights=WEIGHTS)


def test_two_edges_of_an_edge_index_are_a_pair_of_columns():
    """The rows of a 2 by 2 array are links, but edge_index has sources above targets."""
    two = SimpleNamespace(edge_index=np.array([[0, 1], [2, 3]]))
    assert as_links(two, 4).pairs.tolist() == [[0, 2], [1, 3]]


def test_both_directions_of_pyg_are_one_undirected_link():
    both = np.concatenate([PAIRS, PAIRS[:, ::-1]])
    stored = SimpleNamespace(edge_index=both.T, edge_weight=np.tile(WEIGHTS, 2))
    links = as_links(stored, 4).merged(4)
    assert links.pairs.tolist() == [[0, 1], [0, 3], [1, 2]]
    assert links.weights.tolist() == [1.0, 6.0, 4.0]


def test_edge_types_are_relations():
    assert described(as_links(hetero(), 4)) == expected(KINDS)
    links = as_links(hetero(edge_weight=WEIGHTS), 4, directed=True)
    assert (described(links), links.directed) == (expected(KINDS, WEIGHTS), True)
    assert as_links(hetero(), 4, relation=False).relations == LINKS


@pytest.mark.parametrize("name", ["weight", "w"])
def test_dgl_graphs_have_weights_and_types(name):
    one = DGLGraph({"_E": PAIRS}, {"_E": {name: WEIGHTS}})
    links = as_links(one, 4)
    assert (described(links), links.directed) == (expected(weights=WEIGHTS), False)
    parts = {"cites": PAIRS[[0, 2]], "knows": PAIRS[[1]]}
    stored = {"cites": {name: WEIGHTS[[0, 2]]}, "knows": {name: WEIGHTS[[1]]}}
    typed = as_links(DGLGraph(parts, stored), 4, directed=True)
    assert (described(typed), typed.directed) == (expected(KINDS, WEIGHTS), True)
    assert as_links(DGLGraph({"cites": PAIRS}, {}), 4).relations == ("cites",)


@pytest.mark.parametrize(
    "source",
    [
        HeteroData({"author": SimpleNamespace(), "paper": SimpleNamespace()}, {}),
        DGLGraph({"_E": PAIRS}, {}, ntypes=("author", "paper")),
        {("author", "writes", "paper"): PAIRS},
    ],
)
def test_several_node_types_are_one_clear_error(source):
    with pytest.raises(GraphError, match=r"one node type; found 2: author, paper\. Keep one"):
        as_links(source, 4)


# Mappings and Links.


def test_a_mapping_has_relations_in_its_order():
    parts = {"knows": PAIRS[[1]].tolist(), ("n", "cites", "n"): PAIRS[[0, 2]]}
    weights = {"cites": WEIGHTS[[0, 2]], "knows": WEIGHTS[[1]]}
    links = as_links(parts, 4)
    assert (links.relations, described(links)) == (("knows", "cites"), expected(KINDS))
    by_name = as_links({"knows": PAIRS[[1]], "cites": PAIRS[[0, 2]]}, 4, edge_weight=weights)
    assert described(by_name) == expected(KINDS, WEIGHTS)
    graphs = {"a": nx.DiGraph([(0, 1)]), "b": nx.DiGraph([(1, 2)])}
    assert as_links(graphs, 3).directed


def test_a_relation_without_links_is_left_out():
    assert as_links({"a": PAIRS, "b": []}, 4).relations == ("a",)
    assert as_links({"a": [], "b": []}, 4).pairs.shape == (0, 2)


def test_links_stay_as_they_are():
    given = Links(PAIRS, np.array([0, 1, 0]), WEIGHTS, ("cites", "knows"), True)
    assert described(as_links(given, 4)) == expected(KINDS, WEIGHTS)
    assert as_links(given, 4, relation=False).relations == LINKS


# Links for a trained model.


@pytest.mark.parametrize(
    "edges",
    [
        {"knows": PAIRS[[1]]},
        hetero(),
        Links(PAIRS[[1, 0]], np.array([0, 1]), relations=("knows", "cites")),
    ],
)
def test_relations_have_the_numbers_of_the_training(edges):
    trained = ("other", "knows", "cites")
    links = as_links(edges, 4, relations=trained)
    assert links.relations == trained
    found = dict(zip(map(tuple, links.pairs.tolist()), links.relation.tolist(), strict=True))
    assert found[1, 2] == 1
    assert found.get((0, 1), 2) == 2


def test_links_without_a_relation_are_those_of_the_only_one():
    links = as_links(PAIRS, 4, relations=("cites",))
    assert (links.relation, links.relations) == (None, ("cites",))


@pytest.mark.parametrize(
    ("edges", "relations", "message"),
    [
        ({"new": PAIRS, "odd": PAIRS}, ("cites", "knows"), "training, cites, knows; found 'new', "),
        ({"new": PAIRS}, LINKS, "trained without relations; found 'new'"),
        (PAIRS, ("cites", "knows"), "need their relation, one of cites, knows; found links w"),
    ],
)
def test_relations_that_training_did_not_have_are_refused(edges, relations, message):
    with pytest.raises(GraphError, match=message):
        as_links(edges, 4, relations=relations)


# What is refused.


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, 1e-60, 1e60])
def test_weights_must_be_positive_numbers(bad):
    weights = [1.0, bad, bad]
    with pytest.raises(GraphError, match=r"positive numbers; link 1 has .*, 2 in total"):
        as_links(PAIRS, 4, edge_weight=weights)


def test_a_missing_weight_of_networkx_is_an_error():
    graph = nx.Graph([(0, 1, {"weight": 2.0}), (1, 2)])
    with pytest.raises(GraphError, match="link 1 has nan, 1 in total"):
        as_links(graph, 3)


def test_all_problems_of_links_are_in_one_message():
    with pytest.raises(GraphError) as error:
        as_links([(0, 9), (1, 2)], 4, edge_weight=[-1.0, 2.0], relation=["a", None])
    for part in ("0..3; link 0 is [0, 9]", "link 0 has -1.0", "a relation; link 1 has none"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("edges", "options", "message"),
    [
        (PAIRS, {"edge_weight": [1.0]}, r"one weight for each link, 3; found shape \(1,\)"),
        (PAIRS, {"edge_weight": ["a", "b", None]}, "must be positive numbers"),
        (PAIRS, {"edge_weight": True}, "edge_weight=True needs an object"),
        (PAIRS, {"relation": "kind"}, "relation='kind' needs links with the attribute 'kind'"),
        (PAIRS, {"relation": ["a"]}, "one relation for each link, 3; found 1"),
        (PAIRS, {"edge_weight": {"a": WEIGHTS}}, "a mapping only if edges are one"),
        ({"a": PAIRS, "b": PAIRS}, {"edge_weight": WEIGHTS}, "must be a mapping of relations"),
        ({"a": PAIRS}, {"edge_weight": {"c": WEIGHTS}}, "edge_weight has unknown relations: c"),
        ({"a": PAIRS}, {"relation": KINDS}, "these have names already"),
        ({"a": nx.DiGraph([(0, 1)]), "b": PAIRS}, {}, "all relations are directed or none"),
        ({"a": PAIRS, ("n", "a", "n"): PAIRS}, {}, "different names"),
        (nx.Graph([(0, 1)]), {"directed": True}, "must be directed, .*; found undirected links"),
        (Links(PAIRS), {"directed": True}, "found undirected"),
        (Links(PAIRS), {"edge_weight": WEIGHTS}, "do not pass them again"),
        (SimpleNamespace(edge_index=None), {}, "must be in edge_index; found none"),
        (SimpleNamespace(edge_index=PAIRS), {}, r"shape \(2, m\); found \(3, 2\)"),
        (nx.path_graph(["a", "b"]), {}, "pass the name of each row with nodes="),
    ],
)
def test_what_does_not_fit_is_refused(edges, options, message):
    with pytest.raises(GraphError, match=message):
        as_links(edges, 4, **options)


def test_more_than_twenty_relations_are_refused():
    pairs = np.zeros((21, 2), dtype=int)
    with pytest.raises(GraphError, match="1 to 20 relations with different names; found 21: 0, 1"):
        as_links(pairs, 1, relation=np.arange(21))
    as_links(pairs, 1, relation=np.arange(21) % 20)


def test_links_that_name_no_row_are_skipped_with_their_weights_and_relations():
    pairs = [("a", "b"), ("b", "gone"), ("c", "a")]
    links = as_links(pairs, 3, ["a", "b", "c"], relation=KINDS, edge_weight=WEIGHTS)
    assert links.relations == ("cites",)  # the link of the other was skipped
    assert links.weights.tolist() == [0.5, 3.0]


def test_names_of_another_type_are_a_warning():
    with pytest.warns(UserWarning, match="None of the 1 links joins two rows"):
        as_links([("0", "1")], 2, [0, 1])


def test_links_in_a_frame():
    frame = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"]})
    assert as_links(frame, 3, ["a", "b", "c"]).pairs.tolist() == [[0, 1], [1, 2]]


def test_nodes_without_links_get_a_loop():
    links = links_with_loops(as_links(PAIRS, 5, relation=KINDS), 5)
    assert [4, 4] in links.pairs.tolist()

"""Prediction: microseconds a node, the MLP that LinkDist leaves against GNNs that fetch neighbours.

The rivals are PyTorch Geometric's own layers on full neighbourhoods: a GraphSAGE of two layers, and
on coauthor-physics the paper's GCN of three. They fetch a batch's neighbourhood by look-ups in a
CSR array, which touches just the links of the nodes in question; the time of fetching counts, since
prediction cannot do without. All are 256 wide. Weights are as drawn: time does not depend on them.
Side by side in one process, some calls of each in turn, medians. Single nodes are measured in two
ways: thirty calls in a row, as a service sees them, and one call in turn with the rivals', where
the MLP finds the cache full of their neighbourhoods each time.
"""

import itertools

import numpy as np
import onnxruntime
import torch
from measure import interleaved, write
from onnx import TensorProto, helper, numpy_helper
from scipy import sparse
from torch_geometric.nn import GCNConv, SAGEConv

from linkdist import load_dataset
from linkdist.kernels import EPSILON, SLOPE
from linkdist.nn.network import HIDDEN, Folded, ForkedMLP

BATCHES = ((1, 30, 15), (1, 1, 100), (64, 1, 15), (4096, 1, 3))
"""Nodes at a time, calls in a row, repetitions."""


class Store:
    """Features and links, as a service would hold them: two arrays to look neighbours up in."""

    def __init__(self, features, edges, n):
        ones = np.ones(len(edges), dtype=np.int8)
        links = sparse.csr_matrix((ones, (edges[:, 0], edges[:, 1])), (n, n))
        self.starts, self.others = links.indptr, links.indices
        self.features, self.n = features, n
        self.place = np.full(n, -1)

    def neighbours(self, nodes):
        """Both ends of every link of some nodes: places in `nodes`, and neighbours."""
        lengths = self.starts[nodes + 1] - self.starts[nodes]
        ends = np.cumsum(lengths)
        at = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        at += np.repeat(self.starts[nodes], lengths)
        return np.repeat(np.arange(len(nodes)), lengths), self.others[at]

    def fetch(self, batch, hops):
        """The `hops`-hop neighbourhood: its features, its links in local numbers."""
        nodes, links = batch, []
        for _ in range(hops):
            to, others = self.neighbours(nodes)
            self.place[nodes] = np.arange(len(nodes))
            new = np.unique(others[self.place[others] < 0])
            self.place[new] = np.arange(len(nodes), len(nodes) + len(new))
            nodes = np.concatenate([nodes, new])
            links = np.stack([self.place[others], to])
        self.place[nodes] = -1
        return self.rows(nodes), torch.from_numpy(links)

    def rows(self, nodes):
        """Dense features of some nodes."""
        rows = self.features[nodes]
        return torch.from_numpy(rows if isinstance(rows, np.ndarray) else rows.toarray())


class GNN(torch.nn.Module):
    """Layers of PyTorch Geometric, one after the other."""

    def __init__(self, layer, widths):
        super().__init__()
        self.layers = torch.nn.ModuleList(layer(*pair) for pair in itertools.pairwise(widths))

    def forward(self, x, links):
        """Logits of all fetched nodes."""
        for layer in self.layers[:-1]:
            x = layer(x, links).relu()
        return self.layers[-1](x, links)


def onnx_session(folded, threads):
    """The folded MLP of one replica in ONNX Runtime."""
    parts = [
        part[0].numpy() for layer in (folded.first, folded.second, folded.third) for part in layer
    ]
    norms = [part[0, 0].numpy() for part in folded.norms]
    names = ["w1", "b1", "w2", "b2", "w3", "b3", "g1", "h1", "g2", "h2"]
    weights = [numpy_helper.from_array(a, n) for a, n in zip(parts + norms, names, strict=True)]
    nodes, x = [], "x"
    for i in (1, 2, 3):
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"]))
        x = "z" if i == 3 else f"a{i}"
        nodes.append(helper.make_node("Add", [f"m{i}", f"b{i}"], [x]))
        if i < 3:
            norm = [x, f"g{i}", f"h{i}"]
            nodes.append(helper.make_node("LayerNormalization", norm, [f"l{i}"], epsilon=EPSILON))
            nodes.append(helper.make_node("LeakyRelu", [f"l{i}"], [f"r{i}"], alpha=SLOPE))
            x = f"r{i}"
    d = parts[0].shape[0]
    ins = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", d])]
    outs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", None])]
    graph = helper.make_graph(nodes, "mlp", ins, outs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def ways(store, d, C, rivals):
    """What is timed, by name; each takes an array of nodes."""
    folded = Folded(ForkedMLP(d, C, [0]))
    # One node is too little for two threads to share.
    alone, together = onnx_session(folded, 1), onnx_session(folded, torch.get_num_threads())

    def with_onnx(nodes):
        session = alone if len(nodes) == 1 else together
        return session.run(None, {"x": store.rows(nodes).numpy()})[0]

    found = {
        "MLP, PyTorch": lambda nodes: folded(store.rows(nodes)),
        "MLP, ONNX Runtime": with_onnx,
    }
    for name, (layer, hops) in rivals.items():
        gnn = GNN(layer, [d, *[HIDDEN] * (hops - 1), C]).eval()
        found[name] = lambda nodes, gnn=gnn, hops=hops: gnn(*store.fetch(nodes, hops))[: len(nodes)]
    same = torch.from_numpy(with_onnx(np.arange(5)))
    torch.testing.assert_close(same, folded(store.rows(np.arange(5)))[0], atol=1e-4, rtol=1e-4)
    return found


def rows_of(name, store, d, C, rivals):
    """Lines of the table: one a batch size and way."""
    random = np.random.default_rng(0)
    timed = ways(store, d, C, rivals)
    for size, burst, repeats in BATCHES:
        batches = [random.choice(store.n, size, replace=False) for _ in range(4096 // size + 40)]
        draw = itertools.cycle(batches)
        calls = {way: (lambda f=f, d=draw: f(next(d))) for way, f in timed.items()}
        seconds = interleaved(calls, repeats, burst=burst)
        fastest = min(value for way, value in seconds.items() if way.startswith("MLP"))
        for way, value in seconds.items():
            yield {
                "graph": name,
                "nodes at a time": size,
                "calls in a row": burst,
                "way": way,
                "µs a node": round(value / size * 1e6, 1),
                "times the MLP's": round(value / fastest, 1),
            }


def synthetic(n=1_000_000, m=10_000_000, d=128, C=16):
    """A random graph: m links between n nodes, d dense features."""
    random = np.random.default_rng(0)
    pairs = random.integers(0, n, (m, 2), dtype=np.int32)
    edges = np.concatenate([pairs, pairs[:, ::-1]])
    return Store(random.standard_normal((n, d), dtype=np.float32), edges, n), d, C


if __name__ == "__main__":
    with torch.inference_mode():
        physics = load_dataset("coauthor-physics")
        store = Store(physics.features, physics.edges, physics.n)
        rivals = {"GraphSAGE": (SAGEConv, 2), "GCN": (GCNConv, 3)}
        table = list(rows_of("coauthor-physics", store, physics.d, physics.C, rivals))
        million = synthetic()
        table += rows_of("synthetic, 10⁶ nodes, 10⁷ links", *million, {"GraphSAGE": (SAGEConv, 2)})
    write("prediction", "python benchmarks/prediction.py", table)

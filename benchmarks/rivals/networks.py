"""Networks: a plain MLP, GraphSAGE, GCN, and MLPs that learn from them (GLNN, GCN2MLP).

All have two layers of width 256 with dropout, and are trained in full batches for 200 epochs. Every
fifth epoch predicts the validation nodes, and the best weights are kept. GraphSAGE and GCN are
layers of PyTorch Geometric, trained on the visible graph. A student learns the teacher's
predictions of all visible nodes over the visible graph, and predicts from features.
"""

import copy

import numpy as np
import torch
from torch.nn import functional

from rivals.layers import GraphConvolution, Inputs, Links, Perceptron, Sage
from rivals.linear import Scaler
from rivals.protocol import predictions_of, search
from rivals.settings import NETWORKS, STUDENTS
from rivals.steps import repeated_step

WIDTH, DROPOUT, EPOCHS, EVERY = 256, 0.5, 200, 5
LAYERS = {"MLP": Perceptron, "GraphSAGE": Sage, "GCN": GraphConvolution}


class Network(torch.nn.Module):
    """Two layers with a ReLU and dropout between them."""

    def __init__(self, layer, d, C):
        super().__init__()
        self.first, self.second = layer(d, WIDTH), layer(WIDTH, C)

    def forward(self, x, links=None):
        """Outputs (n, C) of all rows."""
        h = functional.dropout(self.first(x, links).relu(), DROPOUT, self.training)
        return self.second(Inputs.of_hidden(h), links)


class Trained:
    """A network, and the trainer that knows how to read raw features and outputs."""

    def __init__(self, network, trainer):
        self.network, self.trainer = network, trainer

    @torch.no_grad()
    def outputs(self, features, edges=None):
        """Probabilities (n, C), or numbers (n, 1)."""
        self.network.eval()
        links = None if edges is None else self.trainer.links_of(edges, features.shape[0])
        found = self.network(self.trainer.inputs_of(features), links)
        return self.trainer.units.read(found).cpu().numpy()


class FromFeatures(Trained):
    """An MLP."""

    def from_features(self, x):
        """Predictions of rows."""
        return self.outputs(x)


class WithLinks(Trained):
    """A network over a graph."""

    def with_links(self, features, edges, nodes):
        """Predictions of some nodes of a graph."""
        return self.outputs(features, edges)[nodes]


class Units:
    """How outputs are read and compared with labels: classes, or numbers in standard deviations."""

    def __init__(self, problem):
        self.numbers = problem.graph.task == "regression"
        labels = problem.train_labels
        self.centre = float(labels.mean()) if self.numbers else 0.0
        self.scale = float(labels.std()) if self.numbers else 1.0

    def read(self, outputs):
        """Probabilities or numbers."""
        return outputs * self.scale + self.centre if self.numbers else outputs.softmax(-1)

    def label_loss(self, outputs, labels):
        """The cross-entropy, or the squared error."""
        if self.numbers:
            return functional.mse_loss(outputs[:, 0], labels)
        return functional.cross_entropy(outputs, labels)

    def teacher_loss(self, outputs, predictions):
        """The Kullback-Leibler divergence from predictions, or the squared error."""
        if self.numbers:
            target = (predictions - self.centre) / self.scale
            return functional.mse_loss(outputs, target.float())
        return functional.kl_div(outputs.log_softmax(-1), predictions, reduction="batchmean")

    def targets(self, labels, device):
        """Labels as a tensor."""
        labels = (
            ((labels - self.centre) / self.scale).astype(np.float32) if self.numbers else labels
        )
        return torch.from_numpy(labels).to(device)


class Trainer:
    """The data of one problem on a device, for all networks and settings."""

    def __init__(self, problem, device):
        self.problem, self.device = problem, device
        graph, view = problem.graph, problem.view
        self.scaler, self.units = Scaler(graph.features[view.nodes]), Units(problem)
        self.x = Inputs.of_rows(self.scaler(graph.features), device)
        self.links = Links(view.edges, graph.n, device)
        self.train = torch.from_numpy(problem.split.train).to(device)
        self.labels = self.units.targets(problem.train_labels, device)

    def inputs_of(self, features):
        """Features on the device, scaled; those of the whole graph are there already."""
        if features is self.problem.graph.features:
            return self.x
        return Inputs.of_rows(self.scaler(features), self.device)

    def links_of(self, edges, n):
        """Links on the device; the visible ones are there already."""
        return self.links if edges is self.problem.view.edges else Links(edges, n, self.device)

    def rows(self, nodes):
        """The scaled features of some nodes."""
        return self.inputs_of(self.problem.graph.features[nodes])

    def supervised(self, name):
        """MLP, GraphSAGE or GCN, of the best setting."""
        if name == "MLP":
            x = self.rows(self.problem.split.train)

            def loss(network, setting):
                return self.units.label_loss(network(x), self.labels)
        else:

            def loss(network, setting):
                outputs = network(self.x, self.links)
                return self.units.label_loss(outputs.index_select(0, self.train), self.labels)

        return search(self.problem, self._fit(LAYERS[name], loss), NETWORKS)

    def student(self, teacher):
        """An MLP that learns the predictions of a teacher, of the best setting."""
        problem, nodes = self.problem, self.problem.view.nodes
        found = predictions_of(teacher.model, problem, nodes, problem.view.edges)
        found, x = torch.from_numpy(found).to(self.device), self.rows(nodes)
        known = torch.from_numpy(np.searchsorted(nodes, problem.split.train)).to(self.device)

        def loss(network, setting):
            outputs, share = network(x), setting["labels"]
            value = (1 - share) * self.units.teacher_loss(outputs, found)
            if share:
                value = value + share * self.units.label_loss(
                    outputs.index_select(0, known), self.labels
                )
            return value

        return search(problem, self._fit(Perceptron, loss), STUDENTS)

    def _fit(self, layer, loss):
        """A function that trains a network in one setting."""
        graph, split = self.problem.graph, self.problem.split
        held = torch.from_numpy(split.validation).to(self.device)
        held_rows = self.rows(split.validation)

        def predicted(network):
            if layer is Perceptron:
                return network(held_rows)
            return network(self.x, self.links)[held]

        def fit(problem, setting):
            torch.manual_seed(problem.seed)
            network = Network(layer, graph.d, graph.C).to(self.device)
            self._train(network, loss, predicted, setting)
            kind = FromFeatures if layer is Perceptron else WithLinks
            return kind(network, self)

        return fit

    def _train(self, network, loss, predicted, setting):
        """Train, and restore the weights with the best predictions of the validation nodes."""
        adam = torch.optim.Adam(
            network.parameters(),
            lr=setting["rate"],
            weight_decay=setting["decay"],
            capturable=self.device.type == "cuda",
            fused=True,
        )

        def step():
            adam.zero_grad(set_to_none=True)
            loss(network, setting).backward()
            adam.step()

        best, weights, once = None, None, repeated_step(step, self.device)
        for _ in range(EPOCHS // EVERY):
            network.train()
            for _ in range(EVERY):
                once()
            network.eval()
            with torch.no_grad():
                found = self.units.read(predicted(network)).cpu().numpy()
            quality = self.problem.quality(found)
            if best is None or quality > best:
                best, weights = quality, copy.deepcopy(network.state_dict())
        network.load_state_dict(weights)

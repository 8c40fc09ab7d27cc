"""CoLinkDist the way a good tutorial would write it in PyTorch: the yardstick of the benchmarks.

One seed, dense features, an nn.Module from PyTorch's own layers, a DataLoader over the edges, the
loss term by term, torch.optim.Adam. Nothing is slow on purpose, and nothing is clever.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def block(fan_in, fan_out):
    """BatchNorm, LayerNorm, LeakyReLU, Dropout, Linear."""
    return nn.Sequential(
        nn.BatchNorm1d(fan_in),
        nn.LayerNorm(fan_in),
        nn.LeakyReLU(),
        nn.Dropout(0.5),
        nn.Linear(fan_in, fan_out),
    )


class LinkDist(nn.Module):
    """A trunk and two heads."""

    def __init__(self, features, classes, hidden=256):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, hidden), block(hidden, hidden))
        self.own = block(hidden, classes)
        self.neighbour = block(hidden, classes)

    def forward(self, x):
        """Own-label and neighbour-label logits."""
        h = self.trunk(x)
        return self.own(h), self.neighbour(h)


def cross_entropy(logits, labels, weight=None):
    """Mean over the labelled rows; 0 where there are none."""
    known = labels >= 0
    return F.cross_entropy(logits[known], labels[known], weight) if known.any() else 0.0


def loss_of(z, s, y, alpha, beta1, beta2, weight):
    """CoLinkDist's loss for the sides i, j, k of a batch; LinkDist's for i, j."""
    loss = cross_entropy(z[0], y[0], weight) + cross_entropy(s[1], y[0], weight)
    loss = loss + cross_entropy(z[1], y[1], weight) + cross_entropy(s[0], y[1], weight)
    loss = loss + alpha * (F.mse_loss(z[0], s[1]) + F.mse_loss(z[1], s[0]))
    if len(z) == 3:
        p, q = [a.softmax(-1) for a in z], [a.softmax(-1) for a in s]
        apart = F.mse_loss(p[0], q[2]) + F.mse_loss(p[1], q[2])
        apart = apart + F.mse_loss(p[2], q[0]) + F.mse_loss(p[2], q[1])
        loss = loss - alpha / 2 * apart + 2 * cross_entropy(z[2], y[2])
        loss = loss - beta1 * cross_entropy(s[2], y[0], weight)
        loss = loss - beta1 * cross_entropy(s[2], y[1], weight)
        loss = loss - beta2 * (cross_entropy(s[0], y[2]) + cross_entropy(s[1], y[2]))
    return loss


class Trainer:
    """One replica, one seed."""

    def __init__(self, features, view, coefficients, device, batch=1024, sides=3):
        self.x = torch.from_numpy(features).to(device)
        self.y = torch.from_numpy(view.labels).to(device)
        self.nodes = torch.from_numpy(view.nodes).to(device)
        self.edges = DataLoader(TensorDataset(torch.from_numpy(view.edges)), batch, shuffle=True)
        self.alpha, self.beta1, self.beta2 = (float(part[0]) for part in coefficients[:3])
        self.weight = coefficients.weights[0].to(device)
        self.model = LinkDist(self.x.shape[1], view.C).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.device, self.sides = device, sides

    def steps(self):
        """Train for an epoch; a generator, so that a benchmark can time each step."""
        self.model.train()
        for (batch,) in self.edges:
            rows = list(batch.to(self.device).unbind(1))
            if self.sides == 3:
                draw = torch.randint(len(self.nodes), rows[0].shape, device=self.device)
                rows.append(self.nodes[draw])
            z, s = zip(*[self.model(self.x[row]) for row in rows], strict=True)
            y = [self.y[row] for row in rows]
            loss = loss_of(z, s, y, self.alpha, self.beta1, self.beta2, self.weight)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            yield loss.item()

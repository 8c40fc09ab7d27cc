"""Rivals that cross-validate: linear models, gradient boosting, propagation of numbers, a GCN.

All of them get the same columns, links and labels as SelfLinkDist, and choose their settings by
cross-validation of the training labels. `train` are the rows with a label; predictions are for all
rows.
"""

import warnings

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score

FOLDS = 5
PENALTIES = np.logspace(-3, 5, 17)
INVERSE_PENALTIES = np.logspace(-4, 2, 7)
PULLS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""How strongly a node is drawn to the mean of all labels, beside a link of weight 1."""
LEAF = 5
BOOSTING = ({}, {"max_leaf_nodes": 8, "learning_rate": 0.05, "min_samples_leaf": LEAF})
"""Settings of gradient boosting: scikit-learn's own, and smaller trees for few rows."""
WIDE, WIDE_BINS, WIDE_FOLDS = 1000, 32, 3
"""With more columns, gradient boosting would take minutes; fewer bins and folds make it faster."""
GCN_WIDTHS, GCN_RATES, GCN_EPOCHS, GCN_EVERY = (64, 256), (0.01, 0.003), 200, 5


def adjacency(links, n):
    """The symmetric matrix (n, n) of links (m, 2), without self-loops."""
    links = links[links[:, 0] != links[:, 1]]
    both = np.concatenate([links, links[:, ::-1]])
    return sparse.csr_matrix((np.ones(len(both)), both.T), (n, n))


def with_averages(x, links, hops=2):
    """The columns (n, d), joined with the averages of 1, 2, ... hops: (n, (hops + 1) d).

    A node without neighbours is its own neighbour.
    """
    a = adjacency(links, x.shape[0])
    alone = np.asarray(a.sum(axis=1)).ravel() == 0
    a = a + sparse.diags_array(alone.astype(float))
    mean = sparse.diags_array(1 / np.asarray(a.sum(axis=1)).ravel()) @ a
    parts = [np.asarray(x.toarray() if sparse.issparse(x) else x, dtype=np.float64)]
    for _ in range(hops):
        parts.append(mean @ parts[-1])
    return np.hstack(parts).astype(np.float32)


def dense(x):
    """Columns as a dense float32 array."""
    return x.toarray().astype(np.float32) if sparse.issparse(x) else x


def scaled(x):
    """Columns of mean 0 and standard deviation 1; constant ones stay."""
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1)


def ridge(x, y, train):
    """Ridge regression; the penalty, and whether columns are scaled, by leaving one out."""
    found = []
    for columns in (x, scaled(x)):
        model = RidgeCV(PENALTIES).fit(columns[train], y[train])
        found.append((model.best_score_, model.predict(columns)))
    return max(found, key=lambda pair: pair[0])[1]


def boosting(x, y, train, seed, scoring="r2"):
    """Gradient boosting: numbers or, with another scoring than R², the score of class 1."""
    x = x[:, _may_split(x[train])]
    wide = {"max_bins": WIDE_BINS} if x.shape[1] > WIDE else {}
    classes = scoring != "r2"
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    models = [kind(random_state=seed, **settings, **wide) for settings in BOOSTING]
    count = WIDE_FOLDS if wide else FOLDS
    folds = (StratifiedKFold if classes else KFold)(count, shuffle=True, random_state=seed)
    scores = [
        cross_val_score(model, x[train], y[train], cv=folds, scoring=scoring).mean()
        for model in models
    ]
    model = models[int(np.argmax(scores))].fit(x[train], y[train])
    return model.decision_function(x) if classes else model.predict(x)


def _may_split(x):
    """Which columns can split rows into two parts of `LEAF`; the trees use no others."""
    ordered = np.sort(x, axis=0)
    return ordered[LEAF - 1] < ordered[-LEAF]


def logistic(x, y, train, scoring="roc_auc", groups=None, whole=None):
    """The score of class 1 of a logistic regression, for all rows or those of `whole`.

    Columns are scaled, or not if they are sparse; the penalty is chosen by folds, which hold out
    whole groups if there are any.
    """
    whole = x if whole is None else whole
    given = x[train]
    if not sparse.issparse(x):
        centre, spread = x.mean(axis=0), x.std(axis=0)
        spread = np.where(spread > 0, spread, 1)
        given, whole = (given - centre) / spread, (whole - centre) / spread
    if groups is None:
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    else:
        folds, groups = GroupKFold(len(np.unique(groups))), groups[train]
    models = [LogisticRegression(C=c, max_iter=2000) for c in INVERSE_PENALTIES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = [
            cross_val_score(m, given, y[train], groups=groups, cv=folds, scoring=scoring).mean()
            for m in models
        ]
        return models[int(np.argmax(scores))].fit(given, y[train]).decision_function(whole)


def propagated(y, train, links, pull):
    """Numbers of all nodes by label propagation: the harmonic function of a Gaussian field.

    It has the known numbers at the nodes of `train` and elsewhere minimises

        Σ over links (f_i - f_j)² + pull · Σ_i (f_i - mean of the known numbers)²
    """
    n, centre = len(y), y[train].mean()
    a = adjacency(links, n)
    rest = np.setdiff1d(np.arange(n), train)
    laplacian = sparse.diags_array(np.asarray(a.sum(axis=1)).ravel() + pull) - a
    system = laplacian.tocsr()[rest][:, rest]
    known = a[rest][:, train] @ (y[train] - centre)
    scale = sparse.diags_array(1 / system.diagonal())
    f, failed = cg(system, known, rtol=1e-8, maxiter=5000, M=scale)
    if failed:
        raise ArithmeticError(f"label propagation did not converge with a pull of {pull}")
    found = np.empty(n)
    found[train], found[rest] = y[train], centre + f
    return found


def label_propagation(y, train, links, seed):
    """Label propagation; the pull to the mean by folds of the labels."""
    order = np.random.default_rng([17, seed]).permutation(train)
    parts = np.array_split(order, FOLDS)

    def error(pull):
        return sum(
            ((propagated(y, np.setdiff1d(train, part), links, pull) - y)[part] ** 2).sum()
            for part in parts
        )

    return propagated(y, train, links, min(PULLS, key=error))


def gcn(graph, train, seed, device, scoring="roc_auc", epochs=None):
    """The score of class 1 by the GCN of `linkdist.paper`, for all nodes.

    Width, learning rate and number of epochs are those with the best score in folds of the labels;
    the network is then trained on all labels.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    from linkdist.nn.inputs import make_inputs
    from linkdist.training.loop import find_device

    inputs, y = make_inputs(graph.features, find_device(device)), graph.labels
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    parts = [train[held] for _, held in folds.split(train, y[train])]
    given = [np.setdiff1d(train, part) for part in parts]

    score = {"roc_auc": roc_auc_score, "average_precision": average_precision_score}[scoring]

    def quality(p):  # (R, n)
        return np.mean([score(y[part], q[part]) for part, q in zip(parts, p, strict=True)])

    found = []
    for width in GCN_WIDTHS:
        for rate in GCN_RATES:
            course = _train_gcn(graph, given, seed, inputs, width, rate, epochs or GCN_EPOCHS)
            found += [(quality(p), width, rate, epoch) for epoch, p in course]
    _, width, rate, epoch = max(found)
    ((_, p),) = _train_gcn(graph, [train], seed, inputs, width, rate, epoch)[-1:]
    return p[0]


def _train_gcn(graph, given, seed, inputs, width, rate, epochs):
    """Train one GCN for each set of labels: pairs of an epoch and scores (R, n)."""
    import torch

    from linkdist.data.splits import Split, observe
    from linkdist.paper.baselines import GCN, ViewGraph, train_gcn

    none = np.array([], dtype=np.int64)
    views = [observe(graph, Split(nodes, none, none), "transductive") for nodes in given]
    seen = ViewGraph(views, inputs.device)
    seeds = [FOLDS * seed + r for r in range(len(given))]
    network = GCN(graph.d, graph.C, seeds, width).to(inputs.device)

    found = []

    @torch.no_grad()
    def after(epoch):
        if (epoch + 1) % GCN_EVERY == 0 or epoch + 1 == epochs:
            z = network.whole(inputs, seen.neighbours)
            found.append((epoch + 1, (z[..., 1] - z[..., 0]).cpu().numpy()))

    train_gcn(network, inputs, seen, seeds, after, epochs, rate)
    return found

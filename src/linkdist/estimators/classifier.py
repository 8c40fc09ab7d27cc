"""`LinkDistClassifier`: LinkDist as a scikit-learn classifier.

    model = LinkDistClassifier().fit(X, y, edges=edges)    # y is -1, None or NaN where unknown
    model.predict(X_new)                                   # from features
    model.predict(X_new, edges=edges_new)                  # with links

If y has a column of 0 and 1 for each class, a node may have several classes (multilabel).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from linkdist.data.graph import Graph, Labels
from linkdist.data.graph import known_labels as are_known
from linkdist.data.interchange import as_links
from linkdist.data.links import has_neighbours
from linkdist.data.user_arrays import class_weights, row_names
from linkdist.data.user_labels import class_numbers, has_several_columns, known_labels, sets_of
from linkdist.errors import GraphError, OptionError
from linkdist.estimators.base import LinkDistEstimator
from linkdist.model import disagreement
from linkdist.nn.network import DROPOUT, HIDDEN
from linkdist.tables.certainty import Caution
from linkdist.tables.prediction_columns import PredictionColumns
from linkdist.training.loop import BATCH
from linkdist.training.replay import update

TINY, EPS = np.finfo(np.float32).tiny, np.finfo(np.float32).eps


class LinkDistClassifier(ClassifierMixin, LinkDistEstimator):  # type: ignore[misc]
    """A classifier that trains on a graph's links and predicts from a node's features.

    Parameters
    ----------
    method : {'selflinkdist', 'colinkdist', 'linkdist'}
        'selflinkdist' trains a network with a panel of teachers (see docs/selflinkdist.md). The
        others are the paper's methods; 'colinkdist' also separates random pairs of nodes.
    replicas : int
        Number of networks that are trained side by side and averaged.
    epochs : int, optional
        For SelfLinkDist, passes over the nodes; by default 30, and 60 more if they improve the
        result on validation nodes. For the paper's methods, passes over the links; by default
        floor(200 / average degree).
    held_out : float, optional
        Share of the labels of each class that form the validation split, if no validation nodes
        are given. By default SelfLinkDist uses folds for up to 1,000 labels and a share of 0.1
        above; the paper's methods use 0.1. With 0, training uses all labels and there is no
        evaluation.
    hold_out_graphs : bool
        Whether folds hold out whole graphs, which `groups` names in `fit`: the test for a graph
        that training has not seen; for SelfLinkDist.
    metric : {'accuracy', 'macro-f1', 'roc-auc', 'average-precision'}, optional
        What validation chooses by and `estimates_` contains, for SelfLinkDist; by default the
        likelihood chooses, and the accuracy is estimated. If nodes may have several classes,
        'micro-f1' is estimated by default.
    teachers : sequence of classifiers
        Additional teachers for SelfLinkDist: scikit-learn classifiers with `predict_proba`.
    budget : float, optional
        Time limit of SelfLinkDist in seconds; the result depends on the speed of the machine.
    class_weight : 'balanced' or dict of class to float, optional
        Factors of the class probabilities in predictions, before they are normalised: 'balanced'
        divides by the shares of the classes among the labels, for rare classes that matter as much
        as frequent ones.
    hidden_size, batch_size, learning_rate, dropout, schedule
        Hyperparameters of the network and its training; see `linkdist.fit`.
    device : {'auto', 'cpu', 'cuda'}
        Where to train.
    random_state : int, RandomState or None
        Random seed for the initial weights, sampling, Dropout and the validation split.

    Attributes
    ----------
    classes_ : (C,) array
        The classes, in order. If nodes may have several, the columns of y: their names in a data
        frame, otherwise their numbers.
    n_features_in_ : int
        Number of features of a node.
    alpha_ : (replicas, K) array
        α, the weight of the neighbours in prediction with links, for each neighbour head: a
        relation or, if links are directed, one of its two directions.
    history_ : dict of (evaluations, replicas) arrays
        Validation score in the modes 'features' and 'links'; empty without validation nodes.
        With folds, there is one column for each fold. The paper's methods are evaluated after each
        epoch, SelfLinkDist at the end of a schedule.
    estimates_ : Estimates or None
        Estimated score for new rows and for rows of X with intervals, next to baselines, and a
        summary in sentences (`estimates_.verdict`); for SelfLinkDist.
    decision_ : Decision
        The thresholds from which each of several classes is predicted, or factors of the class
        probabilities, which the weights of the model contain.
    encoder_ : TableEncoder or None
        Turns a table into features, if X was one that needs it.
    model_ : Model
        The networks.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    >>> y = ["low", None, None, None, None, "high"]
    >>> edges = [(0, 1), (1, 2), (3, 4), (4, 5)]
    >>> model = LinkDistClassifier(held_out=0, random_state=0).fit(X, y, edges=edges)
    >>> model.predict([[0.15], [1.05]]).tolist()
    ['low', 'high']
    """

    classes_: npt.NDArray[Any]

    def __init__(
        self,
        *,
        method: str = "selflinkdist",
        replicas: int = 1,
        epochs: int | None = None,
        held_out: float | None = None,
        hold_out_graphs: bool = False,
        metric: str | None = None,
        teachers: Sequence[Any] = (),
        budget: float | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        hidden_size: int = HIDDEN,
        batch_size: int = BATCH,
        learning_rate: float | None = None,
        dropout: float = DROPOUT,
        schedule: str | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.replicas = replicas
        self.epochs = epochs
        self.held_out = held_out
        self.hold_out_graphs = hold_out_graphs
        self.metric = metric
        self.teachers = teachers
        self.budget = budget
        self.class_weight = class_weight
        self.hidden_size = hidden_size
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.schedule = schedule
        self.device = device
        self.random_state = random_state

    def partial_fit(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        directed: bool | None = None,
        classes: npt.ArrayLike | None = None,
        nodes: Sequence[Hashable] | None = None,
    ) -> Self:
        """Train further on new nodes and links, together with a sample of the old ones.

        Parameters
        ----------
        X, y, edges, relation, edge_weight, directed, nodes
            The new nodes and links, as in `fit`, with the relations and the direction of the first
            call. A node has one class.
        classes : (C,) array, optional
            All classes that any call will contain; required in the first call without `fit`.
        """
        self._check_options()
        if has_several_columns(y) or (hasattr(self, "model_") and self._several):
            raise OptionError("partial_fit is for one class per node; call fit on all rows.")
        first = not hasattr(self, "model_")
        if first and classes is not None:
            self._learn_classes(classes)
        nodes = row_names(X, nodes)
        features = self._features(X, reset=first)
        n = features.shape[0]
        if first:
            if classes is None:
                self._learn_classes(y)
            said = {"relation": relation, "edge_weight": edge_weight, "directed": directed}
            links = None if edges is None else as_links(edges, n, nodes, **said)
            return self._train(self._graph(features, links, class_numbers(y, self.classes_, n)), [])
        links = self._as_trained([] if edges is None else edges, n, nodes, relation, edge_weight)
        if len(links.pairs) and self._weighted != (links.weights is not None):
            raise GraphError("links must have weights in all calls or in none; see edge_weight.")
        graph = self._graph(features, links, class_numbers(y, self.classes_, n))
        self._seed = int(np.random.SeedSequence(self._seed).generate_state(1)[0])
        self._memory = update(self.model_, self._memory, graph, method=self.method, seed=self._seed)
        self.alpha_ = self.model_.alpha.cpu().numpy()
        # What was measured before says nothing about the new weights.
        self.decision_ = replace(self.decision_, certainty=None)
        return self

    def predict(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[Any]:
        """The most probable class of each node, from features or, if links are given, with them.

        If nodes may have several classes: an (n, C) array, 1 for each class whose probability is at
        least its threshold.

        Parameters
        ----------
        X, edges, relation, edge_weight, nodes
            As in `fit`. Links are directed as in training, and have its relations.
        """
        p = self._predicted(X, edges, nodes, relation, edge_weight)
        if self._several:
            return (p >= self._thresholds(edges)).astype(np.int64)
        predicted: npt.NDArray[Any] = self.classes_[p.argmax(axis=1)]
        return predicted

    def predict_proba(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Probabilities (n, C), averaged over the replicas; parameters as in `predict`.

        Those of one class per node sum to 1; those of several classes are independent.
        """
        return self._predicted(X, edges, nodes, relation, edge_weight)

    def predict_set(
        self,
        X: Any,  # noqa: ANN401
        *,
        level: float = 0.9,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Which classes are in the conformal set of each node, (n, C), in the order of `classes_`.

        If nodes are like the labelled ones, a set contains the true class with a probability of at
        least `level`; see `linkdist.tables.certainty`. Other parameters are as in `predict`.
        """
        features, links = self._inputs(X, edges, nodes, relation, edge_weight)
        columns = PredictionColumns.of(self._about(), self._class_names)
        p = self.model_.predict_proba(features, links)
        linked = None if links is None else has_neighbours(links, len(p))
        return columns.cautious(Caution(sets=level)).sets(p, linked)

    def decision_function(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities (n, C); for two classes, the log-odds of the second (n,).

        If nodes may have several classes: log-odds (n, C), which are from 0 where a class is
        predicted. Parameters as in `predict`.
        """
        p = self._predicted(X, edges, nodes, relation, edge_weight)
        if self._several:
            odds = logit(np.clip(p, EPS, 1 - EPS).astype(np.float64))
            above: npt.NDArray[np.float32] = (odds - logit(self._thresholds(edges))).astype(p.dtype)
            return above
        log_p = np.log(np.maximum(p, TINY))
        scores: npt.NDArray[np.float32] = (
            log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p
        )
        return scores

    def disagreement(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Share of the replicas (n,) whose class differs from that of their mean."""
        features, links = self._inputs(X, edges, nodes, relation, edge_weight)
        if self._several:
            raise OptionError("disagreement is for one class per node; these may have several.")
        return disagreement(self.model_, features, links)

    def score(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: npt.ArrayLike | None = None,
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> float:
        """Accuracy on the nodes with a known class; of several classes, all must be right."""
        said = {"relation": relation, "edge_weight": edge_weight, "nodes": nodes}
        predicted = self.predict(X, edges=edges, **said)
        if self._several:
            truth = sets_of(y, len(predicted))
            known, hits = are_known(truth), (predicted == truth).all(axis=1)
        else:
            truth, known = known_labels(y)
            hits = predicted == truth
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(hits[known], weights=weights))

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        """Declare that several classes per node are supported."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def _learn_labels(self, y: Any, n: int) -> tuple[str, Labels]:  # noqa: ANN401
        if not has_several_columns(y):
            self._learn_classes(y)
            return "classification", class_numbers(y, self.classes_, n)
        labels = sets_of(y, n)
        self.classes_ = np.array(list(getattr(y, "columns", range(labels.shape[1]))))
        return "multilabel", labels

    def _learn_classes(self, y: Any) -> None:  # noqa: ANN401
        values, known = known_labels(y)
        if known.any():
            check_classification_targets(values[known])
        self.classes_ = np.unique(values[known]) if known.any() else np.array([])
        if len(self.classes_) < 2:
            found = ", ".join(map(repr, self.classes_.tolist())) or "no label at all"
            raise GraphError(f"training needs labels of more than one class; found {found}.")

    def _task_options(self, graph: Graph) -> dict[str, Any]:
        several = graph.task == "multilabel"
        given = None if several else self.class_weight
        return {"class_weight": class_weights(given, self.classes_, graph.labels)}

    def _thresholds(self, edges: Any) -> npt.NDArray[np.float64]:  # noqa: ANN401
        """The probability (C,) from which each class is predicted; 0.5 without validation."""
        chosen = self.decision_.thresholds or {}
        mode = "features" if edges is None else "links"
        return np.array(chosen.get(mode, [0.5] * len(self.classes_)))

    @property
    def _class_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.classes_.tolist()))

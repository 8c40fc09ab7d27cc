"""`LinkDistClassifier`: LinkDist as a scikit-learn estimator.

    model = LinkDistClassifier().fit(X, y, edges=edges)    # y is -1, None or NaN where unknown
    model.predict(X_new)                                   # from features
    model.predict(X_new, edges=edges_new)                  # with links

X contains all nodes, labelled or not, because training uses every link. Without validation nodes,
`estimates_` contains the accuracy estimated by folds of the labels.
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.data.graph import UNKNOWN, FeatureMatrix, Graph, IntArray
from linkdist.data.links import as_links
from linkdist.data.splits import HELD_OUT, Split, held_out, keep_aside
from linkdist.data.user_arrays import (
    class_weights,
    known_labels,
    label_weights,
    links_of,
    mask_of,
    row_names,
    row_numbers,
)
from linkdist.errors import GraphError, OptionError
from linkdist.model import disagreement, from_features, reweighted, with_links
from linkdist.nn.network import DROPOUT, HIDDEN
from linkdist.tables.transformer import TableEncoder, needs_encoding
from linkdist.training.fit import epoch_problems, fit
from linkdist.training.loop import BATCH, Hyperparameters
from linkdist.training.replay import ReplayBuffer, make_replay_buffer, pack, update

HYPERPARAMETERS = ("hidden_size", "batch_size", "learning_rate", "dropout", "schedule")

FIT_PARAMETERS = ("epochs", "device", "teachers", "budget", "held_out", *HYPERPARAMETERS)
"""Parameters that `fit` takes as they are."""


class LinkDistClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
    teachers : sequence of classifiers
        Additional teachers for SelfLinkDist: scikit-learn classifiers with `predict_proba`.
    budget : float, optional
        Time limit of SelfLinkDist in seconds; the result depends on the speed of the machine.
    class_weight : 'balanced' or dict of class to float, optional
        Factors of the class probabilities in predictions, before they are normalised: 'balanced'
        divides by the shares of the classes among the labels, for rare classes that matter as much
        as frequent ones. `estimates_` describes the model without weights.
    hidden_size, batch_size, learning_rate, dropout, schedule
        Hyperparameters of the network and its training; see `linkdist.fit`.
    device : {'auto', 'cpu', 'cuda'}
        Where to train.
    random_state : int, RandomState or None
        Random seed for the initial weights, sampling, Dropout and the validation split.

    Attributes
    ----------
    classes_ : (C,) array
        The classes, in order.
    n_features_in_ : int
        Number of features of a node.
    alpha_ : (replicas,) array
        α, the weight of the neighbours in prediction with links.
    history_ : dict of (evaluations, replicas) arrays
        Validation accuracy in the modes 'features' and 'links'; empty without validation nodes.
        With folds, there is one column for each fold. The paper's methods are evaluated after each
        epoch, SelfLinkDist at the end of a schedule.
    estimates_ : Estimates or None
        Estimated accuracy for new rows and for rows of X with intervals, next to baselines, and a
        summary in sentences (`estimates_.verdict`); for SelfLinkDist.
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

    _seed: int
    _memory: ReplayBuffer

    def __init__(
        self,
        *,
        method: str = "selflinkdist",
        replicas: int = 1,
        epochs: int | None = None,
        held_out: float | None = None,
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

    def fit(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: npt.ArrayLike | None = None,
        *,
        edges: Any = None,  # noqa: ANN401
        validation: npt.ArrayLike | None = None,
        nodes: Sequence[Hashable] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : (n, d) array, CSR matrix, pandas or Polars frame, or Arrow table
            One row for each node of the graph. A table with columns that are not numbers, or with
            missing values, is encoded as `linkdist train` does it (see `TableEncoder`).
        y : (n,) array
            Classes; -1, None or NaN where unknown.
        sample_weight : (n,) array, optional
            How much the label of each node counts for the teachers of SelfLinkDist; 0 makes a label
            unknown. Weights of nodes without a label are ignored.
        edges : links, optional
            Links in any form that `data.graph.as_links` reads; without links the result is a plain
            MLP.
        validation : (k,) array of row numbers or (n,) array of bool, optional
            Labelled nodes of the validation split, which selects the weights.
        nodes : (n,) sequence, optional
            The names of the rows that `edges` refers to; by default the index of a pandas table,
            otherwise row numbers.
        """
        self._check_options()
        nodes = row_names(X, nodes)
        features = self._features(X, reset=True)
        labels = self._learn_classes(y, features.shape[0])
        links = links_of(edges, features.shape[0], nodes)
        weights = label_weights(sample_weight, features, self.method)
        if weights is not None:
            labels = np.where(weights > 0, labels, UNKNOWN)
        graph = Graph.build(features, links, labels, self._class_names)
        return self._train(replace(graph, label_weights=weights), validation)

    def partial_fit(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        classes: npt.ArrayLike | None = None,
        nodes: Sequence[Hashable] | None = None,
    ) -> Self:
        """Train further on new nodes and links, together with a sample of the old ones.

        Parameters
        ----------
        X, y, edges, nodes
            The new nodes and links, as in `fit`.
        classes : (C,) array, optional
            All classes that any call will contain; required in the first call without `fit`.
        """
        self._check_options()
        nodes = row_names(X, nodes)
        first = not hasattr(self, "model_")
        features = self._features(X, reset=first)
        if first:
            self._learn_classes(y if classes is None else classes, None)
        labels = self._numbered(y, features.shape[0])
        links = links_of(edges, features.shape[0], nodes)
        graph = Graph.build(features, links, labels, self._class_names)
        if first:
            return self._train(graph, validation=[])
        self._seed = int(np.random.SeedSequence(self._seed).generate_state(1)[0])
        self._memory = update(self.model_, self._memory, graph, method=self.method, seed=self._seed)
        self.alpha_ = self.model_.alpha.cpu().numpy()
        return self

    def predict(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[Any]:
        """The most probable class of each node, from features or, if links are given, with them."""
        best = self.predict_proba(X, edges=edges, nodes=nodes).argmax(axis=1)
        predicted: npt.NDArray[Any] = self.classes_[best]
        return predicted

    def predict_proba(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Class probabilities (n, C), averaged over the replicas."""
        check_is_fitted(self)
        nodes = row_names(X, nodes)
        features = self._features(X, reset=False)
        if edges is None:
            return from_features(self.model_, features)
        return with_links(self.model_, features, as_links(edges, features.shape[0], nodes))

    def decision_function(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Log-probabilities (n, C); for two classes, the log-odds of the second (n,)."""
        tiny = np.finfo(np.float32).tiny
        log_p = np.log(np.maximum(self.predict_proba(X, edges=edges, nodes=nodes), tiny))
        scores: npt.NDArray[np.float32] = (
            log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p
        )
        return scores

    def disagreement(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Share of the replicas (n,) whose class differs from that of their mean."""
        check_is_fitted(self)
        nodes = row_names(X, nodes)
        features = self._features(X, reset=False)
        links = None if edges is None else as_links(edges, features.shape[0], nodes)
        return disagreement(self.model_, features, links)

    def score(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: npt.ArrayLike | None = None,
        *,
        edges: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> float:
        """Accuracy on the nodes with a known class."""
        predicted = self.predict(X, edges=edges, nodes=nodes)
        truth, known = known_labels(y)
        hits = predicted[known] == truth[known]
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average(hits, weights=weights))

    def save(self, directory: Path | str, *, id: str = "id", label: str = "label") -> None:
        """Write a model directory, which `linkdist serve` and `linkdist predict` take.

        Parameters
        ----------
        directory : Path or str
            The directory; a model that is there is replaced.
        id, label : str
            The columns of ids and labels in tables that the commands will read.
        """
        check_is_fitted(self)
        encoders = None if self.encoder_ is None else self.encoder_.encoder_
        about: dict[str, Any] = {"id": id, "label": label, "method": self.method}
        if self.estimates_ is not None:
            about["estimates"] = self.estimates_.as_json()
        saved = Saved(self.model_, encoders, about if encoders else {}, pack(self._memory))
        save_model(directory, with_onnx(saved))

    @classmethod
    def from_pyg(cls, data: Any, **options: Any) -> Self:  # noqa: ANN401
        """Train a classifier on a PyTorch Geometric `Data` object.

        It uses `x`, `edge_index`, `y`, the labels in `train_mask` (without a mask, all labels) for
        training, and those in `val_mask`, if there is one, as the validation split.
        """
        train = mask_of(data, "train_mask")
        choose = mask_of(data, "val_mask")
        y = np.asarray(data.y).ravel()
        if train is not None:
            y = np.where(train | (choose if choose is not None else False), y, UNKNOWN)
        features = data.x if sparse.issparse(data.x) else np.asarray(data.x)
        edges = np.asarray(data.edge_index)
        return cls(**options).fit(features, y, edges=edges, validation=choose)

    def predict_pyg(self, data: Any, *, with_links: bool = True) -> npt.NDArray[Any]:  # noqa: ANN401
        """The class of every node of a PyTorch Geometric `Data` object."""
        edges = np.asarray(data.edge_index) if with_links else None
        return self.predict(np.asarray(data.x), edges=edges)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        """Declare that sparse input is supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_options(self) -> None:
        hyper = Hyperparameters(**{name: getattr(self, name) for name in HYPERPARAMETERS})
        problems = [*hyper.problems(), *epoch_problems(self.epochs)]
        replicas = cast(object, self.replicas)
        held_out = cast(object, 0.0 if self.held_out is None else self.held_out)
        if not isinstance(replicas, numbers.Integral) or replicas < 1:
            problems.append(f"replicas must be a whole number from 1; found {replicas!r}.")
        if not isinstance(held_out, numbers.Real) or not 0 <= float(held_out) < 1:
            problems.append(f"held_out must be from 0 to below 1; found {held_out!r}.")
        if problems:
            raise OptionError(" ".join(problems))

    def _features(self, X: Any, reset: bool) -> FeatureMatrix:  # noqa: ANN401
        if reset:
            self.encoder_ = TableEncoder() if needs_encoding(X) else None
        if self.encoder_ is not None:
            X = X.reset_index(drop=True) if hasattr(X, "reset_index") else X
            if not reset:
                return self.encoder_.transform(X)
            features = self.encoder_.fit_transform(X)
            self.n_features_in_ = self.encoder_.n_features_in_
            self.feature_names_in_ = self.encoder_.feature_names_in_
            return features
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        checked: FeatureMatrix = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=np.float32
        )
        return checked

    def _learn_classes(self, y: Any, n: int | None) -> IntArray:  # noqa: ANN401
        values, known = known_labels(y)
        if known.any():
            check_classification_targets(values[known])
        self.classes_ = np.unique(values[known]) if known.any() else np.array([])
        if len(self.classes_) < 2:
            found = ", ".join(map(repr, self.classes_.tolist())) or "no label at all"
            raise GraphError(f"training needs labels of more than one class; found {found}.")
        return self._numbered(y, n if n is not None else len(values))

    def _numbered(self, y: Any, n: int) -> IntArray:  # noqa: ANN401
        """Class numbers, which are positions in `classes_`; UNKNOWN for missing labels."""
        values, known = known_labels(y)
        if len(values) != n:
            raise GraphError(f"y must have one entry for each node, {n}; found {len(values)}.")
        labels = np.full(n, UNKNOWN)
        new = np.setdiff1d(values[known], self.classes_)
        if len(new):
            named = ", ".join(map(repr, new.tolist()[:5]))
            raise GraphError(
                f"y contains classes that the model does not know: {named}. Name all classes in "
                "the first call of partial_fit, or call fit again."
            )
        labels[known] = np.searchsorted(self.classes_, values[known])
        return labels

    def _splits(
        self, labels: IntArray, validation: npt.ArrayLike | None, seeds: Sequence[int]
    ) -> list[Split]:
        """One split into training and validation nodes for each replica."""
        if validation is not None:
            return [keep_aside(labels, row_numbers(validation, len(labels)))] * len(seeds)
        if self.method == "selflinkdist":
            return [keep_aside(labels, np.array([], dtype=np.int64))] * len(seeds)
        share = HELD_OUT if self.held_out is None else self.held_out
        return [held_out(labels, share, seed) for seed in seeds]

    def _seeds(self) -> list[int]:
        """One seed for each replica; for a number, those of `linkdist train --seed`."""
        state = cast(Any, self.random_state)
        if isinstance(state, numbers.Integral):
            return list(range(int(state), int(state) + self.replicas))
        drawn = check_random_state(state).randint(np.iinfo(np.int32).max, size=self.replicas)
        return list(map(int, drawn))

    def _train(self, graph: Graph, validation: npt.ArrayLike | None) -> Self:
        seeds = self._seeds()
        splits = self._splits(graph.labels, validation, seeds)
        result = fit(
            graph,
            splits,
            method=self.method,
            seeds=seeds,
            baselines=True,
            **{name: getattr(self, name) for name in FIT_PARAMETERS},
        )
        weights = class_weights(self.class_weight, self.classes_, graph.labels)
        self.model_ = reweighted(result.model, weights)
        self.n_iter_ = result.epochs
        self.estimates_ = result.estimates
        self.alpha_ = result.model.alpha.cpu().numpy()
        modes = {"features": "features", "links": "mean"} if result.history.chooses else {}
        self.history_ = {to: result.history.curve(of)[:, 0] for to, of in modes.items()}
        self._seed = seeds[0]
        self._memory = make_replay_buffer(graph, splits, self._seed)
        return self

    @property
    def _class_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.classes_.tolist()))

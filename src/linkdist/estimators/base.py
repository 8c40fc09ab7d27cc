"""What the classifier and the regressor have in common.

X contains all nodes, labelled or not, because training uses every link. Without validation nodes,
`estimates_` contains the score estimated by folds of the labels.
"""

from __future__ import annotations

import numbers
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from linkdist.artifacts.model_dir import Saved, save_model
from linkdist.artifacts.onnx import with_onnx
from linkdist.data.graph import (
    FeatureMatrix,
    FloatArray,
    Graph,
    Labels,
    without_labels,
)
from linkdist.data.graph_objects import node_data
from linkdist.data.interchange import as_links, links_with_loops
from linkdist.data.links import Links
from linkdist.data.splits import HELD_OUT, Split, held_out, keep_aside
from linkdist.data.user_arrays import (
    group_numbers,
    label_weights,
    results_of,
    row_names,
    row_numbers,
)
from linkdist.data.user_labels import hidden_labels
from linkdist.errors import GraphError, OptionError
from linkdist.tables.targets import LabelFormat
from linkdist.tables.transformer import TableEncoder, needs_encoding
from linkdist.training.fit import Fit, epoch_problems, fit, limit_problems
from linkdist.training.loop import Hyperparameters
from linkdist.training.options import Options
from linkdist.training.replay import ReplayBuffer, make_replay_buffer, pack

HYPERPARAMETERS = ("hidden_size", "batch_size", "learning_rate", "dropout", "schedule")

FIT_PARAMETERS = (
    "epochs", "device", "budget", "held_out", "teachers", "metric", "hold_out_graphs",
    *HYPERPARAMETERS,
)  # fmt: skip
"""Parameters that `fit` takes as they are."""


class LinkDistEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of `LinkDistClassifier` and `LinkDistRegressor`."""

    # scikit-learn reads the parameters from `__init__`, so each estimator lists its own.
    method: str
    replicas: int
    epochs: int | None
    held_out: float | None
    hold_out_graphs: bool
    random_state: Any
    _seed: int
    _memory: ReplayBuffer

    def fit(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: npt.ArrayLike | None = None,
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        directed: bool | None = None,
        groups: Any = None,  # noqa: ANN401
        validation: npt.ArrayLike | None = None,
        nodes: Sequence[Hashable] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : (n, d) array, CSR matrix, pandas or Polars frame, or Arrow table
            One row for each node of the graph. A table with columns that are not numbers, or with
            missing values, is encoded as `linkdist train` does it (see `TableEncoder`).
        y : (n,) or (n, C) array
            What is to be predicted: for a classifier, classes, which are -1, None or NaN where
            unknown, or 0 and 1 for each of C classes, of which a node may have several, with rows
            of -1 where unknown; for a regressor, numbers, which are None or NaN where unknown.
        sample_weight : (n,) array, optional
            How much the label of each node counts for the teachers of SelfLinkDist; 0 makes a label
            unknown. Weights of nodes without a label are ignored.
        edges : links, optional
            Pairs of linked nodes, (m, 2) or (2, m); a SciPy matrix; a graph of NetworkX, PyTorch
            Geometric or DGL; a mapping of the names of relations to these; or `Links`. Without
            links the result is a plain MLP.
        relation : (m,) array or str, optional
            The name of the relation of each link, such as 'cites', or the edge attribute with these
            names; 'key' for the keys of a NetworkX multigraph. False ignores the relations of an
            object.
        edge_weight : (m,) array, mapping, str or bool, optional
            Positive weights of the links, an array for each relation if `edges` is a mapping; or
            the edge attribute with the weights; True for the values of a SciPy matrix. False
            ignores the weights of an object.
        directed : bool, optional
            Whether links lead from the first node to the second, and the two directions tell
            different things; by default only for directed NetworkX graphs.
        groups : (n,) array, optional
            The name of the graph that each node belongs to, if there are several.
        validation : (k,) array of row numbers or (n,) array of bool, optional
            Labelled nodes of the validation split, which selects the weights.
        nodes : (n,) sequence, optional
            The names of the rows that `edges` refers to; by default the index of a pandas table,
            otherwise row numbers.
        """
        self._check_options()
        nodes = row_names(X, nodes)
        features = self._features(X, reset=True)
        n = features.shape[0]
        said = {"relation": relation, "edge_weight": edge_weight, "directed": directed}
        (task, labels), links, numbered = results_of(
            lambda: self._learn_labels(y, n),
            lambda: None if edges is None else as_links(edges, n, nodes, **said),
            lambda: group_numbers(groups, n),
        )
        weights = label_weights(sample_weight, features, self.method)
        if weights is not None:
            labels = without_labels(labels, weights <= 0)
        graph = self._graph(features, links, labels, task, numbered)
        return self._train(replace(graph, label_weights=weights), validation)

    def fit_graph(self, source: Any, **options: Any) -> Self:  # noqa: ANN401
        """Train on a graph object of PyTorch Geometric, DGL or NetworkX.

        Parameters
        ----------
        source : object
            The graph, in any form that `linkdist.graph_from` takes. If it has `train_mask`,
            training uses the labels of this mask, and those of `val_mask` as the validation split;
            otherwise it uses all labels.
        **options
            `features` and `labels` as in `linkdist.graph_from`, and the options of `fit`.
        """
        given = node_data(source, options.pop("features", None), options.pop("labels", None))
        if given.labels is None:
            raise GraphError("the graph has no labels; pass them with labels=.")
        y = given.labels
        if given.taught is not None:
            y = hidden_labels(y, given.taught, self._task)
        found = {"validation": given.masks.get("val_mask"), "nodes": given.nodes}
        options = {**found, "groups": given.groups, **options}
        return self.fit(given.features, y, edges=source, **options)

    def predict_graph(
        self,
        source: Any,  # noqa: ANN401
        *,
        with_links: bool = True,
        features: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> npt.NDArray[Any]:
        """Predict every node of a graph object of PyTorch Geometric, DGL or NetworkX.

        Parameters
        ----------
        source, features
            As in `fit_graph`.
        with_links : bool
            Whether to use the links of the graph.
        **options
            `relation` and `edge_weight`, as in `fit`.
        """
        given = node_data(source, features)
        links = {"edges": source, "nodes": given.nodes, **options} if with_links else {}
        predicted: npt.NDArray[Any] = self.predict(given.features, **links)
        return predicted

    @classmethod
    def from_pyg(cls, data: Any, **options: Any) -> Self:  # noqa: ANN401
        """Train on a PyTorch Geometric `Data` or `HeteroData` object; see `fit_graph`.

        Parameters
        ----------
        data : Data or HeteroData
            The graph.
        **options
            The parameters of the estimator.
        """
        return cls(**options).fit_graph(data)

    def predict_pyg(self, data: Any, *, with_links: bool = True) -> npt.NDArray[Any]:  # noqa: ANN401
        """Predict every node of a PyTorch Geometric object; see `predict_graph`."""
        return self.predict_graph(data, with_links=with_links)

    def save(
        self,
        directory: Path | str,
        *,
        id: str = "id",
        label: str | Sequence[str] | None = None,
        relation: str | None = None,
        weight: str = "weight",
    ) -> None:
        """Write a model directory, which `linkdist serve` and `linkdist predict` take.

        Parameters
        ----------
        directory : Path or str
            The directory; a model that is there is replaced.
        id, label : str
            The columns of ids and labels in tables that the commands will read; by default the
            label is in column 'label' or, if a node may have several classes, there is a column
            for each class.
        relation, weight : str, optional
            The columns of relations and weights in link tables that the commands will read, if the
            model has them. By default, each relation is a table of its own.
        """
        check_is_fitted(self)
        encoders = None if self.encoder_ is None else self.encoder_.encoder_
        columns = label or (list(self.model_.classes) if self._several else "label")
        tables = {"id": id, "label": columns, "relation": relation}
        tables["weight"] = weight if self._weighted else None
        about = self._about() | (tables if encoders else {})
        save_model(directory, with_onnx(Saved(self.model_, encoders, about, pack(self._memory))))

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        """Declare that sparse input is supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # What differs between the estimators.

    _task = "classification"
    """How labels that are hidden are marked; see `hidden_labels`."""

    @abstractmethod
    def predict(self, X: Any, *, edges: Any = None) -> npt.NDArray[Any]:  # noqa: ANN401
        """Predict the label of each node; the estimators take more options for links."""

    @abstractmethod
    def _learn_labels(self, y: Any, n: int) -> tuple[str, Labels]:  # noqa: ANN401
        """The task, and labels in the form of `Graph.labels`."""

    @property
    @abstractmethod
    def _class_names(self) -> tuple[str, ...]:
        """Names of the classes, or one name for the number."""

    @abstractmethod
    def _task_options(self, graph: Graph) -> dict[str, Any]:
        """Options of `fit` that only one of the estimators has."""

    # What they share.

    @property
    def _several(self) -> bool:
        """Whether a node may have several classes."""
        return self.model_.task == "multilabel"

    @property
    def _weighted(self) -> bool:
        """Whether the links of the training had weights."""
        return self._memory.graph.link_weights is not None

    def _about(self) -> dict[str, Any]:
        """What the model directory says about the training."""
        model = self.model_
        form = LabelFormat(model.task, (), model.classes, binary=self._several)
        about = {
            "method": self.method,
            "task": model.task,
            "relations": list(model.relations),
            "directed": model.directed,
            "label_format": form.state(),
            "decision": self.decision_.as_json(),
        }
        if self.decision_.certainty is not None:
            about["certainty"] = self.decision_.certainty.state()
        if self.estimates_ is not None:
            about["estimates"] = self.estimates_.as_json()
        return {name: value for name, value in about.items() if value not in ({}, None)}

    def _predicted(
        self,
        X: Any,  # noqa: ANN401
        edges: Any,  # noqa: ANN401
        nodes: Sequence[Hashable] | None,
        relation: Any,  # noqa: ANN401
        edge_weight: Any,  # noqa: ANN401
    ) -> FloatArray:
        """Probabilities (n, C) or numbers (n, 1), averaged over the replicas."""
        features, links = self._inputs(X, edges, nodes, relation, edge_weight)
        return self.model_.predict_proba(features, links)

    def _inputs(
        self,
        X: Any,  # noqa: ANN401
        edges: Any,  # noqa: ANN401
        nodes: Sequence[Hashable] | None,
        relation: Any,  # noqa: ANN401
        edge_weight: Any,  # noqa: ANN401
    ) -> tuple[FeatureMatrix, Links | None]:
        """Features and, for prediction with links, links as in training."""
        check_is_fitted(self)
        nodes = row_names(X, nodes)
        features = self._features(X, reset=False)
        if edges is None:
            return features, None
        links = self._as_trained(edges, features.shape[0], nodes, relation, edge_weight)
        if self._weighted and links.weights is None and len(links.pairs):
            warnings.warn(
                "The links of the training had weights, but these have none, so all of them count "
                "alike. Pass edge_weight=.",
                stacklevel=4,
            )
        return features, links

    def _as_trained(
        self,
        edges: Any,  # noqa: ANN401
        n: int,
        nodes: Sequence[Hashable] | None,
        relation: Any,  # noqa: ANN401
        edge_weight: Any,  # noqa: ANN401
    ) -> Links:
        """Links with the relations and direction of the training."""
        return as_links(
            edges,
            n,
            nodes,
            relation=relation,
            edge_weight=edge_weight,
            directed=self.model_.directed,
            relations=self.model_.relations,
        )

    def _graph(
        self,
        features: FeatureMatrix,
        links: Links | None,
        labels: Labels,
        task: str = "classification",
        groups: Any = None,  # noqa: ANN401
    ) -> Graph:
        links = links_with_loops(links, features.shape[0])
        return Graph.build(features, links, labels, self._class_names, task=task, groups=groups)

    def _check_options(self) -> None:
        hyper = Hyperparameters(**{name: getattr(self, name) for name in HYPERPARAMETERS})
        problems = [*hyper.problems(), *epoch_problems(self.epochs)]
        replicas, share = cast(object, self.replicas), cast(object, self.held_out)
        if not isinstance(replicas, numbers.Integral) or replicas < 1:
            problems.append(f"replicas must be a whole number from 1; found {replicas!r}.")
        if isinstance(share, numbers.Real | None):
            problems += limit_problems(self.held_out, None)
        else:
            problems.append(f"held_out must be from 0 to below 1; found {share!r}.")
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

    def _splits(
        self, labels: Labels, validation: npt.ArrayLike | None, seeds: Sequence[int]
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
        given = {name: getattr(self, name) for name in FIT_PARAMETERS}
        own = self._task_options(graph)
        self._check_graph(graph, bool(len(splits[0].validation)) and validation is not None)
        result = fit(graph, splits, method=self.method, seeds=seeds, baselines=True, **given, **own)
        self._keep(result)
        self._seed = seeds[0]
        self._memory = make_replay_buffer(graph, splits, self._seed)
        return self

    def _check_graph(self, graph: Graph, validated: bool) -> None:
        """Raise an OptionError that lists the options that do not suit the task or the graph."""
        options = {
            name: getattr(self, name) for name in ("metric", "hold_out_graphs", "loss")
            if hasattr(self, name)
        }  # fmt: skip
        weighted = getattr(self, "class_weight", None) is not None
        Options(**options, class_weight="balanced" if weighted else None).check_graph(graph)
        if self.hold_out_graphs and validated:
            raise OptionError(
                "validation nodes and hold_out_graphs exclude each other; choose one."
            )

    def _keep(self, result: Fit) -> None:
        """Set the attributes that a training gives."""
        self.model_ = result.model
        self.n_iter_ = result.epochs
        self.estimates_ = result.estimates
        self.decision_ = result.decision
        self.alpha_ = result.model.alpha.cpu().numpy()
        modes = {"features": "features", "links": "mean"} if result.history.chooses else {}
        self.history_ = {to: result.history.curve(of)[:, 0] for to, of in modes.items()}

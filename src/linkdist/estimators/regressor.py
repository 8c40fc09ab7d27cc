"""`LinkDistRegressor`: LinkDist as a scikit-learn regressor.

model = LinkDistRegressor().fit(X, y, edges=edges)    # y is None or NaN where unknown
model.predict(X_new)                                  # from features
model.predict_interval(X_new, edges=edges_new)        # with links, (n, 2)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from linkdist.data.graph import Graph, Labels
from linkdist.data.user_labels import has_several_columns, numbers_of
from linkdist.errors import GraphError, OptionError, check_names
from linkdist.estimators.base import LinkDistEstimator
from linkdist.nn.network import HIDDEN
from linkdist.training.loop import BATCH
from linkdist.training.options import LOSSES


class LinkDistRegressor(RegressorMixin, LinkDistEstimator):  # type: ignore[misc]
    """A regressor that trains on a graph's links and predicts from a node's features.

    Parameters
    ----------
    replicas : int
        Number of networks that are trained side by side and averaged.
    epochs : int, optional
        Passes over the nodes; see `linkdist.fit`.
    loss : {'squared', 'absolute'}
        The error that training minimises; 'absolute' is less sensitive to outliers.
    held_out : float, optional
        Share of the labels that form the validation split, if no validation nodes are given. By
        default there are folds for up to 2,000 labels, and a share of 0.1 above. With 0, training
        uses all labels, and there are no estimates and no prediction intervals.
    hold_out_graphs : bool
        Whether folds hold out whole graphs, which `groups` names in `fit`: the test for a graph
        that training has not seen.
    metric : {'r2', 'mae'}, optional
        What validation chooses by and `estimates_` contains; by default the loss chooses, and R²
        is estimated.
    teachers : sequence of regressors
        Additional teachers: scikit-learn regressors, which are fitted on the features and the
        standardised numbers of labelled nodes.
    budget : float, optional
        Time limit in seconds; the result depends on the speed of the machine.
    hidden_size, batch_size, learning_rate, dropout, schedule
        Hyperparameters of the network and its training; see `linkdist.fit`.
    device : {'auto', 'cpu', 'cuda'}
        Where to train.
    random_state : int, RandomState or None
        Random seed for the initial weights, sampling, Dropout and the validation split.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of a node.
    alpha_, history_, estimates_, encoder_, model_
        As in `LinkDistClassifier`.
    decision_ : Decision
        Half the width of the prediction intervals, from features and with links.

    Examples
    --------
    >>> X = np.linspace(0, 1, 40).reshape(-1, 1)
    >>> y = np.where(np.arange(40) % 2, 3 * X[:, 0] - 1, np.nan)
    >>> edges = [(i, i + 1) for i in range(39)]
    >>> model = LinkDistRegressor(held_out=0, random_state=0).fit(X, y, edges=edges)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.5) < 0.2)
    True
    """

    method = "selflinkdist"
    _task = "regression"

    def __init__(
        self,
        *,
        replicas: int = 1,
        epochs: int | None = None,
        loss: str = "squared",
        held_out: float | None = None,
        hold_out_graphs: bool = False,
        metric: str | None = None,
        teachers: Sequence[Any] = (),
        budget: float | None = None,
        hidden_size: int = HIDDEN,
        batch_size: int = BATCH,
        learning_rate: float | None = None,
        dropout: float | None = None,
        schedule: str | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.replicas = replicas
        self.epochs = epochs
        self.loss = loss
        self.held_out = held_out
        self.hold_out_graphs = hold_out_graphs
        self.metric = metric
        self.teachers = teachers
        self.budget = budget
        self.hidden_size = hidden_size
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.schedule = schedule
        self.device = device
        self.random_state = random_state

    def predict(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float32]:
        """The number of each node (n,), from features or, if links are given, with them.

        Parameters
        ----------
        X, edges, relation, edge_weight, nodes
            As in `fit`. Links are directed as in training, and have its relations.
        """
        return self._predicted(X, edges, nodes, relation, edge_weight)[:, 0]

    def predict_interval(
        self,
        X: Any,  # noqa: ANN401
        *,
        edges: Any = None,  # noqa: ANN401
        relation: Any = None,  # noqa: ANN401
        edge_weight: Any = None,  # noqa: ANN401
        nodes: Sequence[Hashable] | None = None,
    ) -> npt.NDArray[np.float64]:
        """Prediction intervals (n, 2) that contain 90 % of the numbers; parameters as in `predict`.

        They are conformal: their width comes from the errors on labels that the predicting network
        had not seen. With fewer than nine of these, the intervals are infinite.

        Raises
        ------
        OptionError
            If training had no validation, because of `held_out=0`.
        """
        centre = self.predict(
            X, edges=edges, relation=relation, edge_weight=edge_weight, nodes=nodes
        ).astype(np.float64)
        widths = self.decision_.widths
        if widths is None:
            raise OptionError(
                "prediction intervals need errors on validation labels, and this model was trained "
                "without; train it with another held_out than 0, or with validation nodes."
            )
        width = widths["features" if edges is None else "links"]
        return np.stack([centre - width, centre + width], axis=1)

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
        """R² on the nodes with a known number."""
        said = {"relation": relation, "edge_weight": edge_weight, "nodes": nodes}
        predicted = self.predict(X, edges=edges, **said)
        truth = numbers_of(y, len(predicted))
        known = ~np.isnan(truth)
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(truth[known], predicted[known], sample_weight=weights))

    def _check_options(self) -> None:
        super()._check_options()
        check_names("loss", [self.loss], LOSSES)

    def _learn_labels(self, y: Any, n: int) -> tuple[str, Labels]:  # noqa: ANN401
        if has_several_columns(y):
            raise GraphError(
                f"y must contain one number for each node; found shape {np.shape(y)}. Train a "
                "model for each column."
            )
        if n < 2:
            raise GraphError(f"training needs numbers that differ; found {n} sample. Add rows.")
        return "regression", numbers_of(y, n)

    def _task_options(self, graph: Graph) -> dict[str, Any]:
        return {"loss": self.loss}

    @property
    def _class_names(self) -> tuple[str, ...]:
        return ("value",)

"""Train on a graph's links, keep an MLP."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from linkdist._version import __version__ as __version__

if TYPE_CHECKING:
    from linkdist.artifacts.model_dir import save_model
    from linkdist.data.datasets import load_dataset
    from linkdist.data.graph import Graph
    from linkdist.data.graph_objects import graph_from
    from linkdist.data.links import Links
    from linkdist.data.splits import (
        Split,
        View,
        full_supervised,
        named_split,
        observe,
        semi_supervised,
    )
    from linkdist.estimators.classifier import LinkDistClassifier
    from linkdist.estimators.regressor import LinkDistRegressor
    from linkdist.model import Model, from_features, with_links
    from linkdist.tables.transformer import TableEncoder
    from linkdist.trained_model import TrainedModel, load_model, train
    from linkdist.training.fit import Fit, fit


# OpenMP's threads would spin while they wait for work and, on a machine that others use too, take
# the cores from the threads that they wait for. OpenMP reads this when PyTorch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

__all__ = [
    "Fit",
    "Graph",
    "LinkDistClassifier",
    "LinkDistRegressor",
    "Links",
    "Model",
    "Split",
    "TableEncoder",
    "TrainedModel",
    "View",
    "fit",
    "from_features",
    "full_supervised",
    "graph_from",
    "load_dataset",
    "load_model",
    "named_split",
    "observe",
    "save_model",
    "semi_supervised",
    "train",
    "with_links",
]

_HOMES = {
    "artifacts.model_dir": ("save_model",),
    "data.datasets": ("load_dataset",),
    "data.graph": ("Graph",),
    "data.graph_objects": ("graph_from",),
    "data.links": ("Links",),
    "data.splits": (
        "Split",
        "View",
        "full_supervised",
        "named_split",
        "observe",
        "semi_supervised",
    ),
    "estimators.classifier": ("LinkDistClassifier",),
    "estimators.regressor": ("LinkDistRegressor",),
    "model": ("Model", "from_features", "with_links"),
    "tables.transformer": ("TableEncoder",),
    "trained_model": ("TrainedModel", "load_model", "train"),
    "training.fit": ("Fit", "fit"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    # Importing PyTorch and scikit-learn takes seconds, and a service needs neither.
    for module, names in _HOMES.items():
        if name in names:
            try:
                return getattr(import_module(f"linkdist.{module}"), name)
            except ModuleNotFoundError as error:
                if not str(error.name).startswith("linkdist."):
                    raise
                text = f"linkdist.{name} is not in linkdist-serve; install linkdist instead."
                raise ImportError(text) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

"""Train on a graph's links, keep an MLP."""

from typing import TYPE_CHECKING, Any

from linkdist.datasets import load
from linkdist.fitting import Fit, fit
from linkdist.graph import Graph
from linkdist.inference import Model, from_features, with_links
from linkdist.splits import Split, View, full_supervised, named_split, observe, semi_supervised

if TYPE_CHECKING:
    from linkdist.classifier import LinkDistClassifier

__version__ = "0.1.0"

__all__ = [
    "Fit",
    "Graph",
    "LinkDistClassifier",
    "Model",
    "Split",
    "View",
    "fit",
    "from_features",
    "full_supervised",
    "load",
    "named_split",
    "observe",
    "semi_supervised",
    "with_links",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    # scikit-learn takes a second to import, and only the classifier needs it.
    if name == "LinkDistClassifier":
        from linkdist.classifier import LinkDistClassifier

        return LinkDistClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

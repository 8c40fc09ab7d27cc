"""Train on a graph's links, keep an MLP."""

from linkdist.datasets import load
from linkdist.fitting import Fit, fit
from linkdist.graph import Graph
from linkdist.inference import Model, from_features, with_links
from linkdist.splits import Split, View, full_supervised, named_split, observe, semi_supervised

__version__ = "0.1.0"

__all__ = [
    "Fit",
    "Graph",
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

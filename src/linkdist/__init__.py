"""Train on a graph's links, keep an MLP."""

from linkdist.graph import Graph

__all__ = ["Graph"]

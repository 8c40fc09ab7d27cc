"""Graphs, splits and named data sets."""

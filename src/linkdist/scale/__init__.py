"""Graphs larger than memory, many processes, many machines; a graph that fits needs none."""

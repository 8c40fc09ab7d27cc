"""Graphs larger than memory, many processes and many machines; a graph that fits needs none of it."""

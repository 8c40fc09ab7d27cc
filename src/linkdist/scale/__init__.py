"""Graphs that are larger than memory: a store on disk, in parts."""

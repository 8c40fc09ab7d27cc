"""SelfLinkDist on a graph that is larger than memory: its stages, part by part."""

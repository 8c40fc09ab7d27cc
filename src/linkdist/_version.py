"""The version of this package, whichever distribution installed it."""

__version__ = "0.2.0"

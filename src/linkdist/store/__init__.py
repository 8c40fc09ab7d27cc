"""A graph on disk: format, build, read, verify."""

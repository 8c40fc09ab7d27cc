"""The web page of a model as a folder of files, which needs no service."""

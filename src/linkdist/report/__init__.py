"""Metrics, charts and the report of a model."""

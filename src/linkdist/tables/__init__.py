"""Parquet and CSV to arrays and back: schema, validation, encoders, nodes, links."""

"""Tables to arrays and back: files and data frames, schema, validation, encoders, nodes, links."""

"""The network: layers, losses, aggregation, optimiser, sampling."""

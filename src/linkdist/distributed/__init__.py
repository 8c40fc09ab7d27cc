"""Training and prediction from a store, alone or with Ray."""

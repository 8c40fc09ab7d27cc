"""The loop, what a step trains on, evaluation history, checkpoints, update."""

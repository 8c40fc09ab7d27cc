"""The paper: its published numbers, its baselines, its protocol, its tables."""

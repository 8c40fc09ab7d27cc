"""LinkDist as scikit-learn estimators."""

"""The methods by class of information, and the words for them."""

OURS, LINKED = "SelfLinkDist", "SelfLinkDist, with links"
CLASSES = {
    1: ("linear model", "LightGBM", "MLP"),
    2: ("self-training",),
    3: (OURS, "CoLinkDist", "GLNN", "GCN2MLP", "label spreading, then LightGBM"),
    4: (
        LINKED,
        "label propagation",
        "Correct & Smooth",
        "LightGBM on averages",
        "GraphSAGE",
        "GCN",
    ),
}
FOR_CLASSES = ("self-training", "CoLinkDist", "Correct & Smooth")
"""Methods that do not predict numbers."""
TITLES = {
    1: "Labelled rows only",
    2: "Unlabelled rows as well",
    3: "Links in training, none at prediction",
    4: "Links at prediction",
}
SEMI = "SelfLinkDist knows more here: it uses unlabelled rows and links in training."
NOTES = {1: SEMI, 2: "SelfLinkDist knows more here: it uses links in training.", 3: "", 4: ""}
MEASURES = {"accuracy": "accuracy", "roc-auc": "ROC AUC", "r2": "R²"}


def class_of(method):
    """The class of information of a method."""
    return next(number for number, methods in CLASSES.items() if method in methods)


def labels_in_words(labels):
    """A number of labels in words."""
    return f"{labels[:-1]} % of the rows" if labels.endswith("%") else f"{labels} of each class"

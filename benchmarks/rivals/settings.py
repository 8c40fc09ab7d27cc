"""The settings that each rival chooses from: at most three, as a practitioner would try.

They were written down before any test node was predicted. The range of C for sparse features was
checked on validation nodes of seeds 0 to 2; the others were not tuned.
"""

LOGISTIC = [{"C": 1.0}, {"C": 10.0}, {"C": 100.0}]
"""For sparse features, whose rows have a mean length of 1."""
LOGISTIC_DENSE = [{"C": 0.1}, {"C": 1.0}, {"C": 10.0}]
"""For standardised columns."""
RIDGE = [{"alpha": 1.0}, {"alpha": 10.0}, {"alpha": 100.0}]
SELF_TRAINING = [{"threshold": 0.75}, {"threshold": 0.9}, {"k_best": 0.1}]
"""The probability from which on a prediction is a label, or the share of rows for each round."""
TREES = [
    {"num_leaves": 31, "min_child_samples": 20},
    {"num_leaves": 8, "min_child_samples": 5},
    {"num_leaves": 4, "min_child_samples": 2},
]
SPREADING = [
    {"alpha": 0.9, "share": 1.0, "num_leaves": 31, "min_child_samples": 20},
    {"alpha": 0.9, "share": 0.5, "num_leaves": 31, "min_child_samples": 20},
    {"alpha": 0.9, "share": 0.5, "num_leaves": 8, "min_child_samples": 5},
]
"""α of the spreading, and the share of the visible nodes, the most certain, that get its labels."""
NUMBER_SPREADING = [
    {"pull": pull, "num_leaves": 8, "min_child_samples": 5} for pull in (0.01, 0.1, 1.0)
]
PROPAGATION = [{"alpha": 0.5}, {"alpha": 0.9}, {"alpha": 0.99}]
NUMBER_PROPAGATION = [{"pull": 0.01}, {"pull": 0.1}, {"pull": 1.0}]
NETWORKS = [
    {"rate": 0.01, "decay": 5e-4},
    {"rate": 0.01, "decay": 5e-3},
    {"rate": 0.003, "decay": 0.0},
]
"""Learning rate and weight decay of Adam, for MLP, GraphSAGE and GCN."""
STUDENTS = [
    {"rate": 0.01, "decay": 0.0, "labels": 0.0},
    {"rate": 0.01, "decay": 5e-4, "labels": 0.0},
    {"rate": 0.01, "decay": 5e-4, "labels": 0.5},
]
"""Those of a student, with the weight of the labels beside the teacher's predictions."""
CORRECT_AND_SMOOTH = [
    {"correction_alpha": 0.9, "smoothing_alpha": 0.8, "autoscale": True},
    {"correction_alpha": 0.9, "smoothing_alpha": 0.5, "autoscale": False},
    {"correction_alpha": 0.5, "smoothing_alpha": 0.9, "autoscale": False},
]

"""Export to ONNX: a model that runs without PyTorch and without this package.

The inputs are the columns of the table, as `linkdist.artifacts.onnx.columns` lists them, and the
outputs what `linkdist predict` writes:

    task              prediction              decision
    classification    probabilities (n, C)    label (n,), classes (C,)
    multilabel        probabilities (n, C)    labels (n, C), classes (C,)
    regression        value (n, 1)            low (n, 1), high (n, 1)

A file whose columns cannot be inputs, see `obstacles`, has one input, `features` (n, d), and no
decision. Such a file is also in the model directory, for the service.

For prediction with links there are two more outputs, in a second file if the inputs are columns:

    task              own head                  neighbour heads
    classification    own_log_probabilities     neighbour_log_probabilities
    multilabel        own_log_odds              neighbour_log_odds
    regression        own_value                 neighbour_value

`own` is (n, R, C), and `neighbour` is (n, R, C) for one head and (n, R, K, C) for K heads. Head k
is relation k; of directed links, heads 2k and 2k + 1 are the links of relation k that start and
that end at a node. For replica r and node i with neighbours j of head k, the prediction is

    f(κ_r · own[i, r] + Σ_k α_rk · mean_j neighbour[j, r, k])

averaged over r, where f is softmax for classes, sigmoid for several labels, and the identity for
numbers. The mean is weighted if links have weights. A node without neighbours is predicted from
`own` alone; a node with neighbours of some heads has a κ between 1 and κ_r, in proportion to their
α.

The metadata of the file contains, as JSON, the task, class names, columns, relations, α (R,) or
(R, K), κ as 'own', and the decision: half the widths of prediction intervals, or the thresholds of
several labels, for each mode. Before the file is written, the output of ONNX Runtime is compared
with that of the model.
"""

from linkdist.artifacts.onnx.columns import obstacles
from linkdist.artifacts.onnx.export import (
    column_description,
    export_onnx,
    neighbours_path,
    onnx_file,
    with_onnx,
)

__all__ = [
    "column_description",
    "export_onnx",
    "neighbours_path",
    "obstacles",
    "onnx_file",
    "with_onnx",
]

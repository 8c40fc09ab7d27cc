"""What a user would compare with, judged by the same judges as the panel.

The linear teachers and label spreading have been judged already. Two are added here: the largest
class, and CoLinkDist, the paper's method, on a short schedule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linkdist.data.graph import IntArray
from linkdist.model import logits
from linkdist.nn.network import ForkedMLP
from linkdist.training.coefficients import Tally, coefficients
from linkdist.training.loop import loop_on_links
from linkdist.training.panel.faculty import Faculty, Judgement, picked
from linkdist.training.panel.mixing import Array
from linkdist.training.panel.teachers import masks

LARGEST = "largest class"
VISITS = 10
"""How often CoLinkDist visits each node: a short schedule, since it is not the model."""


def largest_class(faculty: Faculty) -> Judgement:
    """Each judge is given the class that its replica knows most labels of."""
    C, found = faculty.graph.C, [np.empty((0, faculty.graph.C))]
    for place in faculty.judged:
        replica = faculty.replicas[place]
        counts = np.bincount(replica.view.labels[replica.view.train], minlength=C)
        shares = np.log((counts + 1.0) / (counts + 1.0).sum())
        found.append(np.broadcast_to(shares, (len(replica.judges), C)))
    return Judgement(np.concatenate(found), faculty.labels(faculty.judged))


def colinkdist(faculty: Faculty, visits: int = VISITS) -> dict[str, Judgement]:
    """CoLinkDist on the views of the judged replicas, from features and with links.

    Nothing where a view has no link that touches a label: the paper's loss needs one.
    """
    graph, device = faculty.graph, faculty.lesson.device
    replicas = [faculty.replicas[place] for place in faculty.judged]
    views = [replica.view for replica in replicas]
    tallies = [Tally.of(view) for view in views]
    if not views or any(tally.of_ends.sum() == 0 for tally in tallies):
        return {}
    by, seeds = coefficients(tallies, None, device), [replica.seed for replica in replicas]
    network = ForkedMLP(graph.d, graph.C, seeds).to(device)
    epochs = visits / graph.degree
    inputs = faculty.lesson.inputs
    loop = loop_on_links(network, inputs, views, seeds, by, "colinkdist", epochs=epochs)
    loop.run(epochs)
    z, s = (part.log_softmax(-1) for part in logits(network, inputs))
    present = masks([replica.present for replica in replicas], graph.n).to(device)
    linked = z + by.alpha.view(-1, 1, 1) * faculty.lesson.around(present).mean(s)
    labels, nodes = faculty.labels(faculty.judged), [replica.judges for replica in replicas]
    return {
        "CoLinkDist": _joined(picked(z, nodes), labels),
        "CoLinkDist, with links": _joined(picked(linked.log_softmax(-1), nodes), labels),
    }


def _joined(parts: Sequence[Array], labels: IntArray) -> Judgement:
    return Judgement(np.concatenate(parts), labels)

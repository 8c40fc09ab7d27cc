"""Train a forked MLP on the links of its views, for tests that need trained weights."""

from linkdist.training.link_task import coefficients, loop_on_links
from linkdist.training.loop import BATCH


def train_links(
    network, inputs, views, seeds, epochs, *, method="colinkdist", beta=None, batch=BATCH
):
    by = coefficients(views, beta, inputs.device)
    loop_on_links(network, inputs, views, seeds, by, method, batch).run(epochs)
    return by

import numpy as np
import pytest
import torch
from scipy import sparse
from threadpoolctl import threadpool_limits

from linkdist import Graph


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """These graphs are too small for more: threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def wordy():
    """Three groups that differ in their words, CSR, mostly linked within; the last node alone."""
    random = np.random.default_rng(0)
    labels = np.arange(91) % 3
    words = random.random((3, 80)) < 0.2
    features = (random.random((91, 80)) < np.where(words[labels], 0.3, 0.06)) * 1.0
    features[:, 0] = 1.0  # no row is empty
    pairs = random.integers(0, 90, (400, 2))
    like = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    links = pairs[like | (random.random(400) < 0.15)]
    return Graph.build(sparse.csr_matrix(features), links, labels, name="wordy")


@pytest.fixture(scope="session")
def broad(wordy):
    """The same groups and links; 80 dense features, too many for gradient boosting."""
    noise = np.random.default_rng(1).normal(size=wordy.features.shape)
    return Graph.build(wordy.features.toarray() + noise, wordy.links, wordy.labels, name="broad")


@pytest.fixture(scope="session")
def narrow(wordy):
    """The same groups and links; 5 dense features of different sizes."""
    random = np.random.default_rng(2)
    features = random.normal(size=(3, 5))[wordy.labels] + random.normal(size=(wordy.n, 5))
    return Graph.build(features * [1, 10, 0.1, 3, 1] + 2, wordy.links, wordy.labels, name="narrow")

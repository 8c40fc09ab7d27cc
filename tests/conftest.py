import numpy as np
import pytest
from hypothesis import settings

from linkdist import Graph

# The same examples each time; `pytest --hypothesis-profile=search` looks for new ones.
settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile("same")


@pytest.fixture
def planted():
    """Two groups that differ a little in features and are mostly linked within."""
    random = np.random.default_rng(0)
    labels = np.arange(60) % 2
    features = random.normal(size=(60, 6)) + labels[:, None]
    pairs = random.integers(0, 60, (300, 2))
    like = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    return Graph.build(features, pairs[like | (random.random(300) < 0.2)], labels, name="planted")

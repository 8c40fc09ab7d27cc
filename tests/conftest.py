import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from linkdist import Graph, pipeline
from linkdist.cli import main as cli

if sys.platform == "win32":
    # They need signals, limits of processes, make or the service, which Windows does not have.
    collect_ignore = [
        "attacks", "serve", "test_deploy.py", "test_distribution.py", "test_docs.py",
        "test_kill.py", "test_serving_page.py", "test_small_distribution.py",
    ]  # fmt: skip

# The same examples each time; `pytest --hypothesis-profile=search` looks for new ones. There is no
# time limit for an example, because other processes may use the cores.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None)
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


@pytest.fixture
def command(monkeypatch, capsys):
    """Run a command line; give its exit code and what it wrote on both streams."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["linkdist", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture(scope="session")
def papers():
    """The example tables."""
    return Path(__file__).parent.parent / "examples" / "papers"


@pytest.fixture(scope="session")
def papers_model(papers, tmp_path_factory):
    """A model directory that was trained on them, for all tests to read and none to change."""
    out = tmp_path_factory.mktemp("models") / "papers-model"
    tables = pipeline.Tables(papers / "nodes.csv", papers / "links.csv", "paper", "field")
    pipeline.train(tables, out, pipeline.Options("colinkdist", epochs=3, device="cpu"))
    return out


@pytest.fixture(scope="session")
def ray(tmp_path_factory):
    """Ray with two workers for all tests; what it keeps in a home directory stays out of yours."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            "local",
            num_cpus=2,
            include_dashboard=False,
            object_store_memory=100 << 20,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield ray
        ray.shutdown()

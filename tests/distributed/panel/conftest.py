import pytest
import torch
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """These graphs are too small for more: threads would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)

import numpy as np
import pytest
import torch
from scipy import sparse

from linkdist.nn.inputs import DenseInputs, SparseInputs, choose, make_inputs

CPU = torch.device("cpu")


@pytest.fixture
def features():
    random = np.random.default_rng(0)
    dense = random.normal(size=(20, 9)).astype(np.float32)
    dense[random.random(dense.shape) < 0.8] = 0
    dense[3] = 0
    return dense


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rows", [None, (5,), (30,)])
def test_product_and_gradient_are_numpys(features, kind, rows):
    random = np.random.default_rng(1)
    weight = torch.tensor(random.normal(size=(3, 9, 4)), dtype=torch.float32, requires_grad=True)
    picked = None if rows is None else torch.from_numpy(random.integers(0, 20, (3, *rows)))
    inputs = DenseInputs(torch.from_numpy(features)) if kind == "dense" else None
    inputs = inputs or SparseInputs(sparse.csr_matrix(features), CPU)
    out = inputs.project(weight, picked)
    grad = torch.randn_like(out)
    out.backward(grad)
    for r in range(3):
        x = features if picked is None else features[picked[r]]
        np.testing.assert_allclose(out[r].detach(), x @ weight[r].detach().numpy(), atol=1e-5)
        np.testing.assert_allclose(weight.grad[r], x.T @ grad[r].numpy(), atol=1e-5)


def test_sparse_features_are_never_made_dense(features, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("made dense")

    monkeypatch.setattr(sparse.csr_matrix, "toarray", refuse)
    monkeypatch.setattr(sparse.csr_matrix, "todense", refuse)
    inputs = make_inputs(sparse.csr_matrix(features * (features > 1.5)), CPU)
    assert isinstance(inputs, SparseInputs)
    assert inputs.project(torch.ones(1, 9, 2), torch.tensor([[0, 1]])).shape == (1, 2, 2)


def test_the_choice_says_why(features):
    few = sparse.csr_matrix(features * (features > 1.5))
    assert choose(few, CPU).kind == "sparse"
    assert "not zero" in choose(few, CPU).why
    assert choose(sparse.csr_matrix(np.ones((4, 4), dtype=np.float32)), CPU).kind == "dense"
    assert choose(features, CPU).kind == "dense"


@pytest.mark.parametrize("free", [0, 1 << 40])
def test_the_format_on_a_gpu_does_not_depend_on_free_memory(features, free, monkeypatch):
    """Precision once changed with the memory that other programs left on the GPU."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1 << 40))
    cuda = torch.device("cuda")
    counts = sparse.csr_matrix((features > 0).astype(np.float32))
    assert choose(counts, cuda).kind == "half"
    assert choose(sparse.csr_matrix(features), cuda).kind == "dense"
    wide = sparse.csr_matrix((20, 1 << 28), dtype=np.float32)
    assert choose(wide, cuda).kind == "sparse"

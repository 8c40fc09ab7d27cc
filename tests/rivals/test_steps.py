"""Steps that are recorded on a GPU train like plain ones."""

import pytest
import torch
from rivals.steps import repeated_step


def test_without_a_gpu_a_step_is_itself():
    done = []
    once = repeated_step(lambda: done.append(1), torch.device("cpu"))
    for _ in range(3):
        once()
    assert done == [1, 1, 1]


@pytest.mark.gpu
def test_recorded_steps_train_like_plain_ones(capsys):
    device = torch.device("cuda")
    x = torch.randn(50, 4, device=device)
    y = x.sum(dim=1, keepdim=True)
    weights = []
    for record in (True, False):
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 1).to(device)
        adam = torch.optim.Adam(layer.parameters(), lr=0.1, fused=True, capturable=True)

        def step(layer=layer, adam=adam):
            adam.zero_grad(set_to_none=True)
            (layer(x) - y).square().mean().backward()
            adam.step()

        once = repeated_step(step, device) if record else step
        for _ in range(20):
            once()
        weights.append(layer.weight.detach().clone())
    torch.testing.assert_close(*weights)
    assert "not recorded" not in capsys.readouterr().err

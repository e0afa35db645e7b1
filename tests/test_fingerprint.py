"""Fingerprints: every bit, name, dtype, shape and place counts, and nothing else."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat


def model():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 1, dtype=torch.bfloat16))


def test_equal_weights_have_equal_fingerprints():
    known = pat.fingerprint(model())
    assert len(known) == 64
    assert known == pat.fingerprint(model())
    assert known == pat.fingerprint(model().state_dict())
    assert known == pat.fingerprint(model().requires_grad_(False))
    strided = {name: value.clone() for name, value in model().state_dict().items()}
    strided["0.weight"] = strided["0.weight"].t().contiguous().t()
    assert known == pat.fingerprint(strided)


@pytest.mark.parametrize("name", list(model().state_dict()))
def test_one_bit_of_any_parameter_or_buffer_changes_it(name):
    changed = model()
    value = changed.state_dict()[name].flatten()  # shares the memory
    value.view(torch.uint8)[-1] ^= 1
    assert pat.fingerprint(changed) != pat.fingerprint(model())


def test_what_else_counts():
    zero = torch.zeros(2, 3)
    others = [
        [-zero],
        [zero.view(3, 2)],
        [zero.view(torch.int32)],
        [zero, torch.zeros(0)],
        [torch.zeros(0), zero],
        [torch.full((2, 3), float("nan"))],
        {"0 torch.float32 [2, 3]\n": zero},
        {"weight": zero},
        [],
    ]
    found = [pat.fingerprint(other) for other in [[zero], *others]]
    assert len(set(found)) == len(found)
    assert pat.fingerprint(zero) == pat.fingerprint(iter([zero])) == pat.fingerprint({"0": zero})


def test_it_is_the_same_in_every_version():
    """Fingerprints are compared over years: this one is written down."""
    weights = {"a": torch.arange(5, dtype=torch.float32), "b": torch.tensor(True)}
    assert pat.fingerprint(weights).startswith("63dd0c048f3dfe17")


def test_bad_weights_are_named():
    with pytest.raises(TypeError, match=r"b: expected a torch.Tensor, got int"):
        pat.fingerprint({"a": torch.ones(1), "b": 3})
    with pytest.raises(TypeError, match=r"0: .*meta"):
        pat.fingerprint([torch.ones(1, device="meta")])
    with pytest.raises(TypeError, match=r"0: .*sparse"):
        pat.fingerprint([torch.eye(2).to_sparse()])


def wrapped():
    same = pat.fingerprint(DistributedDataParallel(model())) == pat.fingerprint(model())
    dist.barrier()
    return same


def test_a_ddp_model_counts_as_its_module(processes):
    assert processes.run(2, wrapped) == [True, True]

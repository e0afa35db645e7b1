"""Training with leaves under DDP: the same weights, to the bit, on any number of ranks."""

import io
import re
import time

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce.leaves.sampler import LeafSampler
from tests.processes import LINK

IMAGES, CLASSES, FEATURES = 600, 5, 40
X = torch.ones(2, 3)


def data():
    generator = torch.Generator().manual_seed(1)
    return (
        torch.randn(IMAGES, FEATURES, generator=generator),
        torch.randint(CLASSES, (IMAGES,), generator=generator),
    )


def network():
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(FEATURES, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 33),
        nn.Tanh(),
        nn.Linear(33, CLASSES),
    )


def wrapped(model, **options):
    """In several buckets."""
    return DistributedDataParallel(model, bucket_cap_mb=0.005, **options)


def train(
    leaves,
    iterations,
    *,
    first=0,
    state=None,
    clip=False,
    autocast=False,
    scaled=False,
    twice=False,
    delay=False,
    **options,
):
    """Go through iterations `first` to `iterations`; the weights' fingerprint and a checkpoint."""
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    features, labels = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ddp = wrapped(model, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=3, enabled=scaled)
    handle = pat.register(ddp, leaves=leaves, leaf_seed=3, link=LINK, timeout_s=20)
    if state is not None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        handle.leaves.load_state_dict(state["leaves"])
    sampler = LeafSampler(IMAGES, leaves=leaves, leaf_size=4, rank=rank, ranks=ranks)
    dealt = list(sampler)
    each = len(handle.leaves)
    for iteration in range(first, iterations):
        optimizer.zero_grad()
        of_rank = dealt[(iteration % sampler.iterations) * each :][:each]
        for _, indices in zip(handle.leaves, of_rank, strict=True):
            if delay and (iteration + rank) % 3 == 0:
                time.sleep(0.003)
            if twice:
                with ddp.no_sync():
                    scaler.scale(ddp(features[indices]).square().mean()).backward()
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = nn.functional.cross_entropy(ddp(features[indices]), labels[indices])
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "leaves": handle.leaves.state_dict(),
    }
    handle.close()
    return pat.fingerprint(model), checkpoint


def weights_of(processes, ranks, *args, **options):
    found = {weights for weights, _ in processes.run(ranks, run_train, args, options)}
    assert len(found) == 1, "every rank has the same weights"
    return found.pop()


def run_train(args, options):
    return train(*args, **options)


VARIANTS = {
    "plain": {},
    "clipped bfloat16": {"autocast": True, "clip": True},
    "clipped and scaled": {"scaled": True, "clip": True},
    "twice in views": {"twice": True, "gradient_as_bucket_view": True},
    "delayed": {"delay": True},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_are_equal_on_one_to_four_ranks(processes, variant):
    options = VARIANTS[variant]
    found = [weights_of(processes, ranks, 12, 8, **options) for ranks in (1, 2, 3, 4)]
    assert len(set(found)) == 1


@pytest.mark.parametrize("leaves", [5, 7])
def test_uneven_runs(processes, leaves):
    assert len({weights_of(processes, ranks, leaves, 4) for ranks in (1, 2, 3, 5)}) == 1


def test_a_checkpoint_of_four_ranks_goes_on_with_three(processes):
    whole = weights_of(processes, 2, 12, 8)
    (_, state), *_ = processes.run(4, run_train, (12, 4), {})
    rest = weights_of(processes, 3, 12, 8, first=4, state=through_a_file(state))
    assert rest == whole


def through_a_file(state):
    """As a checkpoint goes: with nothing in it that could run code."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def plain_ddp(iterations):
    """The same data without leaves: what this file's tests can tell apart."""
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    features, labels = data()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ddp = wrapped(model.eval())  # no dropout
    for iteration in range(iterations):
        optimizer.zero_grad()
        share = torch.arange(48).view(ranks, -1)[rank] + 48 * iteration
        nn.functional.cross_entropy(ddp(features[share]), labels[share]).backward()
        optimizer.step()
    return pat.fingerprint(model)


def test_without_leaves_weights_depend_on_the_ranks(processes):
    found = {processes.run(ranks, plain_ddp, 8)[0] for ranks in (1, 2, 3, 4)}
    assert len(found) > 1


def gradients_of_one_iteration():
    """Against a plain evaluation of the tree on one rank."""
    from patallreduce.leaves.tree import LeafTree, Node

    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    features, labels = data()
    model = network().eval()
    ddp = wrapped(model)
    handle = pat.register(ddp, leaves=7, link=LINK, timeout_s=20)

    def loss_of(module, leaf):
        part = slice(4 * leaf, 4 * leaf + 4)
        return nn.functional.cross_entropy(module(features[part]), labels[part])

    for leaf in handle.leaves:
        loss_of(ddp, leaf).backward()
    assert list(handle.leaves.mine) == list(range(rank * 7 // ranks, (rank + 1) * 7 // ranks))
    parameters = list(model.parameters())
    tree = LeafTree(lambda left, right: [a + b for a, b in zip(left, right, strict=True)])
    for leaf in range(7):
        gradients = torch.autograd.grad(loss_of(model, leaf), parameters)
        tree.append(Node(leaf, 0, list(gradients)))
    expected = [gradient * (1 / 7) for gradient in tree.total()]
    handle.close()
    return all(torch.equal(p.grad, e) for p, e in zip(parameters, expected, strict=True))


@pytest.mark.parametrize("ranks", [1, 3])
def test_gradients_are_the_mean_of_the_tree(processes, ranks):
    assert processes.run(ranks, gradients_of_one_iteration) == [True] * ranks


def outside(ddp, handle):
    ddp(X).sum().backward()


def no_backward(ddp, handle):
    for _ in handle.leaves:
        pass


def broken_off(ddp, handle):
    for _ in handle.leaves:
        break


def nested(ddp, handle):
    for _ in handle.leaves:
        next(iter(handle.leaves))


def left_over(ddp, handle):
    for _ in handle.leaves:
        ddp(X).sum().backward()


def given_twice(ddp, handle):
    for _ in handle.leaves:
        ddp(X).sum().backward()
        ddp(X).sum().backward()


def go_through(ddp, handle):
    for _ in handle.leaves:
        ddp(X).sum().backward()
    ddp.zero_grad()


def misuse(of_one_rank, leaves_of_rank, batch_norm):
    """What it was told, on each rank; rank 1 alone uses its leaves wrongly."""
    model = nn.Linear(3, 2)
    if batch_norm:
        model = nn.Sequential(model, nn.BatchNorm1d(2))
    ddp = DistributedDataParallel(model)
    rank = dist.get_rank()
    handle = None
    try:
        handle = pat.register(ddp, leaves=leaves_of_rank[rank], link=LINK, timeout_s=20)
        for _ in range(2):  # DDP rebuilds its buckets first, over Gloo, where ranks wait for long
            go_through(ddp, handle)
        for _ in range(2):
            (of_one_rank if rank == 1 else go_through)(ddp, handle)
    except (ValueError, TypeError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if handle is not None:
            handle.close()
    return "nothing"


@pytest.mark.parametrize(
    ("leaves_of_rank", "batch_norm", "message"),
    [
        ((1, 1), False, "ValueError: leaves: expected at least one for each of 2 ranks, got 1"),
        ((4, 5), False, r"ValueError: leaves: expected one number on all ranks, got \[4, 5\]"),
        ((4, 4), True, "TypeError: 1 .BatchNorm1d. averages"),
    ],
)
def test_what_cannot_have_leaves_is_refused(processes, leaves_of_rank, batch_norm, message):
    for text in processes.run(2, misuse, go_through, leaves_of_rank, batch_norm):
        assert re.search(message, text), text


@pytest.mark.parametrize(
    ("of_one_rank", "message"),
    [
        (outside, "a backward pass outside a leaf"),
        (no_backward, "leaf 2 ended without a backward pass"),
        (nested, "leaf 2 is still under way"),
        (left_over, "gradients are left from before"),
        (given_twice, "leaf 2 is given twice"),
    ],
)
def test_misuse_on_one_rank_is_told_on_all(processes, of_one_rank, message):
    for text in processes.run(2, misuse, of_one_rank, (4, 4), False):
        assert re.search(message, text), text


def test_a_loop_over_leaves_that_is_left_ends_the_other_ranks(processes):
    told = processes.run(2, misuse, broken_off, (4, 4), False)
    assert "left the loop over its leaves in leaf 2" in told[0]

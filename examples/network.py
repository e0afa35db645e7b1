"""The network of the example: small enough for a CPU, and published with its all-reduce times.

145,578 parameters in three 5x5 convolutions, each followed by average pooling, and two fully
connected layers: 2,432 + 25,632 + 51,264 + 65,600 + 650. One all-reduce carries 582 KB.

Source: Proficz, "Improving all-reduce collective operations for imbalanced process arrival
patterns", J. Supercomput. 74 (2018), section 6. It does not name the activation: ReLU here.
"""

import torch
import torch.distributed as dist
from images import Images, as_input
from torch import nn

PARAMETERS = 145_578
_TEST_BATCH = 256  # bounds the memory of an evaluation


def build_network() -> nn.Sequential:
    """Build the network: (n, 3, 32, 32) float32 in, (n, 10) scores out."""
    network = nn.Sequential(
        *(nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    assert sum(p.numel() for p in network.parameters()) == PARAMETERS
    return network


def test_accuracy(network: nn.Module, images: Images) -> float:
    """Return the part of the test images classified rightly. Every rank must call: all share in."""
    share = slice(dist.get_rank(), None, dist.get_world_size())
    batches = zip(
        images.test_pixels[share].split(_TEST_BATCH),
        images.test_labels[share].split(_TEST_BATCH),
        strict=True,
    )
    device = next(network.parameters()).device
    right = torch.zeros((), dtype=torch.int64)
    with torch.no_grad():
        for pixels, labels in batches:
            found = network(as_input(pixels.to(device))).argmax(dim=1)
            right += (found.cpu() == labels).sum()
    dist.all_reduce(right)
    return right.item() / len(images.test_labels)

"""Real images for the example: CIFAR-10 when the user has it, else scikit-learn's digits.

Both are held as uint8 (n, 3, 32, 32), so the network does not know which it sees; float32 would
cost 600 MB per rank for CIFAR-10. Nothing is downloaded: the digits come with scikit-learn.

Source: CIFAR-10 is Krizhevsky's technical report of 2009; its checksums are those torchvision
publishes. The digits are the UCI "Optical Recognition of Handwritten Digits" test set.
"""

import hashlib
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import DistributedSampler, TensorDataset

_TRAIN_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3ee",
}
_TEST_MD5 = {"test_batch": "40351d587109b95175f43aff81a1287e"}

_DIGITS_FOR_TEST = 297  # of 1,797; the last ones, so that every run tests on the same images


class WrongDataError(ValueError):
    """A file of the data set is missing or is not the published one."""


@dataclass(frozen=True)
class Images:
    """A data set of ten classes.

    Pixels are (n, 3, 32, 32) uint8, labels (n,) int64.
    """

    name: str
    train_pixels: Tensor
    train_labels: Tensor
    test_pixels: Tensor
    test_labels: Tensor


def as_input(pixels: Tensor) -> Tensor:
    """Bring uint8 pixels to float32 in [-1, 1], the range the network is fed with."""
    return pixels.float() / 127.5 - 1.0


def load_images(cifar_folder: Path | None) -> Images:
    """Load CIFAR-10 from a `cifar-10-batches-py` folder, or the digits when none is given.

    Raises:
        WrongDataError: A batch file is missing or its checksum is not the published one. The
            digits never stand in silently for a CIFAR-10 that was asked for.
    """
    return load_digits() if cifar_folder is None else load_cifar(cifar_folder)


class Batches:
    """Which images a rank takes in which iteration: the same in every run with the same seed."""

    def __init__(self, images: Images, *, batch_size: int, seed: int) -> None:
        labels = TensorDataset(images.train_labels)  # the sampler only asks for its length
        self._sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(
            labels, seed=seed, drop_last=True
        )
        self._batch_size = batch_size
        self.per_epoch = len(self._sampler) // batch_size
        if self.per_epoch == 0:
            raise ValueError(f"batches of {batch_size}, but a rank has {len(self._sampler)} images")

    def between(self, first: int, last: int) -> Iterator[Tensor]:
        """Yield (batch_size,) image indices for the iterations from `first` up to, not, `last`."""
        order = torch.empty(0)
        for iteration in range(first, last):
            epoch, position = divmod(iteration, self.per_epoch)
            if position == 0 or iteration == first:
                self._sampler.set_epoch(epoch)
                order = torch.tensor(list(self._sampler))
            yield order[position * self._batch_size :][: self._batch_size]


def load_cifar(folder: Path) -> Images:
    """Load the python version of CIFAR-10: 50,000 images to train on, 10,000 to test on.

    Raises:
        WrongDataError: As `load_images`. Nothing has been unpickled then.
    """
    # All files are checked before the first is unpickled: a pickle can run any code it likes.
    train = [_checked_bytes(folder / name, md5) for name, md5 in _TRAIN_MD5.items()]
    test = [_checked_bytes(folder / name, md5) for name, md5 in _TEST_MD5.items()]
    return Images("CIFAR-10", *_unpickle(train), *_unpickle(test))


def load_digits() -> Images:
    """Load scikit-learn's 1,797 handwritten digits, 8x8 grey, enlarged to 3x32x32."""
    import sklearn.datasets

    digits = sklearn.datasets.load_digits()
    grey = torch.from_numpy(digits.images).float().unsqueeze(1) * (255 / 16)  # 16 is white
    enlarged = interpolate(grey, size=(32, 32), mode="bilinear").round().to(torch.uint8)
    pixels = enlarged.expand(-1, 3, -1, -1).contiguous()
    labels = torch.from_numpy(digits.target).long()
    train = slice(None, -_DIGITS_FOR_TEST)
    test = slice(-_DIGITS_FOR_TEST, None)
    return Images(
        "scikit-learn's digits (no --data given)",
        pixels[train],
        labels[train],
        pixels[test],
        labels[test],
    )


def _checked_bytes(path: Path, published_md5: str) -> bytes:
    """Read a file whole, so that what is unpickled later is what was checked now."""
    if not path.is_file():
        raise WrongDataError(f"{path}: no such file; expected a complete cifar-10-batches-py")
    content = path.read_bytes()
    # MD5 is broken for collisions, but nobody can yet make a file to fit a *given* MD5.
    found_md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found_md5 != published_md5:
        raise WrongDataError(
            f"{path}: MD5 is {found_md5}, published is {published_md5}; not opened"
        )
    return content


def _unpickle(checked: list[bytes]) -> tuple[Tensor, Tensor]:
    batches = [pickle.loads(content, encoding="bytes") for content in checked]
    pixels = torch.cat([torch.from_numpy(batch[b"data"]) for batch in batches])
    labels = torch.cat([torch.tensor(batch[b"labels"]) for batch in batches])
    return pixels.reshape(-1, 3, 32, 32), labels

"""What the example trains on, and that it opens no file it does not know."""

import hashlib
import pickle
from pathlib import Path

import images
import pytest
import torch
from images import Batches, Images, WrongDataError, as_input, load_cifar, load_digits


def batch_bytes(first_label: int) -> bytes:
    """A file laid out as CIFAR-10's: ten images as rows of 1024 red, 1024 green, 1024 blue."""
    pixels = torch.arange(10).to(torch.uint8).repeat_interleave(3072).reshape(10, 3072).numpy()
    return pickle.dumps({b"data": pixels, b"labels": [(first_label + i) % 10 for i in range(10)]})


def write_folder(folder: Path, content: bytes) -> None:
    for number in range(1, 6):
        (folder / f"data_batch_{number}").write_bytes(content)
    (folder / "test_batch").write_bytes(content)


def test_digits_are_whole_colour_images():
    digits = load_digits()

    assert digits.train_pixels.shape == (1500, 3, 32, 32)
    assert digits.test_pixels.shape == (297, 3, 32, 32)
    assert digits.train_pixels.dtype == torch.uint8
    assert set(digits.train_labels.tolist()) == set(digits.test_labels.tolist()) == set(range(10))
    values = as_input(digits.train_pixels)
    assert (values.min(), values.max()) == (-1.0, 1.0)


class Explosive:
    """Leaves a file behind when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_an_unknown_pickle_is_refused_unopened(tmp_path):
    trace = tmp_path / "trace"
    payload = pickle.dumps(Explosive(trace))
    pickle.loads(payload)
    assert trace.exists(), "the payload would not show that it was unpickled"
    trace.unlink()
    write_folder(tmp_path, payload)

    with pytest.raises(WrongDataError, match="data_batch_1: MD5 is"):
        load_cifar(tmp_path)

    assert not trace.exists()


def test_one_unknown_pickle_keeps_the_others_closed(tmp_path, monkeypatch):
    """The last file is checked before the first is opened."""
    trace = tmp_path / "trace"
    payload = pickle.dumps(Explosive(trace))
    write_folder(tmp_path, payload)
    known = hashlib.md5(payload).hexdigest()
    monkeypatch.setattr(images, "_TRAIN_MD5", {f"data_batch_{n}": known for n in range(1, 6)})

    with pytest.raises(WrongDataError, match="test_batch"):
        load_cifar(tmp_path)

    assert not trace.exists()


def test_an_incomplete_folder_names_the_missing_file(tmp_path):
    with pytest.raises(WrongDataError, match=r"data_batch_1: no such file"):
        load_cifar(tmp_path)


def test_the_published_layout_is_read(tmp_path, monkeypatch):
    content = batch_bytes(first_label=3)
    write_folder(tmp_path, content)
    known = hashlib.md5(content).hexdigest()
    monkeypatch.setattr(images, "_TRAIN_MD5", {f"data_batch_{n}": known for n in range(1, 6)})
    monkeypatch.setattr(images, "_TEST_MD5", {"test_batch": known})

    cifar = load_cifar(tmp_path)

    assert cifar.name == "CIFAR-10"
    assert cifar.train_pixels.shape == (50, 3, 32, 32)
    assert cifar.test_labels.tolist() == [3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert all((cifar.test_pixels[i] == i).all() for i in range(10))


def test_every_rank_takes_other_images_and_an_epoch_takes_each_at_most_once(monkeypatch):
    pixels = torch.zeros(100, 3, 32, 32, dtype=torch.uint8)
    some = Images("zeros", pixels, torch.zeros(100).long(), pixels, torch.zeros(100).long())
    taken = []
    for rank in range(3):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None, rank=rank: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 3)
        monkeypatch.setattr(torch.distributed, "is_available", lambda: True)
        batches = Batches(some, batch_size=5, seed=1)
        assert batches.per_epoch == 6  # 33 images each
        whole = torch.stack(list(batches.between(0, 12)))
        assert torch.equal(whole[4:9], torch.stack(list(batches.between(4, 9))))
        assert not torch.equal(whole[:6], whole[6:]), "every epoch has its own order"
        taken += whole[:6].flatten().tolist()
    assert len(taken) == len(set(taken)) == 90

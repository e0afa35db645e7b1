"""Scalars for TensorBoard, into a writer that only takes notes."""

import math

import pytest

from patallreduce.tensorboard import add_scalars


class Notes:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, tag, scalar_value, global_step):
        assert (tag, global_step) not in self.scalars
        self.scalars[tag, global_step] = scalar_value


def test_every_measure_is_added_once(make_iteration):
    writer = Notes()
    add_scalars(writer, make_iteration(7, (2.0, 3.0, 7.0), predicted_s=(2.0, 3.5, 8.0)))

    assert writer.scalars == {
        ("patallreduce/lateness_s/rank_0", 7): -1.0,
        ("patallreduce/lateness_s/rank_1", 7): 0.0,
        ("patallreduce/lateness_s/rank_2", 7): 4.0,
        ("patallreduce/after_s", 7): 1.0,
        ("patallreduce/average_elapsed_s", 7): 4.0,
        ("patallreduce/prediction_error_s/mean", 7): 0.5,
        ("patallreduce/prediction_error_s/last_rank", 7): 1.0,
    }


def test_step_and_prefix_can_be_chosen(make_iteration):
    writer = Notes()
    add_scalars(writer, make_iteration(7), 1000, prefix="job/a")

    assert writer.scalars["job/a/after_s", 1000] == 1.0
    assert {step for _, step in writer.scalars} == {1000}


def test_what_is_unknown_is_left_out(make_iteration):
    writer = Notes()
    add_scalars(writer, make_iteration(0, (2.0, math.nan)))

    assert writer.scalars == {}


def test_the_protocol_is_the_one_of_torch():
    tensorboard = pytest.importorskip("torch.utils.tensorboard", exc_type=ImportError)
    assert callable(tensorboard.SummaryWriter.add_scalar)

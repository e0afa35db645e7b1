"""The link as it is measured on a running transport."""

import pytest
import torch

import patallreduce as pat
from tests.threads import on_threads


def on_all_ranks(ranks, work):
    communicators = pat.Communicator.loopback(ranks, timeout_s=30, monitor=False)
    results = on_threads(communicators, work)
    for communicator in communicators:
        communicator.close()
    return results


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_all_ranks_get_the_same_link(ranks, capfd):
    """A valid one, and nothing is printed; the communicator's own stays."""

    def work(communicator):
        before = communicator.link
        link = pat.calibrate(communicator)
        assert communicator.link is before
        total = torch.ones(3)
        communicator.all_reduce(total)  # the ranks still agree on what comes next
        assert total.tolist() == [ranks] * 3
        return link

    links = on_all_ranks(ranks, work)
    if ranks > 1:
        assert len(set(links)) == 1
        sizes = [size for size, _ in links[0].transfers_s]
        assert sizes == sorted(sizes)
        assert sizes
    assert 0 <= links[0].port_share <= 1
    assert capfd.readouterr() == ("", "")


def test_sums_are_measured_in_the_dtype_that_is_asked_for():
    """float16 is converted both ways; whatever the machine, both are positive."""
    [(half, full)] = on_all_ranks(
        1, lambda comm: (pat.calibrate(comm, torch.float16), pat.calibrate(comm, torch.float32))
    )
    assert half.reduce_bytes_per_s > 0
    assert full.reduce_bytes_per_s > 0


def test_a_dtype_that_cannot_be_summed_is_refused():
    def work(communicator):
        with pytest.raises(TypeError, match="complex64"):
            pat.calibrate(communicator, torch.complex64)

    on_all_ranks(1, work)

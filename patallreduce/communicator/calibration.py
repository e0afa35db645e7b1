"""The simulator's parameters, measured on the real transport."""

from __future__ import annotations

import torch

from patallreduce.arguments import refused
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.tensors import check_tensor
from patallreduce.pricing.networks import Network


def calibrate(comm: Communicator, dtype: torch.dtype = torch.float32) -> Network:
    """Measure the network between the ranks of `comm`: what :func:`simulate` should assume here.

    Collective: every rank calls it, while nothing else runs, and gets the same network. Of each
    node one rank sends to that of the next node, all at once: messages of 1 byte to at least 1 MiB,
    and longer ones until they take four latencies; at 100 Mbit/s that is a second. Then the ports
    are told apart, and where ranks share nodes those of rank 0's do the same among themselves, for
    the link within a node. Of a link:

    * latency_s: a message of 1 byte, with everything that it costs in software, but not what a call
      costs besides: one of many in a row, unless they take 1 ms or ranks share memory.
    * transfers_s: messages of growing sizes, all ports busy, without the latency.
    * bytes_per_s: what the longest message adds to the one before it, so that what a rested port
      lets through at once (a token bucket) does not count.
    * port_share: many tiny messages: what part of the latency they do not overlap.
    * partners: blocks for all others at once, against that bandwidth; taken for 1 where ports
      differ or ranks share nodes.
    * processors: counted, where ranks share memory; times are then of a message that has them for
      itself, and there are neither partners nor bursts.
    * burst_bytes: messages after a rest, against that bandwidth; 0 of latencies from 1 ms on.
    * reduce_bytes_per_s: sums of `dtype` in the cache, on the slowest rank.

    The network can be printed, saved (:meth:`Network.save`), and given to a communicator or to
    :func:`register` as `link`, which is then not measured. Its `link` differs from `comm.link` in
    being measured anew, in the measured port_share and in `dtype`; `comm` keeps what it has.

    Args:
        comm: Of P ranks; of one rank, only the sums are measured.
        dtype: What is summed: one that :meth:`Communicator.all_reduce` takes.

    Raises:
        TransportError: `comm` is closed or failed, or a rank fails meanwhile.
        TypeError: `dtype` cannot be summed.

    Source: time per byte of a reduction: Pjesivac-Grbovic, PhD thesis, Tennessee (2007), 4.2.2.
    """
    if not isinstance(comm, Communicator):
        raise TypeError(refused("comm", "a Communicator", comm))
    if not isinstance(dtype, torch.dtype):
        raise TypeError(refused("dtype", "a torch.dtype", dtype, comm.rank))
    check_tensor(torch.zeros(1, dtype=dtype), comm.rank)
    comm.session.check_usable()
    session = comm.session
    return Network.of_ports(
        session.meter.measure(dtype, with_port_share=True),
        comm.ranks,
        nodes=session.nodes,
        within_node=session.meter.measure_within_node(dtype) if session.nodes else None,
    )

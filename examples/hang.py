"""A job that hangs: rank 1 does not make a call that the others make. All are told, by name.

    PATALLREDUCE_POSTMORTEM=postmortem torchrun --nproc-per-node 3 examples/hang.py
    python -m patallreduce postmortem postmortem

The records that the first command leaves are what the second one reads.
"""

import time

import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.ending import end_rank

TIMEOUT_S = 2.0

if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    comm = pat.Communicator(timeout_s=TIMEOUT_S, monitor=False)
    comm.all_reduce(torch.ones(1000))
    try:
        if rank == 1:
            time.sleep(2 * TIMEOUT_S)  # the bug: it saves a checkpoint, say, that the others do not
        comm.all_reduce(torch.ones(1000))
    except pat.TransportTimeout as error:
        if rank == 0:  # all ranks have the same text
            print(f"{type(error).__name__}, rank {error.rank}: {error}")
    end_rank()

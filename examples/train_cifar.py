"""Train a small network on images with DistributedDataParallel, plain or with patallreduce.

    torchrun --nproc-per-node 4 examples/train_cifar.py --hook patallreduce
    torchrun --nproc-per-node 4 examples/train_cifar.py --hook patallreduce --device cuda

What patallreduce adds to a training script is one line, `pat.register` in `main`. The rest is
ordinary PyTorch and what it takes to watch it: a rank made late on purpose, and a record of when
each rank did what.
"""

import argparse
import contextlib
import math
from collections import deque
from pathlib import Path

import checkpoint
import torch
import torch.distributed as dist
from device import Place, choose_place
from images import Batches, Images, as_input, load_images
from network import PARAMETERS, build_network, test_accuracy
from records import ITERATIONS_FILE, Record, Recorder, Summary, write_summary
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.autograd.graph import register_multi_grad_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer

import patallreduce as pat
from patallreduce.clocks import Clock, make_clock
from patallreduce.ending import end_rank

LOSSES_AVERAGED = 20  # iterations; the loss of 8 images alone jumps about


def at_least_one(text: str) -> int:
    """Read a number of things of which there must be some."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} must be 1 or more")
    return number


def parse_options() -> argparse.Namespace:
    """Read the command line and refuse what cannot work."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="a cifar-10-batches-py folder")
    parser.add_argument("--hook", choices=["none", "patallreduce"], default="none")
    parser.add_argument("--algorithm", default="auto", help="of the all-reduce (patallreduce)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=at_least_one, default=3)
    length.add_argument("--iterations", type=at_least_one, help="instead of --epochs")
    parser.add_argument(
        "--batch-size", type=at_least_one, default=8, help="images per rank and iteration"
    )
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--late-rank", type=int, metavar="R", help="make rank R late")
    parser.add_argument("--late-ms", type=float, default=0.0, help="by this in each iteration")
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="go on from it; keep it")
    parser.add_argument(
        "--records",
        type=Path,
        metavar="DIR",
        help="write when each rank did what; comparable within one machine (one clock) only",
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--amp", choices=["bfloat16"], help="compute in this where torch deems fit")
    options = parser.parse_args()
    if not 0 <= options.late_ms < math.inf:
        parser.error(f"--late-ms {options.late_ms} must be 0 or more")
    if options.late_ms and options.late_rank is None:
        parser.error("--late-ms needs --late-rank")
    return options


class Training:
    """One rank's training loop, an iteration at a time, noting when what happened."""

    def __init__(
        self,
        ddp: DistributedDataParallel,
        optimizer: Optimizer,
        images: Images,
        clock: Clock,
        *,
        late_s: float = 0.0,
        amp: torch.dtype | None = None,
    ) -> None:
        self._ddp = ddp
        self._device = next(ddp.parameters()).device
        self._optimizer = optimizer
        self._images = images
        self._clock = clock
        self._late_s = late_s
        self._amp = amp
        self._arrival: object = None
        self._losses: deque[float] = deque(maxlen=LOSSES_AVERAGED)
        # Runs before the last gradient is stored, hence before DDP can all-reduce it, whatever
        # communication hook there is.
        register_multi_grad_hook(tuple(ddp.parameters()), self._note_arrival)

    def run_iteration(self, iteration: int, chosen: Tensor) -> Record:
        """Train on the images of the given indices, (batch_size,) int64."""
        start_s = self._clock.start()
        self._optimizer.zero_grad()
        pixels = self._images.train_pixels[chosen].to(self._device)
        labels = self._images.train_labels[chosen].to(self._device)
        with torch.autocast(self._device.type, self._amp, enabled=self._amp is not None):
            loss = cross_entropy(self._ddp(as_input(pixels)), labels)
        self._clock.delay(self._late_s)
        loss.backward()
        finish = self._clock.mark()
        self._optimizer.step()
        end = self._clock.mark()
        self._losses.append(loss.item())  # waits for a GPU to be done with all of this
        arrival_s, finish_s, end_s = map(self._clock.seconds, (self._arrival, finish, end))
        return Record(iteration, start_s, arrival_s, finish_s, end_s, self._losses[-1])

    def evaluate(self) -> tuple[float, float]:
        """Return mean loss of the last iterations and test accuracy. Every rank must call."""
        loss = torch.tensor(self._losses).mean() / dist.get_world_size()
        dist.all_reduce(loss)
        return loss.item(), test_accuracy(self._ddp.module, self._images)

    def _note_arrival(self, _: object) -> None:
        self._arrival = self._clock.mark()


def main(options: argparse.Namespace, place: Place) -> None:
    """Train as one rank of the process group."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if options.late_rank is not None and not 0 <= options.late_rank < ranks:
        raise SystemExit(f"--late-rank {options.late_rank}: ranks are 0 to {ranks - 1}")
    late_s = [options.late_ms / 1e3 if r == options.late_rank else 0.0 for r in range(ranks)]
    console = Console(quiet=rank != 0, soft_wrap=True)

    images = load_images(options.data)
    batches = Batches(images, batch_size=options.batch_size, seed=options.seed)
    iterations = options.iterations or options.epochs * batches.per_epoch
    console.print(f"images: {images.name}, {len(images.train_labels):,} to train on")

    torch.manual_seed(options.seed)
    network = build_network().to(place.device)
    optimizer = SGD(network.parameters(), lr=options.learning_rate, momentum=0.9)
    torch.manual_seed(options.seed * ranks + rank)  # alike weights, but random numbers of one's own
    first = 0
    if options.checkpoint:
        first = checkpoint.resume(options.checkpoint, network, optimizer, seed=options.seed)
        console.print(f"checkpoint: {options.checkpoint} is at iteration {first}")
    if first >= iterations:
        console.print(f"nothing to do: {iterations} iterations were asked for")
        return

    ddp = DistributedDataParallel(network, device_ids=place.device_ids)
    with contextlib.ExitStack() as stack:
        if options.hook == "patallreduce":
            handle = pat.register(ddp, algorithm=options.algorithm)
            stack.callback(handle.close)
            if options.records and rank == 0:  # it knows when every rank arrived
                stack.callback(
                    lambda: pat.save_iterations(
                        options.records / ITERATIONS_FILE, handle.iterations()
                    )
                )
        clock = make_clock(place.device, may_delay=late_s[rank] > 0)
        amp = getattr(torch, options.amp) if options.amp else None
        training = Training(ddp, optimizer, images, clock, late_s=late_s[rank], amp=amp)
        recorder = None
        if options.records:
            recorder = stack.enter_context(Recorder(options.records, rank, resumed=first > 0))
        progress = stack.enter_context(progress_bar(console))
        task = progress.add_task("", total=iterations, completed=first)

        for iteration, chosen in enumerate(batches.between(first, iterations), start=first):
            record = training.run_iteration(iteration, chosen)
            if recorder:
                recorder.add(record)
            progress.update(task, advance=1, description=f"rank 0's loss {record.loss:.3f}")
            done = iteration + 1
            if done % batches.per_epoch == 0 or done == iterations:
                loss, accuracy = training.evaluate()
                console.print(f"iteration {done}: loss {loss:.3f}, test accuracy {accuracy:.1%}")
                if options.checkpoint:
                    checkpoint.save(
                        options.checkpoint, network, optimizer, iteration=done, seed=options.seed
                    )
    if options.records and rank == 0:
        write_summary(
            options.records,
            Summary(
                images=images.name,
                hook=options.hook,
                ranks=ranks,
                gradient_bytes=4 * PARAMETERS,
                loss=loss,
                accuracy=accuracy,
            ),
        )


def progress_bar(console: Console) -> Progress:
    """Return a bar that shows on rank 0 only, the other consoles being quiet, and in no log."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    hidden = not console.is_terminal
    return Progress(*columns, TimeRemainingColumn(), console=console, disable=hidden)


if __name__ == "__main__":
    torch.set_num_threads(1)  # ranks share the machine's cores
    given = parse_options()
    where = choose_place(given.device)
    dist.init_process_group(where.backend)
    try:
        main(given, where)
    finally:
        dist.destroy_process_group()
    end_rank()

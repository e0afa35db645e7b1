"""Schedules with one mistake: the verifier must refuse exactly those that have become wrong."""

import random
import re

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step

OTHER_VERBS = {
    "send": ["recv", "recv_reduce"],
    "recv": ["send", "recv_reduce"],
    "recv_reduce": ["send", "recv"],
}


def changed(step, **fields):
    values = {name: getattr(step, name) for name in ("verb", "peer", "first", "last", "round")}
    return Step(**values | fields)


def place(steps, draw):
    """Choose a rank that has steps, and one of its steps."""
    rank = draw.choice([r for r, own in enumerate(steps) if own])
    return steps[rank], draw.randrange(len(steps[rank])), rank


def messages(steps):
    """Pair the ends: [(sender, index, receiver, index)]."""
    channels = {}
    for rank, own in enumerate(steps):
        for i, step in enumerate(own):
            sends = step.verb == "send"
            key = (rank, step.peer) if sends else (step.peer, rank)
            channels.setdefault(key, ([], []))[0 if sends else 1].append(i)
    return [
        (sender, i, receiver, j)
        for (sender, receiver), (sends, takes) in channels.items()
        for i, j in zip(sends, takes, strict=True)
    ]


def drop_step(steps, segments, draw):
    own, i, _ = place(steps, draw)
    del own[i]


def duplicate_step(steps, segments, draw):
    own, i, _ = place(steps, draw)
    own.insert(i, own[i])


def change_peer(steps, segments, draw):
    own, i, _ = place(steps, draw)
    own[i] = changed(own[i], peer=draw.randrange(-1, len(steps) + 1))


def swap_peers(steps, segments, draw):
    own, i, _ = place(steps, draw)
    j = draw.randrange(len(own))
    own[i], own[j] = changed(own[i], peer=own[j].peer), changed(own[j], peer=own[i].peer)


def swap_steps(steps, segments, draw):
    own, i, _ = place(steps, draw)
    j = draw.randrange(len(own))
    own[i], own[j] = own[j], own[i]


def swap_neighbours(steps, segments, draw):
    own, i, _ = place(steps, draw)
    j = max(i - 1, 0)
    own[i], own[j] = own[j], own[i]


def change_verb(steps, segments, draw):
    own, i, _ = place(steps, draw)
    own[i] = changed(own[i], verb=draw.choice(OTHER_VERBS[own[i].verb]))


def change_segments(steps, segments, draw):
    own, i, _ = place(steps, draw)
    first = draw.randrange(-1, segments + 1)
    own[i] = changed(own[i], first=first, last=first + draw.choice([0, 1, 1, 2]))


# The following change both ends, so that counting messages cannot find them.


def drop_message(steps, segments, draw):
    sender, i, receiver, j = draw.choice(messages(steps))
    del steps[sender][i]
    del steps[receiver][j]


def duplicate_message(steps, segments, draw):
    sender, i, receiver, j = draw.choice(messages(steps))
    steps[sender].insert(i, steps[sender][i])
    steps[receiver].insert(j, steps[receiver][j])


def change_message_segment(steps, segments, draw):
    sender, i, receiver, j = draw.choice(messages(steps))
    first = draw.randrange(segments)
    for rank, index in ((sender, i), (receiver, j)):
        steps[rank][index] = changed(steps[rank][index], first=first, last=first + 1)


def swap_messages(steps, segments, draw):
    pairs = messages(steps)
    sender, i, receiver, j = draw.choice(pairs)
    _, i2, _, j2 = draw.choice([p for p in pairs if (p[0], p[2]) == (sender, receiver)])
    for rank, a, b in ((sender, i, i2), (receiver, j, j2)):
        steps[rank][a], steps[rank][b] = steps[rank][b], steps[rank][a]


ALWAYS_WRONG = [drop_step, duplicate_step, change_verb, drop_message]
MUTATIONS = [
    *ALWAYS_WRONG,
    change_peer,
    swap_peers,
    swap_steps,
    swap_neighbours,
    change_segments,
    duplicate_message,
    change_message_segment,
    swap_messages,
]


def refusal(schedule):
    """Return why the verifier refuses `schedule`, or None."""
    try:
        pat.verify(schedule)
    except pat.ScheduleError as error:
        return str(error)
    return None


@pytest.mark.parametrize("mutate", MUTATIONS)
@pytest.mark.parametrize("name", pat.algorithms())
def test_verifier_refuses_exactly_the_wrong_mutants(name, mutate, judge):
    draw = random.Random(f"{name} {mutate.__name__}")
    refused = 0
    for _ in range(60):
        ranks, segments = draw.choice([2, 3, 4]), draw.choice([1, 2, 3, 4])
        arrivals_s = [draw.choice([0.0, 1.0, 2.0]) for _ in range(ranks)]
        schedule = pat.schedule(name, ranks, segments, arrivals_s, segment_time_s=1)
        steps = [schedule.steps(rank) for rank in range(ranks)]
        mutate(steps, segments, draw)
        mutant = Schedule.from_steps(steps, segments)

        why = refusal(mutant)

        assert (why is None) == judge(mutant), mutant
        if why is not None:
            assert re.search(r"rank \d+ (step \d+ \(|\(no step)", why)
            refused += 1
        assert why is not None or mutate not in ALWAYS_WRONG, mutant
    assert refused > 0

"""M*beta: the time one message takes between two ranks over a plain TCP socket.

What the network can do, by nobody's library: the yardstick of every figure. The clock runs from
the first byte sent until a one-byte answer to the last byte received, so it holds one latency too
many, tens of microseconds. Each timed transfer follows an untimed one on the same connection, so
that TCP's congestion window is open, as in an all-reduce that has just run.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time

from .closing import Closing

ANSWER = b"!"
TIMEOUT_S = 120.0


class PointToPoint(Closing):
    """One connection between two ranks; both construct it at the same time.

    Args:
        sends: true on the rank that sends and has the times; it also listens.
        host: address of the sending rank, known to both (rank 0's is MASTER_ADDR).
        port: agreed by both.

    """

    def __init__(self, *, sends: bool, host: str, port: int) -> None:
        self.sends = sends
        if sends:
            with socket.create_server((host, port)) as listener:
                listener.settimeout(TIMEOUT_S)
                self._socket, _ = listener.accept()
        else:
            self._socket = _connect(host, port)
        self._socket.settimeout(TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def transfer(self, message_bytes: int, *, idle_s: float = 0.0) -> float:
        """Time one message in seconds; both ranks call it, the receiving one gets 0.

        `idle_s` is waited between the untimed transfer and the timed one: what a connection loses
        by having been idle (TCP closes its window again after a retransmission timeout).
        """
        self._send_or_receive(message_bytes)
        time.sleep(idle_s)
        return self._send_or_receive(message_bytes)

    def _send_or_receive(self, message_bytes: int) -> float:
        if not self.sends:
            _receive(self._socket, message_bytes)
            self._socket.sendall(ANSWER)
            return 0.0
        message = bytes(message_bytes)
        start_s = time.monotonic()
        self._socket.sendall(message)
        _receive(self._socket, len(ANSWER))
        return time.monotonic() - start_s

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _connect(host: str, port: int) -> socket.socket:
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return socket.create_connection((host, port), timeout=TIMEOUT_S)
        except ConnectionRefusedError:  # the other rank does not listen yet
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)


def _receive(connection: socket.socket, size_bytes: int) -> None:
    room = memoryview(bytearray(min(size_bytes, 1 << 20)))
    while size_bytes > 0:
        received = connection.recv_into(room[: min(size_bytes, len(room))])
        if received == 0:
            raise ConnectionError(f"the other rank closed with {size_bytes} bytes missing")
        size_bytes -= received


def main() -> None:
    """Run on two ranks of the lab: rank 0 sends to rank 1 and prints what it measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.point_to_point")
    parser.add_argument("--bytes", type=int, default=4 << 20)
    parser.add_argument("--idle-s", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    if rank > 1:
        return
    port = int(os.environ["MASTER_PORT"])
    host = os.environ["MASTER_ADDR"]
    with PointToPoint(sends=rank == 0, host=host, port=port) as pair:
        times_s = [
            pair.transfer(arguments.bytes, idle_s=arguments.idle_s)
            for _ in range(arguments.repeats)
        ]
        if rank == 0:
            print(
                f"{arguments.bytes} bytes after {arguments.idle_s} s idle: "
                f"median {statistics.median(times_s) * 1e3:.1f} ms, "
                f"min {min(times_s) * 1e3:.1f} ms, max {max(times_s) * 1e3:.1f} ms"
            )


if __name__ == "__main__":
    main()

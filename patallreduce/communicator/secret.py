"""A secret that ranks share and strangers do not know: keeps these out of the rendezvous.

Whoever reaches torch's store can read and write what ranks exchange there. With a secret every
value carries a code that proves who gave it (HMAC-SHA256), and the keys of the communicator's
messages are derived from the secret: they never go through the store.

What this does not do: it encrypts nothing.
"""

from __future__ import annotations

import hashlib
import hmac

from patallreduce import _core
from patallreduce.communicator import environment

_PLAIN, _SEALED = b"\0", b"\1"
_CODE_BYTES = hashlib.sha256().digest_size
_LEAST_BYTES = 16


class Secret:
    """Seals the values that one rank gives, and opens the others'.

    Args:
        key: What all ranks know; None: values go as they are.
    """

    def __init__(self, key: bytes | None) -> None:
        if key is not None and len(key) < _LEAST_BYTES:
            raise ValueError(
                "PATALLREDUCE_SECRET or PATALLREDUCE_SECRET_FILE: expected at least "
                f"{_LEAST_BYTES} bytes, got {len(key)}"
            )
        self._key = key

    @classmethod
    def of_environment(cls) -> Secret:
        """What `PATALLREDUCE_SECRET` says, or the file that `PATALLREDUCE_SECRET_FILE` names.

        Raises:
            ValueError: It is too short.
            OSError: There is no such file, or it cannot be read.
        """
        text = environment.get("SECRET")
        if text is not None:
            return cls(text.encode())
        path = environment.get("SECRET_FILE")
        if path is None:
            return cls(None)
        try:
            with open(path, "rb") as file:
                return cls(file.read().strip())
        except OSError as error:
            what = f"PATALLREDUCE_SECRET_FILE: {error.strerror}"
            raise OSError(error.errno, what, error.filename) from None

    @property
    def known(self) -> bool:
        """Do ranks share one?"""
        return self._key is not None

    def seal(self, name: str, value: bytes) -> bytes:
        """`value`, to be opened under the same name only."""
        if not self.known:
            return _PLAIN + value
        return _SEALED + self._code(name, value) + value

    def open(self, name: str, sealed: bytes, rank: int, giver: int) -> bytes:
        """The value that `giver` sealed; TransportError on `rank` if it did not, or not with this.

        Without a secret there is nothing to prove, and with one no value goes unproved.
        """
        mark, rest = sealed[:1], sealed[1:]
        if not self.known and mark == _PLAIN:
            return rest
        if not self.known:
            raise _error(rank, giver, f"rank {giver} has a secret and rank {rank} has none")
        if mark != _SEALED:
            raise _error(rank, giver, f"rank {rank} has a secret and rank {giver} has none")
        code, value = rest[:_CODE_BYTES], rest[_CODE_BYTES:]
        if not hmac.compare_digest(code, self._code(name, value)):
            raise _error(
                rank, giver, f"what rank {giver} gave was not sealed with the secret of rank {rank}"
            )
        return value

    def derive(self, name: str, public: bytes) -> bytes:
        """A key of 16 bytes; with a secret, only those who know it can tell it from `public`."""
        return self._code(name, public)[:16]

    def _code(self, name: str, value: bytes) -> bytes:
        named = len(name).to_bytes(4, "little") + name.encode() + value
        return hmac.new(self._key or b"", named, hashlib.sha256).digest()


def _error(rank: int, giver: int, what: str) -> _core.TransportError:
    error = _core.TransportError(
        f"rank {rank}: {what}: PATALLREDUCE_SECRET or PATALLREDUCE_SECRET_FILE must be alike on "
        "all ranks"
    )
    error.rank = giver
    return error

"""Without one of the guards against strangers: they make, change or repeat messages."""

from .mutant import Mutant

MARKS = "csrc/transport/keyed_tags.h"
MESSAGES = "csrc/transport/ucx_messages.cpp"

STRANGERS = [
    Mutant(
        "tags are the caller's",
        MARKS,
        "round < 4;",
        "round < 0;",
    ),
    Mutant(
        "tags that differ become alike",
        MARKS,
        "const std::uint64_t mixed = left ^ ",
        "const std::uint64_t mixed = ",
    ),
    Mutant(
        "what is seen of one connection tells of those to others",
        MARKS,
        "hash.mix(static_cast<std::uint64_t>(receiver));",
        "",
    ),
    Mutant(
        "what is seen of one sender tells of others",
        MARKS,
        "hash.mix(static_cast<std::uint64_t>(sender));",
        "",
    ),
    Mutant(
        "a code says nothing of what a message says",
        MARKS,
        "return hash.end(data, bytes);",
        "return hash.end(nullptr, 0);",
    ),
    Mutant(
        "a code says nothing of a message's number",
        MARKS,
        "hash.mix(number);",
        "",
    ),
    Mutant(
        "a code says nothing of a message's kind",
        MARKS,
        "hash.mix(kind);",
        "",
    ),
    Mutant(
        "control messages need no code",
        MESSAGES,
        "if (from.code != peer.from.code(id, from.number, payload, bytes)) return UCS_OK;",
        "",
    ),
    Mutant(
        "control messages may be repeated",
        MESSAGES,
        "if (from.number <= peer.taken) return UCS_OK;",
        "",
    ),
    Mutant(
        "offers need no code",
        MESSAGES,
        "  if (offer.code !=\n      peer.from.code(offer_id, request->tag, &offer,",
        "  if (0 &&\n      0 == peer.from.code(offer_id, request->tag, &offer,",
    ),
    Mutant(
        "divisions need no code",
        MESSAGES,
        "  if (!genuine) {",
        "  if (false) {",
    ),
    Mutant(
        "a message is there with the first of its parts",
        MESSAGES,
        " || request->divided || request->parts > 0) return;",
        " || request->divided || request->parts > 1) return;",
    ),
    Mutant(
        "a key is as good as its first bytes",
        "csrc/bindings/transport.cpp",
        "PATR_CHECK(bytes.size() == 16,",
        "PATR_CHECK(true,",
    ),
    Mutant(
        "what a rank gave it hears from the store",
        "patallreduce/communicator/rendezvous.py",
        "value if rank == self.rank else self._get",
        "self._get",
    ),
    Mutant(
        "both connections of two ranks have one key",
        "patallreduce/communicator/secret.py",
        "return self._code(name, public)[:16]",
        'return self._code("", public)[:16]',
    ),
    Mutant(
        "a secret keeps nothing secret",
        "patallreduce/communicator/secret.py",
        'hmac.new(self._key or b"", named',
        'hmac.new(b"", named',
    ),
]

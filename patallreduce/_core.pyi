"""Types of the native core, one section per file of csrc/bindings."""

# Reductions by raw address (bindings/reduction.cpp). `dtype` and `op` are names; an unknown one
# raises ValueError. Addresses must be aligned to an element and stay valid during the call.

def combine(
    out: int,
    also: int,
    received: int,
    held: int,
    count: int,
    dtype: str,
    op: str,
    scale: float = 1.0,
) -> None: ...
def scale_copy(out: int, source: int, count: int, dtype: str, scale: float) -> None: ...
def divide(data: int, count: int, dtype: str, divisor: int) -> None: ...
def triad(a: int, b: int, c: int, count: int, s: float) -> None: ...
def vector_level() -> str: ...

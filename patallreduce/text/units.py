"""Sizes, rates and times as text: read from command lines, written for people."""

from __future__ import annotations

import math

_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "B": 1, "": 1}
_BITS_PER_S = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_BYTES_PER_S = {"KB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "B/s": 1.0}


def parse_bytes(text: str) -> int:
    """Read "4MiB", "1.5KiB" or "1000"; raise ValueError unless it is a whole number >= 0."""
    size_bytes = _scaled(text, _BYTES)
    if size_bytes is None or not size_bytes.is_integer() or size_bytes < 0:
        raise ValueError(f"{text!r}: expected bytes, e.g. 64KiB, 4MiB or 1000")
    return int(size_bytes)


def parse_rate(text: str) -> float:
    """Read "200mbit", "10gbit" or "1.2GB/s" as bytes per second; raise ValueError unless > 0."""
    bits_per_s = _scaled(text, _BITS_PER_S)
    rate = _scaled(text, _BYTES_PER_S) if bits_per_s is None else bits_per_s / 8
    if rate is None or not 0 < rate < math.inf:
        raise ValueError(f"{text!r}: expected a rate, e.g. 200mbit, 10gbit or 1.2GB/s")
    return rate


def bytes_text(size_bytes: int) -> str:
    """Write a size as `parse_bytes` reads it, in the largest unit that needs at most two digits."""
    for suffix in ("GiB", "MiB", "KiB"):
        unit = _BYTES[suffix]
        if size_bytes >= unit and size_bytes % (unit // 4) == 0:
            return f"{size_bytes / unit:g}{suffix}"
    return f"{size_bytes}B"


def rate_text(bytes_per_s: float) -> str:
    """Write a rate in Gbit/s, from one on, or in Mbit/s."""
    bits_per_s = 8 * bytes_per_s
    return f"{bits_per_s / 1e9:g} Gbit/s" if bits_per_s >= 1e9 else f"{bits_per_s / 1e6:g} Mbit/s"


_LONG_MS = 1e12


def ms_text(time_s: float) -> str:
    """Write seconds as milliseconds in four digits, or more before the point; "-" for NaN."""
    if math.isnan(time_s):
        return "-"
    time_ms = time_s * 1e3 + 0.0
    if abs(time_ms) < 5e-4:
        return "0"
    if abs(time_ms) > _LONG_MS:
        return f"{time_ms:.3e}"
    digits = min(3, max(0, 3 - math.floor(math.log10(abs(time_ms)))))
    return f"{time_ms:.{digits}f}"


def tenths_text(time_s: float) -> str:
    """Write seconds as tenths of a millisecond; "-" for NaN."""
    # + 0.0: -0.04 ms is not "-0.0".
    return "-" if math.isnan(time_s) else f"{round(time_s * 1e3, 1) + 0.0:.1f}"


def _scaled(text: str, units: dict[str, float] | dict[str, int]) -> float | None:
    for suffix, factor in units.items():
        if text.endswith(suffix):
            try:
                return float(text.removesuffix(suffix)) * factor
            except ValueError:
                continue
    return None

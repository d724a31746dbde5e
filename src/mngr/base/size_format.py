"""Formats numbers of bytes."""

from __future__ import annotations


def format_size(size: int) -> str:
    """Return a number of bytes as text with a unit of 1,000: `812 bytes`, `1.5 MB`, `12 GB`."""
    number, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.4g} {unit}"

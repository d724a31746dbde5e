"""Formats numbers of bytes, and counts with their nouns."""

from __future__ import annotations


def format_size(size: int) -> str:
    """Return a number of bytes as text with a unit of 1,000: `812 bytes`, `1.5 MB`, `12 GB`."""
    number, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.4g} {unit}"


def format_count(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 task`, `2 tasks`."""
    return f"{number:,} {choose_noun(number, noun, nouns)}"


def choose_noun(number: float, noun: str, nouns: str = "") -> str:
    """Return the singular for 1, else the plural."""
    return noun if number == 1 else nouns or noun + "s"

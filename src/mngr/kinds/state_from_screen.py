"""Derives a state from the screen when there is no better evidence. Each kind's folder has its rules in `screen.json`.

A rule is `{"line": REGEX, "state": STATE, "reason": REASON}`. The last line on the screen that matches a rule decides.
"""

from __future__ import annotations

import json
import os
import re

_HERE = os.path.dirname(__file__)
_LINE_COUNT = 15  # only the last lines count: any text may be above them
_rules_by_kind: dict[str, list[tuple[re.Pattern[str], str, str]]] = {}


def find_state(kind: str, screen: str) -> tuple[str, str] | None:
    """Return the (state, reason) that a screen of this kind shows, or None when no rule matches."""
    lines = [line for line in screen.splitlines() if line.strip()][-_LINE_COUNT:]
    for line in reversed(lines):
        for pattern, state, reason in _load_rules(kind):
            if pattern.search(line):
                return state, reason
    return None


def _load_rules(kind: str) -> list[tuple[re.Pattern[str], str, str]]:
    if kind not in _rules_by_kind:
        with open(os.path.join(_HERE, kind, "screen.json"), encoding="utf-8") as file:
            rows = json.load(file)
        _rules_by_kind[kind] = [(re.compile(row["line"]), row["state"], row["reason"]) for row in rows]
    return _rules_by_kind[kind]

"""Reads the journal of a run as any other program would: one JSON object per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_json_rows(path: str) -> list[dict[str, Any]]:
    """Return the complete rows of a journal, or an empty list when there is none."""
    file = Path(path)
    lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]

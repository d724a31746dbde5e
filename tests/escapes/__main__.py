"""Prints the attempts as JSON, one in each line, so that other tools can run them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.escapes import (
    direct,
    git_configuration,
    planted_files,
    test_clean_rooms,
    test_project_files,
    test_project_settings,
    test_remote_records,
    test_set_up,
)

TOPICS: dict[str, Sequence[Any]] = {
    "git configuration": git_configuration.ATTEMPTS,
    "planted files": planted_files.ATTEMPTS,
    "direct": direct.ATTEMPTS,
    "project files": test_project_files.ATTEMPTS,
    "project settings": test_project_settings.ATTEMPTS,
    "remote records": test_remote_records.ATTEMPTS,
    "set-up": test_set_up.ATTEMPTS,
    "clean rooms": test_clean_rooms.ATTEMPTS,
}

for topic, attempts in TOPICS.items():
    for attempt in attempts:
        print(json.dumps({"topic": topic, **asdict(attempt)}))

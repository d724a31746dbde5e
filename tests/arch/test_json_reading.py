"""JSON from agents, hosts and branches goes through `parse_json`, which turns every problem into a ValueError."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "mngr"

# Programs that run beside an agent or in a clean room, where mngr's other modules may be missing, and mngr's test tools.
_OTHER_PROGRAMS = (
    "e2e/",
    "kinds/mechanic/program/",
    "kinds/player/",
    "providers/bridge/engine_server.py",
    "providers/bridge/run_command.py",
    "providers/ray/",
    "testkit/",
    "tmr/runners/pytest/in_clean_room/",
    "tmr/verify/audit/stub_plugin.py",
    "tmr/verify/audit/stub_program.py",
)
# These modules read files that only mngr or its user writes, or answers of programs that the user installed.
_OWN_FILES = {
    "agents/archive/gc/gc.py",
    "agents/archive/host_snapshots.py",
    "agents/inspect/usage.py",
    "base/untrusted_json.py",  # parse_json itself
    "base/trust/project_trust.py",
    "host/host_store.py",
    "kinds/opencode/user_config.py",
    "kinds/state_from_screen.py",
    "mapreduce/journal/journal_file.py",
    "mapreduce/map_recipe.py",
    "mapreduce/run_dir.py",
    "providers/docker/provider.py",
    "providers/docker/snapshots.py",
    "providers/modal/provider.py",
    "providers/shared/on_demand.py",
    "tmr/changes/changes_file.py",
    "tmr/changes/integration_record.py",
    "tmr/cleanroom/clean_room.py",
    "tmr/cleanroom/sandbox.py",
    "tmr/run_plan.py",
    "tmr/prepare/history/history_file.py",
    "tmr/result_cache.py",
    "tmr/verify/claim.py",  # needs hooks, and handles deep nesting itself
    "web/report/report_data.py",
}


def test_only_modules_that_read_trusted_json_use_the_plain_parser() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if any(ast.unparse(call.func) in ("json.load", "json.loads") for call in calls):
            found.add(name)
    assert {name for name in found if not name.startswith(_OTHER_PROGRAMS)} == _OWN_FILES

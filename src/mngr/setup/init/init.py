"""Inspects a project and writes settings that say how to make a fresh copy of it runnable."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.agents.edit_settings import replace_settings_file
from mngr.base import config, paths
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.setup.init.detect_settings import DetectedSetting, detect_project
from mngr.setup.init.find_test_requirements import RequirementSource
from mngr.setup.init.setup_command_types import NO_ADJUSTMENTS, Adjustments


class DetectedProject(Struct):
    """The detected settings and the text of their settings file."""

    path: str
    settings: list[DetectedSetting]
    text: str
    notes: list[str] = []  # sentences that a person should read
    avoidable: list[RequirementSource] = []  # what set-up may do without if it fails, the least important first
    has_tests: bool = False

    def find_value(self, key: str) -> str | None:
        """Return the text of a detected setting, or None."""
        values = [setting.value for setting in self.settings if setting.key == key]
        return str(values[0]) if values else None


def init_project(
    ctx: Context, *, force: bool = False, dry_run: bool = False, adjustments: Adjustments = NO_ADJUSTMENTS
) -> DetectedProject:
    """Inspect the current project and write its settings. Raise MngrError when it has settings already."""
    root = paths.find_project_root(ctx.cwd) or ctx.cwd
    path = os.path.join(root, paths.PROJECT_SETTINGS)
    if os.path.lexists(path) and not (force or dry_run):
        raise MngrError(
            f"{path} already exists", "replace it: mngr init --force; or print the new settings: mngr init --dry-run"
        )
    detection = detect_project(ctx.local_host, root, adjustments)
    project = DetectedProject(
        path=path,
        settings=detection.settings,
        text=_format_settings(detection.settings),
        notes=detection.notes,
        avoidable=detection.avoidable,
        has_tests=detection.has_tests,
    )
    if not dry_run:
        replace_settings_file(ctx, path, project.text)
        ctx.extend_trust(root, {setting.key: setting.value for setting in detection.settings})
        ctx.reload_settings()
    return project


def _format_settings(settings: list[DetectedSetting]) -> str:
    """Return a settings file with the detected values, and with the other keys as comments."""
    import tomlkit

    values = {setting.key: setting.value for setting in settings}
    lines = ["# How mngr makes a fresh copy of this project runnable. See what is in effect: mngr config list"]
    for table in ("project", "tutorial"):
        lines += ["", f"[{table}]"]
        for key, (kind, description) in config.SCHEMA.items():
            if not key.startswith(table + "."):
                continue
            default: str | list[str] = [] if kind is list else ""
            value = tomlkit.item(values.get(key, default)).as_string()
            comment = "" if key in values else "# "
            lines += [f"# {description}", f"{comment}{key.partition('.')[2]} = {value}"]
    return "\n".join(lines) + "\n"

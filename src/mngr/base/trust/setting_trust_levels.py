"""Decides which settings a project's own files may contain, because those files can come from a stranger.

Each setting has one of three classes:
- safe: it can neither run nor reveal nor loosen anything. A project may always set it.
- trusted: it runs the project's own commands or chooses its files. It counts after `mngr trust`.
- user: it decides about isolation, network, variables, programs or money. Only the user's own settings count.
"""

from __future__ import annotations

SAFE, TRUSTED, USER_ONLY = "safe", "trusted", "user"

# The class of each setting. `*` is a name that the user chooses. Settings that match no row are for the user only.
_CLASSES = {
    "project.setup": TRUSTED,
    "project.carry": TRUSTED,
    "project.lock": TRUSTED,
    "project.program": TRUSTED,
    "project.pytest": TRUSTED,
    "project.lint": TRUSTED,
    "tutorial.file": TRUSTED,
    "tutorial.tests": TRUSTED,
    "tutorial.timeout": SAFE,
    "stop.grace": SAFE,
    "providers.*.*": TRUSTED,  # Of these, a provider takes from a project only what it lists in `project_options`.
}

# The options whose defaults a project may set in `[commands.COMMAND]`, and for `create` also in `[templates.NAME]`.
# `[tmr]` holds the options of `tmr run`.
SAFE_OPTIONS: dict[str, tuple[str, ...]] = {
    "create": ("activity", "connect", "idle_timeout", "kind", "label"),
    "list": ("fields", "filter", "git", "host", "hosts", "label", "sort", "state"),
    "diff": ("committed", "name_only", "stat"),
    "capture": ("ansi", "history"),
    "usage": ("by",),
    "tmr run": ("alarm", "canary", "changed_since", "only"),
}


def classify_setting(key: str) -> str:
    """Return the class of a setting: SAFE, TRUSTED or USER_ONLY."""
    parts = key.removesuffix("+=").rstrip().split(".")
    if parts[0] == "tmr":
        return _classify_option("tmr run", parts[1:])
    if parts[0] == "templates":
        return _classify_option("create", parts[2:])
    if parts[0] == "commands":
        length = 2 if " ".join(parts[1:3]) in SAFE_OPTIONS else 1
        return _classify_option(" ".join(parts[1 : 1 + length]), parts[1 + length :])
    for pattern, setting_class in _CLASSES.items():
        pattern_parts = pattern.split(".")
        if len(parts) >= len(pattern_parts) and all(
            expected in ("*", part) for expected, part in zip(pattern_parts, parts, strict=False)
        ):
            return setting_class
    return USER_ONLY


def _classify_option(command: str, option: list[str]) -> str:
    """Return SAFE for an option that a project may set, else USER_ONLY."""
    return SAFE if len(option) == 1 and option[0] in SAFE_OPTIONS.get(command, ()) else USER_ONLY

"""Maps `sh` and `write` to the tools of each client, so that one script drives every agent program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from mngr.testkit.modelserver.request import get_schema
from mngr.testkit.modelserver.script import ScriptedCall

FREEFORM_SCHEMA: dict[str, Any] = {"freeform": True}  # the schema of a tool that takes plain text
_SHELL_TOOLS = (
    "Bash", "bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command", "container.exec",
)  # fmt: skip
_WRITE_TOOLS = ("Write", "write", "write_file", "create_file")
_PATH_PARAMETERS = ("file_path", "filePath", "path", "absolute_path")

Tools = Mapping[str, dict[str, Any]]


def resolve_calls(calls: tuple[ScriptedCall, ...], tools: Tools) -> tuple[tuple[str, Any], ...]:
    """Return (name, input) of each call, with the client's own tools."""
    return tuple(_resolve_call(call, tools) for call in calls)


def _resolve_call(call: ScriptedCall, tools: Tools) -> tuple[str, Any]:
    if call.verb == "sh":
        return _build_shell_call(call.value, tools)
    if call.verb == "write":
        return _build_write_call(call.name, call.value, tools)
    return call.name, call.value


def _build_shell_call(command: str, tools: Tools) -> tuple[str, Any]:
    name = next((name for name in _SHELL_TOOLS if name in tools), None)
    if name is None and tools.get("exec") == FREEFORM_SCHEMA:  # Codex runs JavaScript that calls its tools.
        return "exec", f"const r = await tools.exec_command({{cmd: {json.dumps(command)}}}); text(r);"
    properties = get_schema(tools.get(name or "", {}).get("properties"))
    if "cmd" in properties:
        arguments: dict[str, Any] = {"cmd": command}
    elif get_schema(properties.get("command")).get("type") == "array":
        arguments = {"command": ["bash", "-lc", command]}
    else:
        arguments = {"command": command}
    if "description" in properties:
        arguments["description"] = "scripted command"
    return name or "bash", arguments


def _build_write_call(path: str, content: str, tools: Tools) -> tuple[str, Any]:
    name = next((name for name in _WRITE_TOOLS if name in tools), None)
    if name:
        properties = get_schema(tools[name].get("properties"))
        key = next((key for key in _PATH_PARAMETERS if key in properties), "path")
        return name, {key: path, "content": content}
    if "apply_patch" in tools:
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
        return "apply_patch", patch if tools["apply_patch"] == FREEFORM_SCHEMA else {"input": patch}
    return _build_shell_call(f"printf %s {shlex.quote(content)} > {shlex.quote(path)}", tools)

"""Maps `sh` and `write` to the tools of each client, so that one script drives every agent program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Container, Iterable

from mngr.testkit.modelserver.answer import ToolCall
from mngr.testkit.modelserver.request import ClientTools, ToolParameters
from mngr.testkit.modelserver.script import ScriptedCall

_SHELL_TOOLS = (
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
    "container.exec",
)
_WRITE_TOOLS = ("Write", "write", "write_file", "create_file")
_PATH_PARAMETERS = ("file_path", "filePath", "path", "absolute_path")


def resolve_calls(calls: tuple[ScriptedCall, ...], tools: ClientTools) -> tuple[ToolCall, ...]:
    """Return each call with the client's own tools."""
    return tuple(_resolve_call(call, tools) for call in calls)


def _resolve_call(call: ScriptedCall, tools: ClientTools) -> ToolCall:
    if call.verb == "sh":
        return _build_shell_call(str(call.value), tools)
    if call.verb == "write":
        return _build_write_call(call.name, str(call.value), tools)
    return ToolCall(call.name, call.value)


def _build_shell_call(command: str, tools: ClientTools) -> ToolCall:
    name = _find_first(_SHELL_TOOLS, tools)
    if name is None and _is_freeform("exec", tools):  # Codex runs JavaScript that calls its tools.
        return ToolCall("exec", f"const r = await tools.exec_command({{cmd: {json.dumps(command)}}}); text(r);")
    name = name or "bash"
    types = tools.get(name, ToolParameters()).types
    description = {"description": "scripted command"} if "description" in types else {}
    if "cmd" in types:
        return ToolCall(name, {"cmd": command, **description})
    if types.get("command") == "array":
        return ToolCall(name, {"command": ["bash", "-lc", command], **description})
    return ToolCall(name, {"command": command, **description})


def _build_write_call(path: str, content: str, tools: ClientTools) -> ToolCall:
    name = _find_first(_WRITE_TOOLS, tools)
    if name:
        key = _find_first(_PATH_PARAMETERS, tools[name].types) or "path"
        return ToolCall(name, {key: path, "content": content})
    if "apply_patch" in tools:
        lines = "".join(f"+{line}\n" for line in content.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"
        return ToolCall("apply_patch", patch if _is_freeform("apply_patch", tools) else {"input": patch})
    return _build_shell_call(f"printf %s {shlex.quote(content)} > {shlex.quote(path)}", tools)


def _is_freeform(name: str, tools: ClientTools) -> bool:
    return name in tools and tools[name].is_freeform


def _find_first(names: Iterable[str], available: Container[str]) -> str | None:
    """Return the first of the names that is available."""
    return next((name for name in names if name in available), None)

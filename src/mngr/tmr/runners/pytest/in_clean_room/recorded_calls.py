"""Records the calls and commands with plain arguments that a test makes, and makes the same ones again.

Standard library only, Python 3.9 or newer. mngr runs this text inside a test's file, or in a process without pytest.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import functools
import inspect
import json
import os
import subprocess
import sys
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_MAX_STEPS = 25
_MAX_TEXT = 300  # characters of one result
_ATOMS = (type(None), bool, int, float, str, bytes)
_GENERATOR_FLAGS, _COROUTINE_FLAG = 0x20 | 0x200, 0x80
_ASYNCIO_DIR = os.path.dirname(asyncio.__file__)
_HIDDEN_VARIABLES = ("PYTEST", "MNGR")
_SKIPPED_DIRS = ("site-packages", "dist-packages", ".venv")


def pack(value: object) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def unpack(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def is_plain(value: object, depth: int = 5) -> bool:
    """True for a value that another process can have, too: no object, no absolute path."""
    if type(value) in _ATOMS:
        return not (isinstance(value, str) and (value.startswith("/") or len(value) > 4_000))
    if depth and type(value) in (list, tuple, set):
        return all(is_plain(item, depth - 1) for item in value)  # type: ignore[attr-defined]
    if depth and type(value) is dict:
        return all(is_plain(item, depth - 1) for pair in value.items() for item in pair)
    return False


def describe(value: object) -> str:
    """Return a short text that is the same for equal values."""
    if type(value) is set:
        value = sorted(value, key=repr)
    if not is_plain(value):
        return f"an object of type {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... {zlib.crc32(text.encode('utf-8', 'replace'))}"


class Recorder:
    """Records what one test calls. `steps` can be sent to `replay_steps`."""

    def __init__(self, test_file: str, work: str) -> None:
        self.steps: list[dict[str, Any]] = []
        self._test_file, self._work = test_file, work
        self._open: dict[FrameType, dict[str, Any]] = {}
        self._objects: list[object] = []  # those that the test created, in order
        self._run = subprocess.run
        self._runner = getattr(sys.modules.get("click.testing"), "CliRunner", None)
        self._invoke = getattr(self._runner, "invoke", None)

    def start(self, names: dict[str, Any]) -> None:
        self._names = [name for name, value in names.items() if value is self._run]
        self._globals = names
        subprocess.run = self._run_command
        if self._runner is not None:

            def invoke(runner: Any, *args: Any, **options: Any) -> Any:
                return self._record_click(runner, *args, **options)

            self._runner.invoke = invoke
        for name in self._names:
            names[name] = subprocess.run
        sys.setprofile(self._on_event)

    def stop(self) -> None:
        sys.setprofile(None)
        subprocess.run = self._run
        if self._runner is not None:
            self._runner.invoke = self._invoke
        for name in self._names:
            self._globals[name] = self._run

    def _on_event(self, frame: FrameType, event: str, value: object) -> None:
        is_coroutine = bool(frame.f_code.co_flags & _COROUTINE_FLAG)
        if event == "call" and frame not in self._open and self._is_called_by_test(frame, is_coroutine):
            if len(self.steps) < _MAX_STEPS and self._is_project(frame):
                self._open_step(frame)
        elif event == "return" and frame in self._open:
            # A coroutine also returns when it waits. Its last result counts.
            step = self._open[frame] if is_coroutine else self._open.pop(frame)
            step["result"] = describe(value)

    def _is_called_by_test(self, frame: FrameType, is_coroutine: bool) -> bool:
        caller = "" if frame.f_back is None else frame.f_back.f_code.co_filename
        return caller == self._test_file or (is_coroutine and os.path.dirname(caller) == _ASYNCIO_DIR)

    def _is_project(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code.co_flags & _GENERATOR_FLAGS:
            return False
        is_dataclass = code.co_filename == "<string>" and code.co_name == "__init__"
        file = str(frame.f_globals.get("__file__")) if is_dataclass else code.co_filename
        path = os.path.realpath(file)
        if not path.startswith(self._work + os.sep) or any(part in path for part in _SKIPPED_DIRS):
            return False
        parts = path[len(self._work) :].split(os.sep)
        return not (parts[-1].startswith(("test_", "conftest")) or "tests" in parts or "test" in parts)

    def _open_step(self, frame: FrameType) -> None:
        code, values = frame.f_code, frame.f_locals
        names = list(code.co_varnames[: code.co_argcount])
        found = self._find_target(frame, values.get(names[0]) if names else None)
        if found is None:
            return
        target, count = found
        args = [values[name] for name in names[count:]]
        position = code.co_argcount + code.co_kwonlyargcount
        keywords = {name: values[name] for name in code.co_varnames[code.co_argcount : position]}
        if code.co_flags & 0x04:  # *args
            args += values[code.co_varnames[position]]
            position += 1
        if code.co_flags & 0x08:  # **kwargs
            keywords.update(values[code.co_varnames[position]])
        if not is_plain(args) or not is_plain(keywords):
            return
        step: dict[str, Any] = {"target": target, "args": repr(args), "keywords": repr(keywords), "result": "None"}
        if target[0] == "new":
            step["object"] = len(self._objects)
            self._objects.append(values[names[0]])
        self.steps.append(step)
        self._open[frame] = step

    def _find_target(self, frame: FrameType, first: object) -> tuple[list[Any], int] | None:
        """Return how to reach the called function, and how many of its first arguments are not passed."""
        name = frame.f_code.co_name
        if name == "__init__" and first is not None:
            owner = type(first)
            is_reachable = getattr(sys.modules.get(owner.__module__), owner.__qualname__, None) is owner
            return (["new", owner.__module__, owner.__qualname__], 1) if is_reachable else None
        for number, known in enumerate(self._objects):
            if known is first and getattr(getattr(type(first), name, None), "__code__", None) is frame.f_code:
                return ["method", number, name], 1
        module = frame.f_globals.get("__name__")
        function = getattr(sys.modules.get(str(module)), name, None)
        return (["call", module, name], 0) if getattr(function, "__code__", None) is frame.f_code else None

    def _record_click(self, runner: Any, command: Any, args: Any = None, *more: Any, **options: Any) -> Any:
        """Run a command of click, and record it if a module has it under a name."""
        result = self._invoke(runner, command, args, *more, **options)  # type: ignore[misc]
        module = getattr(getattr(command, "callback", None), "__module__", None)
        names = getattr(sys.modules.get(str(module)), "__dict__", {})
        name = next((name for name, value in names.items() if value is command), None)
        given = options.get("input")
        if name is not None and not more and is_plain(args) and is_plain(given) and len(self.steps) < _MAX_STEPS:
            step = {"target": ["click", module, name], "args": repr(args), "keywords": repr(given)}
            self.steps.append({**step, "result": describe([result.exit_code, result.output])})
        return result

    def _run_command(self, *args: Any, **options: Any) -> Any:
        result = self._run(*args, **options)
        command = args[0] if args else options.get("args")
        command = [os.fspath(word) for word in command] if isinstance(command, (list, tuple)) else command
        words = [word for word in command if word != sys.executable] if isinstance(command, list) else [command]
        where, variables, given = options.get("cwd"), options.get("env"), options.get("input")
        is_here = os.path.realpath(where or ".").startswith(self._work)
        if is_here and all(is_plain(word) for word in words) and is_plain(given) and len(self.steps) < _MAX_STEPS:
            environment = None if variables is None else {str(name): str(text) for name, text in variables.items()}
            step = {"target": ["command", bool(options.get("shell")), os.path.realpath(where or "."), environment]}
            step |= {"args": repr(command), "keywords": repr(given), "result": _describe_result(result)}  # type: ignore[dict-item]
            self.steps.append(step)
        return result


def _describe_result(result: Any) -> str:
    streams = [
        stream.decode("utf-8", "replace") if isinstance(stream, bytes) else stream
        for stream in (result.stdout, result.stderr)
    ]
    return describe([result.returncode, *streams])


def record_test(function: Callable[..., Any], work: str, token: str) -> Callable[..., Any]:
    """Return a test that runs `function` and then fails with the recorded steps as its message."""

    names = getattr(function, "__globals__", {})

    def raise_report(recorder: Recorder) -> None:
        raise AssertionError(token + pack({"steps": recorder.steps, "path": sys.path}))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_later(*args: object, **keywords: object) -> None:
            recorder = Recorder(function.__code__.co_filename, os.path.realpath(work))
            recorder.start(names)
            try:
                await function(*args, **keywords)
            finally:
                recorder.stop()
            raise_report(recorder)

        return run_later

    @functools.wraps(function)
    def run_and_report(*args: object, **keywords: object) -> None:
        recorder = Recorder(function.__code__.co_filename, os.path.realpath(work))
        recorder.start(names)
        try:
            function(*args, **keywords)
        finally:
            recorder.stop()
        raise_report(recorder)

    return run_and_report


def replay_steps(steps: list[dict[str, Any]]) -> list[str]:
    """Return the result of each step. An exception is described as None is, because a recorder cannot tell them apart."""
    objects: dict[int, object] = {}
    results: list[str] = []
    for step in steps:
        try:
            results.append(_replay_step(step, objects))
        except BaseException:
            results.append("None")
    return results


def _replay_step(step: dict[str, Any], objects: dict[int, object]) -> str:
    kind, place, name, *more = step["target"]
    args, keywords = ast.literal_eval(step["args"]), ast.literal_eval(step["keywords"])
    if kind == "command":
        variables = None if not more[0] else {k: v for k, v in more[0].items() if not k.startswith(_HIDDEN_VARIABLES)}
        if variables is not None:
            variables.update({k: v for k, v in os.environ.items() if k.startswith(_HIDDEN_VARIABLES)})
        text = keywords.encode() if isinstance(keywords, str) else keywords
        stdin = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
        options: Any = {"shell": place, "cwd": name, "env": variables, "capture_output": True, **stdin}
        result = subprocess.run(args, check=False, **options)
        return _describe_result(result)
    if kind == "method":
        return describe(_wait_for(getattr(objects[place], name)(*args, **keywords)))
    __import__(place)
    function = getattr(sys.modules[place], name)
    if kind == "click":
        from click.testing import CliRunner

        outcome = CliRunner().invoke(function, args, input=keywords)
        return describe([outcome.exit_code, outcome.output])
    value = _wait_for(function(*args, **keywords))
    if kind == "new":
        objects[step["object"]] = value
        return "None"
    return describe(value)


def _wait_for(value: Any) -> Any:
    """Return the result of a coroutine, and any other value as it is."""
    return asyncio.run(value) if inspect.iscoroutine(value) else value

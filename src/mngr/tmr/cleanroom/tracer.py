"""Which lines of the project's own files are run: by a test, and by every Python that it starts, directly or not.

A file of the standard library only, Python 3.9 or newer. The probe begins with it and puts a copy as `sitecustomize` on PYTHONPATH,
so that each interpreter below reads it before any code of the project. A new line is written down at once: there is
nothing to lose when a process is killed, replaced or left by os._exit. Programs that are given an environment of their own
get the one variable that matters all the same; what runs Python with -I, -E or -S, or through `env -i`, is not seen.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SKIPPED_DIRS = ("site-packages", "dist-packages", ".tox", ".nox", ".venv")
TRACE_SUFFIX = ".trace"  # beside the probe's report
_REPORT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


def install_tracer(text: str, place: str, work: str) -> None:
    """Here, and in every Python below: `text` is our own, `place` a directory of ours."""
    os.makedirs(place, exist_ok=True)
    report = os.path.join(place, "lines")
    with open(os.path.join(place, "sitecustomize.py"), "w", encoding="utf-8") as file:
        calls = f"trace_process({work!r}, {report!r})\ntrace_children({place!r})\nrun_original_sitecustomize({place!r})"
        file.write(f"{text}\n\n{calls}\n")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = place + (os.pathsep + before if before else "")
    trace_children(place)
    trace_process(work, report)


def collect_lines(place: str) -> dict[str, list[int]]:
    """Each file and its lines that were run; the place is gone then."""
    import shutil

    files: dict[str, set[int]] = {}
    try:
        with open(os.path.join(place, "lines"), encoding="utf-8", errors="surrogateescape") as file:
            for row in file:
                line, _, name = row.rstrip("\n").partition(" ")
                if line.isdigit() and name:
                    files.setdefault(name, set()).add(int(line))
    except OSError:
        pass
    shutil.rmtree(place, ignore_errors=True)
    return {name: sorted(lines) for name, lines in sorted(files.items())}


def trace_process(work: str, report: str) -> None:
    """From now on, in this process and those below it: each line of a file in `work` that is run, once, into `report`."""
    known: dict[str, str] = {}

    def name_of(file: str) -> str:
        """A code object's file from the work dir; empty if it is none of the project's."""
        if file not in known:
            full = "" if file.startswith("<") else os.path.realpath(file)
            own = full.startswith(work + os.sep)
            name = full[len(work) + 1 :] if own else ""
            known[file] = "" if not set(_SKIPPED_DIRS).isdisjoint(name.split(os.sep)) else name
        return known[file]

    # As defaults: a test may put a false file system in the place of `os`.
    def say(name: str, line: int, _open: Any = os.open, _write: Any = os.write, _close: Any = os.close) -> None:
        try:
            fd = _open(report, _REPORT_FLAGS, 0o666)
            _write(fd, f"{line} {name}\n".encode("utf-8", "surrogateescape"))
            _close(fd)
        except OSError:
            pass  # a place of its own, too many open files, a full disk: nothing of the test's

    if hasattr(sys, "monitoring"):
        _trace_with_monitoring(name_of, say)
    else:
        _trace_with_settrace(name_of, say)


def _trace_with_monitoring(name_of: Any, say: Any) -> None:
    """Python 3.12 or newer: told of each line once, beside whoever else listens."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    free = [number for number in (4, 3, 5, 2, 1, 0) if monitoring.get_tool(number) is None]
    seen: set[tuple[str, int]] = set()

    def on_line(code: Any, line: int) -> Any:
        name = name_of(code.co_filename)
        if name and (name, line) not in seen:
            seen.add((name, line))
            say(name, line)
        return monitoring.DISABLE

    if free:
        monitoring.use_tool_id(free[0], "mngr")
        monitoring.register_callback(free[0], monitoring.events.LINE, on_line)
        monitoring.set_events(free[0], monitoring.events.LINE)


def _trace_with_settrace(name_of: Any, say: Any) -> None:
    """Before that: a function is followed until all of its lines were seen."""
    followers: dict[Any, Any] = {}  # of each code object; None: not ours, or nothing left

    def on_call(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        try:
            return followers[code]
        except KeyError:
            name = name_of(code.co_filename)
            followers[code] = follow_code(code, name, _list_lines(code)) if name else None
            return followers[code]

    def follow_code(code: Any, name: str, left: set[int]) -> Any:
        def on_line(frame: Any, event: str, argument: Any) -> Any:
            if frame.f_lineno in left and event == "line":
                left.discard(frame.f_lineno)
                say(name, frame.f_lineno)
                if not left:
                    followers[code] = None
            return on_line if left else None

        return on_line

    import threading

    threading.settrace(on_call)
    sys.settrace(on_call)


def _list_lines(code: Any) -> set[int]:
    if hasattr(code, "co_lines"):
        return {line for _, _, line in code.co_lines() if line is not None}
    import dis

    return {line for _, line in dis.findlinestarts(code)}


def trace_children(place: str) -> None:
    """Every program that this process starts finds us, also one whose environment is not ours."""
    import _posixsubprocess

    named = b"PYTHONPATH"

    def reach(before: bytes) -> bytes:
        places = [os.fsencode(place), *(before.split(b":") if before else [])]
        return b":".join(dict.fromkeys(places))

    def with_us(env: Any) -> Any:
        """An environment, as a table or as rows NAME=VALUE, and our place in it."""
        if isinstance(env, list):
            rows = dict(row.partition(b"=")[::2] for row in env)
            rows[named] = reach(rows.get(named, b""))
            return [name + b"=" + value for name, value in rows.items()]
        table = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        table[named] = reach(table.get(named, b""))
        return table

    def wrap(module: Any, name: str, at: int) -> None:
        real: Any = getattr(module, name, None)

        def call(*args: Any, **more: Any) -> Any:
            if len(args) > at and args[at] is not None:
                args = (*args[:at], with_us(args[at]), *args[at + 1 :])
            elif more.get("env") is not None:
                more["env"] = with_us(more["env"])
            return real(*args, **more)

        if real is not None:
            setattr(module, name, call)

    wrap(_posixsubprocess, "fork_exec", 5)
    if hasattr(sys.modules.get("subprocess"), "_fork_exec"):  # Python 3.12: it has taken its own already
        wrap(sys.modules["subprocess"], "_fork_exec", 5)
    for name in ("posix_spawn", "posix_spawnp", "execve"):
        wrap(os, name, 2)


def run_original_sitecustomize(place: str) -> None:
    """We came as the `sitecustomize` of a program: make way for its own."""
    sys.path[:] = [entry for entry in sys.path if entry != place]
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


def pytest_sessionfinish() -> None:
    """As a plugin beside the probe: what was seen, before it says that this is the end."""
    _probe._write_row("lines", files=collect_lines(_probe.FACTS["report"] + TRACE_SUFFIX))


_probe: Any = globals().get("probe")  # put here by the probe, if this is its process
if _probe is not None:
    install_tracer(globals()["text"], _probe.FACTS["report"] + TRACE_SUFFIX, _probe.WORK_DIR)

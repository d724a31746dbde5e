"""Records which lines of the project's files a test runs, in its process and in every Python that it starts.

Standard library only, Python 3.9 or newer. The observer loads this plugin and puts a copy as `sitecustomize` on
PYTHONPATH, so that each interpreter below loads it before any code of the project. Each new line is written at once, so
nothing is lost when a process is killed, replaced or left by os._exit. Programs that get another environment still get
PYTHONPATH. Python with -I, -E or -S, or started through `env -i`, is not traced.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SKIPPED_DIRS = ("site-packages", "dist-packages", ".tox", ".nox", ".venv")
TRACE_SUFFIX = ".trace"  # beside the observer's report
_PROGRAM_EVENTS = frozenset(("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"))
_REPORT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


def install_tracer(text: str, place: str, work: str) -> None:
    """Trace every Python below this process. `text` is this file's text, `place` a directory for its files."""
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "sitecustomize.py"), "w", encoding="utf-8") as file:
        calls = f"trace_process({work!r}, find_report({place!r}))\ntrace_children({place!r})\nrun_original_sitecustomize({place!r})"
        file.write(f"{text}\n\n{calls}\n")
    python_path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = place + (os.pathsep + python_path if python_path else "")
    trace_children(place)


def find_report(place: str) -> str:
    """Return the file for the lines of a process that starts now. In a suite, each test has its own file."""
    try:
        with open(os.path.join(place, "context"), encoding="utf-8") as file:
            return os.path.join(place, f"lines-{int(file.read())}")
    except (OSError, ValueError):
        return os.path.join(place, "lines")


def read_lines(report: str) -> dict[str, set[int]]:
    """Return the lines in a report, by file."""
    files: dict[str, set[int]] = {}
    try:
        with open(report, encoding="utf-8", errors="surrogateescape") as file:
            for row in file:
                line, _, name = row.rstrip("\n").partition(" ")
                if line.isdigit() and name:
                    files.setdefault(name, set()).add(int(line))
    except OSError:
        pass
    return files


def make_name_finder(work: str) -> Any:
    """Return a function from a code object's file to its path in the work dir, or to "" outside the project."""
    names: dict[str, str] = {}

    def find_name(file: str) -> str:
        if file not in names:
            full = "" if file.startswith("<") else os.path.realpath(file)
            is_in_work_dir = full.startswith(work + os.sep)
            name = full[len(work) + 1 :] if is_in_work_dir else ""
            names[file] = "" if not set(_SKIPPED_DIRS).isdisjoint(name.split(os.sep)) else name
        return names[file]

    return find_name


def trace_process(work: str, report: str) -> None:
    """Write each line of a file in `work` that this process or its forks run to `report`, once."""
    name_of = make_name_finder(work)

    # Bound as defaults, because a test may replace `os` with a fake file system.
    def say(name: str, line: int, _open: Any = os.open, _write: Any = os.write, _close: Any = os.close) -> None:
        try:
            fd = _open(report, _REPORT_FLAGS, 0o666)
            _write(fd, f"{line} {name}\n".encode("utf-8", "surrogateescape"))
            _close(fd)
        except OSError:
            pass  # a chroot, too many open files or a full disk must not fail the test

    if hasattr(sys, "monitoring"):
        _trace_with_monitoring(name_of, say)
    else:
        _trace_with_settrace(name_of, say)


def _trace_with_monitoring(name_of: Any, say: Any) -> None:
    """On Python 3.12 or newer: get each line once, independently of other tracing tools."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    free_tool_ids = [number for number in (4, 3, 5, 2, 1, 0) if monitoring.get_tool(number) is None]
    reported: set[tuple[str, int]] = set()

    def on_line(code: Any, line: int) -> Any:
        name = name_of(code.co_filename)
        if name and (name, line) not in reported:
            reported.add((name, line))
            say(name, line)
        return monitoring.DISABLE

    if free_tool_ids:
        monitoring.use_tool_id(free_tool_ids[0], "mngr")
        monitoring.register_callback(free_tool_ids[0], monitoring.events.LINE, on_line)
        monitoring.set_events(free_tool_ids[0], monitoring.events.LINE)


def _trace_with_settrace(name_of: Any, say: Any) -> None:
    """On older versions: trace a function until all of its lines have been seen."""
    followers: dict[Any, Any] = {}  # by code object; None: not the project's, or all lines seen

    def on_call(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        try:
            return followers[code]
        except KeyError:
            name = name_of(code.co_filename)
            followers[code] = follow_code(code, name, list_lines(code)) if name else None
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


def list_lines(code: Any) -> set[int]:
    """Return the lines of a code object that can run."""
    if hasattr(code, "co_lines"):
        return {line for _, _, line in code.co_lines() if line is not None}
    import dis

    return {line for _, line in dis.findlinestarts(code)}


def trace_children(place: str) -> None:
    """Put the tracer on the PYTHONPATH of every program that this process starts, whatever its environment."""
    import _posixsubprocess

    variable = b"PYTHONPATH"

    def reach(before: bytes) -> bytes:
        entries = [os.fsencode(place), *(before.split(b":") if before else [])]
        return b":".join(dict.fromkeys(entries))

    def with_us(env: Any) -> Any:
        """Return an environment, given as a dict or as rows NAME=VALUE, with the tracer's directory added."""
        if isinstance(env, list):
            rows = dict(row.partition(b"=")[::2] for row in env)
            rows[variable] = reach(rows.get(variable, b""))
            return [name + b"=" + value for name, value in rows.items()]
        table = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        table[variable] = reach(table.get(variable, b""))
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
    if hasattr(sys.modules.get("subprocess"), "_fork_exec"):  # Python 3.12 has already imported the function
        wrap(sys.modules["subprocess"], "_fork_exec", 5)
    for name in ("posix_spawn", "posix_spawnp", "execve"):
        wrap(os, name, 2)


def count_programs(place: str) -> None:
    """Write a byte for each program that this process or its forks start."""
    path = os.path.join(place, "programs")

    def hook(
        event: str,
        arguments: Any,
        _events: Any = _PROGRAM_EVENTS,
        _open: Any = os.open,
        _write: Any = os.write,
        _close: Any = os.close,
    ) -> None:
        if event in _events:
            try:
                fd = _open(path, _REPORT_FLAGS, 0o666)
                _write(fd, b".")
                _close(fd)
            except OSError:
                pass

    sys.addaudithook(hook)


def read_program_count(place: str) -> int:
    """Return how many programs were started."""
    try:
        return os.path.getsize(os.path.join(place, "programs"))
    except OSError:
        return 0


def run_original_sitecustomize(place: str) -> None:
    """Load the program's own `sitecustomize`, in whose place this file was loaded."""
    sys.path[:] = [entry for entry in sys.path if entry != place]
    this_module = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = this_module


def pytest_sessionfinish() -> None:
    """As a plugin of the observer: report the lines before the observer reports the end."""
    if not _observer.FACTS.get("is_suite"):
        lines = read_lines(os.path.join(PLACE, "lines"))
        files = {name: sorted(numbers) for name, numbers in sorted(lines.items())}
        _observer.write_row("lines", files=files, programs=read_program_count(PLACE))


_observer: Any = globals().get("observer")  # set by the observer, if this runs in its process
if _observer is not None:
    PLACE = _observer.FACTS["report"] + TRACE_SUFFIX
    install_tracer(globals()["text"], PLACE, _observer.WORK_DIR)
    if not _observer.FACTS.get("is_suite"):  # suite_lines.py traces the process of a suite
        trace_process(_observer.WORK_DIR, find_report(PLACE))
        count_programs(PLACE)

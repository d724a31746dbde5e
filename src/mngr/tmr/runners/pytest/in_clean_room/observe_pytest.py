"""Observes the project's own pytest: what it collects, how each test ends and why, and where the code came from.

A plugin in one file, `mngr_observer` in a clean room: standard library and pytest only, Python 3.9 or newer. It writes
rows as things happen, so that a killed pytest leaves what it had. It removes its traces from the environment, so that
a pytest or a program that a test starts sees nothing of it.
"""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import Any

import pytest

_MAX_TRANSCRIPT = 32_000


def _read_facts() -> dict[str, Any]:
    """Return the observer's settings, and remove them from the environment of other processes."""
    facts = json.loads(os.environ.pop("MNGR_OBSERVER"))
    facts["report"] = os.environ.pop("MNGR_OBSERVER_REPORT")
    facts["work"] = os.path.realpath(os.environ.pop("MNGR_OBSERVER_WORK"))
    os.environ["PYTHONPATH"] = os.environ.pop("MNGR_OBSERVER_PATH")
    if not os.environ["PYTHONPATH"]:
        del os.environ["PYTHONPATH"]
    observer_dir = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != observer_dir]
    return dict(facts)


FACTS = _read_facts()
WORK_DIR: str = FACTS["work"]
_MAX_FRAMES = 40
_SHARE = 4 if FACTS.get("is_suite") else 1  # the tests of a suite share the report's size
_MAX_TEXT = 8_000 // _SHARE  # characters of an explanation
_MAX_SECTION = 4_000 // _SHARE  # characters of a test's output
_REPORT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


# Bound as defaults, because a test may replace `os` with a fake file system.
def write_row(row: str, *, _open: Any = os.open, _write: Any = os.write, _close: Any = os.close, **more: Any) -> None:
    data = (json.dumps({"row": row, **more}) + "\n").encode()
    if FACTS.get("fd") is not None:  # in a trial: the pipe to the driver
        while data:
            data = data[_write(FACTS["fd"], data) :]
        return
    fd = _open(FACTS["report"], _REPORT_FLAGS, 0o600)
    _write(fd, data)
    _close(fd)


# mngr's other plugins come as texts, and are loaded before any code of the project.


def _load_plugins() -> dict[str, ModuleType]:
    plugins: dict[str, ModuleType] = {}
    for name, text in (FACTS.pop("plugins", None) or {}).items():
        plugins[name] = module = ModuleType(name)
        module.__dict__.update(observer=sys.modules[__name__], text=text, plugins=plugins)
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return plugins


def pytest_configure(config: Any) -> None:
    for name, module in PLUGINS.items():
        config.pluginmanager.register(module, name)


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> Any:
    # Before Python 3.12 only one tracer can run, and pytest-cov is another. One test has too little coverage to pass.
    if "tracer" in PLUGINS or not FACTS.get("is_suite"):
        early_config.known_args_namespace.no_cov = True
    if "outcome_path" in PLUGINS:
        PLUGINS["outcome_path"].remember_functions()
    yield


# Control what runs, and report how it ends.


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: Any) -> Any:
    option = config.option
    # One test needs no workers, and a failure counts even if a second attempt passes.
    for name, value in (("numprocesses", 0), ("dist", "no"), ("tx", []), ("reruns", 0)):
        if hasattr(option, name):
            setattr(option, name, value)
    if FACTS.get("seed") is not None and hasattr(option, "randomly_seed"):
        option.randomly_seed = FACTS["seed"]
    yield


_PATHS: dict[str, str] = {}


def get_path(item: Any) -> str:
    """Return the item's file relative to the work dir, wherever pytest's root directory is."""
    path = str(getattr(item, "path", None) or item.fspath)
    if path not in _PATHS:
        full = os.path.realpath(path)
        _PATHS[path] = os.path.relpath(full, WORK_DIR) if _is_in_work_dir(full) else full
    return _PATHS[path]


def get_node_id(item: Any) -> str:
    """Return the node id for a command line in the work dir."""
    _, separator, rest = item.nodeid.partition("::")
    return f"{get_path(item)}{separator}{rest}"


def get_test_id(item: Any) -> str:
    """Return the node id without parameters."""
    node_id, callspec = get_node_id(item), getattr(item, "callspec", None)
    suffix = "" if callspec is None else f"[{callspec.id}]"
    return node_id[: -len(suffix)] if suffix and node_id.endswith(suffix) else node_id


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any) -> None:
    write_row("begin", id=get_node_id(item))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    outcome = yield
    report = outcome.get_result()
    node_id, test_id = get_node_id(item), get_test_id(item)
    row: dict[str, object] = {
        "id": node_id,
        **({} if test_id == node_id else {"test": test_id}),
        "when": report.when,
        "outcome": "failed" if report.passed and call.excinfo else report.outcome,  # regardless of other hooks
        "seconds": report.duration,
    }
    if report.skipped:
        row["why"] = _get_skip_reason(report)
    if row["outcome"] == "failed":
        row["failure"] = {
            **_describe_failure(call.excinfo),
            "text": _tail(_get_text_or_placeholder(lambda: report.longreprtext), _MAX_TEXT),
            "sections": {name: _tail(text, _MAX_SECTION) for name, text in report.sections},
        }
    write_row("phase", **row)


def _get_skip_reason(report: Any) -> str:
    xfail_reason = getattr(report, "wasxfail", None)
    if xfail_reason is not None:
        return f"xfail: {xfail_reason}" if xfail_reason else "xfail"
    longrepr = report.longrepr
    return _get_text_or_placeholder(lambda: str(longrepr[2] if isinstance(longrepr, tuple) else longrepr))[:500]


def pytest_exception_interact(node: Any, call: Any, report: Any) -> None:
    """Report a file that could not be collected."""
    if report.when == "collect":
        text = _tail(_get_text_or_placeholder(lambda: report.longreprtext), _MAX_TEXT)
        write_row(
            "uncollected",
            id=report.nodeid,
            failure={**_describe_failure(call.excinfo), "text": text, "sections": {}},
        )


def pytest_keyboard_interrupt(excinfo: Any) -> None:
    if excinfo.typename == "Interrupted":
        return  # collection errors, which are already reported
    write_row("interrupted", failure={**_describe_failure(excinfo), "text": "", "sections": {}})


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    text = _tail(_get_text_or_placeholder(lambda: str(excrepr)), _MAX_TEXT)
    write_row("internal", failure={**_describe_failure(excinfo), "text": text, "sections": {}})


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    write_row(
        "end",
        exit=int(exitstatus),
        e2e=_list_transcripts(session.config),
        **_describe_session(session.config),
    )


def _describe_failure(excinfo: Any) -> dict[str, object]:
    """Return an exception as data. A wrapped exception, or one that was raised from another, names that too."""
    if excinfo is None:  # a strict xfail that passed
        return {"exception": "", "cause": "", "message": "", "frames": []}
    error = excinfo.value
    if type(error).__name__ == "CollectError" and error.__cause__ is not None:
        error = error.__cause__
    root, visited = error, {id(error)}
    while (inner := root.__cause__ or (None if root.__suppress_context__ else root.__context__)) is not None:
        if id(inner) in visited:
            break
        visited.add(id(inner))
        root = inner
    return {
        "exception": _format_type(error),
        "cause": "" if root is error else _format_type(root),
        "message": _get_text_or_placeholder(lambda: str(error))[:_MAX_TEXT],
        "frames": _list_frames(error.__traceback__),
    }


def _format_type(error: BaseException) -> str:
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name[len("builtins.") :] if name.startswith("builtins.") else name


def _list_frames(trace: Any) -> list[dict[str, object]]:
    """Return the frames, outermost first, without pytest's own and those hidden from tracebacks."""
    frames: list[dict[str, object]] = []
    while trace is not None:
        frame, line, trace = trace.tb_frame, trace.tb_lineno, trace.tb_next
        code = frame.f_code
        if frame.f_locals.get("__tracebackhide__") or "/_pytest/" in code.co_filename or "/pluggy/" in code.co_filename:
            continue
        real_path = os.path.realpath(code.co_filename)
        is_project = belongs_to_project(real_path)
        path = os.path.relpath(real_path, WORK_DIR) if is_project else code.co_filename
        frames.append({"path": path, "line": line, "function": code.co_name, "project": is_project})
    return frames if len(frames) <= _MAX_FRAMES else frames[:5] + frames[5 - _MAX_FRAMES :]


def belongs_to_project(path: str) -> bool:
    """True when a file is in the work dir and not installed there."""
    return _is_in_work_dir(path) and not _is_installed(path)


def _is_installed(path: str) -> bool:
    return not {"site-packages", "dist-packages", ".tox", ".nox"}.isdisjoint(path.split(os.sep))


def _is_in_work_dir(path: str) -> bool:
    return path.startswith(WORK_DIR + os.sep)


def _get_text_or_placeholder(ask: Any) -> str:
    """Return a text that the project's code produces, or a placeholder when that code fails."""
    try:
        return str(ask())
    except Exception as error:
        return f"<{type(error).__name__} while mngr read this text>"


def _tail(text: str, most: int) -> str:
    return text if len(text) <= most else f"[{len(text) - most} characters omitted]\n{text[-most:]}"


# Find where the code came from.


def _describe_session(config: Any) -> dict[str, object]:
    answer: dict[str, object] = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "pytest": pytest.__version__,
        "platform": sys.platform,
        "imported": {name: path for name in _list_importable() if (path := _find_imported_file(name))},
        "checkout_modules": _list_checkout_modules(),
    }
    if FACTS.get("resolve"):
        answer["resolved"] = {
            "packages": _locate_packages(),
            "scripts": _locate_scripts(config),
            "executable": sys.executable,
        }
        answer["packages"] = _hash_installed()
    return answer


def _hash_installed() -> str:
    """Return a hash of the installed packages and their versions."""
    import hashlib
    from importlib import metadata

    names = sorted(f"{dist.metadata['Name']}=={dist.version}" for dist in metadata.distributions())
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:24]


def _list_importable() -> list[str]:
    """Return the names that can be imported from the project's directories, except tests."""
    names: dict[str, None] = {}
    for directory in (WORK_DIR, os.path.join(WORK_DIR, "src"), os.path.join(WORK_DIR, "lib")):
        try:
            entries = sorted(os.listdir(directory))
        except OSError:
            continue
        for entry in entries:
            full = os.path.join(directory, entry)
            if os.path.isfile(os.path.join(full, "__init__.py")) and entry.isidentifier():
                names[entry] = None
            elif entry.endswith(".py") and entry[:-3].isidentifier() and os.path.isfile(full):
                names[entry[:-3]] = None
    excluded = ("tests", "test", "testing", "conftest", "setup", "docs", "examples", "scripts")
    stdlib_names = getattr(sys, "stdlib_module_names", sys.builtin_module_names)
    return [name for name in names if name not in (*excluded, *stdlib_names) and not name.startswith("test_")]


def _list_checkout_modules() -> list[str]:
    """Return the files that were imported from the checkout of which the work dir is a copy."""
    repo = FACTS.get("repo")
    if not repo:
        return []
    prefixes = tuple({repo + os.sep, os.path.realpath(repo) + os.sep})
    files = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
    return sorted(
        file
        for file in files
        if file.startswith(prefixes) and not _is_in_work_dir(os.path.realpath(file)) and not _is_installed(file)
    )[:20]


def _find_imported_file(name: str) -> str:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if not file:
        file = next(iter(getattr(module, "__path__", ())), "")
    return os.path.realpath(file) if file else ""


def _locate_packages() -> dict[str, str]:
    """Return the file of each importable name of the project, without names that cannot be found."""
    return {name: path for name in _list_importable() if (path := _find_imported_file(name) or _find_import_path(name))}


def _find_import_path(name: str) -> str:
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None:
        return ""
    origin = spec.origin if spec.has_location else next(iter(spec.submodule_search_locations or ()), None)
    return os.path.realpath(origin) if origin else ""


def _locate_scripts(config: Any) -> dict[str, dict[str, str]]:
    """Return the project's programs, each with its path and the file of its code."""
    import shutil

    programs = _list_entry_points()
    if FACTS.get("program"):
        programs.setdefault(FACTS["program"], "")
    path = os.environ.get("PATH", os.defpath)
    python_dir = os.path.dirname(sys.executable)
    if _find_e2e_plugin(config) is not None and python_dir not in path.split(os.pathsep):
        path = python_dir + os.pathsep + path  # as sessions of mngr.e2e have it
    scripts: dict[str, dict[str, str]] = {}
    for name, module in programs.items():
        script = shutil.which(name, path=path) or ""
        scripts[name] = {
            "path": script,
            "module": module,
            "code": _find_script_code(script, module) if script and module else "",
        }
    return scripts


def _list_entry_points() -> dict[str, str]:
    """Return the top-level module of each installed program of the project."""
    from importlib import metadata

    modules: dict[str, str] = {}
    importable = set(_list_importable())
    for dist in metadata.distributions():
        for entry in dist.entry_points:
            if entry.group == "console_scripts":
                module = entry.value.partition(":")[0].partition(".")[0].strip()
                if module in importable:
                    modules[entry.name] = module
    return modules


def _find_script_code(script: str, module: str) -> str:
    """Return the file of the module that a script runs, found by the interpreter of its first line."""
    import subprocess

    try:
        with open(script, "rb") as file:
            first = file.readline(4096)
            second = file.readline(4096)
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    python = first[2:].decode("utf-8", "replace").split()[:1]
    if python == ["/bin/sh"] and second.startswith(b"'''exec'"):  # the interpreter's path is too long for a first line
        python = [second.decode("utf-8", "replace").split(" ")[1].strip("'\"")]
    if not python or "python" not in os.path.basename(python[0]):
        return ""
    if os.path.abspath(python[0]) == os.path.abspath(sys.executable):
        return _find_imported_file(module) or _find_import_path(module)
    code = f"import importlib.util as u, os; s = u.find_spec({module!r}); print(os.path.realpath(s.origin) if s and s.origin else '')"
    try:
        result = subprocess.run([*python, "-I", "-c", code], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()


# Read what sessions of mngr.e2e recorded.


def _find_e2e_plugin(config: Any) -> Any:
    """Return the plugin of mngr.e2e, or None when the project does not use it."""
    manager = config.pluginmanager
    return manager.getplugin("mngr-e2e") or manager.getplugin("mngr.e2e.plugin")


def _list_transcripts(config: Any) -> list[dict[str, str]]:
    plugin = _find_e2e_plugin(config)
    if plugin is None:
        return []
    try:
        run_dir = str(plugin.get_run_dir(config))
        names = sorted(os.listdir(run_dir))
    except Exception:
        return []
    transcripts: list[dict[str, str]] = []
    for name in names:
        session_dir = os.path.join(run_dir, name)
        try:
            with open(os.path.join(session_dir, "transcript.txt"), encoding="utf-8", errors="replace") as file:
                text = file.read()
            with open(os.path.join(session_dir, "meta.json"), encoding="utf-8") as file:
                test = str(json.load(file)["test"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        transcripts.append(
            {
                "test": test,
                "path": os.path.relpath(os.path.realpath(session_dir), WORK_DIR),
                "text": _tail(text, _MAX_TRANSCRIPT),
            }
        )
    return transcripts


PLUGINS = _load_plugins()

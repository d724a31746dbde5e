"""Our eyes in the project's own pytest: what it collects, how each test ends and why, and where the code came from.

A plugin in one file, `mngr_probe` in a room: standard library and pytest only, Python 3.9 or newer. Its rows are written as
things happen, so that a pytest that is killed leaves what it had. It takes its traces out of the environment: a
pytest or a program that a test starts sees nothing of it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

_MAX_FRAMES = 40
_MAX_TEXT = 8_000  # characters of an explanation
_MAX_SECTION = 4_000  # of what a test printed
_MAX_TRANSCRIPT = 32_000


def _read_facts() -> dict[str, Any]:
    """What we were told, which no other process is told."""
    facts: dict[str, Any] = json.loads(os.environ.pop("MNGR_PROBE"))
    facts["report"] = os.environ.pop("MNGR_PROBE_REPORT")
    facts["work"] = os.path.realpath(os.environ.pop("MNGR_PROBE_WORK"))
    os.environ["PYTHONPATH"] = os.environ.pop("MNGR_PROBE_PATH")
    if not os.environ["PYTHONPATH"]:
        del os.environ["PYTHONPATH"]
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    return facts


FACTS = _read_facts()
WORK_DIR: str = FACTS["work"]
_REPORT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


# As defaults, so that a test that puts a false file system in the place of `os` does not reach them.
def _write_row(row: str, *, _open: Any = os.open, _write: Any = os.write, _close: Any = os.close, **more: Any) -> None:
    fd = _open(FACTS["report"], _REPORT_FLAGS, 0o600)
    _write(fd, (json.dumps({"row": row, **more}) + "\n").encode())
    _close(fd)


# Other plugins of ours, as texts: they are loaded before anything of the project.


def _load_plugins() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in (FACTS.pop("plugins", None) or {}).items():
        found[name] = module = type(sys)(name)
        module.__dict__.update(probe=sys.modules[__name__], text=text)
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return found


def pytest_configure(config: Any) -> None:
    for name, module in PLUGINS.items():
        config.pluginmanager.register(module, name)


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> Any:
    if "tracer" in PLUGINS:  # before Python 3.12 there can be only one, and pytest-cov is the other
        early_config.known_args_namespace.no_cov = True
    yield


# What is run, and how.


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: Any) -> Any:
    option = config.option
    # One test needs no workers; and a failure is one, even if a second attempt passes.
    for name, value in (("numprocesses", 0), ("dist", "no"), ("tx", []), ("reruns", 0)):
        if hasattr(option, name):
            setattr(option, name, value)
    if FACTS.get("seed") is not None and hasattr(option, "randomly_seed"):
        option.randomly_seed = FACTS["seed"]
    if FACTS.get("only") == "resolve":
        _write_row("end", exit=0, **_describe_session(config))
        os._exit(0)
    yield


def pytest_collection_finish(session: Any) -> None:
    if not session.config.option.collectonly:
        return
    for item in session.items:
        function = getattr(item, "obj", None)
        _, line, _ = item.location
        _write_row(
            "test", id=_get_node_id(item), test=_get_test_id(item), path=_get_path(item), line=None if line is None else line + 1,
            name=getattr(item, "originalname", None) or item.name, doc=_get_docstring(function),
            markers=sorted({mark.name for mark in item.iter_markers()}),
        )  # fmt: skip


def _get_docstring(function: Any) -> str:
    import inspect

    text = getattr(function, "__doc__", None)
    return inspect.cleandoc(text) if isinstance(text, str) else ""


def _get_path(item: Any) -> str:
    """Its file, from the work dir: where pytest's own root is does not matter."""
    full = os.path.realpath(str(getattr(item, "path", None) or item.fspath))
    return os.path.relpath(full, WORK_DIR) if _is_in_work_dir(full) else full


def _get_node_id(item: Any) -> str:
    """As one names it on the command line, in the work dir."""
    _, mark, rest = item.nodeid.partition("::")
    return f"{_get_path(item)}{mark}{rest}"


def _get_test_id(item: Any) -> str:
    """The same without its parameters."""
    whole, spec = _get_node_id(item), getattr(item, "callspec", None)
    ending = "" if spec is None else f"[{spec.id}]"
    return whole[: -len(ending)] if ending and whole.endswith(ending) else whole


def pytest_runtest_logstart(nodeid: str) -> None:
    _write_row("begin", id=nodeid)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    outcome = yield
    report = outcome.get_result()
    row: dict[str, Any] = {
        "id": _get_node_id(item),
        "when": report.when,
        "outcome": "failed" if report.passed and call.excinfo else report.outcome,  # whatever another hook says
        "seconds": report.duration,
    }
    if report.skipped:
        row["why"] = _get_skip_reason(report)
    if row["outcome"] == "failed":
        row["failure"] = {
            **_describe_failure(call.excinfo),
            "text": _tail(_render_safely(lambda: report.longreprtext), _MAX_TEXT),
        }
        row["failure"]["sections"] = {name: _tail(text, _MAX_SECTION) for name, text in report.sections}
    _write_row("phase", **row)


def _get_skip_reason(report: Any) -> str:
    expected = getattr(report, "wasxfail", None)
    if expected is not None:
        return f"xfail: {expected}" if expected else "xfail"
    longrepr = report.longrepr
    return _render_safely(lambda: str(longrepr[2] if isinstance(longrepr, tuple) else longrepr))[:500]


def pytest_exception_interact(node: Any, call: Any, report: Any) -> None:
    """What could not be collected."""
    if report.when == "collect":
        text = _tail(_render_safely(lambda: report.longreprtext), _MAX_TEXT)
        _write_row(
            "uncollected",
            id=report.nodeid,
            failure={**_describe_failure(call.excinfo), "text": text, "sections": {}},
        )


def pytest_keyboard_interrupt(excinfo: Any) -> None:
    if excinfo.typename == "Interrupted":
        return  # only that what could not be collected was enough
    _write_row("interrupted", failure={**_describe_failure(excinfo), "text": "", "sections": {}})


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    text = _tail(_render_safely(lambda: str(excrepr)), _MAX_TEXT)
    _write_row("internal", failure={**_describe_failure(excinfo), "text": text, "sections": {}})


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    _write_row(
        "end",
        exit=int(exitstatus),
        e2e=_list_transcripts(session.config),
        **_describe_session(session.config),
    )


def _describe_failure(excinfo: Any) -> dict[str, Any]:
    """An exception as data. One that pytest wrapped while collecting, or that was raised from another, names that too."""
    if excinfo is None:  # a strict xfail that passed
        return {"exception": "", "cause": "", "message": "", "frames": []}
    error = excinfo.value
    if type(error).__name__ == "CollectError" and error.__cause__ is not None:
        error = error.__cause__
    root, seen = error, {id(error)}
    while (under := root.__cause__ or (None if root.__suppress_context__ else root.__context__)) is not None:
        if id(under) in seen:
            break
        seen.add(id(under))
        root = under
    return {
        "exception": _format_type(error), "cause": "" if root is error else _format_type(root),
        "message": _render_safely(lambda: str(error))[:_MAX_TEXT], "frames": _list_frames(error.__traceback__),
    }  # fmt: skip


def _format_type(error: BaseException) -> str:
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name[len("builtins.") :] if name.startswith("builtins.") else name


def _list_frames(trace: Any) -> list[dict[str, Any]]:
    """Outermost first; those that hide from tracebacks, and pytest's own, are left out."""
    found: list[dict[str, Any]] = []
    while trace is not None:
        frame, line, trace = trace.tb_frame, trace.tb_lineno, trace.tb_next
        code = frame.f_code
        if frame.f_locals.get("__tracebackhide__") or "/_pytest/" in code.co_filename or "/pluggy/" in code.co_filename:
            continue
        full = os.path.realpath(code.co_filename)
        ours = is_project_file(full)
        path = os.path.relpath(full, WORK_DIR) if ours else code.co_filename
        found.append({"path": path, "line": line, "function": code.co_name, "project": ours})
    return found if len(found) <= _MAX_FRAMES else found[:5] + found[5 - _MAX_FRAMES :]


def is_project_file(path: str) -> bool:
    """Whether a file is one of the project's own: in the work dir, and not installed there."""
    return _is_in_work_dir(path) and not _is_installed(path)


def _is_installed(path: str) -> bool:
    return not {"site-packages", "dist-packages", ".tox", ".nox"}.isdisjoint(path.split(os.sep))


def _is_in_work_dir(path: str) -> bool:
    return path.startswith(WORK_DIR + os.sep)


def _render_safely(ask: Any) -> str:
    """A text that the project's own code makes, which may itself fail."""
    try:
        return str(ask())
    except Exception as error:
        return f"<{type(error).__name__} while it was put into words>"


def _tail(text: str, most: int) -> str:
    return text if len(text) <= most else f"[{len(text) - most} characters left out]\n{text[-most:]}"


# Where the code came from.


def _describe_session(config: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "python": ".".join(map(str, sys.version_info[:3])), "pytest": pytest.__version__, "platform": sys.platform,
        "imported": {name: place for name in _list_importable() if (place := _find_imported_file(name))}, "strays": _list_checkout_modules(),
    }  # fmt: skip
    if FACTS.get("resolve"):
        answer["resolved"] = {
            "packages": _locate_packages(),
            "scripts": _locate_scripts(config),
            "executable": sys.executable,
        }
        answer["packages"] = _hash_installed()
    return answer


def _hash_installed() -> str:
    """A hash of what is installed here, with versions."""
    import hashlib
    from importlib import metadata

    names = sorted(f"{dist.metadata['Name']}=={dist.version}" for dist in metadata.distributions())
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:24]


def _list_importable() -> list[str]:
    """What can be imported from the project's own directories, tests aside."""
    found: dict[str, None] = {}
    for place in (WORK_DIR, os.path.join(WORK_DIR, "src"), os.path.join(WORK_DIR, "lib")):
        try:
            entries = sorted(os.listdir(place))
        except OSError:
            continue
        for entry in entries:
            full = os.path.join(place, entry)
            if os.path.isfile(os.path.join(full, "__init__.py")) and entry.isidentifier():
                found[entry] = None
            elif entry.endswith(".py") and entry[:-3].isidentifier() and os.path.isfile(full):
                found[entry[:-3]] = None
    aside = ("tests", "test", "testing", "conftest", "setup", "docs", "examples", "scripts")
    known = getattr(sys, "stdlib_module_names", sys.builtin_module_names)
    return [name for name in found if name not in (*aside, *known) and not name.startswith("test_")]


def _list_checkout_modules() -> list[str]:
    """What was imported from the checkout that the work dir is a copy of."""
    repo = FACTS.get("repo")
    if not repo:
        return []
    places = tuple({repo + os.sep, os.path.realpath(repo) + os.sep})
    files = [str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())]
    return sorted(
        f for f in files if f.startswith(places) and not _is_in_work_dir(os.path.realpath(f)) and not _is_installed(f)
    )[:20]


def _find_imported_file(name: str) -> str:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if not file:
        file = next(iter(getattr(module, "__path__", ())), "")
    return os.path.realpath(file) if file else ""


def _locate_packages() -> dict[str, str]:
    """Where an import of each of the project's own names leads; those that lead nowhere are left out."""
    return {
        name: place for name in _list_importable() if (place := _find_imported_file(name) or _find_import_path(name))
    }


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
    """The project's own programs: where a command finds each, and where its code would come from."""
    import shutil

    wanted = _list_entry_points()
    if FACTS.get("program"):
        wanted.setdefault(FACTS["program"], "")
    path = os.environ.get("PATH", os.defpath)
    own = os.path.dirname(sys.executable)
    if _find_e2e_plugin(config) is not None and own not in path.split(os.pathsep):
        path = own + os.pathsep + path  # as its sessions have it
    found: dict[str, dict[str, str]] = {}
    for name, module in wanted.items():
        at = shutil.which(name, path=path) or ""
        found[name] = {
            "path": at,
            "module": module,
            "code": _find_script_code(at, module) if at and module else "",
        }
    return found


def _list_entry_points() -> dict[str, str]:
    """Program to top-level module, of what is installed of the project."""
    from importlib import metadata

    found: dict[str, str] = {}
    own = set(_list_importable())
    for dist in metadata.distributions():
        for entry in dist.entry_points:
            if entry.group == "console_scripts":
                module = entry.value.partition(":")[0].partition(".")[0].strip()
                if module in own:
                    found[entry.name] = module
    return found


def _find_script_code(script: str, module: str) -> str:
    """Where the module comes from that a script runs, by the interpreter that its first line names."""
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
    if python == ["/bin/sh"] and second.startswith(
        b"'''exec'"
    ):  # an interpreter whose path is too long for a first line
        python = [second.decode("utf-8", "replace").split(" ")[1].strip("'\"")]
    if not python or "python" not in os.path.basename(python[0]):
        return ""
    if os.path.abspath(python[0]) == os.path.abspath(sys.executable):
        return _find_imported_file(module) or _find_import_path(module)
    ask = f"import importlib.util as u, os; s = u.find_spec({module!r}); print(os.path.realpath(s.origin) if s and s.origin else '')"
    try:
        done = subprocess.run([*python, "-I", "-c", ask], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


# What a session of mngr.e2e wrote down.


def _find_e2e_plugin(config: Any) -> Any:
    """The plugin of mngr.e2e, if the project has it."""
    manager = config.pluginmanager
    return manager.getplugin("mngr-e2e") or manager.getplugin("mngr.e2e.plugin")


def _list_transcripts(config: Any) -> list[dict[str, str]]:
    plugin = _find_e2e_plugin(config)
    if plugin is None:
        return []
    try:
        run = str(plugin.get_run_dir(config))
        names = sorted(os.listdir(run))
    except Exception:
        return []
    found: list[dict[str, str]] = []
    for name in names:
        full = os.path.join(run, name)
        try:
            with open(os.path.join(full, "transcript.txt"), encoding="utf-8", errors="replace") as file:
                text = file.read()
            with open(os.path.join(full, "meta.json"), encoding="utf-8") as file:
                test = str(json.load(file)["test"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append(
            {
                "test": test,
                "path": os.path.relpath(os.path.realpath(full), WORK_DIR),
                "text": _tail(text, _MAX_TRANSCRIPT),
            }
        )
    return found


PLUGINS = _load_plugins()

"""Knows which package brings an option, a setting or a module that tests use without declaring it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list
from mngr.setup.init.project_files import ProjectFiles

# The start of an option on pytest's command line, and the plugin that defines it.
_OPTION_PLUGINS = {
    "--cov": "pytest-cov", "--no-cov": "pytest-cov", "-n": "pytest-xdist", "--numprocesses": "pytest-xdist", "--dist": "pytest-xdist",
    "--maxprocesses": "pytest-xdist", "--forked": "pytest-forked", "--benchmark": "pytest-benchmark", "--timeout": "pytest-timeout",
    "--asyncio": "pytest-asyncio", "--reruns": "pytest-rerunfailures", "--randomly": "pytest-randomly",
    "--random-order": "pytest-random-order", "--mypy": "pytest-mypy", "--flake8": "pytest-flake8", "--pylint": "pytest-pylint",
    "--ruff": "pytest-ruff", "--black": "pytest-black", "--isort": "pytest-isort", "--doctest-plus": "pytest-doctestplus",
    "--mpl": "pytest-mpl", "--ds": "pytest-django", "--reuse-db": "pytest-django", "--no-migrations": "pytest-django",
    "--nomigrations": "pytest-django", "--html": "pytest-html", "--instafail": "pytest-instafail", "--snapshot": "syrupy",
    "--hypothesis": "hypothesis", "--disable-socket": "pytest-socket", "--allow-hosts": "pytest-socket", "--count": "pytest-repeat",
    "--codspeed": "pytest-codspeed", "--xdoctest": "xdoctest", "--force-regen": "pytest-regressions", "--typeguard": "typeguard",
    "--beartype": "pytest-beartype", "--testmon": "pytest-testmon", "--spec": "pytest-spec", "--icdiff": "pytest-icdiff",
    "--trio": "pytest-trio", "--markdown-docs": "pytest-markdown-docs", "--order": "pytest-order", "--mocha": "pytest-mocha",
}  # fmt: skip
_SETTING_PLUGINS = {
    "asyncio_mode": "pytest-asyncio", "asyncio_default_fixture_loop_scope": "pytest-asyncio", "timeout": "pytest-timeout",
    "DJANGO_SETTINGS_MODULE": "pytest-django", "django_find_project": "pytest-django", "env": "pytest-env", "trio_mode": "pytest-trio",
    "qt_api": "pytest-qt", "randomly_seed": "pytest-randomly", "mypy_plugins": "pytest-mypy",
}  # fmt: skip
_MARKER_PLUGINS = {
    "asyncio": "pytest-asyncio", "trio": "pytest-trio", "anyio": "anyio", "timeout": "pytest-timeout", "benchmark": "pytest-benchmark",
    "django_db": "pytest-django", "flaky": "flaky", "xdist_group": "pytest-xdist", "datafiles": "pytest-datafiles", "vcr": "pytest-recording",
    "httpbin": "pytest-httpbin", "subprocess": "pytest-subprocess", "freeze_time": "pytest-freezer", "order": "pytest-order",
}  # fmt: skip
# Test libraries: `init` adds the package when a test file imports the module at its top.
_TEST_MODULES = {
    "pytest": "pytest", "hypothesis": "hypothesis", "mock": "mock", "pytest_asyncio": "pytest-asyncio", "pytest_mock": "pytest-mock",
    "pytest_django": "pytest-django", "pytest_httpserver": "pytest-httpserver", "pytest_benchmark": "pytest-benchmark",
    "pytest_cov": "pytest-cov", "pytest_subtests": "pytest-subtests", "pytest_lazy_fixtures": "pytest-lazy-fixtures",
    "pytest_regressions": "pytest-regressions", "pytest_datadir": "pytest-datadir", "freezegun": "freezegun",
    "time_machine": "time-machine", "responses": "responses", "requests_mock": "requests-mock", "respx": "respx", "httpretty": "HTTPretty",
    "vcr": "vcrpy", "parameterized": "parameterized", "ddt": "ddt", "nose": "pynose", "nose2": "nose2", "testtools": "testtools", "testfixtures": "testfixtures",
    "testscenarios": "testscenarios", "pretend": "pretend", "sybil": "sybil", "syrupy": "syrupy", "dirty_equals": "dirty-equals",
    "inline_snapshot": "inline-snapshot", "trustme": "trustme", "faker": "Faker", "factory": "factory-boy", "pexpect": "pexpect",
    "flexmock": "flexmock", "assertpy": "assertpy", "hamcrest": "PyHamcrest", "sure": "sure", "expects": "expects", "moto": "moto",
    "aioresponses": "aioresponses", "asynctest": "asynctest", "pyfakefs": "pyfakefs",
}  # fmt: skip
# Other modules that tests often use: `init` adds the package only after an import of the module has failed.
_COMMON_MODULES = {
    "xdist": "pytest-xdist", "fixtures": "fixtures", "trio": "trio", "anyio": "anyio", "coverage": "coverage", "psutil": "psutil",
    "numpy": "numpy", "pandas": "pandas", "yaml": "PyYAML", "six": "six", "attr": "attrs", "attrs": "attrs", "tomli": "tomli",
    "dateutil": "python-dateutil", "pytz": "pytz", "requests": "requests", "httpx": "httpx", "setuptools": "setuptools",
    "pkg_resources": "setuptools<81", "jsonschema": "jsonschema", "werkzeug": "Werkzeug", "flask": "Flask", "docutils": "docutils",
    "jinja2": "Jinja2", "click": "click", "bs4": "beautifulsoup4", "lxml": "lxml", "packaging": "packaging", "toml": "toml",
    "typing_extensions": "typing-extensions", "virtualenv": "virtualenv", "build": "build", "wheel": "wheel", "covdefaults": "covdefaults",
    "mypy": "mypy", "simplejson": "simplejson", "orjson": "orjson", "pygments": "Pygments", "sphinx": "Sphinx", "rich": "rich",
}  # fmt: skip
_MODULE_PACKAGES = {**_COMMON_MODULES, **_TEST_MODULES}
_TOP_IMPORT = re.compile(r"^(?:import|from)\s+([A-Za-z_]\w*)", re.MULTILINE)


class NeededPackage(Struct):
    """A package that the tests need and the project does not declare."""

    package: str
    reason: str


def find_package(module: str, declared: Iterable[str]) -> str | None:
    """Return the requirement that brings a module: one that the project declares somewhere, or a common one."""
    wanted = module.replace("_", "-").lower()
    known = _MODULE_PACKAGES.get(module)
    names = {wanted, f"python-{wanted}", f"py{wanted}", *([known.lower()] if known else ())}
    for requirement in declared:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()
        if name in names:
            return requirement
    return known


def list_packages_for_tests(files: ProjectFiles, test_files: Iterable[str]) -> list[NeededPackage]:
    """Return the packages that pytest's settings and the imports of the test files need."""
    settings = read_pytest_settings(files)
    needs = [
        NeededPackage(package=package, reason=f"pytest's option {option}")
        for option, package in _list_option_plugins(settings.get("addopts"))
    ]
    needs += [
        NeededPackage(package=package, reason=f"pytest's setting {key}")
        for key, package in _SETTING_PLUGINS.items()
        if key in settings
    ]
    plugins = settings.get("required_plugins")
    for text in plugins.split() if isinstance(plugins, str) else as_list(plugins):
        needs.append(NeededPackage(package=str(text), reason="pytest's setting required_plugins"))
    for path in test_files:
        needs += [
            NeededPackage(package=_MODULE_PACKAGES[module], reason=f"{path} imports {module}")
            for module in _TOP_IMPORT.findall(files.replace(folder="").read_text(path))
            if module in _TEST_MODULES and not _is_local(files, module, path)
        ]
    return needs


def _is_local(files: ProjectFiles, module: str, path: str) -> bool:
    """True when a module lies in the project, beside the test file or at the top."""
    folders = (os.path.join(files.root, os.path.dirname(path)), os.path.join(files.root, files.folder), files.root)
    return any(
        os.path.exists(os.path.join(folder, name))
        for folder in folders
        for name in (f"{module}.py", module, f"src/{module}")
    )


def read_pytest_settings(files: ProjectFiles) -> dict[str, object]:
    """Return pytest's settings from the first file that has them, as pytest chooses it."""
    for name in ("pytest.ini", ".pytest.ini"):
        if name in files.names:
            return _read_section(files, name, "pytest")
    tables = (files.get_table("tool", "pytest", "ini_options"), files.get_table("tool", "pytest"))
    for table in tables:
        if table:
            return table
    return _read_section(files, "tox.ini", "pytest") or _read_section(files, "setup.cfg", "tool:pytest")


def _read_section(files: ProjectFiles, name: str, section: str) -> dict[str, object]:
    ini = files.read_ini(name)
    return dict(ini.items(section)) if ini.has_section(section) else {}


def _list_option_plugins(options: object) -> list[tuple[str, str]]:
    """Return the options that belong to a plugin, each with the plugin."""
    try:
        words = (
            shlex.split(options, comments=True)
            if isinstance(options, str)
            else [str(word) for word in as_list(options)]
        )
    except ValueError:
        words = str(options).split()
    found: list[tuple[str, str]] = []
    for word in words:
        option = word.partition("=")[0]
        start = "-n" if re.match(r"-n(\d|auto|logical|$)", option) else option
        package = next((package for key, package in _OPTION_PLUGINS.items() if _has_prefix(start, key)), None)
        if package is not None:
            found.append((option, package))
    return found


def _has_prefix(option: str, start: str) -> bool:
    return option == start or option.startswith(f"{start}-")


def list_missing_packages(output: str, declared: Iterable[str], files: ProjectFiles) -> list[NeededPackage]:
    """Return the packages whose absence the output of a failed collection shows."""
    declared = list(declared)
    missing: list[NeededPackage] = []
    for module in re.findall(r"No module named '?([A-Za-z_]\w*)", output):
        package = find_package(module, declared)
        if package is not None and not _is_local(files, module, ""):
            missing.append(NeededPackage(package=package, reason=f"the tests import {module}"))
    for words in re.findall(r"unrecognized arguments: (.*)", output):
        missing += [
            NeededPackage(package=package, reason=f"pytest's option {option}")
            for option, package in _list_option_plugins(words)
        ]
    for names in re.findall(r"Missing required plugins: (.*)", output):
        missing += [
            NeededPackage(package=name.strip(), reason="pytest's setting required_plugins") for name in names.split(",")
        ]
    for marker in re.findall(r"'(\w+)' not found in `markers`", output):
        if marker in _MARKER_PLUGINS:
            missing.append(NeededPackage(package=_MARKER_PLUGINS[marker], reason=f"the marker {marker}"))
    if "can not be found in the hookspec" in output:
        missing.append(NeededPackage(package="pytest<9", reason="the tests use a hook that newer versions do not have"))
    for key in re.findall(r"Unknown config option: (\w+)", output):
        if key in _SETTING_PLUGINS:
            missing.append(NeededPackage(package=_SETTING_PLUGINS[key], reason=f"pytest's setting {key}"))
    return list(dict.fromkeys(missing))

"""Finds the requirements that tox and nox install before they run the tests."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterable

from mngr.base.untrusted_json import as_list, as_object, get_object
from mngr.setup.init.find_test_requirements import (
    RequirementSource,
    is_requirement,
    make_extra_source,
    make_file_source,
    make_group_source,
)
from mngr.setup.init.project_files import ProjectFiles, parse_ini

_TOX_ENVIRONMENTS = ("testenv", "testenv:test", "testenv:tests", "testenv:py", "testenv:pytest")
_CONDITION = re.compile(r"[!\w.,{}-]+:\s+\S")  # a line of tox that counts only for some environments
_REFERENCE = re.compile(r"\{\[([^\]]+)\](\w+)\}")
_TEST_SESSION = re.compile(r"tests?(ing)?|unit\w*|pytest|tests?_\w+")


def list_task_runner_sources(files: ProjectFiles) -> list[RequirementSource]:
    """Return what tox and nox install for the tests."""
    words = [*_list_tox_words(files), *_list_nox_words(files)]
    sources = [_make_source(files, place, word) for place, word in words]
    return list(dict.fromkeys(source for source in sources if source is not None))


def _make_source(files: ProjectFiles, place: str, word: str) -> RequirementSource | None:
    """Return a requirement as tox and nox write it as a source, or None when pip could not install it here."""
    word = word.replace("{toxinidir}/", "").replace("{tox_root}/", "").replace("{toxinidir}", ".").strip()
    kind, _, value = word.partition(" ")
    if kind in ("-r", "--requirement"):
        return make_file_source(files, value.strip()) if files.read_text(value.strip()) else None
    if kind == "--group":
        return make_group_source(files, value.strip())
    extras = re.fullmatch(r"(?:-e\s*)?(?:\.|file://\S*?)/?\[([^\]]+)\]", word)
    if extras:
        return make_extra_source(files, extras[1].split(",")[0].strip())
    if is_requirement(word):
        return RequirementSource(name=place, args=(word,), requirements=(word,))
    return None


def _list_tox_words(files: ProjectFiles) -> list[tuple[str, str]]:
    """Return the requirements of tox's test environments, each with the file that names it."""
    words = [("tox.ini", word) for word in _read_tox_ini(files.read_ini("tox.ini"))]
    legacy = files.get_table("tool", "tox").get("legacy_tox_ini")
    if isinstance(legacy, str):
        words += [("[tool.tox] in pyproject.toml", word) for word in _read_tox_ini(parse_ini(legacy))]
    try:
        tox_toml = tomllib.loads(files.read_text("tox.toml"))
    except tomllib.TOMLDecodeError:
        tox_toml = {}
    tables = (("tox.toml", tox_toml), ("[tool.tox] in pyproject.toml", files.get_table("tool", "tox")))
    for place, table in tables:
        environments = get_object(table, "env")
        names = [name for name in environments if name in ("test", "tests", "py", "pytest")]
        for environment in (get_object(table, "env_run_base"), *(as_object(environments[name]) for name in names)):
            texts = [
                *as_list(environment.get("deps")),
                *_add_option_to_names("--group", environment, "dependency_groups"),
            ]
            texts += [f".[{extra}]" for extra in as_list(environment.get("extras"))]
            words += [(place, text) for text in texts if isinstance(text, str)]
    return words


def _add_option_to_names(option: str, table: dict[str, object], key: str) -> list[str]:
    return [f"{option} {name}" for name in as_list(table.get(key)) if isinstance(name, str)]


def _read_tox_ini(ini: configparser.RawConfigParser) -> list[str]:
    """Return the requirements that the test environments of a tox.ini install in any case."""
    words: list[str] = []
    for section in _TOX_ENVIRONMENTS:
        if not ini.has_section(section):
            continue
        words += _read_ini_list(ini, section, "deps")
        words += [f".[{extra}]" for extra in _read_ini_list(ini, section, "extras", separators=r"[\n,]")]
        words += [
            f"--group {group}" for group in _read_ini_list(ini, section, "dependency_groups", separators=r"[\n,]")
        ]
    return words


def _read_ini_list(ini: configparser.RawConfigParser, section: str, key: str, separators: str = r"\n") -> list[str]:
    """Return the items of a list in tox.ini, without comments and conditional items."""
    text = ini.get(section, key, fallback="") or ""
    text = _REFERENCE.sub(lambda match: ini.get(match[1], match[2], fallback="") or "", text)
    items = [re.sub(r"(^|\s)#.*", "", item).strip() for item in re.split(separators, text)]
    items = [re.sub(r"^-r\s*", "-r ", item) for item in items]
    return [item for item in items if item and not _CONDITION.match(item)]


def _list_nox_words(files: ProjectFiles) -> list[tuple[str, str]]:
    """Return the requirements that nox's test sessions install."""
    tree = files.read_python("noxfile.py")
    if tree is None:
        return []
    words: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _TEST_SESSION.fullmatch(node.name) and node.decorator_list:
            words += _list_installed_words(node)
    return [("noxfile.py", word) for word in words]


def _list_installed_words(session: ast.FunctionDef) -> list[str]:
    """Return the arguments of `session.install` and the dependency groups that a session names."""
    words: list[str] = []
    for node in ast.walk(session):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if node.func.attr == "dependency_groups":
            words += [f"--group {text}" for text in texts]
        elif node.func.attr == "install":
            words += list(_join_options(texts))
    return words


def _join_options(texts: Iterable[str]) -> Iterable[str]:
    """Yield the arguments of pip, each option together with its value."""
    option = ""
    for text in texts:
        if text in ("-r", "-e", "--group", "-c"):
            option = f"{text} "
        else:
            yield option + text
            option = ""

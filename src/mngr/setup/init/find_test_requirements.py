"""Finds the requirements of a project's tests: extras, dependency groups, groups of build tools, requirements files."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, get_object
from mngr.setup.init.project_files import ProjectFiles, list_names

TEST_NAMES = ("test", "tests", "testing", "unittest", "unit-tests", "pytest", "test-requires")
DEV_NAMES = ("dev", "develop", "development", "devel")
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(\[[^\]]*\])?\s*(\(?[<>=!~][^;#]*)?(;[^#]*)?")
_REQUIREMENTS_FOLDERS = ("", "requirements", "reqs", "tests", "test", "ci")
_MAX_INCLUDES = 5


class RequirementSource(Struct):
    """A place in the project that names requirements, and the words that make pip install them."""

    name: str  # for people
    args: tuple[str, ...] = ()  # for pip
    extra: str = ""  # an extra of the package
    requirements: tuple[str, ...] = ()  # the requirements, as far as they are known
    file: str = ""  # the requirements file


def normalize_name(requirement: str) -> str:
    """Return the normalized name of the package that a requirement asks for."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def is_requirement(text: str) -> bool:
    """True for a requirement that names a package of an index, in the form that pip reads."""
    return _REQUIREMENT.fullmatch(text.strip()) is not None


def list_named_sources(files: ProjectFiles, names: Iterable[str]) -> list[RequirementSource]:
    """Return the extras, groups and requirements files with one of these names."""
    wanted = frozenset(names)
    sources = [*_list_extras(files), *_list_groups(files), *_list_tool_groups(files)]
    named = [source for source in sources if _get_label(source) in wanted]
    return [*named, *_list_requirements_files(files, wanted)]


def find_plain_requirements(files: ProjectFiles) -> RequirementSource | None:
    """Return requirements.txt, or None."""
    return make_file_source(files, "requirements.txt") if "requirements.txt" in files.names else None


def list_runtime_requirements(files: ProjectFiles) -> list[str]:
    """Return the requirements of the package itself, as far as the files name them."""
    listed = [text for text in as_list(files.get_table("project").get("dependencies")) if isinstance(text, str)]
    poetry = _convert_poetry_table(files.get_table("tool", "poetry", "dependencies"))
    options = files.read_ini("setup.cfg")
    ini_lines = options.get("options", "install_requires", fallback="") or ""
    arguments = read_setup_arguments(files)
    return [*listed, *poetry, *_split_lines(ini_lines), *_list_texts(arguments.get("install_requires"))]


def make_file_source(files: ProjectFiles, name: str) -> RequirementSource:
    """Return a requirements file, given relative to the package's folder, as a source."""
    path = files.get_path(name)
    requirements = tuple(_read_requirements(files, name))
    return RequirementSource(name=path, args=("-r", path), requirements=requirements, file=path)


def make_group_source(files: ProjectFiles, group: str) -> RequirementSource | None:
    """Return a dependency group of pyproject.toml as a source, or None."""
    groups = files.get_table("dependency-groups")
    name = next((name for name in groups if normalize_name(name) == normalize_name(group)), None)
    if name is None:
        return None
    location = f"{files.get_path('pyproject.toml')}:{name}" if files.folder else name
    return RequirementSource(
        name=f"the dependency group {name}",
        args=("--group", location),
        requirements=tuple(_expand_group(groups, name, 0)),
    )


def make_extra_source(files: ProjectFiles, extra: str) -> RequirementSource:
    """Return an extra of the package as a source, with its requirements if the files name them."""
    known = next((source for source in _list_extras(files) if _get_label(source) == normalize_name(extra)), None)
    return known or RequirementSource(name=f"the extra {extra}", extra=extra)


def read_setup_arguments(files: ProjectFiles) -> dict[str, object]:
    """Return the arguments of `setup()` in setup.py that are plain values."""
    tree = files.read_python("setup.py")
    if tree is None:
        return {}
    constants: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = _evaluate_literal(node.value, constants)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "setup":
            return {
                keyword.arg: _evaluate_literal(keyword.value, constants) for keyword in call.keywords if keyword.arg
            }
    return {}


def _evaluate_literal(node: ast.expr, constants: Mapping[str, object]) -> object:
    """Return the value of a literal that may use constants, or None. Parts of a list or dict that are unknown are left out."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.List | ast.Tuple):
        values = [_evaluate_literal(item, constants) for item in node.elts]
        return [value for value in values if value is not None]
    if isinstance(node, ast.Dict):
        keys = [None if key is None else _evaluate_literal(key, constants) for key in node.keys]
        return {
            key: _evaluate_literal(value, constants)
            for key, value in zip(keys, node.values, strict=True)
            if isinstance(key, str)
        }
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = _evaluate_literal(node.left, constants)
        right = _evaluate_literal(node.right, constants)
        if isinstance(left, list) or isinstance(right, list):
            return [*as_list(left), *as_list(right)]
    return None


def _list_extras(files: ProjectFiles) -> list[RequirementSource]:
    """Return the extras of the package, from all places that can define them."""
    tables: list[Mapping[str, object]] = [
        files.get_table("project", "optional-dependencies"),
        files.get_table("tool", "flit", "metadata", "requires-extra"),
        files.get_table("tool", "poetry", "extras"),
        get_object(read_setup_arguments(files), "extras_require"),
        get_object(files.get_table("tool", "setuptools", "dynamic"), "optional-dependencies"),
    ]
    ini = files.read_ini("setup.cfg")
    if ini.has_section("options.extras_require"):
        tables.append({name: _split_lines(text or "") for name, text in ini.items("options.extras_require")})
    return [
        RequirementSource(name=f"the extra {name}", extra=name, requirements=tuple(_list_texts(value)))
        for table in tables
        for name, value in table.items()
    ]


def _list_groups(files: ProjectFiles) -> list[RequirementSource]:
    sources = [make_group_source(files, name) for name in files.get_table("dependency-groups")]
    return [source for source in sources if source is not None]


def _expand_group(groups: Mapping[str, object], name: str, depth: int) -> list[str]:
    """Return the requirements of a dependency group with those of the groups that it includes."""
    requirements: list[str] = []
    for item in as_list(groups.get(name)) if depth < _MAX_INCLUDES else ():
        if isinstance(item, str):
            requirements.append(item)
        elif isinstance(item, dict):
            requirements += _expand_group(groups, str(item.get("include-group")), depth + 1)
    return requirements


def _list_tool_groups(files: ProjectFiles) -> list[RequirementSource]:
    """Return the groups that poetry, pdm, hatch and uv define in their own tables."""
    poetry = files.get_table("tool", "poetry", "group")
    groups: dict[str, tuple[str, list[str]]] = {
        f"[tool.poetry.group.{name}]": (
            name,
            _convert_poetry_table(get_object(get_object(poetry, name), "dependencies")),
        )
        for name in poetry
    }
    old_poetry = files.get_table("tool", "poetry", "dev-dependencies")
    groups["[tool.poetry.dev-dependencies]"] = ("dev", _convert_poetry_table(old_poetry))
    for name, value in files.get_table("tool", "pdm", "dev-dependencies").items():
        groups[f"[tool.pdm.dev-dependencies] {name}"] = (name, _list_texts(value))
    for name in files.get_table("tool", "hatch", "envs"):
        table = files.get_table("tool", "hatch", "envs", name)
        label = {"default": "dev", "hatch-test": "test"}.get(name, name)
        texts = [*_list_texts(table.get("dependencies")), *_list_texts(table.get("extra-dependencies"))]
        groups[f"[tool.hatch.envs.{name}]"] = (label, texts)
    groups["[tool.uv] dev-dependencies"] = ("dev", _list_texts(files.get_table("tool", "uv").get("dev-dependencies")))
    arguments = read_setup_arguments(files)
    ini_lines = files.read_ini("setup.cfg").get("options", "tests_require", fallback="") or ""
    groups["tests_require"] = ("tests", [*_list_texts(arguments.get("tests_require")), *_split_lines(ini_lines)])
    sources: list[RequirementSource] = []
    for place, (label, texts) in groups.items():
        usable = tuple(text for text in texts if is_requirement(text))
        if usable:
            sources.append(RequirementSource(name=f"{place}#{label}", args=usable, requirements=usable))
    return sources


def _get_label(source: RequirementSource) -> str:
    """Return the name that the project gave to an extra or a group."""
    return normalize_name(source.extra or source.name.rpartition("#")[2].rpartition(" ")[2])


def _convert_poetry_table(table: Mapping[str, object]) -> list[str]:
    """Return a table of requirements in poetry's form as requirements that pip reads."""
    requirements: list[str] = []
    for name, value in table.items():
        details = value if isinstance(value, dict) else {"version": value}
        version = details.get("version")
        if name.lower() != "python" and isinstance(version, str):
            extras = _list_texts(details.get("extras"))
            suffix = f"[{','.join(extras)}]" if extras else ""
            requirements.append(f"{name}{suffix}{_convert_poetry_version(version)}")
    return requirements


def _convert_poetry_version(version: str) -> str:
    """Return poetry's version constraint in the form of pip: `^1.2` becomes `>=1.2`; its upper limit is left out."""
    parts = [part.strip().replace(" ", "") for part in version.split("||", maxsplit=1)[0].split(",")]
    converted = []
    for part in parts:
        if part in ("", "*"):
            continue
        if part[0] in "^~" and not part.startswith("~="):
            converted.append(f">={part.lstrip('^~=')}")
        else:
            converted.append(part if part[0] in "<>=!~" else f"=={part}")
    return ",".join(converted)


def _list_requirements_files(files: ProjectFiles, wanted: frozenset[str]) -> list[RequirementSource]:
    """Return the requirements files whose names contain one of the wanted words."""
    sources: list[RequirementSource] = []
    for folder in _REQUIREMENTS_FOLDERS:
        for name in (
            list_names(os.path.join(files.root, files.folder, folder)) if not folder or folder in files.names else ()
        ):
            stem, extension = os.path.splitext(name)
            words = set(re.split(r"[-_.]", stem.lower()))
            if extension != ".txt" or not (folder or {"requirements", "reqs", "requires"} & words):
                continue
            if folder in ("tests", "test"):
                words = {"test"} if words & {"requirements", "reqs"} else set()
            if words & wanted:
                sources.append(make_file_source(files, os.path.join(folder, name)))
    return sources


def _read_requirements(files: ProjectFiles, name: str, depth: int = 0) -> list[str]:
    """Return the requirements in a requirements file and in the files that it includes."""
    requirements: list[str] = []
    for line in _split_lines(files.read_text(name)):
        include = re.match(r"(?:-r|--requirement)[\s=]*(\S+)", line)
        if include and depth < _MAX_INCLUDES:
            included = os.path.join(os.path.dirname(name), include[1])
            requirements += _read_requirements(files, included, depth + 1)
        elif not line.startswith("-"):
            requirements.append(line)
    return requirements


def _split_lines(text: str) -> list[str]:
    """Return the lines of a list in an INI file or a requirements file, without comments."""
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def _list_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [item for item in as_list(value) if isinstance(item, str)]

"""Files and rows that a test writes itself, in whichever way, where the program should have written them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mngr.tmr.verify.legacy import escapes, values
from mngr.tmr.verify.legacy.checks import Check

_COPIES = frozenset(
    "shutil.copy shutil.copyfile shutil.copy2 shutil.move os.replace os.rename os.link os.symlink".split()
)
_DUMPS = frozenset("json.dump pickle.dump yaml.dump yaml.safe_dump toml.dump tomli_w.dump".split())
_READERS = re.compile(r"(?:^|[;&|]\s*)(?:cat|head|tail|grep|wc|sort|diff|cmp|test|ls|stat|file|md5sum|sha256sum)\s")
_INSERT = re.compile(r"\b(?:insert\s+(?:or\s+\w+\s+)?into|replace\s+into|update)\s+[\"'`]?(\w+)", re.I)
_SELECT = re.compile(r"\bselect\b.*?\bfrom\s+[\"'`]?(\w+)", re.I | re.S)
_INTO = re.compile(r">\s*['\"]?$|\btee\s+(?:-a\s+)?['\"]?$")
_SAYS = re.compile(r"(?:^|[;&|]\s*)(?:echo|printf|cat|tee)\b")
_EXISTS = frozenset(("exists", "is_file", "is_dir", "isfile", "isdir", "stat", "st_size", "lexists"))
Written = tuple[ast.expr, ast.expr | None, int]  # where, with what or None for a copy, in which line


def of_call(name: str, made: ast.Call) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The files that a call, with its names resolved, writes, and with what."""
    func, args = made.func, made.args
    if name in _COPIES and len(args) >= 2:
        yield args[1], None
    elif name.endswith(("Path.write_text", "Path.write_bytes")) and len(args) >= 2:
        yield args[0], args[1]
    elif name == "os.write" and len(args) == 2:
        yield from ((place, args[1]) for place in _opened(args[0]))
    elif name in _DUMPS and len(args) >= 2:
        yield from ((place, args[0]) for place in _opened(args[1]))
    elif name == "print":
        for keyword in made.keywords:
            if keyword.arg == "file":
                yield from ((place, ast.Tuple(elts=args, ctx=ast.Load())) for place in _opened(keyword.value))
    elif isinstance(func, ast.Attribute):
        yield from _of_method(func.value, func.attr, args)
    yield from _of_shell(args[0]) if args else ()


def _of_shell(line: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """A command that copies, or that prints into a file, where the file is an expression of the test."""
    match line:
        case ast.List(elts=[ast.Constant(value="cp" | "mv" | "ln" | "install"), _, *_, place]):
            yield place, None
        case ast.Call(func=ast.Name(id="text"), args=[ast.Constant(value=str(first)), *rest]):
            parts = [ast.Constant(value=first), *rest]
            plain = "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
            for at, part in enumerate(parts[:-1]):
                told = part.value if isinstance(part, ast.Constant) else ""
                if isinstance(told, str) and _INTO.search(told) and _SAYS.search(plain):
                    tail = parts[at + 2] if len(parts) > at + 2 else ast.Constant(value="")
                    more = str(tail.value).split(" ")[0] if isinstance(tail, ast.Constant) else ""
                    place = ast.BinOp(left=parts[at + 1], op=ast.Div(), right=ast.Constant(value=more))
                    yield place if more.strip("'\"\n ") else parts[at + 1], ast.Constant(value=plain)


def _of_method(base: ast.expr, attr: str, args: list[ast.expr]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if attr in {"write_text", "write_bytes"} and args:
        yield base, args[0]
    elif attr in {"write", "writelines", "writerow", "writerows"} and args:
        inner = (
            base.args[0] if isinstance(base, ast.Call) and "writer" in values.text(base.func) and base.args else base
        )
        yield from ((place, args[0]) for place in _opened(inner))
        if attr == "write" and len(args) == 2:  # a method of a session: where, and what
            yield args[0], args[1]
    elif attr == "touch":
        yield base, ast.Constant(value="")
    elif attr in {"rename", "replace", "copy", "hardlink_to"} and len(args) == 1:
        yield args[0], None
    elif attr == "symlink_to" and args:
        yield base, None
    elif attr in {"write_file", "create_file", "put_file"} and len(args) >= 2:
        yield args[0], args[1]


def _opened(node: ast.expr) -> Iterator[ast.expr]:
    """The file behind what `open` gave."""
    match node:
        case ast.Call(func=ast.Name(id="open" | "io.open" | "gzip.open" | "os.open"), args=[place, *_]):
            yield place
        case ast.Call(func=ast.Attribute(value=place, attr="open")):
            yield place


def base(name: object) -> str:
    """The last part of a path."""
    return str(name).strip("'\"").rstrip("/").rsplit("/", 1)[-1]


def file_name(place: ast.expr) -> str:
    """The name of a file, where it stands in the test."""
    found = steps(place)
    return found[-1] if found else ""


def steps(place: ast.AST) -> tuple[str, ...]:
    """The parts of a path that stand in the test, in order."""
    match place:
        case ast.Constant(value=str(found)):
            return tuple(part for part in found.strip("'\"").split("/") if part not in {"", "."})
        case ast.BinOp(op=ast.Div() | ast.Add(), left=left, right=right):
            return (*steps(left), *steps(right))
        case ast.Call(func=ast.Attribute(value=inner, attr="joinpath" | "join"), args=args):
            return (*steps(inner), *(part for arg in args for part in steps(arg)))
        case ast.Call(func=ast.Name(id="open"), args=[first, *_]):
            return steps(first)
        case ast.Call(func=ast.Name(), args=args):
            return tuple(part for arg in args for part in steps(arg))
    return ()


def _one_path(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether two paths may be the same, where one has more of its beginning than the other."""
    least = min(len(a), len(b))
    return least > 0 and a[-least:] == b[-least:]


def reads(check: Check, place: ast.expr) -> bool:
    """Whether a check looks into this file."""
    name, shown = file_name(place), values.text(place)
    if len(shown) > 3 and not isinstance(place, ast.Constant) and shown in _looked(check.node):
        return True
    if not name:
        return False
    if check.option == "tree" and isinstance(check.expected, ast.Dict):
        return any(base(values.value(key)) == name for key in check.expected.keys if key is not None)
    mine = steps(place)
    parts = list(open_parts(check.node))
    inner = {id(p) for part in parts if isinstance(part, ast.BinOp | ast.Call) for p in ast.iter_child_nodes(part)}
    for part in parts:
        whole = id(part) not in inner or not isinstance(part, ast.Constant | ast.BinOp)
        if whole and _one_path(mine, steps(part)):
            return True
        command = escapes.command_of(part) or ""
        if _READERS.search(command[:2000]) and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", command[:2000]):
            return True
    return False


def _looked(node: ast.expr) -> str:
    return "\n".join(values.text(part) for part in open_parts(node) if isinstance(part, ast.expr))


def open_parts(node: ast.AST) -> Iterator[ast.AST]:
    """All of an expression but what a command or the program is given."""
    todo = [node]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, ast.Call):
            todo.append(part.func)
            if not is_asking(part):
                todo += part.args
        else:
            todo.extend(ast.iter_child_nodes(part))


def is_asking(node: ast.Call) -> bool:
    """Whether a call hands its arguments to something that is not plain reading."""
    name = values.text(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
    last = name.rsplit(".", 1)[-1]
    plain = re.fullmatch(r"open|Path|PurePath|loads?|safe_load|reader|DictReader|join|connect|stat|isfile|exists", last)
    inner = last in {
        "each",
        "listof",
        "text",
        "list",
        "sorted",
        "len",
        "set",
        "dict",
        "tuple",
        "str",
        "bool",
        "next",
    }
    return not plain and not inner


def satisfied(check: Check, place: ast.expr, content: ast.expr | None, exact: bool) -> bool:
    """Whether what the test wrote is what the check expects, as far as words tell."""
    if content is None:
        return not exact
    wanted: list[object] = values.literals(check.expected)
    if check.option == "tree" and isinstance(check.expected, ast.Dict):
        pairs = zip(check.expected.keys, check.expected.values, strict=True)
        wanted = [i for k, v in pairs if k and base(values.value(k)) == file_name(place) for i in values.literals(v)]
    if exact:
        found = values.value(content)
        return check.kind == "eq" and isinstance(found, str) and found == check.value
    said = values.words(*wanted)
    return bool(said) and said <= values.words(*values.literals(content))


def is_there(check: Check) -> bool:
    """Whether a check says only that a file exists."""
    names = {p.attr for p in ast.walk(check.node) if isinstance(p, ast.Attribute)}
    names |= {p.id.rsplit(".", 1)[-1] for p in ast.walk(check.node) if isinstance(p, ast.Name)}
    return bool(names & _EXISTS)


def planted(
    before: list[Written], after: list[Written], old: list[Check], new: list[Check]
) -> Iterator[tuple[int, str]]:
    """Files that the old test had from the program, and that the new one writes as its checks want them."""
    for place, content, line in after:
        earlier = [c for p, c, _ in before if _same(p, place)]
        looks = [check for check in new if reads(check, place)]
        if not looks or not any(reads(check, place) for check in old):
            continue
        contents = [check for check in looks if not is_there(check)]
        hit = any(satisfied(check, place, content, bool(earlier)) for check in contents)
        if hit and earlier:
            hit = not any(satisfied(check, place, c, True) for check in [*contents, *old] for c in earlier)
        if hit or (looks and not contents and not earlier):
            yield (
                line,
                f"the test itself writes {file_name(place) or values.text(place)}, which the program should write",
            )


def _same(one: ast.expr, two: ast.expr) -> bool:
    return values.text(one) == values.text(two) or _one_path(steps(one), steps(two))


def rows(before: list[ast.Call], after: list[ast.Call], checks: list[Check]) -> Iterator[tuple[int, str, str]]:
    """Rows that the test puts into a table itself, and then finds there."""
    known = _inserted(before)
    for table, said in _inserted(after).items():
        for check in checks:
            asked = [str(item) for item in values.literals(check.node) if isinstance(item, str)]
            if not any(table == found[1].lower() for line in asked for found in _SELECT.finditer(line)):
                continue
            wanted = values.words(*values.literals(check.expected))
            if wanted and wanted <= said and not wanted <= known.get(table, set()):
                yield (
                    check.line,
                    f"the test itself puts into the table {table} what it then finds there",
                    check.code,
                )
                break


def _inserted(calls: list[ast.Call]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for call in calls:
        given = values.literals(call)
        for item in given:
            for insert in _INSERT.finditer(item[:4000]) if isinstance(item, str) else []:
                found.setdefault(insert[1].lower(), set()).update(values.words(*given))
    return found

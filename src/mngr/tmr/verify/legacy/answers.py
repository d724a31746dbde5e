"""Answers that a test gives itself: files that it writes, what it prints, and what the program is told to take as right."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from mngr.tmr.verify.legacy import escapes, values, variables, written
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.resolve import Escape

_PRINTS = frozenset(("print", "sys.stdout.write", "sys.stderr.write", "click.echo"))
_COMPARE = re.compile(r"(?:^|[;&|]\s*)(?:cmp|diff|sdiff|colordiff|git diff --no-index)\s([^;&|<>]*)")
_MADE = re.compile(r"(?<![0-9&>])>{1,2}\s*['\"]?([\w./~$-]+)")
_TEE = re.compile(r"\s*tee\s+(?:-a\s+)?([\w./~$-]+)")
_COPIED = re.compile(r"(?:^|[;&|]\s*)(?:cp|mv|ln)\s+(?:-\w+\s+)*(\S+)\s+(\S+)")
_ACCEPTS = re.compile(r"--(?:\w+-)*(?:update|accept|regenerate|regen|rebaseline|bless|approve)(?:-[\w-]+)?(?![\w-])")
_REWRITES = re.compile(
    r"--(?:write|fix|in-place|generate|overwrite|refresh|record|save|sync)(?![\w-])|\s-[uwi](?=\s|$)"
    r"|\s(?:update|accept|generate|regen|regenerate|approve|bless|fix|write|record|sync)(?=\s|$)"
)
_CHECKS = re.compile(r"--(?:check|verify|diff|dry-run|frozen|locked|exit-code)\b|\s(?:check|verify|diff|status)\b")
_TAKES = re.compile(r"(?:update|accept|regen|regenerate|bless|approve|force_regen)(?:_\w+)?")
_LONG = 2_000  # characters of a command line that are looked at
Found = tuple[int, str, str]  # line or 0, what, shown


class Side:
    """What one version of a test does, as far as it bears on its answers."""

    def __init__(self, actions: Sequence[ast.Call], checks: Sequence[Check], around: Sequence[Escape]) -> None:
        self.actions = actions
        self.checks = checks
        self.set = {e.what for e in around if e.rule in {"environment", "program-replaced"}}
        self.calls = values.calls(*actions, *(check.node for check in checks))
        whole = list(dict.fromkeys(c for part in self.calls if (c := escapes.command_of(part))))
        self.commands = list(dict.fromkeys(command[:_LONG] for command in whole))
        self.unread = [command for command in whole if len(command) > _LONG]
        self.unread += [values.text(part.args[0]) for part in self.calls if part.args and _is_many(part.args[0])]
        self.made = _made(self.commands)


def own(old: Side, new: Side, doc: str) -> Iterator[Found]:
    """What the new test does, and the old one did not, to make its own checks hold."""
    before = {values.text(action) for action in old.actions}
    fresh = [action for action in new.actions if values.text(action) not in before]
    yield from _planted(new, old)
    yield from written.rows(list(old.actions), fresh, list(new.checks))
    yield from _printed(fresh, new.checks)
    yield from _shown(old, new)
    yield from _given(old, new, doc)
    yield from _golden(old, new)
    yield from _accepted(old, new, doc)


def unread(old: Side, new: Side) -> list[str]:
    """Command lines that are new and longer than what is looked at, each by its beginning."""
    return [command[:100] for command in new.unread if command not in old.unread]


def _planted(new: Side, old: Side) -> Iterator[Found]:
    """A file that a shell line writes with words of its own, and that is looked at later."""
    known = {name for command in old.commands for name in escapes.written_by(command)}
    for action in new.calls:
        command = (escapes.command_of(action) or "")[:_LONG]
        if not command or command in old.commands:
            continue
        for name in [*escapes.written_by(command), *_brought(command, new.commands)]:
            place = ast.Constant(value=name)
            if name not in known and any(
                written.reads(check, place) and not _runs(check, action) for check in new.checks
            ):
                yield 0, f"the test writes {name} itself and then checks it", command
                return


def _brought(command: str, commands: list[str]) -> list[str]:
    """The files that a line copies from others which no program has to do with."""
    parts = [part.strip() for line in commands for part in re.split(r"&&|\|\||[;|\n]", line)]
    used = [p for p in parts if p and not escapes.is_inert(p) and _program(p) not in {"cp", "mv", "ln"}]
    pairs = [(_base(found[1]), _base(found[2])) for found in _COPIED.finditer(command)]
    return [target for source, target in pairs if not any(source in part for part in used)]


def _is_many(node: ast.expr) -> bool:
    """Whether a text is so many times another that nobody would put it together."""
    return not values.known(node) and any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Mult)
        and not values.known(part)
        and values.known(part.left)
        and values.known(part.right)
        for part in ast.walk(node)
    )


def _runs(check: Check, action: ast.Call) -> bool:
    """Whether a check is about this very call."""
    return values.text(action) in values.text(check.node)


def _printed(actions: list[ast.Call], checks: Sequence[Check]) -> Iterator[Found]:
    """Output that is the test's own."""
    for action in actions:
        said = "\n".join(str(values.value(arg)) for arg in action.args if values.known(arg)).strip()
        if values.text(action.func) not in _PRINTS or not said:
            continue
        for check in checks:
            wanted = check.value.strip() if isinstance(check.value, str) else ""
            if "readouterr" in check.subject and wanted and (wanted in said or said in wanted):
                yield check.line, "the test itself prints the expected text", said
                break


def _shown(old: Side, new: Side) -> Iterator[Found]:
    """A shell line that shows a file that the test wrote, and that no program has touched."""
    wrote = [c.func.value for c in new.calls if isinstance(c.func, ast.Attribute) and c.func.attr.startswith("write")]
    names = {_base(item) for place in wrote for item in values.literals(place) if isinstance(item, str)}
    parts = [part.strip() for command in new.commands for part in re.split(r"&&|\|\||[;|\n]", command)]
    for command in new.commands:
        last = re.split(r"&&|\|\||[;\n]", command)[-1].strip()
        if command in old.commands or _program(last) not in {
            "cat",
            "head",
            "tail",
            "sort",
            "tac",
            "less",
            "more",
        }:
            continue
        for name in names & {_base(word) for word in last.split("|")[0].split()[1:]}:
            if not any(
                name in part
                for part in parts
                if part and not escapes.is_inert(part) and _program(part) != _program(last)
            ):
                yield 0, f"the test writes {name} itself and then checks it", command


def _given(old: Side, new: Side, doc: str) -> Iterator[Found]:
    """A variable whose value is the very answer that the program had to find without it."""
    wanted = {said: check for check in new.checks if len(said := _said(check)) > 1}
    known = {_said(check) for check in old.checks}
    for shown in new.set - old.set:
        name, _, given = shown.partition("=")
        secret = name not in doc and not variables.is_common(name)
        if given.strip() in wanted and (given.strip() in known or secret):
            yield (
                wanted[given.strip()].line,
                "the test gives the answer to the program in an environment variable",
                shown,
            )


def _said(check: Check) -> str:
    """The text or number that a check expects."""
    value = check.value
    plain = isinstance(value, str | int | float | dict | list | tuple) and value not in (True, False)
    return str(value).strip() if plain else ""


def _made(commands: list[str]) -> set[str]:
    """The files that shell lines let a program write, and copies of them."""
    found: set[str] = set()
    for command in commands:
        for part in re.split(r"[;&|\n]", command):
            if not escapes.is_inert(part):
                found |= {_base(made[1]) for made in _MADE.finditer(part)}
            if tee := _TEE.match(part):
                found.add(_base(tee[1]))
        for copied in _COPIED.finditer(command):
            if _base(copied[1]) in found:
                found.add(_base(copied[2]))
    return found


def _base(name: str) -> str:
    return name.strip("'\"").rstrip("/").rsplit("/", 1)[-1]


def _golden(old: Side, new: Side) -> Iterator[Found]:
    """A file that is compared with what the program made, and that the program makes itself now."""
    fresh = new.made - old.made
    for command in new.commands:
        for compared in _COMPARE.finditer(command):
            names = [_base(word) for word in compared[1].split() if not word.startswith("-")]
            if len(names) >= 2 and set(names) <= new.made and set(names) & fresh:
                yield 0, "the program itself writes the file that its output is compared with", command
    files = {_base(str(item)) for check in old.checks for item in values.literals(check.expected)}
    for check in new.checks:
        if check.expected is None or values.known(check.expected):
            continue
        for name in {_base(str(item)) for item in values.literals(check.expected)} & fresh & files:
            yield check.line, f"the program itself writes {name}, which its output is compared with", check.code


def _accepted(old: Side, new: Side, doc: str) -> Iterator[Found]:
    """The program is told to take what it makes for right."""
    before = "\n".join(old.commands)
    checking = {_program(command) for command in new.commands if _CHECKS.search(command)}
    for command in new.commands:
        if command in old.commands:
            continue
        found = list(_ACCEPTS.finditer(command))
        found += list(_REWRITES.finditer(command)) if _program(command) in checking else []
        for flag in found:
            said = flag[0].strip().lstrip("-")
            if flag[0] not in before and said not in doc:
                yield 0, f"an option tells the program to accept its own output as correct: {flag[0].strip()}", command
                break
    known = {k.arg for call in old.calls for k in call.keywords}
    for call in new.calls:
        for keyword in call.keywords:
            told = keyword.arg and keyword.arg not in known and _TAKES.fullmatch(keyword.arg)
            if told and values.value(keyword.value) not in (False, None, 0) and str(keyword.arg) not in doc:
                yield (
                    0,
                    f"an argument tells the program to accept its own output as correct: {keyword.arg}",
                    values.text(call)[:200],
                )


def _program(command: str) -> str:
    rows = [word for word in command.split() if not re.match(r"\w+=", word)]
    return rows[0].rsplit("/", 1)[-1] if rows else ""

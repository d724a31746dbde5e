"""Makes a failing test pass where that is mechanical, and says why not where it is not. No expectation is ever loosened."""

from __future__ import annotations

import ast
import re

from mngr.e2e import lines
from mngr.kinds.mechanic.program import citing, edits, wording
from mngr.kinds.mechanic.program.desk import Desk, Trouble
from mngr.kinds.mechanic.program.trial import Case, Check, Run, Trial

EXIT = ("to_succeed", "to_fail", "to_have_exit_code")
_FRAME = re.compile(r'File "(.+?)", line (\d+)')
CRASH = "Traceback (most recent call last)"
_SHOWN = 1500  # characters of an output


def mend(desk: Desk, trial: Trial) -> str | Trouble:
    """Change the files so that the first failure goes away; what was done."""
    case = trial.first_bad
    if trial.outcome == "timeout":
        return Trouble("BLOCKER", "it does not end", f"```\n{trial.tail}\n```", _here(desk))
    if case is None or case.outcome == "error":
        said = case.message if case else trial.uncollected or trial.tail
        exception = f"{case.exception} " if case and case.exception else ""
        where = _project_frames(desk, case.frames) if case else []
        title = f"{exception}before or after the test itself"
        return Trouble("HARNESS_DEFECT", title, f"```\n{said[-_SHOWN:]}\n```", where or _here(desk))
    for number, run in enumerate(case.runs):
        pair = wording.renamed(run.command, run.err or run.out) if run.code else None
        if pair and not _may_fail(case, number):
            return _rename(desk, run, *pair)
    crash = next((run for run in case.runs if CRASH in run.err and run.code), None)
    if crash:
        return _crash(desk, crash)
    check = case.failed or _asserted(desk, case)
    if check is None:
        frames = _project_frames(desk, case.frames)
        title = f"{case.exception}: {case.message.strip().partition(chr(10))[0][:150]}"
        return Trouble("BLOCKER", title, f"```\n{case.message[-_SHOWN:]}\n```", frames or _here(desk))
    return _reword(desk, case, check)


def _may_fail(case: Case, number: int) -> bool:
    """Whether the test says that this command fails."""
    return any(
        check.run == number
        and (check.method == "to_fail" or (check.method == "to_have_exit_code" and check.args != [0]))
        for check in case.checks
    )


def _here(desk: Desk) -> list[tuple[str, int]]:
    function = desk.module().function(desk.test)
    return [(desk.path, function.lineno if function else 1)]


def _project_frames(desk: Desk, frames: list[list[object]]) -> list[tuple[str, int]]:
    """The places of the project on the way to a failure, the innermost first."""
    found = [(desk.relative(str(path)), int(str(line))) for path, line, _ in frames]
    return [(path, line) for path, line in reversed(found) if path]


def evidence(run: Run, *said: str) -> str:
    """A command and what it did, for a person."""
    shown = "\n".join([f"$ {run.command}", run.out.rstrip(), run.err.rstrip(), f"? {run.code}"])
    return "\n\n".join([*said, f"```\n{shown[-_SHOWN:]}\n```"])


def _crash(desk: Desk, run: Run) -> Trouble:
    """The program itself broke: no business of the test's."""
    places = [(desk.relative(path), int(line)) for path, line in _FRAME.findall(run.err)]
    own = [(path, line) for path, line in reversed(places) if path]
    last = run.err.strip().rpartition("\n")[2][:150]
    where = f" in {own[0][0]}:{own[0][1]}" if own else ""
    return Trouble("BLOCKER", f"the program ends with {last}{where}", evidence(run), own[:3] or _here(desk))


# An option that has another name now.


def _rename(desk: Desk, run: Run, old: str, new: str) -> str | Trouble:
    """Call it by the name that the program suggests: in the test, and in the block where that has the old name too."""
    module = desk.module()
    function = module.function(desk.test)
    nodes = [
        node
        for node in ast.walk(function or ast.Module(body=[], type_ignores=[]))
        if (text := edits.text_of(node)) and wording.rename_option(text, old, new) != text
    ]
    cited = edits.citations(function) if function else []
    typed = [node for node in nodes if _is_typed(function, node)]
    if not typed or not desk.is_test_file(run.path):
        detail = evidence(
            run, f"The program suggests `{new}`, but the test does not hold the command as a plain text."
        )
        return Trouble("BLOCKER", f"{old} is called {new} now", detail, _here(desk))
    blocks = [one.text for one in cited if wording.rename_option(one.text, old, new) != one.text]
    splices = [(*module.span(node), wording.rename_option(module.source(node), old, new)) for node in typed]
    desk.write(desk.path, module.splice(splices))
    for block in blocks:
        _rename_block(desk, block, old, new)
    return f"`{old}` is called `{new}` now, as the program says"


def _is_typed(function: ast.AST | None, node: ast.AST) -> bool:
    """Whether a text is a command that the test runs."""
    runs = (
        [call for name in ("run", "tty", "spawn") for call in edits.calls(function, name)] if function else []
    )
    return any(call.args and call.args[0] is node for call in runs)


def _rename_block(desk: Desk, block: str, old: str, new: str) -> None:
    """The block in the tutorial and every citation of it."""
    if desk.tutorial is None or not citing.holds(desk.read(desk.tutorial), block):
        return
    desk.write(desk.tutorial, citing.rename_in_block(desk.read(desk.tutorial), block, old, new))
    wanted = citing.normal(block)
    for path in citing.test_files(desk.work, desk.test):
        try:
            module = edits.Module(desk.read(path))
        except ValueError:
            continue
        same = [one for one in edits.citations(module.tree) if citing.normal(one.text) == wanted]
        if same:
            fresh = citing.rename_in_block(citing.flush(block), block, old, new)
            desk.write(path, module.splice([citing.rewrite(module, one, fresh) for one in same]))


# An expectation in other words.


def _reword(desk: Desk, case: Case, check: Check) -> str | Trouble:
    module = desk.module()
    function = module.function(desk.test)
    run = case.runs[check.run] if check.run is not None else None
    where = [(desk.relative(check.path) or desk.path, check.line)]
    if check.method in EXIT:
        assert run is not None
        said = case.message.strip().split("\n")[1:2] or [case.message]
        return Trouble("BLOCKER", f"`{run.command}`: {said[0]}", evidence(run), where)
    reason = _not_for_rewording(case, check, run)
    node, expected = (
        _expectation(function, check) if function and desk.is_test_file(check.path) else (None, "")
    )
    if not reason and node is None:
        reason = "what is expected is not a plain text in the test itself"
    if reason or run is None or node is None or function is None:
        detail = evidence(run, reason or "") if run else f"{reason}\n\n```\n{case.message[-_SHOWN:]}\n```"
        return Trouble("BLOCKER", f"{check.method}: {reason}", detail, where)
    found = _say_again(check, expected, _held(desk, function, case))
    if isinstance(found, wording.Doubt):
        return Trouble("AMBIGUOUS", found.why, evidence(run, f"{check.method}: {found.why}."), where)
    exact = check.method != "to_match_lines"
    fresh = edits.quoted(found) if exact else edits.literal(found, module.source(node), " " * 8)
    desk.write(desk.path, module.splice([(*module.span(node), fresh)]))
    return _change(lines.split(expected), lines.split(found))


def _change(old: list[str], new: list[str]) -> str:
    """What is said in other words."""
    lost, won = [row for row in old if row not in new], [row for row in new if row not in old]
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    return f"`{' '.join(lost[0].split())[:50]}` reads `{' '.join(won[0].split())[:50]}` now{more}"


def _not_for_rewording(case: Case, check: Check, run: Run | None) -> str:
    """Why this expectation may not be rewritten at all; nothing when it may."""
    if run is None:
        return "it is not about what a command printed"
    if check.method not in ("to_contain", "to_equal", "to_match_lines"):
        return "what fails is not a text that was expected"
    proven = any(one.run == check.run and one.method in EXIT and one.ok for one in case.checks)
    if run.code and not proven:
        return f"the command ends with {run.code}, and the test does not say that it should"
    return ""


def _expectation(function: ast.AST, check: Check) -> tuple[ast.Constant | None, str]:
    """The text in the source that does not fit."""
    missing = [arg for arg in check.args if check.method != "to_contain" or arg not in check.text][:1]
    places: list[tuple[ast.expr | ast.stmt, list[ast.expr]]] = [
        (call, call.args) for call in edits.calls(function, check.method)
    ]
    places += [(node, _compared(node)) for node in _asserts(function)]
    for place, texts in places:
        if place.lineno <= check.line <= (place.end_lineno or place.lineno):
            for text in texts:
                if isinstance(text, ast.Constant) and [text.value] == missing and isinstance(text.value, str):
                    return text, text.value
    return None, ""


def _compared(node: ast.Assert) -> list[ast.expr]:
    """The two sides of a comparison."""
    sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
    return sides if len(sides) == 2 else []


def _asserts(function: ast.AST) -> list[ast.Assert]:
    return [node for node in edits.statements(function) if isinstance(node, ast.Assert)]


def _asserted(desk: Desk, case: Case) -> Check | None:
    """A plain `assert "text" in result.stdout`, or one with ==, that ended the test, as the expectation that it is."""
    where = [int(line) for path, line, _ in case.frames[-1:] if desk.is_test_file(str(path))]
    function = desk.module().function(desk.test)
    if function is None or not where or case.exception != "AssertionError":
        return None
    for node in _asserts(function):
        if not (
            node.lineno <= where[0] <= (node.end_lineno or node.lineno) and isinstance(node.test, ast.Compare)
        ):
            continue
        texts = [text for text in map(edits.text_of, _compared(node)) if text is not None]
        method = {ast.In: "to_contain", ast.Eq: "to_equal"}.get(type(node.test.ops[0]))
        origin = _origin(desk, function, case, node)
        if method and origin and len(texts) == 1:
            number, stream = origin
            run = case.runs[number]
            shown = {"stdout": run.out, "stderr": run.err, "output": run.out + run.err}[stream]
            return Check(str(case.frames[-1][0]), node.lineno, method, texts, number, stream, shown, False)
    return None


def _origin(desk: Desk, function: ast.AST, case: Case, node: ast.Assert) -> tuple[int, str] | None:
    """Which command an assertion is about, and which stream: by the name that its result was given last."""
    for part in ast.walk(node.test):
        if not (isinstance(part, ast.Attribute) and part.attr in ("stdout", "stderr", "output")):
            continue
        given = [
            one
            for one in edits.statements(function)
            if isinstance(one, ast.Assign) and one.lineno < node.lineno and edits.called(one.value) == "run"
            and ast.dump(one.targets[0]) == ast.dump(part.value).replace("Load()", "Store()")
        ]  # fmt: skip
        for number, run in reversed(list(enumerate(case.runs))):
            if (
                given
                and desk.is_test_file(run.path)
                and given[-1].lineno <= run.line <= (given[-1].end_lineno or 0)
            ):
                return number, part.attr
    return None


def _held(desk: Desk, function: ast.AST, case: Case) -> wording.Held:
    assert isinstance(function, edits.Function)
    cited = [one.text for one in edits.citations(function)]
    about = [ast.get_docstring(function) or "", *cited]
    return wording.Held.of([run.command for run in case.runs], about, desk.sources.say)


def _say_again(check: Check, expected: str, held: wording.Held) -> str | wording.Doubt:
    if check.method == "to_contain":
        return wording.reworded(expected, check.text, held)
    rows = (
        lines.split(expected) if check.method == "to_match_lines" else expected.removesuffix("\n").split("\n")
    )
    if check.method == "to_equal":
        rows = [lines.escape_end(lines.escape(row)) for row in rows]
    outcome = lines.match(rows, lines.rows(check.text), {}, lines.PATTERNS)
    if outcome.fits:
        return wording.Doubt("only white space differs, or what a name stands for")
    made = wording.reworded_lines(rows, check.text, held, outcome)
    if isinstance(made, wording.Doubt):
        return made
    return check.text.removesuffix("\n") if check.method == "to_equal" else "\n".join(made)


# A citation of what is not in the tutorial.


def cite(desk: Desk) -> list[str | Trouble]:
    """Have citations say what the tutorial says, and commands with them; what was done, and what was not."""
    if desk.tutorial is None:
        return []
    script = desk.read(desk.tutorial)
    done: list[str | Trouble] = []
    for number in range(len(_cited(desk))):
        if not citing.holds(script, _cited(desk)[number].text):
            done.append(_cite(desk, script, number))
    return done


def _cited(desk: Desk) -> list[edits.Citation]:
    function = desk.module().function(desk.test)
    return edits.citations(function) if function else []


def _cite(desk: Desk, script: str, number: int) -> str | Trouble:
    module = desk.module()
    function = module.function(desk.test)
    assert function is not None
    one = edits.citations(function)[number]
    block = citing.nearest(script, one.text)
    where = [(desk.path, one.node.lineno)]
    cited = f"```\n{citing.flush(one.text)}\n```"
    if block is None:
        return Trouble(
            "AMBIGUOUS",
            "it cites a block that is not in the tutorial, and none is clearly the one",
            cited,
            where,
        )
    fresh = _follow(module, function, citing.commands(one.text), citing.commands(block))
    if fresh is None:
        detail = f"{cited}\n\nThe nearest block:\n\n```\n{block}\n```"
        return Trouble("AMBIGUOUS", "the block it cites has other commands now", detail, where)
    desk.write(desk.path, module.splice([citing.rewrite(module, one, block), *fresh]))
    return "it cites the block as the tutorial has it now"


def _follow(
    module: edits.Module, function: ast.AST, old: list[str], new: list[str]
) -> list[edits.Splice] | None:
    """The commands of the test as those of its block are now; None when it is not clear which is which."""
    if old == new:
        return []
    runs = [call.args[0] for call in edits.calls(function, "run") if call.args]
    texts = {run: text for run in runs if (text := edits.text_of(run)) is not None}
    if len(old) != len(new):
        return None
    fresh = dict(texts)
    for was, now in zip(old, new):  # noqa: B905
        found = [run for run, text in texts.items() if was in text]
        if was != now and len(found) != 1:
            return None
        if was != now:
            fresh[found[0]] = fresh[found[0]].replace(was, now)
    return [
        (*module.span(run), edits.retold(module.source(run), texts[run], fresh[run]))
        for run in texts
        if fresh[run] != texts[run]
    ]

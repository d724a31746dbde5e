"""Makes a failing test pass where that is mechanical, and says why not where it is not. No expectation is ever loosened."""

from __future__ import annotations

import ast
import re

from mngr.e2e import line_matching
from mngr.kinds.mechanic.program import rewording, source_edits, tutorial_citations
from mngr.kinds.mechanic.program.observed_runs import ObservedCase, ObservedCheck, ObservedCommand, ObservedTestRun
from mngr.kinds.mechanic.program.workspace_files import Escalation, WorkspaceFiles

EXIT_CHECKS = ("to_succeed", "to_fail", "to_have_exit_code")
_FRAME_PATTERN = re.compile(r'File "(.+?)", line (\d+)')
TRACEBACK_HEADER = "Traceback (most recent call last)"
_MAX_OUTPUT_LENGTH = 1500  # characters of an output


def fix_first_failure(desk: WorkspaceFiles, trial: ObservedTestRun) -> str | Escalation:
    """Change the files so that the first failure goes away; what was done."""
    case = trial.first_failed_case
    if trial.outcome == "timeout":
        return Escalation("BLOCKER", "it does not end", f"```\n{trial.tail}\n```", _list_test_location(desk))
    if case is None or case.outcome == "error":
        said = case.message if case else trial.uncollected or trial.tail
        exception = f"{case.exception} " if case and case.exception else ""
        where = _project_frames(desk, case.frames) if case else []
        title = f"{exception}before or after the test itself"
        return Escalation(
            "HARNESS_DEFECT",
            title,
            f"```\n{said[-_MAX_OUTPUT_LENGTH:]}\n```",
            where or _list_test_location(desk),
        )
    for number, run in enumerate(case.runs):
        pair = rewording.find_renamed_option(run.command, run.err or run.out) if run.code else None
        if pair and not _is_failure_expected(case, number):
            return _rename_option(desk, run, *pair)
    crash = next((run for run in case.runs if TRACEBACK_HEADER in run.err and run.code), None)
    if crash:
        return _escalate_crash(desk, crash)
    check = case.failed_check or _find_failed_assert(desk, case)
    if check is None:
        frames = _project_frames(desk, case.frames)
        title = f"{case.exception}: {case.message.strip().partition(chr(10))[0][:150]}"
        return Escalation(
            "BLOCKER",
            title,
            f"```\n{case.message[-_MAX_OUTPUT_LENGTH:]}\n```",
            frames or _list_test_location(desk),
        )
    return _reword_expectation(desk, case, check)


def _is_failure_expected(case: ObservedCase, number: int) -> bool:
    """Whether the test says that this command fails."""
    return any(
        check.run == number
        and (check.method == "to_fail" or (check.method == "to_have_exit_code" and check.args != [0]))
        for check in case.checks
    )


def _list_test_location(desk: WorkspaceFiles) -> list[tuple[str, int]]:
    function = desk.parse_test_file().find_test(desk.test)
    return [(desk.path, function.lineno if function else 1)]


def _project_frames(desk: WorkspaceFiles, frames: list[list[object]]) -> list[tuple[str, int]]:
    """The places of the project on the way to a failure, the innermost first."""
    found = [(desk.find_relative_path(str(path)), int(str(line))) for path, line, _ in frames]
    return [(path, line) for path, line in reversed(found) if path]


def format_evidence(run: ObservedCommand, *said: str) -> str:
    """A command and what it did, for a person."""
    shown = "\n".join([f"$ {run.command}", run.out.rstrip(), run.err.rstrip(), f"? {run.code}"])
    return "\n\n".join([*said, f"```\n{shown[-_MAX_OUTPUT_LENGTH:]}\n```"])


def _escalate_crash(desk: WorkspaceFiles, run: ObservedCommand) -> Escalation:
    """The program itself broke: no business of the test's."""
    places = [(desk.find_relative_path(path), int(line)) for path, line in _FRAME_PATTERN.findall(run.err)]
    own = [(path, line) for path, line in reversed(places) if path]
    last = run.err.strip().rpartition("\n")[2][:150]
    where = f" in {own[0][0]}:{own[0][1]}" if own else ""
    return Escalation(
        "BLOCKER",
        f"the program ends with {last}{where}",
        format_evidence(run),
        own[:3] or _list_test_location(desk),
    )


# An option that has another name now.


def _rename_option(desk: WorkspaceFiles, run: ObservedCommand, old: str, new: str) -> str | Escalation:
    """Call it by the name that the program suggests: in the test, and in the block where that has the old name too."""
    module = desk.parse_test_file()
    function = module.find_test(desk.test)
    nodes = [
        node
        for node in ast.walk(function or ast.Module(body=[], type_ignores=[]))
        if (text := source_edits.find_string(node)) and rewording.rename_option(text, old, new) != text
    ]
    cited = source_edits.list_citations(function) if function else []
    typed = [node for node in nodes if _is_command_text(function, node)]
    if not typed or not desk.is_test_file(run.path):
        detail = format_evidence(
            run, f"The program suggests `{new}`, but the test does not hold the command as a plain text."
        )
        return Escalation("BLOCKER", f"{old} is called {new} now", detail, _list_test_location(desk))
    blocks = [one.text for one in cited if rewording.rename_option(one.text, old, new) != one.text]
    splices = [(*module.get_span(node), rewording.rename_option(module.get_source(node), old, new)) for node in typed]
    desk.write(desk.path, module.apply_splices(splices))
    for block in blocks:
        _rename_option_in_block(desk, block, old, new)
    return f"`{old}` is called `{new}` now, as the program says"


def _is_command_text(function: ast.AST | None, node: ast.AST) -> bool:
    """Whether a text is a command that the test runs."""
    runs = (
        [call for name in ("run", "tty", "spawn") for call in source_edits.list_calls(function, name)]
        if function
        else []
    )
    return any(call.args and call.args[0] is node for call in runs)


def _rename_option_in_block(desk: WorkspaceFiles, block: str, old: str, new: str) -> None:
    """The block in the tutorial and every citation of it."""
    if desk.tutorial is None or not tutorial_citations.has_block(desk.read(desk.tutorial), block):
        return
    desk.write(desk.tutorial, tutorial_citations.rename_in_block(desk.read(desk.tutorial), block, old, new))
    wanted = tutorial_citations.normalize_lines(block)
    for path in tutorial_citations.list_test_files(desk.work, desk.test):
        try:
            module = source_edits.PythonSource(desk.read(path))
        except ValueError:
            continue
        same = [
            one
            for one in source_edits.list_citations(module.tree)
            if tutorial_citations.normalize_lines(one.text) == wanted
        ]
        if same:
            fresh = tutorial_citations.rename_in_block(tutorial_citations.dedent_block(block), block, old, new)
            desk.write(
                path, module.apply_splices([tutorial_citations.rewrite_citation(module, one, fresh) for one in same])
            )


# An expectation in other words.


def _reword_expectation(desk: WorkspaceFiles, case: ObservedCase, check: ObservedCheck) -> str | Escalation:
    module = desk.parse_test_file()
    function = module.find_test(desk.test)
    run = case.runs[check.run] if check.run is not None else None
    where = [(desk.find_relative_path(check.path) or desk.path, check.line)]
    if check.method in EXIT_CHECKS:
        assert run is not None
        said = case.message.strip().split("\n")[1:2] or [case.message]
        return Escalation("BLOCKER", f"`{run.command}`: {said[0]}", format_evidence(run), where)
    reason = _explain_fixed_expectation(case, check, run)
    node, expected = _find_expectation(function, check) if function and desk.is_test_file(check.path) else (None, "")
    if not reason and node is None:
        reason = "what is expected is not a plain text in the test itself"
    if reason or run is None or node is None or function is None:
        detail = (
            format_evidence(run, reason or "") if run else f"{reason}\n\n```\n{case.message[-_MAX_OUTPUT_LENGTH:]}\n```"
        )
        return Escalation("BLOCKER", f"{check.method}: {reason}", detail, where)
    found = _reword_text(check, expected, _collect_fixed_words(desk, function, case))
    if isinstance(found, rewording.RewordingDoubt):
        return Escalation("AMBIGUOUS", found.reason, format_evidence(run, f"{check.method}: {found.reason}."), where)
    exact = check.method != "to_match_lines"
    fresh = (
        source_edits.quote_string(found)
        if exact
        else source_edits.format_literal(found, module.get_source(node), " " * 8)
    )
    desk.write(desk.path, module.apply_splices([(*module.get_span(node), fresh)]))
    return _describe_change(line_matching.split_expected(expected), line_matching.split_expected(found))


def _describe_change(old: list[str], new: list[str]) -> str:
    """What is said in other words."""
    lost, won = [row for row in old if row not in new], [row for row in new if row not in old]
    more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
    return f"`{' '.join(lost[0].split())[:50]}` reads `{' '.join(won[0].split())[:50]}` now{more}"


def _explain_fixed_expectation(case: ObservedCase, check: ObservedCheck, run: ObservedCommand | None) -> str:
    """Why this expectation may not be rewritten at all; nothing when it may."""
    if run is None:
        return "it is not about what a command printed"
    if check.method not in ("to_contain", "to_equal", "to_match_lines"):
        return "what fails is not a text that was expected"
    proven = any(one.run == check.run and one.method in EXIT_CHECKS and one.ok for one in case.checks)
    if run.code and not proven:
        return f"the command ends with {run.code}, and the test does not say that it should"
    return ""


def _find_expectation(function: ast.AST, check: ObservedCheck) -> tuple[ast.Constant | None, str]:
    """The text in the source that does not fit."""
    missing = [arg for arg in check.args if check.method != "to_contain" or arg not in check.text][:1]
    places: list[tuple[ast.expr | ast.stmt, list[ast.expr]]] = [
        (call, call.args) for call in source_edits.list_calls(function, check.method)
    ]
    places += [(node, _list_operands(node)) for node in _list_asserts(function)]
    for place, texts in places:
        if place.lineno <= check.line <= (place.end_lineno or place.lineno):
            for text in texts:
                if isinstance(text, ast.Constant) and [text.value] == missing and isinstance(text.value, str):
                    return text, text.value
    return None, ""


def _list_operands(node: ast.Assert) -> list[ast.expr]:
    """The two sides of a comparison."""
    sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
    return sides if len(sides) == 2 else []


def _list_asserts(function: ast.AST) -> list[ast.Assert]:
    return [node for node in source_edits.iter_statements(function) if isinstance(node, ast.Assert)]


def _find_failed_assert(desk: WorkspaceFiles, case: ObservedCase) -> ObservedCheck | None:
    """A plain `assert "text" in result.stdout`, or one with ==, that ended the test, as the expectation that it is."""
    where = [int(line) for path, line, _ in case.frames[-1:] if desk.is_test_file(str(path))]
    function = desk.parse_test_file().find_test(desk.test)
    if function is None or not where or case.exception != "AssertionError":
        return None
    for node in _list_asserts(function):
        if not (node.lineno <= where[0] <= (node.end_lineno or node.lineno) and isinstance(node.test, ast.Compare)):
            continue
        texts = [text for text in map(source_edits.find_string, _list_operands(node)) if text is not None]
        method = {ast.In: "to_contain", ast.Eq: "to_equal"}.get(type(node.test.ops[0]))
        origin = _find_origin(desk, function, case, node)
        if method and origin and len(texts) == 1:
            number, stream = origin
            run = case.runs[number]
            shown = {"stdout": run.out, "stderr": run.err, "output": run.out + run.err}[stream]
            return ObservedCheck(str(case.frames[-1][0]), node.lineno, method, texts, number, stream, shown, False)
    return None


def _find_origin(
    desk: WorkspaceFiles, function: ast.AST, case: ObservedCase, node: ast.Assert
) -> tuple[int, str] | None:
    """Which command an assertion is about, and which stream: by the name that its result was given last."""
    for part in ast.walk(node.test):
        if not (isinstance(part, ast.Attribute) and part.attr in ("stdout", "stderr", "output")):
            continue
        given = [
            one
            for one in source_edits.iter_statements(function)
            if isinstance(one, ast.Assign) and one.lineno < node.lineno and source_edits.get_called_name(one.value) == "run"
            and ast.dump(one.targets[0]) == ast.dump(part.value).replace("Load()", "Store()")
        ]  # fmt: skip
        for number, run in reversed(list(enumerate(case.runs))):
            if given and desk.is_test_file(run.path) and given[-1].lineno <= run.line <= (given[-1].end_lineno or 0):
                return number, part.attr
    return None


def _collect_fixed_words(desk: WorkspaceFiles, function: ast.AST, case: ObservedCase) -> rewording.FixedWords:
    assert isinstance(function, source_edits.Function)
    cited = [one.text for one in source_edits.list_citations(function)]
    about = [ast.get_docstring(function) or "", *cited]
    return rewording.FixedWords.collect([run.command for run in case.runs], about, desk.sources.has_word)


def _reword_text(check: ObservedCheck, expected: str, held: rewording.FixedWords) -> str | rewording.RewordingDoubt:
    if check.method == "to_contain":
        return rewording.find_rewording(expected, check.text, held)
    rows = (
        line_matching.split_expected(expected)
        if check.method == "to_match_lines"
        else expected.removesuffix("\n").split("\n")
    )
    if check.method == "to_equal":
        rows = [line_matching.escape_quantity(line_matching.escape_text(row)) for row in rows]
    outcome = line_matching.match_lines(rows, line_matching.split_output(check.text), {}, line_matching.PATTERNS)
    if outcome.is_match:
        return rewording.RewordingDoubt("only white space differs, or what a name stands for")
    made = rewording.reword_lines(rows, check.text, held, outcome)
    if isinstance(made, rewording.RewordingDoubt):
        return made
    return check.text.removesuffix("\n") if check.method == "to_equal" else "\n".join(made)


# A citation of what is not in the tutorial.


def update_citations(desk: WorkspaceFiles) -> list[str | Escalation]:
    """Have citations say what the tutorial says, and commands with them; what was done, and what was not."""
    if desk.tutorial is None:
        return []
    script = desk.read(desk.tutorial)
    done: list[str | Escalation] = []
    for number in range(len(_list_citations(desk))):
        if not tutorial_citations.has_block(script, _list_citations(desk)[number].text):
            done.append(_update_citation(desk, script, number))
    return done


def _list_citations(desk: WorkspaceFiles) -> list[source_edits.CitedBlock]:
    function = desk.parse_test_file().find_test(desk.test)
    return source_edits.list_citations(function) if function else []


def _update_citation(desk: WorkspaceFiles, script: str, number: int) -> str | Escalation:
    module = desk.parse_test_file()
    function = module.find_test(desk.test)
    assert function is not None
    one = source_edits.list_citations(function)[number]
    block = tutorial_citations.find_nearest_block(script, one.text)
    where = [(desk.path, one.node.lineno)]
    cited = f"```\n{tutorial_citations.dedent_block(one.text)}\n```"
    if block is None:
        return Escalation(
            "AMBIGUOUS",
            "it cites a block that is not in the tutorial, and none is clearly the one",
            cited,
            where,
        )
    fresh = _update_commands(
        module, function, tutorial_citations.list_commands(one.text), tutorial_citations.list_commands(block)
    )
    if fresh is None:
        detail = f"{cited}\n\nThe nearest block:\n\n```\n{block}\n```"
        return Escalation("AMBIGUOUS", "the block it cites has other commands now", detail, where)
    desk.write(desk.path, module.apply_splices([tutorial_citations.rewrite_citation(module, one, block), *fresh]))
    return "it cites the block as the tutorial has it now"


def _update_commands(
    module: source_edits.PythonSource, function: ast.AST, old: list[str], new: list[str]
) -> list[source_edits.Splice] | None:
    """The commands of the test as those of its block are now; None when it is not clear which is which."""
    if old == new:
        return []
    runs = [call.args[0] for call in source_edits.list_calls(function, "run") if call.args]
    texts = {run: text for run in runs if (text := source_edits.find_string(run)) is not None}
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
        (*module.get_span(run), source_edits.replace_literal(module.get_source(run), texts[run], fresh[run]))
        for run in texts
        if fresh[run] != texts[run]
    ]

"""Repairs a failing test where fixed rules can, and escalates everything else. It never loosens an expectation."""

from __future__ import annotations

import ast
import re

from mngr.e2e.expectations import line_matching
from mngr.kinds.mechanic.program import rewording, source_edits, tutorial_citations
from mngr.kinds.mechanic.program.observed_runs import ObservedCase, ObservedCheck, ObservedCommand, ObservedTestRun
from mngr.kinds.mechanic.program.repair_edits import Escalation, WorkspaceFiles

EXIT_CHECKS = ("to_succeed", "to_fail", "to_have_exit_code")
_FRAME_PATTERN = re.compile(r'File "(.+?)", line (\d+)')
TRACEBACK_HEADER = "Traceback (most recent call last)"
_MAX_OUTPUT_LENGTH = 1500  # characters of an output that are quoted


def fix_first_failure(files: WorkspaceFiles, test_run: ObservedTestRun) -> str | Escalation:
    """Change the files so that the first failure disappears, and describe the change; otherwise escalate."""
    case = test_run.first_failed_case
    if test_run.outcome == "timeout":
        return Escalation(
            "BLOCKER", "the test does not finish", f"```\n{test_run.tail}\n```", _list_test_location(files)
        )
    if case is None or case.outcome == "error":
        message = case.message if case else test_run.uncollected or test_run.tail
        exception = f"{case.exception} " if case and case.exception else ""
        locations = _project_frames(files, case.frames) if case else []
        title = f"{exception}outside the test function itself"
        return Escalation(
            "HARNESS_DEFECT",
            title,
            f"```\n{message[-_MAX_OUTPUT_LENGTH:]}\n```",
            locations or _list_test_location(files),
        )
    for number, run in enumerate(case.runs):
        renaming = rewording.find_renamed_option(run.command, run.err or run.out) if run.code else None
        if renaming and not _is_failure_expected(case, number):
            return _rename_option(files, run, *renaming)
    crash = next((run for run in case.runs if TRACEBACK_HEADER in run.err and run.code), None)
    if crash:
        return _escalate_crash(files, crash)
    check = case.failed_check or _find_failed_assert(files, case)
    if check is None:
        frames = _project_frames(files, case.frames)
        title = f"{case.exception}: {case.message.strip().partition(chr(10))[0][:150]}"
        return Escalation(
            "BLOCKER",
            title,
            f"```\n{case.message[-_MAX_OUTPUT_LENGTH:]}\n```",
            frames or _list_test_location(files),
        )
    return _reword_expectation(files, case, check)


def _is_failure_expected(case: ObservedCase, number: int) -> bool:
    """True when the test expects this command to fail."""
    return any(
        check.run == number
        and (check.method == "to_fail" or (check.method == "to_have_exit_code" and check.args != [0]))
        for check in case.checks
    )


def _list_test_location(files: WorkspaceFiles) -> list[tuple[str, int]]:
    function = files.parse_test_file().find_test(files.test)
    return [(files.path, function.lineno if function else 1)]


def _project_frames(files: WorkspaceFiles, frames: list[list[object]]) -> list[tuple[str, int]]:
    """Return the project's own locations in a traceback, the innermost first."""
    locations = [(files.find_relative_path(str(path)), int(str(line))) for path, line, _ in frames]
    return [(path, line) for path, line in reversed(locations) if path]


def format_evidence(run: ObservedCommand, *remarks: str) -> str:
    """Return a command with its output and exit code for a person, after the given remarks."""
    text = "\n".join([f"$ {run.command}", run.out.rstrip(), run.err.rstrip(), f"? {run.code}"])
    return "\n\n".join([*remarks, f"```\n{text[-_MAX_OUTPUT_LENGTH:]}\n```"])


def _escalate_crash(files: WorkspaceFiles, run: ObservedCommand) -> Escalation:
    """Escalate a crash of the program itself, which no change of the test can repair."""
    locations = [(files.find_relative_path(path), int(line)) for path, line in _FRAME_PATTERN.findall(run.err)]
    project_locations = [(path, line) for path, line in reversed(locations) if path]
    last_line = run.err.strip().rpartition("\n")[2][:150]
    location = f" in {project_locations[0][0]}:{project_locations[0][1]}" if project_locations else ""
    return Escalation(
        "BLOCKER",
        f"the program fails with {last_line}{location}",
        format_evidence(run),
        project_locations[:3] or _list_test_location(files),
    )


# Options that were renamed.


def _rename_option(files: WorkspaceFiles, run: ObservedCommand, old: str, new: str) -> str | Escalation:
    """Use the option name that the program suggests, in the test and in the cited block."""
    module = files.parse_test_file()
    function = module.find_test(files.test)
    nodes = [
        node
        for node in ast.walk(function or ast.Module(body=[], type_ignores=[]))
        if (text := source_edits.find_string(node)) and rewording.rename_option(text, old, new) != text
    ]
    citations = source_edits.list_citations(function) if function else []
    commands = [node for node in nodes if _is_command_text(function, node)]
    if not commands or not files.is_test_file(run.path):
        detail = format_evidence(
            run, f"The program suggests `{new}`, but the command is not a plain string in the test."
        )
        return Escalation("BLOCKER", f"the option {old} is now called {new}", detail, _list_test_location(files))
    blocks = [
        citation.text for citation in citations if rewording.rename_option(citation.text, old, new) != citation.text
    ]
    splices = [
        (*module.get_span(node), rewording.rename_option(module.get_source(node), old, new)) for node in commands
    ]
    files.write(files.path, module.apply_splices(splices))
    for block in blocks:
        _rename_option_in_block(files, block, old, new)
    return f"use `{new}` instead of `{old}`, as the program suggests"


def _is_command_text(function: ast.AST | None, node: ast.AST) -> bool:
    """True when a string is a command that the test runs."""
    runs = (
        [call for name in ("run", "tty", "spawn") for call in source_edits.list_calls(function, name)]
        if function
        else []
    )
    return any(call.args and call.args[0] is node for call in runs)


def _rename_option_in_block(files: WorkspaceFiles, block: str, old: str, new: str) -> None:
    """Rename the option in the tutorial's block and in every citation of the block."""
    if files.tutorial is None or not tutorial_citations.has_block(files.read(files.tutorial), block):
        return
    files.write(files.tutorial, tutorial_citations.rename_in_block(files.read(files.tutorial), block, old, new))
    block_lines = tutorial_citations.normalize_lines(block)
    for path in tutorial_citations.list_test_files(files.work, files.test):
        try:
            module = source_edits.PythonSource(files.read(path))
        except ValueError:
            continue
        citations = [
            citation
            for citation in source_edits.list_citations(module.tree)
            if tutorial_citations.normalize_lines(citation.text) == block_lines
        ]
        if citations:
            new_block = tutorial_citations.rename_in_block(tutorial_citations.dedent_block(block), block, old, new)
            files.write(
                path,
                module.apply_splices(
                    [tutorial_citations.rewrite_citation(module, citation, new_block) for citation in citations]
                ),
            )


# Expectations whose wording changed.


def _reword_expectation(files: WorkspaceFiles, case: ObservedCase, check: ObservedCheck) -> str | Escalation:
    module = files.parse_test_file()
    function = module.find_test(files.test)
    run = case.runs[check.run] if check.run is not None else None
    locations = [(files.find_relative_path(check.path) or files.path, check.line)]
    if check.method in EXIT_CHECKS:
        assert run is not None
        message_lines = case.message.strip().split("\n")[1:2] or [case.message]
        return Escalation("BLOCKER", f"`{run.command}`: {message_lines[0]}", format_evidence(run), locations)
    reason = _explain_fixed_expectation(case, check, run)
    node, expected = _find_expectation(function, check) if function and files.is_test_file(check.path) else (None, "")
    if not reason and node is None:
        reason = "the expected text is not a plain string in the test itself"
    if reason or run is None or node is None or function is None:
        detail = (
            format_evidence(run, reason or "") if run else f"{reason}\n\n```\n{case.message[-_MAX_OUTPUT_LENGTH:]}\n```"
        )
        return Escalation("BLOCKER", f"{check.method}: {reason}", detail, locations)
    reworded = _reword_text(check, expected, _collect_fixed_words(files, function, case))
    if isinstance(reworded, rewording.RewordingDoubt):
        return Escalation(
            "AMBIGUOUS", reworded.reason, format_evidence(run, f"{check.method}: {reworded.reason}."), locations
        )
    is_exact = check.method != "to_match_lines"
    literal = (
        source_edits.quote_string(reworded)
        if is_exact
        else source_edits.format_literal(reworded, module.get_source(node), " " * 8)
    )
    files.write(files.path, module.apply_splices([(*module.get_span(node), literal)]))
    return _describe_change(line_matching.split_expected(expected), line_matching.split_expected(reworded))


def _describe_change(old: list[str], new: list[str]) -> str:
    """Return a summary of the lines that changed."""
    removed = [row for row in old if row not in new]
    added = [row for row in new if row not in old]
    suffix = f" (and {len(removed) - 1} more)" if len(removed) > 1 else ""
    return f"expect `{' '.join(added[0].split())[:50]}` instead of `{' '.join(removed[0].split())[:50]}`{suffix}"


def _explain_fixed_expectation(case: ObservedCase, check: ObservedCheck, run: ObservedCommand | None) -> str:
    """Return why this expectation must not be rewritten, or "" when it may be."""
    if run is None:
        return "the check is not about the output of a command"
    if check.method not in ("to_contain", "to_equal", "to_match_lines"):
        return "the failed check does not compare with an expected text"
    has_exit_check = any(other.run == check.run and other.method in EXIT_CHECKS and other.ok for other in case.checks)
    if run.code and not has_exit_check:
        return f"the command exits with {run.code}, and the test does not expect that"
    return ""


def _find_expectation(function: ast.AST, check: ObservedCheck) -> tuple[ast.Constant | None, str]:
    """Return the string in the source that does not match, with its value."""
    missing = [arg for arg in check.args if check.method != "to_contain" or arg not in check.text][:1]
    candidates: list[tuple[ast.expr | ast.stmt, list[ast.expr]]] = [
        (call, call.args) for call in source_edits.list_calls(function, check.method)
    ]
    candidates += [(node, _list_operands(node)) for node in _list_asserts(function)]
    for candidate, texts in candidates:
        if candidate.lineno <= check.line <= (candidate.end_lineno or candidate.lineno):
            for text in texts:
                if isinstance(text, ast.Constant) and [text.value] == missing and isinstance(text.value, str):
                    return text, text.value
    return None, ""


def _list_operands(node: ast.Assert) -> list[ast.expr]:
    """Return the two sides of a comparison, or nothing."""
    sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
    return sides if len(sides) == 2 else []


def _list_asserts(function: ast.AST) -> list[ast.Assert]:
    return [node for node in source_edits.iter_statements(function) if isinstance(node, ast.Assert)]


def _find_failed_assert(files: WorkspaceFiles, case: ObservedCase) -> ObservedCheck | None:
    """Return the failed `assert "text" in result.stdout` (or ==) as an ObservedCheck, or None."""
    lines = [int(line) for path, line, _ in case.frames[-1:] if files.is_test_file(str(path))]
    function = files.parse_test_file().find_test(files.test)
    if function is None or not lines or case.exception != "AssertionError":
        return None
    for node in _list_asserts(function):
        if not (node.lineno <= lines[0] <= (node.end_lineno or node.lineno) and isinstance(node.test, ast.Compare)):
            continue
        texts = [text for text in map(source_edits.find_string, _list_operands(node)) if text is not None]
        method = {ast.In: "to_contain", ast.Eq: "to_equal"}.get(type(node.test.ops[0]))
        origin = _find_origin(files, function, case, node)
        if method and origin and len(texts) == 1:
            number, stream = origin
            run = case.runs[number]
            output = {"stdout": run.out, "stderr": run.err, "output": run.out + run.err}[stream]
            return ObservedCheck(str(case.frames[-1][0]), node.lineno, method, texts, number, stream, output, False)
    return None


def _find_origin(
    files: WorkspaceFiles, function: ast.AST, case: ObservedCase, node: ast.Assert
) -> tuple[int, str] | None:
    """Return the number of the command that an assertion checks, and the stream.

    The last assignment to the result's variable before the assertion decides.
    """
    for part in ast.walk(node.test):
        if not (isinstance(part, ast.Attribute) and part.attr in ("stdout", "stderr", "output")):
            continue
        assignments = [
            stmt
            for stmt in source_edits.iter_statements(function)
            if isinstance(stmt, ast.Assign)
            and stmt.lineno < node.lineno
            and source_edits.get_called_name(stmt.value) == "run"
            and ast.dump(stmt.targets[0]) == ast.dump(part.value).replace("Load()", "Store()")
        ]
        for number, run in reversed(list(enumerate(case.runs))):
            if (
                assignments
                and files.is_test_file(run.path)
                and assignments[-1].lineno <= run.line <= (assignments[-1].end_lineno or 0)
            ):
                return number, part.attr
    return None


def _collect_fixed_words(files: WorkspaceFiles, function: ast.AST, case: ObservedCase) -> rewording.FixedWords:
    assert isinstance(function, source_edits.Function)
    blocks = [citation.text for citation in source_edits.list_citations(function)]
    texts = [ast.get_docstring(function) or "", *blocks]
    return rewording.FixedWords.collect([run.command for run in case.runs], texts, files.sources.has_word)


def _reword_text(
    check: ObservedCheck, expected: str, fixed_words: rewording.FixedWords
) -> str | rewording.RewordingDoubt:
    if check.method == "to_contain":
        return rewording.find_rewording(expected, check.text, fixed_words)
    rows = (
        line_matching.split_expected(expected)
        if check.method == "to_match_lines"
        else expected.removesuffix("\n").split("\n")
    )
    if check.method == "to_equal":
        rows = [line_matching.escape_quantity(line_matching.escape_text(row)) for row in rows]
    outcome = line_matching.match_lines(rows, line_matching.split_output(check.text), {}, line_matching.PATTERNS)
    if outcome.is_match:
        return rewording.RewordingDoubt("only white space differs, or the value of a placeholder")
    reworded = rewording.reword_lines(rows, check.text, fixed_words, outcome)
    if isinstance(reworded, rewording.RewordingDoubt):
        return reworded
    return check.text.removesuffix("\n") if check.method == "to_equal" else "\n".join(reworded)


# Citations that are not in the tutorial.


def update_citations(files: WorkspaceFiles) -> list[str | Escalation]:
    """Update the test's citations and commands to the tutorial; return the changes and the escalations."""
    if files.tutorial is None:
        return []
    script = files.read(files.tutorial)
    outcomes: list[str | Escalation] = []
    for number in range(len(_list_citations(files))):
        if not tutorial_citations.has_block(script, _list_citations(files)[number].text):
            outcomes.append(_update_citation(files, script, number))
    return outcomes


def _list_citations(files: WorkspaceFiles) -> list[source_edits.CitedBlock]:
    function = files.parse_test_file().find_test(files.test)
    return source_edits.list_citations(function) if function else []


def _update_citation(files: WorkspaceFiles, script: str, number: int) -> str | Escalation:
    module = files.parse_test_file()
    function = module.find_test(files.test)
    assert function is not None
    citation = source_edits.list_citations(function)[number]
    block = tutorial_citations.find_nearest_block(script, citation.text)
    locations = [(files.path, citation.node.lineno)]
    quoted = f"```\n{tutorial_citations.dedent_block(citation.text)}\n```"
    if block is None:
        return Escalation(
            "AMBIGUOUS",
            "the test cites a block that is not in the tutorial, and no block is clearly the right one",
            quoted,
            locations,
        )
    command_splices = _update_commands(
        module, function, tutorial_citations.list_commands(citation.text), tutorial_citations.list_commands(block)
    )
    if command_splices is None:
        detail = f"{quoted}\n\nThe most similar block:\n\n```\n{block}\n```"
        return Escalation("AMBIGUOUS", "the cited block now has other commands", detail, locations)
    files.write(
        files.path,
        module.apply_splices([tutorial_citations.rewrite_citation(module, citation, block), *command_splices]),
    )
    return "cite the block as it is now in the tutorial"


def _update_commands(
    module: source_edits.PythonSource, function: ast.AST, old: list[str], new: list[str]
) -> list[source_edits.Splice] | None:
    """Return edits that update the test's commands to the block's, or None when they cannot be paired."""
    if old == new:
        return []
    runs = [call.args[0] for call in source_edits.list_calls(function, "run") if call.args]
    texts = {run: text for run in runs if (text := source_edits.find_string(run)) is not None}
    if len(old) != len(new):
        return None
    new_texts = dict(texts)
    for old_command, new_command in zip(old, new):  # noqa: B905
        matches = [run for run, text in texts.items() if old_command in text]
        if old_command != new_command and len(matches) != 1:
            return None
        if old_command != new_command:
            new_texts[matches[0]] = new_texts[matches[0]].replace(old_command, new_command)
    return [
        (*module.get_span(run), source_edits.replace_literal(module.get_source(run), texts[run], new_texts[run]))
        for run in texts
        if new_texts[run] != texts[run]
    ]

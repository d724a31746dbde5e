"""Writes the prompts for agents that update tests to match a tutorial."""

from __future__ import annotations

import ast
import json
import os

from mngr.tutorial.blocks import Block, normalize_text
from mngr.tutorial.check_citations import TutorialFinding, TutorialReport

_MAX_EXAMPLES = 4  # tests of the project that are shown as examples
_MAX_EXAMPLE_LINES = 60  # lines of one example

RULES = """\
## Rules

- The script is the contract: change tests, never the script. If a block is wrong, say so in your last message.
- A test cites its block word for word, with a call or in a section of its docstring:

```python
from mngr.e2e import E2eSession, expect


def test_help_succeeds(e2e: E2eSession) -> None:
    e2e.write_tutorial_block(\"\"\"
    # or see the other commands
    mngr --help
    \"\"\")
    result = e2e.run("mngr --help", comment="or see the other commands")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("Usage")
```

- Every block has at least one test. Add a test for each way in which its commands can fail: a wrong name, a missing file,
  a refused action. Such a test cites the same block and expects the exit code and the message.
- `e2e.run(command, comment=, timeout=, stdin=, env=, cwd=)` returns `exit_code`, `stdout`, `stderr`, `output`. Interactive programs:
  `e2e.tty(command)` with `type`, `press`, `wait_for`, `screen`, `wait`. Each test has a fresh HOME and work dir, and tests
  share nothing, so create everything that the block needs.
- `expect(...)`: to_succeed to_fail to_have_exit_code to_contain not_to_contain to_match not_to_match to_equal to_be_empty,
  to_match_lines (`...`, ` (?)` ` (*)` ` (+)`, `<name>`, `[TIME]` `[HASH]` `[NUMBER]` `[PATH]`), and to_match_tree for a directory.
- Check what the block promises, not everything that the program prints. No sleeps, no skips, no network.
- Run your tests, then commit them. The subject of the commit starts with `[ADD_TEST]` or `[FIX_TEST]`. Change only tests: mngr
  finds every other change and asks you to undo it before it accepts your work.
"""


def build_prompt(report: TutorialReport, tests: str, source: str, prefix: str = "") -> str:
    """Return the prompt: the missing tests, the stale citations, the rules and example tests.

    `source` is the project's directory, `prefix` its place in the repository.
    """
    blocks = {block.id: block for block in report.script.blocks}
    gaps = [blocks[f.block] for f in report.findings if f.kind == "gap" and f.block]
    parts = [
        f"Update the tests in {tests} to match {report.script.path}.",
        f"Blocks without a test: {len(gaps)}. Citations that are out of date: {len(report.stale)}. When you are done, every block with a "
        "command is cited and every citation matches a block. mngr checks this when your turn ends.",
    ]
    if prefix:
        parts.append(f"All of this is in the directory {prefix} of the repository, and all paths are relative to it.")
    if gaps:
        parts.append("## Blocks without a test")
        parts += [_format_block(block, report.script.path) for block in gaps]
    if report.stale:
        parts.append("## Citations that are out of date")
        parts += [_format_stale(stale.finding) for stale in report.stale]
    orphans = [finding for finding in report.findings if finding.kind in ("orphan", "unreadable")]
    if orphans:
        parts.append("## Other problems")
        parts += [f"- {finding.path}:{finding.line}: {finding.message}" for finding in orphans]
    parts.append(RULES.rstrip())
    examples = _list_example_tests(report, {block.id for block in gaps}, source)
    if examples:
        parts.append("## Tests of this project to learn from")
        parts += examples
    return "\n\n".join(parts) + "\n"


def build_job(report: TutorialReport, tests: str, run_settings: dict[str, object]) -> str:
    """Return the job for the rule-based agent, which reads a fenced JSON block instead of prose."""
    gap_ids = {finding.block for finding in report.findings if finding.kind == "gap"}
    blocks = report.script.blocks
    gaps = [block for block in blocks if block.id in gap_ids]
    return format_job_fence("observe", gaps, blocks, file=report.script.path, tests=tests, **run_settings)


def format_job_fence(job: str, job_blocks: list[Block], script: list[Block], **fields: object) -> str:
    """Return a job of the rule-based agent about some blocks of a script, as a fenced block in a message."""
    data = {
        "v": 1,
        "job": job,
        **fields,
        "blocks": _blocks_to_dicts(job_blocks),
        "script": _blocks_to_dicts(script),
    }
    return f"```mngr-job\n{json.dumps(data)}\n```\n"


def _blocks_to_dicts(blocks: list[Block]) -> list[dict[str, object]]:
    keys = ("id", "slug", "line", "section", "text")
    return [{key: getattr(block, key) for key in keys} for block in blocks]


def build_reminder(problems: list[str]) -> str:
    """Return the message that lists the problems after a turn."""
    rows = "\n".join(f"- {problem}" for problem in problems)
    return f"Your work is not complete yet. mngr found these problems in your commits:\n\n{rows}\n\nFix them, run the tests and commit.\n"


def _format_block(block: Block, path: str) -> str:
    return f"### {path}:{block.line} {block.slug}\n\n```sh\n{normalize_text(block.text)}\n```"


def _format_stale(finding: TutorialFinding) -> str:
    return f"### {finding.test}\n\n{finding.message}\n\n```diff\n{(finding.diff or '').rstrip()}\n```"


def _list_example_tests(report: TutorialReport, gaps: set[str], source: str) -> list[str]:
    """Return the source of tests whose blocks are next to blocks without a test."""
    names: list[str] = []
    for index, block in enumerate(report.blocks):
        neighbours = report.blocks[max(0, index - 1) : index] + report.blocks[index + 1 : index + 2]
        if block.tests and not block.observed and any(other.block.id in gaps for other in neighbours):
            names += block.tests
    names = list(dict.fromkeys(names))[:_MAX_EXAMPLES]
    examples: list[str] = []
    for citation in report.tests.citations:
        if citation.test in names:
            names.remove(citation.test)
            text = _read_function(os.path.join(source, citation.path), citation.line)
            if text:
                examples.append(f"```python\n# {citation.test}\n{text}\n```")
    return examples


def _read_function(path: str, line: int) -> str:
    """Return the source of the function around a line."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return ""
    rows = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first_line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first_line <= line <= (node.end_lineno or first_line):
                return "\n".join(
                    rows[first_line - 1 : min(node.end_lineno or first_line, first_line + _MAX_EXAMPLE_LINES)]
                )
    return ""

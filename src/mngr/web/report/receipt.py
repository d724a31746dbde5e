"""Renders the claim of a task, and the receipt for it."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.finding import LEVELS, Finding
from mngr.tmr.verify.claim import AgentClaim, ClaimedChange, Escalation
from mngr.tmr.verify.experiments.experiment import Experiment
from mngr.tmr.verify.receipt import AffectedTestResult, Receipt, RunResult
from mngr.tmr.verify.red_green import RedGreenProof
from mngr.web.html_text import (
    escape_long,
    escape_plain,
    format_duration,
    render_chip,
    render_folded,
    render_list,
    to_class_name,
)
from mngr.web.report.report_data import ReportTask

_MAX_ROWS = 200  # The most rows of one kind.
_PROOF_CONCLUSIONS = {None: "not proven", True: "the fix is needed", False: "the fix is not needed"}
SAME_REASON_TEXTS = {None: "", True: "for the same reason", False: "for another reason"}


def render_claim(task: ReportTask) -> str:
    """Return the claim of a task's agent."""
    notes = [text for text in (task.state.close_reason, task.state.problem) if text]
    notes_html = "".join(f'<p class="note">{escape_long(note, 2000)}</p>' for note in notes)
    if task.claim is None:
        return notes_html or '<p class="quiet">The agent claims nothing.</p>'
    claim = task.claim
    changes = [_render_claimed_change(change) for change in claim.changes[:_MAX_ROWS]]
    escalations = [_render_escalation(escalation) for escalation in claim.escalations[:_MAX_ROWS]]
    runs = [
        f"<code>{escape_plain(run.name, 200)}</code> {escape_long(run.description, 2000)}"
        for run in claim.runs[:_MAX_ROWS]
    ]
    summary = f'<pre class="agent-text">{escape_long(claim.summary)}</pre>' if claim.summary else ""
    return (
        f"<p>{render_chip(claim.outcome)} {_describe_outcome_change(claim)}</p>{notes_html}{summary}"
        + _render_part("Changes", render_list(changes))
        + _render_part("Questions for you", "".join(escalations))
        + _render_part("Test runs that the agent reports", render_list(runs))
    )


def _describe_outcome_change(claim: AgentClaim) -> str:
    """Return the claimed result before and after the change."""
    if not claim.before or not claim.after:
        return ""
    return f'<span class="quiet">{render_chip(claim.before)} → {render_chip(claim.after)}</span>'


def _render_claimed_change(change: ClaimedChange) -> str:
    kind = f'<span class="kind">{escape_plain(change.kind, 40)}</span>'
    return f"{kind} {escape_long(change.summary.removeprefix('- '), 2000)} {_render_commits(change.commits[:20])}"


def _render_commits(commits: Sequence[str]) -> str:
    return " ".join(f"<code>{escape_plain(commit[:10])}</code>" for commit in commits)


def _render_escalation(escalation: Escalation) -> str:
    locations = " ".join(
        f"<code>{escape_plain(_format_location(location.path, location.line), 200)}</code>"
        for location in escalation.locations[:20]
    )
    detail = f"<pre>{escape_long(escalation.detail)}</pre>" if escalation.detail else ""
    summary = f"{render_chip(escalation.kind)} {escape_plain(escalation.title, 300)}"
    return render_folded(summary, f"<p>{locations}</p>{detail}")


def _format_location(path: str, line: int | None) -> str:
    return f"{path}:{line}" if line else path


def render_receipt(task: ReportTask) -> str:
    """Return the receipt of a task: everything that mngr saw when it re-ran the claim."""
    receipt = task.receipt
    if receipt is None:
        return f'<p class="quiet">{_explain_missing_receipt(task)}</p>'
    rate = "" if receipt.rate is None else f", {receipt.rate:.0%} of the runs failed"
    parts = [
        f"<p>{render_chip(receipt.verdict)} {escape_long(receipt.reason, 3000)}{rate}</p>",
        _render_part("Runs", _render_runs(receipt.results)),
        _render_part("Affected tests", _render_affected_tests(receipt.affected_tests)),
        _render_part("With and without the fix", "".join(_render_proof(proof) for proof in receipt.proofs[:_MAX_ROWS])),
        _render_part("Findings", render_findings(task.findings)),
        _render_part("Experiments", _render_experiments(receipt.experiments)),
        _render_clean_room(receipt),
    ]
    return "".join(parts)


def _explain_missing_receipt(task: ReportTask) -> str:
    if task.state.check is not None:
        return "The receipt is damaged. See the journal of the run."
    if not task.is_over:
        return "There is no receipt yet."
    return "There is no receipt, because the agent does not claim that the test passes."


def _render_runs(results: Sequence[RunResult]) -> str:
    """Return a light for each run, and the reason of the first failure."""
    if not results:
        return ""
    lights = "".join(
        f'<span class="light {to_class_name(result.outcome)}" title="{escape_plain(result.outcome, 40)}, exit code {result.exit_code}">'
        f"{format_duration(result.seconds)}</span>"
        for result in results[:_MAX_ROWS]
    )
    failed = [result for result in results if result.outcome != "pass"]
    return f'<div class="lights">{lights}</div>{_render_failed_run(failed[0]) if failed else ""}'


def _render_failed_run(result: RunResult) -> str:
    reason = f'<p class="why">{escape_long(result.why, 2000)}</p>'
    if not result.text:
        return reason
    return reason + render_folded("output of pytest", f'<pre class="failure">{escape_long(result.text)}</pre>')


def _render_affected_tests(results: Sequence[AffectedTestResult]) -> str:
    by_test: dict[str, list[RunResult]] = {}
    for result in results[: 10 * _MAX_ROWS]:
        by_test.setdefault(result.test, []).append(result)
    return "".join(
        f'<div class="affected"><code>{escape_plain(name, 300)}</code>{_render_runs(runs)}</div>'
        for name, runs in by_test.items()
    )


def _render_proof(proof: RedGreenProof) -> str:
    """Return a fix with the result before it, with it, and without it."""
    reasons = "".join(
        f'<p class="why">{name}: {escape_long(text, 1000)}</p>'
        for name, text in (("before", proof.before_why), ("without the fix", proof.without_why), ("", proof.reason))
        if text
    )
    return (
        f'<div class="proof"><p>{_render_commits(proof.fixes)} {escape_plain(proof.subject, 300)}</p><p class="steps">'
        f"<span>before {render_proof_outcome(proof.before)}</span><span>with the fix {render_chip('pass')}</span>"
        f"<span>without the fix {render_proof_outcome(proof.without)}</span><b>{_PROOF_CONCLUSIONS[proof.is_needed]}</b> "
        f'<span class="quiet">{SAME_REASON_TEXTS[proof.is_same_reason]}</span></p>{reasons}</div>'
    )


def render_proof_outcome(outcome: str) -> str:
    """Return the outcome of a test before a fix or without it, which may be unknown."""
    return render_chip(outcome or "?")


def render_findings(findings: Sequence[Finding]) -> str:
    """Return the findings on an edit, the worst first, each with its location and lines."""
    rank = {level: index for index, level in enumerate(LEVELS)}
    unique = list(dict.fromkeys(findings))
    worst_first = sorted(unique, key=lambda finding: rank.get(finding.level, len(rank)))
    items = "".join(_render_finding(finding) for finding in worst_first[:_MAX_ROWS])
    if not items:
        return ""
    more = f'<li class="quiet">and {len(unique) - _MAX_ROWS} more</li>' if len(unique) > _MAX_ROWS else ""
    return f'<ul class="plain">{items}{more}</ul>'


def _render_finding(finding: Finding) -> str:
    if finding.old == finding.new:
        sides = [(finding.old, "same", " ")]
    else:
        sides = [(finding.old, "gone", "−"), (finding.new, "come", "+")]
    lines = "".join(f'<div class="{kind}">{mark}{escape_long(text, 2000)}</div>' for text, kind, mark in sides if text)
    location = _format_location(finding.path, finding.line)
    diff = f'<div class="diff">{lines}</div>' if lines else ""
    return (
        f'<li class="finding {to_class_name(finding.level)}"><p>{render_chip(finding.level)} <code>{escape_plain(location, 300)}</code> '
        f'<span class="quiet">{escape_plain(finding.rule, 60)}</span></p><p>{escape_long(finding.what, 2000)}</p>{diff}</li>'
    )


def _render_experiments(experiments: Sequence[Experiment]) -> str:
    """Return a line for each experiment: its outcome, its reason and its cost."""
    return render_list([_render_experiment(experiment) for experiment in experiments[:_MAX_ROWS]])


def _render_experiment(experiment: Experiment) -> str:
    cost = f" {experiment.trials} trials, {format_duration(experiment.seconds)}" if experiment.trials else ""
    return (
        f"{render_chip(experiment.outcome.replace('_', ' '))} <code>{escape_plain(experiment.name, 60)}</code> "
        f'{escape_long(experiment.reason, 1000)}<span class="quiet">{cost}</span>'
    )


def _render_clean_room(receipt: Receipt) -> str:
    """Return how mngr ran the tests, so that anybody can repeat it."""
    facts: dict[str, object] = {
        "isolation": receipt.isolation,
        "level": receipt.level,
        "commit": receipt.commit,
        "base": receipt.base,
        "tree": receipt.tree,
        "command": " ".join(receipt.command),
        "seed": receipt.seed,
        **{f"imported from: {name}": path for name, path in receipt.imported_from.items()},
        **{f"environment: {name}": value for name, value in receipt.environment.items()},
        **{f"hashes: {name}": value for name, value in receipt.hashes.items()},
    }
    rows = "".join(
        f"<dt>{escape_plain(key, 100)}</dt><dd><code>{escape_long(value, 500)}</code></dd>"
        for key, value in facts.items()
        if value != ""
    )
    return render_folded("how mngr ran the test", f"<dl>{rows}</dl>")


def _render_part(title: str, body: str) -> str:
    return f"<h3>{title}</h3>{body}" if body else ""

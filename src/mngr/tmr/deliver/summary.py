"""What of a pull request is short whatever happened: its verdict, how tasks ended, what it took, how to change it."""

from __future__ import annotations

from typing import Any

from mngr.base import clock
from mngr.mapreduce.run_state import add_usage
from mngr.tmr.deliver.facts import Facts
from mngr.tmr.deliver.markdown import cell, code, count, in_order, listed, tame, text

Row = dict[str, Any]


_MARKS = {"green": "✅ **Green.**", "red": "❌ **Red.**"}
_OUTCOMES = ("fixed", "improved", "unchanged", "refuted", "flaky", "unverified", "blocked", "failed")
_VERDICTS = ("confirmed", "refuted", "flaky", "unverified", "no receipt")
_PROSE = 1500  # characters


# What a reader sees first


def title(facts: Facts) -> str:
    """With counts, and nothing that a stranger wrote."""
    fixes, edits = len(facts.of("fix")), len(facts.of("test", "flagged"))
    left = len(facts.not_in)
    said = _what(fixes, "", edits, "test edit") or "Nothing to merge"
    more = f", {left} not in" if left else ""
    is_red = "RED: " if facts.integration["verdict"] == "red" else ""
    return tame(f"{is_red}{said} of {count(len(facts.tasks), 'task')}{more} ({facts.run})", 200)


def head(facts: Facts, level: int = 0) -> str:
    """The verdict, what is in, how the tasks ended."""
    data = facts.integration
    fixes, edits = len(facts.of("fix")), len(facts.of("test", "flagged"))
    turned = f" (turning {count(len(facts.turned), 'test')} green)" if facts.turned else ""
    parts = []
    if fixes + edits:
        parts.append(_what(fixes, turned, edits, "test or doc edit"))
    if facts.not_in:
        parts.append(f"**{count(len(facts.not_in), 'change')} not in**, each with its reason")
    if flagged := facts.flagged:
        parts.append(f"**{count(len(flagged), 'edit')} to look at**")
    if data.get("open"):
        parts.append(f"**{count(data['open'], 'task')} not settled yet**")
    if data.get("only"):
        parts.append(f"only {'fixes' if data['only'] == 'impl' else 'tests'} were asked for")
    said = f"{_verdict(facts)}  \n{'; '.join(parts)}." if parts else _verdict(facts)
    return "\n".join(
        [said, "", _table(facts), "", _about(facts), *_prose(facts.integration.get("prose") or {})]
    )


def _what(fixes: int, more: str, edits: int, noun: str) -> str:
    """What of both there is."""
    parts = [
        f"{count(fixes, 'fix', 'fixes')}{more}" if fixes else "",
        count(edits, noun) if edits else "",
    ]
    return " and ".join(filter(None, parts))


def _verdict(facts: Facts) -> str:
    data = facts.integration
    where = f"{code(data['branch'])} ({code(str(data.get('delivered') or data['head'])[:10])})"
    if data["verdict"] == "empty":
        return "⚪ **Nothing to merge.**"
    before = data.get("red_before") or []
    mark = _MARKS.get(data["verdict"], f"**{text(data['verdict'])}**")
    if data["verdict"] == "red":
        verb = "fails" if len(data["red"]) == 1 else "fail"
        said = (
            f"{count(len(data['red']), 'test')} that passed before {verb} at {code(str(data['head'])[:10])}"
        )
        return f"{mark} {said}; {code(data['branch'])} was not moved."
    if tests := data.get("tests"):
        return f"{mark} {_passing(tests, where, len(before), len(data.get('flaky') or ()))}."
    apart = f", apart from {count(len(before), 'test')} red before and still" if before else ""
    return f"{mark} The whole suite passes on {where}{apart}."


def _passing(tests: Row, where: str, still: int, flaky: int) -> str:
    """How many tests pass, how many of them did not before, and how the others stand."""
    passed, green = tests["pass"], len(tests["green"])
    some = "All" if passed == tests["all"] else f"{passed:,} of"
    said = f"{some} {count(tests['all'], 'test')} pass on {where}"
    parts = [
        said + (f", {green:,} of them red before" if green else ""),
        f"{still:,} {'was' if still == 1 else 'were'} red before and still {'is' if still == 1 else 'are'}"
        if still
        else "",
        f"{tests['skip']:,} skipped" if tests["skip"] else "",
        f"{flaky:,} seen both ways" if flaky else "",
    ]
    return "; ".join(filter(None, parts))


def _table(facts: Facts) -> str:
    """How tasks ended, by what we saw of them."""
    counts: dict[tuple[str, str], int] = {}
    for one in facts.tasks:
        key = str(one.outcome or one.state), str((one.check or {}).get("verdict") or "no receipt")
        counts[key] = counts.get(key, 0) + 1
    outcomes = in_order({outcome for outcome, _ in counts}, _OUTCOMES)
    verdicts = in_order({verdict for _, verdict in counts}, _VERDICTS)
    rows = [["tasks", *verdicts, "all"]]
    for outcome in outcomes:
        numbers = [counts.get((outcome, verdict), 0) for verdict in verdicts]
        rows.append([outcome, *(str(number or "–") for number in numbers), str(sum(numbers))])
    totals = [sum(counts.get((outcome, verdict), 0) for outcome in outcomes) for verdict in verdicts]
    if len(outcomes) > 1:
        rows.append(["all", *map(str, totals), str(sum(totals))])
    head_, *lines = (f"| {' | '.join(cell(value, 30) for value in row)} |" for row in rows)
    return "\n".join([head_, f"|:--{'|--:' * (len(verdicts) + 1)}|", *lines])


def _about(facts: Facts) -> str:
    marks = [
        f"{text(row['name'], 30)} {'✅' if row['ok'] else '❌' if row.get('was_ok', True) else 'as before'}"
        for row in facts.integration.get("checks") or ()
    ]
    money = _total(facts).get("cost_usd")
    parts = [*marks, *([f"${money:.2f}"] if money else []), *_wall(facts)]
    where = f"paths are in `.mngr/runs/{facts.run}/`, pages: `mngr tmr report {facts.run}`"
    return " · ".join([*parts, where])  # fmt: skip


def _prose(row: Row) -> list[str]:
    """An agent's few paragraphs, as its own words."""
    words = str(row.get("words") or "")
    some = [part for part in (text(one, _PROSE) for one in words[:_PROSE].split("\n\n")) if part][:4]
    lines = [line for part in some for line in (">", f"> {part}")]
    return (
        ["", f"> _{text(row.get('agent') or 'an agent', 80)} says:_ {lines[1][2:]}", *lines[2:]]
        if some
        else []
    )


# What it took


def suite(facts: Facts, level: int = 0) -> str:
    """What else was seen of the suite."""
    lines = []
    for name, noun in (("red_before", "red before and still"), ("flaky", "seen both ways")):
        if rows := facts.integration.get(name):
            lines.append(f"- {count(len(rows), 'test')} {noun}: {listed(rows, (10, 3)[min(level, 1)])}")
    if partly := facts.integration.get("partly"):
        lines.append(f"- {count(partly, 'commit')} below the head: only the nearest tests were run there")
    return "## The suite\n\n" + "\n".join(lines) if lines else ""


def spent(facts: Facts, level: int = 0) -> str:
    """Money and time."""
    lines = []
    total, kinds = _total(facts), _kinds(facts)
    if kinds:
        parts = ", ".join(f"{text(kind, 30)} {_money(used)}" for kind, used in kinds.items())
        read, wrote = total["input_tokens"], total["output_tokens"]
        lines.append(
            f"- cost: {_money(total)} ({parts}); {read:,} tokens in, {wrote:,} out; agents: {code(facts.agent)}"
        )
    data = facts.integration
    runs = data.get("runs") or {}
    lines += [f"- agents: {one}" for one in _wall(facts)]
    lines.append(
        f"- integration: {clock.length(round(data.get('seconds') or 0))}, {count(runs.get('processes', 0), 'test process', 'test processes')}, "
        f"{count(runs.get('tests', 0), 'test run')}, {runs.get('cached', 0)} results known before"
    )  # fmt: skip
    return "## Cost and time\n\n" + "\n".join(lines)


def _kinds(facts: Facts) -> dict[str, Row]:
    rows = [*(one.spend for one in facts.tasks), facts.integration.get("spend") or {}]
    found: dict[str, Row] = {}
    for row in rows:
        for kind, used in row.items():
            found[kind] = add_usage(found.get(kind, {}), used) if used else found.get(kind, {})
    return {kind: used for kind, used in found.items() if used}


def _total(facts: Facts) -> Row:
    total: Row = {}
    for used in _kinds(facts).values():
        total = add_usage(total, used)
    return total


def _money(used: Row) -> str:
    cost = used.get("cost_usd")
    return "price not known" if cost is None else f"${cost:.2f}"


def _wall(facts: Facts) -> list[str]:
    began = [clock.parse_stamp(one.began_at) for one in facts.tasks if one.began_at]
    ended = [clock.parse_stamp(one.ended_at) for one in facts.tasks if one.ended_at]
    return (
        [f"{clock.length(round(max(ended) - min(began)))} from the first task to the last"]
        if began and ended
        else []
    )


def minds(facts: Facts, level: int = 0) -> str:
    """How to change it."""
    rows = (
        f'mngr tmr integrate {facts.run} --without CHANGE --reason "…"   # and the branch is made and tested again',
        f"mngr tmr integrate {facts.run} --with CHANGE",
        'mngr tmr redo CHANGE -m "…"   # by the agent that made it',
    )
    return "## Change your mind\n\n```sh\n" + "\n".join(rows) + "\n```"

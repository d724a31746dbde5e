"""The test map-reduce from end to end: prepare → work → verify → integrate → report.

A new run, a resumed one and a retried one take the same path, because the journal knows what is done.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.json_structs import encode
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.journal_file import Journal, JournaledState
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_state import JournalRow, RecipeRow, RunState
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.scheduler import Scheduler
from mngr.tmr.changes.integration_record import Integration
from mngr.tmr.cited_blocks import list_cited_blocks
from mngr.tmr.clean_room_and_agent_options import build_agent_options, open_clean_rooms
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.integrate.integrate import integrate
from mngr.tmr.integrate.integration_request import IntegrateRequest
from mngr.tmr.prepare.estimate import Estimate, estimate_run
from mngr.tmr.prepare.history.earlier_results import RunHistory
from mngr.tmr.prepare.prepare import PreparedTests, prepare_run
from mngr.tmr.recipe import TmrRecipe
from mngr.tmr.revise_change import restore_unanswered
from mngr.tmr.run_plan import RunPlan, load_plan
from mngr.tmr.save_run_history import record_flaky_tests, save_history


class RunReport(Protocol):
    """The pages of a run; `mngr.web.report.report.LiveReport` writes them."""

    def request_update(self) -> None:
        """Write the pages soon."""
        ...

    def close(self) -> None:
        """Write the pages for the last time."""
        ...


@dataclass(frozen=True)
class RunObserver:
    """The functions that a pipeline calls while it runs. Each of them is optional."""

    on_row: Callable[[JournalRow], None] = lambda row: None  # a row was added to the journal
    on_message: Callable[[str], None] = lambda text: None  # a line for a person
    on_tasks_end: Callable[[], None] = lambda: None  # the agents are done, or the run was interrupted
    confirm: Callable[[Estimate], bool] | None = None  # False stops the run before its first agent; None: no estimate
    report: RunReport | None = None


@dataclass(frozen=True)
class PipelineResult:
    """How a run ended. The branch, PR.md and the report are in the run's folder."""

    state: RunState
    unanswered: dict[str, str]  # tasks whose agent did not answer a redo, with the reason
    integration: Integration | None = None  # None: the run was not integrated
    integration_error: MngrError | None = None


@dataclass(frozen=True)
class _OpenRun:
    """A run that this process executes: nobody else writes its journal."""

    fleet: Fleet
    run: RunDir
    plan: RunPlan
    limits: RunLimits
    observer: RunObserver
    journal: Journal
    clean_rooms: CleanRoomPool  # for the baseline and the receipts

    def on_row(self, row: JournalRow) -> None:
        """Tell the observer and the report about a new row of the journal."""
        self.observer.on_row(row)
        if self.observer.report is not None:
            self.observer.report.request_update()


def run_pipeline(fleet: Fleet, run: RunDir, limits: RunLimits, observer: RunObserver) -> PipelineResult:
    """Take a run from its plan, or from where it stopped, to the integrated branch and the report."""
    try:
        state = run_tasks(fleet, run, limits, observer)
        unanswered = restore_unanswered(fleet.context.local_host, run)
        integration, error = _integrate(fleet, run, state, observer)
        return PipelineResult(state, unanswered, integration, error)
    finally:
        if observer.report is not None:
            observer.report.close()


def run_tasks(fleet: Fleet, run: RunDir, limits: RunLimits, observer: RunObserver) -> RunState:
    """Prepare the tests, let agents work on them, and verify every claim. Return the state of the run.

    Raise MngrError when the tests cannot be run, or when another process executes the run.
    """
    try:
        with _open_run(fleet, run, limits, observer) as open_run:
            prepared = _prepare(open_run)
            recipe = _make_recipe(open_run, prepared)
            if _confirm_estimate(open_run, prepared, recipe):
                _work_and_verify(open_run, prepared, recipe)
            return replay_rows(open_run.journal.rows)
    finally:
        observer.on_tasks_end()


@contextlib.contextmanager
def _open_run(fleet: Fleet, run: RunDir, limits: RunLimits, observer: RunObserver) -> Iterator[_OpenRun]:
    """Yield the run with its journal and its clean rooms. At the end, journal the cost of the clean rooms' hosts."""
    plan = load_plan(run)
    with Journal(run.journal) as journal:
        clean_rooms = open_clean_rooms(fleet, run, plan, "clean-room")
        clean_rooms.remove_leftovers("clean-room", "verification")  # a running integration keeps its clean rooms
        try:
            yield _OpenRun(fleet, run, plan, limits, observer, journal, clean_rooms)
        finally:
            clean_rooms.close()
            for row in clean_rooms.hosts.list_new_rows():
                journal.write(row)


def _prepare(open_run: _OpenRun) -> PreparedTests:
    """Run the tests without changes, and group their failures by root cause."""
    local, run, plan = open_run.fleet.context.local_host, open_run.run, open_run.plan
    prepared = prepare_run(local, run, plan, open_run.clean_rooms, open_run.journal, open_run.on_row)
    if open_run.clean_rooms.creates_hosts:
        open_run.clean_rooms.release_idle()  # so that agents can have the place of the hosts
    _save_root_causes(run, prepared)
    return prepared


def _make_recipe(open_run: _OpenRun, prepared: PreparedTests) -> TmrRecipe:
    """Return the recipe that plans the tasks, writes their prompts and checks the claims."""
    local, run, plan = open_run.fleet.context.local_host, open_run.run, open_run.plan
    cited = list_cited_blocks(local, run.repo, plan.base, prepared.tests)
    blocks = {test: "\n\n".join(texts) for test, texts in cited.items()}
    return TmrRecipe(local, run, plan, prepared, open_run.clean_rooms, blocks)


def _confirm_estimate(open_run: _OpenRun, prepared: PreparedTests, recipe: TmrRecipe) -> bool:
    """Journal an estimate, and return False if the observer declines it. A run with tasks was confirmed before."""
    confirm, journal, run = open_run.observer.confirm, open_run.journal, open_run.run
    if confirm is None or replay_rows(journal.rows).tasks:
        return True
    prompts = [recipe.build_test_prompt(baseline) for baseline in prepared.selected_tests]
    history, tasks = RunHistory(open_run.fleet.context.home, run.root), recipe.list_first_tasks()
    slots, cores = open_run.limits.max_agents, open_run.clean_rooms.max_rooms
    estimate = estimate_run(open_run.plan, prepared, tasks, history, prompts, slots, cores)
    open_run.on_row(journal.write(RecipeRow(type="estimate", fields=encode(estimate))))
    return confirm(estimate)


def _work_and_verify(open_run: _OpenRun, prepared: PreparedTests, recipe: TmrRecipe) -> None:
    """Run one agent per task. When an agent ends, the scheduler lets the recipe check the agent's claim."""
    fleet = open_run.fleet
    run = open_run.run
    plan = open_run.plan
    journal = open_run.journal
    options, run_state = build_agent_options(plan), JournaledState(journal, open_run.on_row)
    checks = open_run.clean_rooms.max_rooms
    try:
        Scheduler(fleet, run, run_state, recipe, options, open_run.limits, checks=checks).run()
    finally:
        local, state = fleet.context.local_host, replay_rows(journal.rows)
        save_history(local, run, plan, state, prepared)
        record_flaky_tests(local, run, plan, state, list(recipe.receipt_runs.values()))


def _integrate(
    fleet: Fleet, run: RunDir, state: RunState, observer: RunObserver
) -> tuple[Integration | None, MngrError | None]:
    """Integrate a finished run if its plan says so. Return the integration, or the error that prevented it."""
    plan = load_plan(run)
    if not state.is_finished or not plan.integrate:
        return None, None
    try:
        return integrate(fleet, run, IntegrateRequest(agent=plan.integrator), observer.on_message), None
    except MngrError as error:
        return None, error


def _save_root_causes(run: RunDir, prepared: PreparedTests) -> None:
    """Write the root causes to the run's folder."""
    path = os.path.join(run.path, "root_causes.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"v": 1, "root_causes": encode(prepared.root_causes)}, file, indent=1)
    os.replace(path + ".new", path)

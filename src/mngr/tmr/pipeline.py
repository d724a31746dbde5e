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
from mngr.tmr.prepare.history import RunHistory
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


def run_pipeline(fleet: Fleet, run: RunDir, limits: RunLimits, observer: RunObserver) -> PipelineResult:
    """Take a run from its plan, or from where it stopped, to the integrated branch and the report."""
    plan = load_plan(run)
    try:
        state = run_tasks(fleet, run, limits, observer)
        unanswered = restore_unanswered(fleet.context.local_host, run)
        if not state.is_finished or not plan.integrate:
            return PipelineResult(state, unanswered)
        try:
            integration = integrate(fleet, run, IntegrateRequest(agent=plan.integrator), observer.on_message)
        except MngrError as error:
            return PipelineResult(state, unanswered, integration_error=error)
        return PipelineResult(state, unanswered, integration)
    finally:
        if observer.report is not None:
            observer.report.close()


def run_tasks(fleet: Fleet, run: RunDir, limits: RunLimits, observer: RunObserver) -> RunState:
    """Prepare the tests, let agents work on them, and verify every claim. Return the state of the run.

    Raise MngrError when the tests cannot be run, or when another process executes the run.
    """
    plan = load_plan(run)
    local = fleet.context.local_host

    def on_row(row: JournalRow) -> None:
        observer.on_row(row)
        if observer.report is not None:
            observer.report.request_update()

    try:
        with contextlib.ExitStack() as stack:
            journal = stack.enter_context(Journal(run.journal))
            # Prepare: run the tests without changes and group their failures.
            clean_rooms = stack.enter_context(_open_clean_rooms(fleet, run, plan, journal))
            prepared = prepare_run(local, run, plan, clean_rooms, journal, on_row)
            if clean_rooms.creates_hosts:
                clean_rooms.release_idle()  # so that agents can have the place of the hosts
            _save_root_causes(run, prepared)
            recipe = TmrRecipe(local, run, plan, prepared, clean_rooms, _join_cited_blocks(fleet, run, plan, prepared))
            if observer.confirm is not None and not replay_rows(journal.rows).tasks:
                prompts = [recipe.build_test_prompt(baseline) for baseline in prepared.selected_tests]
                history = RunHistory(local.home, run.root)
                tasks = recipe.list_first_tasks()
                slots, cores = limits.max_agents, clean_rooms.max_rooms
                estimate = estimate_run(plan, prepared, tasks, history, prompts, slots, cores)
                on_row(journal.write(RecipeRow(type="estimate", fields=encode(estimate))))
                if not observer.confirm(estimate):
                    return replay_rows(journal.rows)
            # Work: the scheduler runs one agent per task. Verify: the recipe checks each claim when its agent ends.
            options, run_state = build_agent_options(plan), JournaledState(journal, on_row)
            scheduler = Scheduler(fleet, run, run_state, recipe, options, limits, checks=clean_rooms.max_rooms)
            try:
                return scheduler.run()
            finally:
                state = replay_rows(journal.rows)
                save_history(local, run, plan, state, prepared)
                record_flaky_tests(local, run, plan, state, list(recipe.receipt_runs.values()))
    finally:
        observer.on_tasks_end()


@contextlib.contextmanager
def _open_clean_rooms(fleet: Fleet, run: RunDir, plan: RunPlan, journal: Journal) -> Iterator[CleanRoomPool]:
    """Yield the clean rooms for baseline and receipts. At the end, close them and journal the cost of their hosts."""
    clean_rooms = open_clean_rooms(fleet, run, plan, "clean-room")
    clean_rooms.remove_leftovers("clean-room", "verification")  # a running integration keeps its clean rooms
    try:
        yield clean_rooms
    finally:
        clean_rooms.close()
        for row in clean_rooms.hosts.list_new_rows():
            journal.write(row)


def _save_root_causes(run: RunDir, prepared: PreparedTests) -> None:
    """Write the root causes to the run's folder."""
    path = os.path.join(run.path, "root_causes.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"v": 1, "root_causes": encode(prepared.root_causes)}, file, indent=1)
    os.replace(path + ".new", path)


def _join_cited_blocks(fleet: Fleet, run: RunDir, plan: RunPlan, prepared: PreparedTests) -> dict[str, str]:
    """Return the tutorial blocks that each test cites, as one text by test."""
    cited = list_cited_blocks(fleet.context.local_host, run.repo, plan.base, prepared.tests)
    return {test: "\n\n".join(texts) for test, texts in cited.items()}

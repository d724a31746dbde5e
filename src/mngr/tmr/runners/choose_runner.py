"""Chooses the test runner of a project. pytest is the only one so far."""

from __future__ import annotations

from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.protocol import TestRunner
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner


def choose_runner(options: PytestOptions) -> TestRunner:
    """Return the runner for these options."""
    return PytestRunner(options)


def choose_runner_of_plan(plan: RunPlan) -> TestRunner:
    """Return the runner for the tests of a run."""
    return choose_runner(PytestOptions(pytest=plan.pytest, args=plan.args, timeout=plan.test_timeout))

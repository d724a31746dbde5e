"""The recipe for tests: one agent per test, every claim re-run, one branch. Built on `mngr.mapreduce` and `Fleet`.

Start with `run.py`, a run from plan to end, and `recipe.py`, what it brings to the scheduler.
"""

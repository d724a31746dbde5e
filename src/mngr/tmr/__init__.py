"""Runs one agent per test, verifies every claim and integrates the changes into one branch.

Built on `mngr.mapreduce` and `Fleet`. Start with `run.py`, a run from plan to end, and `recipe.py`, its part for the
scheduler.
"""

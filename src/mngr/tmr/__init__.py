"""Runs one agent per test, verifies every claim and integrates the changes into one branch.

Built on `mngr.mapreduce` and `Fleet`. Start with `pipeline.py`, the whole run on one screen, and `recipe.py`, its part for the
scheduler.
"""

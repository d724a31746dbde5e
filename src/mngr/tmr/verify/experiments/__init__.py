"""Experiments: what mngr tries with a claim, and what each trial shows.

Start with `experiment.py`, which explains how to add one. `run_experiments.py` runs them all.
"""

"""Builds one branch from the confirmed changes of a run: merges them, runs the suite and bisects failures.

Start with `integrate.py`.
"""

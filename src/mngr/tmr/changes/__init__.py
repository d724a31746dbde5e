"""The changes of a run, in units that a person can take or exclude.

Start with `collect_changes.py`.
"""

"""Trends over all test runs of a project: pass rate, flaky tests, cost and time.

Start with `trends.py`; `run_summaries.py` keeps the numbers of each run.
"""

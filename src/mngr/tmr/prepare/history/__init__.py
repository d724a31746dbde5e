"""Reads the results, flaky tests and audits of earlier runs, so that a new run can use them.

Start with `earlier_results.py`.
"""

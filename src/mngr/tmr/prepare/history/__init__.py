"""What earlier runs left for later ones: their results, flaky tests and audits.

Start with `earlier_results.py`.
"""

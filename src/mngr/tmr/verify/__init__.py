"""Receipts: mngr re-runs what an agent claims and looks for weakened tests.

Start with `verify.py`. `rules/` holds the rules about the text of an edit.
"""

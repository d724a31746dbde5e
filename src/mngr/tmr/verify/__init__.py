"""Receipts: mngr re-runs what an agent claims and looks for weakened tests.

Start with `verify.py`. `legacy/` holds the text rules, which experiments will replace.
"""

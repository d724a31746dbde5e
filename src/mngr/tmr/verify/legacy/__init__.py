"""Findings about edits, from their text alone. Nothing here runs anything.

Start with `guard.py`.
"""

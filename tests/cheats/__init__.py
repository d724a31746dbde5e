"""Dishonest and honest edits of small projects, with which to measure how well mngr judges edits.

Start with README.md. `edits.py` reads the edits, `check.py` proves that they are well made, `judge.py` asks mngr.
"""

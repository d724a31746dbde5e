"""Compares a tutorial script with the tests that cite its blocks.

Start with `blocks.py` and `check_citations.py`.
"""

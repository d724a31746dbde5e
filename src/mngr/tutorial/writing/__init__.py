"""Agents that write missing parts of a tutorial or of its tests.

Start with `write_missing_tests.py`.
"""

"""Audits tests: mngr replaces the program with a stub and checks that the test fails.

Start with `stub_audit.py`.
"""

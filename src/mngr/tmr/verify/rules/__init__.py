"""Rules about the text of an edit: few, unambiguous, and each explained in one line.

Start with `weakened_tests.py` for test files, and with `path_policy.py` for the files that a change may touch.
"""

"""The checks of `expect(…)` on output, exit codes and directories.

Start with `expectation.py`.
"""

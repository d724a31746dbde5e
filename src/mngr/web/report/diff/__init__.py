"""The diff of a task's commits: lines side by side, changed words, and the colours of source code.

Start with `task_diff.py`.
"""

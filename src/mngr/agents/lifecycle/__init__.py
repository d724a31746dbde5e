"""Start, stop, rename and limit agents; start, stop and recover hosts.

Start with `start.py`.
"""

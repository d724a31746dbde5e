"""Look at agents without changing them: list, find, explain, wait, watch, transcript, usage, diff.

Start with `list.py`, which asks each host once and works out every agent's state.
"""

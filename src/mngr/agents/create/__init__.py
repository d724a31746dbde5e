"""Create an agent: plan first, then named steps that are undone when a later one fails.

Start with `create.py`.
"""

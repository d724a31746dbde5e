"""Runs one agent per task, within limits, and journals every step. Knows tasks and agents, but no tests.

It uses only `Fleet`. Start with `scheduler.py`, the loop, and `recipe.py`, the part that a pipeline brings.
"""

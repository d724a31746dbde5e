"""One agent per task, governed and journaled. Knows tasks and agents, nothing of tests; built on `Fleet` alone.

Start with `scheduler.py`, the loop, and `recipe.py`, what a pipeline brings.
"""

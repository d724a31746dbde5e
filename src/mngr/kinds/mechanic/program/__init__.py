"""The program of kind `mechanic`, the rule-based agent. It runs on the agent's host with only mngr.e2e and the player.

Start with `main.py`, which receives the jobs, and `repair.py`, the largest job.
"""

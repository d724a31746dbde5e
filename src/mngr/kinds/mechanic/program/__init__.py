"""The program of kind `mechanic`: an agent that needs no model. It runs on the agent's host, with mngr.e2e and nothing else.

Start with `main.py`, which takes jobs, and `repair.py`.
"""

"""The kinds of agents: each program that can be an agent has its own folder.

Start with `protocol.py`, then `command.py`, the smallest kind. `coding_agent.py` holds what the coding agents share.
No kind imports another, except that `mechanic` extends `player`.
"""

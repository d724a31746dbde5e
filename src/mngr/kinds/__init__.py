"""The kinds of agents: each program that can be an agent has its own folder, and no kind imports another.

Start with `protocol.py`, then `command.py`, the smallest kind. `coding_agent.py` holds what the coding agents share.
"""

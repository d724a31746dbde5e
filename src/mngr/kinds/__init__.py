"""Kinds of agents: the programs that can be an agent, a folder each. No kind knows another.

Start with `protocol.py`, then `command.py`, the smallest kind. `coding_agent.py` holds what coding agents share.
"""

"""Kind `mechanic`: the rule-based agent.

Start with `kind.py`; `program/` runs on the host.
"""

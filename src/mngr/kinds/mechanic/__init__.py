"""Kind `mechanic`: the rule-based agent.

Start with `kind.py`; `program/` is what runs on the host.
"""

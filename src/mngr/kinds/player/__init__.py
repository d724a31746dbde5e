"""Kind `player`: the scripted agent.

Start with `kind.py`; `player.py`, `acts.py` and `faults.py` run on the host and import nothing of mngr.
"""

"""Kind `player`: the scripted agent.

Start with `kind.py`; `player.py`, `work_and_fault_steps.py` and `sabotage.py` run on the host and import nothing of mngr.
"""

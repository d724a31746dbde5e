"""Commands that run many agents, and those that show what came of it.

`run_options.py` holds their common options; `tmr/` has the commands `mngr tmr ...`.
"""

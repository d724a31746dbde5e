"""Programs that run in the process of the tests. mngr sends them as text, so they import nothing of mngr.

Start with `observe_pytest.py`, a pytest plugin that writes the report. It loads the others if a run asks for them.
"""

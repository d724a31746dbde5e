"""Small faults that mngr puts into the code that a test runs.

Start with `mutant_selection.py`. `faults.py` lists the possible faults of a file.
"""

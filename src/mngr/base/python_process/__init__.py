"""Makes mngr's own Python process fast, and lets it open many files.

The modules are independent of each other; each docstring says what its module is for.
"""

"""Provider `ssh`: machines that mngr reaches with the installed `ssh` program.

Start with `provider.py`.
"""

"""The operations behind `doctor`, `init` and `plugin list`. They inspect the machine, the project and the plugins.

Start with `doctor.py` and `init/init.py`.
"""

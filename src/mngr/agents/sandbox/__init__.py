"""The bubblewrap sandbox around an agent: what it sees, what the kernel refuses it, its way to the network.

Start with `bubblewrap.py`.
"""

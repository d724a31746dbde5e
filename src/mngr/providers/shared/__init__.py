"""Code that several providers share: sockets, first contact with a host, hosts that are created on demand.

Start with `on_demand.py`.
"""

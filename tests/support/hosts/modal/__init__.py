"""A fake control plane of Modal on loopback. The unmodified library talks to it over its real protocol.

Every sandbox is a tree of real processes with its own namespaces and file system. Calls that are not modelled fail with
their name. docs/guide/modal.md lists what this cannot prove about the real service.
"""

"""A control plane of Modal's, on loopback: the unmodified library talks to it over its real protocol.

Every sandbox is a tree of real processes in namespaces of its own, over a file system of its own. What is not modelled is refused
by name. What it cannot prove about the service is in docs/concepts/modal.md.
"""

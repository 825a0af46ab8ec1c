"""Databases: plans linked to the kernel, transactions in, deltas out, committed reads."""

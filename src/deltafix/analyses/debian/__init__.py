"""Debian's package lists as facts: what is installed, what it needs, what could be installed."""

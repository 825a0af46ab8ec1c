"""Outputs behind the delta log, each against the real thing, with stops at every step."""

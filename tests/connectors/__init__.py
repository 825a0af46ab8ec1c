"""Inputs by connectors that Spark does not ship. A package, so that its fixtures end with it."""

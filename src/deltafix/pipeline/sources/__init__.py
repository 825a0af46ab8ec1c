"""Inputs of a pipeline, one kind a module; `registry` makes them from their sections."""

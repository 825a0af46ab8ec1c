"""The text door: Soufflé's dialect of Datalog in, a checked `Program` out."""

"""Programs as data, and everything that can be known about them without running them."""

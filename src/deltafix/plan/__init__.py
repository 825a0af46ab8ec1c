"""Plans: checked rules as core clauses, strata, delta rules and join orders; data, no execution."""

"""What feeds a relation while a program runs, as a program names it.

A `Feed` is whatever `reactive.fixpoint` can follow: a collection. Rules keep it beside the relation
that it fills (`Program.fed`) and never look inside; an executor that does not follow feeds refuses
such a program (`check.typed`).
"""


class Feed:
    """Rows that come and go: the base of `deltafix.reactive.Collection`."""

"""Access rights: an OpenFGA model and its tuples in; checks, lists, proofs and changes out.

    import deltafix.rights

    rights = deltafix.rights.open(MODEL)
    rights.write([("user:anne", "viewer", "document:roadmap")])
    rights.check("user:anne", "viewer", "document:roadmap")

Reading order, which is the way of a model and then that of a question:

    model.py        a model as data; dsl.py: from text; modules.py: from several;
                    reading.py: from files and JSON
    validate.py     what is wrong with one
    graph.py        a model as nodes and leaves, which all below work on
    program.py      the relations that are kept, as rules of a deltafix program
    tuples.py       tuples as rows of its input relations; bulk.py: tables of them
    contexts.py     values for parameters of conditions; conditions.py: whether these hold
    search.py       checks and lists by search; reader.py: what a search reads
    proofs.py       why; refusals.py: why not; expansion.py: expand
    changes.py      what a transaction changed
    layout.py       a model with its graph and its program; asking.py: what answers come from
    rights.py       an opened model, and its questions; transaction.py: what changes it
    store.py        files with assertions

Invariant: a relation that is kept and one that is searched give the same answers.
"""

from deltafix.rights.changes import Change, RightsDelta
from deltafix.rights.expansion import Expansion
from deltafix.rights.model import Model
from deltafix.rights.reading import read_model, read_tuples
from deltafix.rights.refusals import Refusal
from deltafix.rights.rights import Rights, Users, open  # noqa: A004  its name
from deltafix.rights.store import Outcome, run_store
from deltafix.rights.transaction import RightsTransaction
from deltafix.rights.tuples import ConditionalTuple, Tuple

__all__ = [
    "Change",
    "ConditionalTuple",
    "Expansion",
    "Model",
    "Outcome",
    "Refusal",
    "Rights",
    "RightsDelta",
    "RightsTransaction",
    "Tuple",
    "Users",
    "open",
    "read_model",
    "read_tuples",
    "run_store",
]

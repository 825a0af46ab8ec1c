"""A fragment's value flow as text: one statement a line, by function, for people to read.

Invariant: every fact of `inputs.FLOW` that a statement made is printed; facts about names are not.
"""

from __future__ import annotations

from deltafix.analyses.facts import Fragment
from deltafix.analyses.value_flow.inputs import FLOW

_FORMS = {
    "holds": "{0} = object {1}",
    "site": "{0} : {1}",
    "some": "{1} : {0}",
    "moves": "{1} = {0}",
    "guards": "{0} = known of {1}",
    "typed": "{0} : instance of {1}",
    "free": "{0} = builtin or starred {2}",
    "imports_module": "{0} = import {1}",
    "imports_name": "{0} = import {1}.{2}",
    "narrows": "{0} = {1} if instance of {2}",
    "narrows_none": "{0} = {1} if not None",
    "loads": "{0} = {1}.{2}",
    "stores": "{0}.{1} = {2}",
    "fills": "{0}{1} = {2}",
    "indexes": "{0} = {1}{2}",
    "iterates": "{0} = each of {2}",
    "picks": "{0} = {2}{3} unpacked",
    "matches": "{0} = {1} at position {2}",
    "awaits": "{0} = await {1}",
    "binary": "{0} = {2}.{1}({3})",
    "applies": "{0} = call {1}",
    "sends": "{0} = call {1}.{2}",
    "sends_super": "{0} = call super({1}, {3}).{2}",
    "argument": "{0} given {1}: {2}",
    "keyword": "{0} given {1}={2}",
    "spreads": "{0} given *{1}",
    "spreads_named": "{0} given **{1}",
    "result": "{0} returns {1}",
    "raises": "raise {0}",
    "catches": "{0} = raised instance of {1}",
}


def listing(fragment: Fragment) -> str:
    """The statements of one file, those of a function together, in the order of their variables.

    A file that could not be read gives its reason. O(facts).
    """
    if fragment.error is not None:
        return f"error: {fragment.error}"
    lines = []
    for relation, row in fragment.facts:
        if relation in FLOW:
            form = _FORMS.get(relation)
            text = form.format(*row) if form is not None else f"{relation} {' '.join(row)}"
            lines.append((row[0], text))
    return "\n".join(text for _, text in sorted(lines))

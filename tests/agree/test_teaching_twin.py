"""agree_*: the maintenance algorithm of docs/concepts/maintenance.py, the engine, and naive rounds.

Sees: a page that teaches something else than the kernel does.
"""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path
from random import Random

import pytest
from tests.support.amount import cases

import deltafix

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "maintenance.py"
spec = importlib.util.spec_from_file_location("maintenance", PAGE)
twin = importlib.util.module_from_spec(spec)
spec.loader.exec_module(twin)

ARITY = {"edge": 2, "path": 2, "left": 1, "right": 1}
RULED = ("path", "left", "right")


def random_rules(rng: Random) -> list:
    rules = []
    for _ in range(rng.randint(1, 4)):
        chosen = rng.choices(list(ARITY), k=rng.randint(1, 3))
        body = [(name, *(rng.choice("xyz") for _ in range(ARITY[name]))) for name in chosen]
        bound = [name for atom in body for name in atom[1:]]
        head = rng.choice(RULED)
        rules.append(((head, *(rng.choice(bound) for _ in range(ARITY[head]))), body))
    return rules


def rule_text(rule: tuple) -> str:
    def atom(one):
        return f"{one[0]}({', '.join(one[1:])})"

    return f"{atom(rule[0])} :- {', '.join(map(atom, rule[1]))}."


def text_of(rules) -> str:
    lines = [f".decl {name}({', '.join(f'c{k}: number' for k in range(n))})"
             for name, n in ARITY.items()]  # fmt: skip
    return "\n".join([*lines, *map(rule_text, rules)])


def naive(rules: list, given: set) -> set:
    rounds = twin.Maintained(rules)
    facts = set(given)
    while True:
        rounds.rank = dict.fromkeys(facts, 0)
        new = {(head[0], *(whole[name] for name in head[1:]))
               for head, body in rules for _, whole in rounds.bodies(body, {})}  # fmt: skip
        if new <= facts:
            return facts
        facts |= new


def random_edit(rng: Random, given: set) -> tuple[set, set]:
    def fact():
        name = rng.choice(["edge", "edge", "edge", "left", "path"])
        return (name, *(rng.randrange(3) for _ in range(ARITY[name])))

    delete = set(rng.sample(sorted(given), min(len(given), rng.randint(0, 2))))
    return {fact() for _ in range(rng.randint(0, 3))} - delete, delete


def random_rule_edit(rng: Random, kept) -> tuple[list, list]:
    """Rules to add and rules to remove: often none, now and then one that is there already."""
    held = list(kept.rules.values())
    if rng.random() < 0.6:
        return [], []
    remove = rng.sample(held, rng.randint(0, min(2, len(held))))
    return [*random_rules(rng)[: rng.randint(0, 2)], *rng.sample(held, min(1, len(held)))], remove


def test_the_example_of_the_page():
    assert doctest.testmod(twin).failed == 0
    assert doctest.testmod(twin).attempted >= 8


@pytest.mark.parametrize("first", range(0, cases(200), 50))
def test_oracle_the_twin_keeps_the_contract(first):
    touched = changed = 0
    for seed in range(first, first + 50):
        rng = Random(seed)
        kept = twin.Maintained(random_rules(rng))
        for _ in range(8):
            insert, delete = random_edit(rng, kept.given)
            before = set(kept.rank)
            added, removed = kept.commit(insert, delete, *random_rule_edit(rng, kept))
            kept.check()
            after = naive(list(kept.rules.values()), kept.given)
            assert (added, removed) == (after - before, before - after), (seed, kept.rules)
            touched += len(kept.touched)
            changed += len(added) + len(removed)
    assert changed <= touched <= 1.1 * changed  # hardly a fact is taken up that does not change


@pytest.mark.usefixtures("warm_kernel")
def test_agree_the_twin_and_the_engine():
    for seed in range(40):
        rng = Random(seed)
        kept = twin.Maintained(random_rules(rng))
        with deltafix.connect(text_of(kept.rules.values())) as db:
            for _ in range(8):
                insert, delete = random_edit(rng, kept.given)
                add, remove = random_rule_edit(rng, kept)
                with db.transaction() as tx:
                    for rule in remove:
                        tx.remove_rule(rule_text(rule))
                    for rule in add:
                        tx.add_rule(rule_text(rule))
                    for fact in sorted(delete):
                        tx.delete(fact[0], [fact[1:]])
                    for fact in sorted(insert):
                        tx.insert(fact[0], [fact[1:]])
                signed = {(sign, (name, *row)) for name in ARITY
                          for sign, row in tx.delta[name].signed()}  # fmt: skip
                added, removed = kept.commit(insert, delete, add, remove)
                assert signed == {(1, one) for one in added} | {(-1, one) for one in removed}, seed

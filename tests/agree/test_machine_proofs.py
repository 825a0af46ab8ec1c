"""agree_*: the proofs in `proofs/`, and the algorithm they are about beside the one in Python.

Sees: a theorem that no longer holds or rests on an axiom, and a definition in Coq that is another
algorithm than the teaching twin's. Every rank and every support must agree, after every commit.
Where there is no `coqc` these are skipped; `make proofs` installs it.
"""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path
from random import Random

import pytest
from tests.agree.test_teaching_twin import (
    ARITY,
    random_edit,
    random_rule_edit,
    random_rules,
    twin,
)

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "scripts" / "proofs.sh"
SEEDS = 10
COMMITS = 6

pytestmark = pytest.mark.skipif(
    not shutil.which("coqc"), reason="no coqc; `make proofs` installs it"
)

FACTS = sorted(((name, *row) for name, n in ARITY.items() for row in product(range(3), repeat=n)),
               key=repr)  # fmt: skip
"""All facts of the random programs, in the order in which the twin breaks ties."""


def check(*folders: Path) -> subprocess.CompletedProcess:
    return subprocess.run([CHECK, *folders], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compiled() -> Path:
    found = check()
    assert found.returncode == 0, found.stderr
    assert "no axioms" in found.stdout
    return ROOT / "build" / "proofs"


def instances(rules: list, kept) -> list[tuple]:
    """Every derivation over all facts, by every rule that ever held, in the order of `uses`."""
    every = twin.Maintained(rules)
    every.rank = dict.fromkeys(FACTS, 0)
    return sorted((one for number in every.rules for one in every.instances(number)), key=repr)


def numbers(found: list) -> str:
    return "[" + "; ".join(map(str, found)) + "]"


def story(seed: int) -> str:
    """A random history of the twin as a theorem: the same edits, the same ranks and supports."""
    rng = Random(seed)
    kept = twin.Maintained(random_rules(rng))
    ever = dict(kept.rules)  # rules by number, those that went included
    edits, expected = [(set(), set(), set(ever), set())], [[]]
    for _ in range(COMMITS):
        insert, delete = random_edit(rng, kept.given)
        if rng.random() < 0.3:
            insert |= set(list(delete)[:1])  # deleted and inserted in one commit
        add, remove = random_rule_edit(rng, kept)
        before = set(kept.rules)
        kept.commit(insert, delete, add, remove)
        ever |= kept.rules
        edits.append((insert, delete, set(kept.rules) - before, before - set(kept.rules)))
        expected.append([(FACTS.index(fact), kept.rank[fact], kept.support[fact])
                         for fact in FACTS if fact in kept.rank])  # fmt: skip
    order = sorted(ever)
    rows = instances([ever[number] for number in order], kept)

    def by(chosen: set) -> str:
        return numbers([at for at, (_, place, _) in enumerate(rows) if order[place] in chosen])

    def facts(chosen: set) -> str:
        return numbers(sorted(map(FACTS.index, chosen)))

    table = [
        f"({FACTS.index(h)}, {numbers([FACTS.index(f) for f in body])})" for h, _, body in rows
    ]
    script = [f"({facts(delete)}, {facts(insert)}, {by(drop)}, {by(add)})"
              for insert, delete, add, drop in edits]  # fmt: skip
    states = [f"Some {numbers([f'({at}, {r}, {s})' for at, r, s in state])}" for state in expected]
    # Computed once, at Qed: `vm_compute. reflexivity. Qed.` does it twice.
    return (
        f"Example seed_{seed} : traced {len(FACTS) - 1} {numbers(table)} 2000 {numbers(script)}\n"
        f"  = {numbers(states)}.\n"
        "Proof. match goal with |- _ = ?x => vm_cast_no_check (eq_refl x) end. Qed.\n"
    )


def test_agree_the_twin_and_its_definition_in_coq(compiled, tmp_path):
    stories = [story(seed) for seed in range(SEEDS)]
    (tmp_path / "Stories.v").write_text("From Deltafix Require Import Run.\n" + "".join(stories))
    ran = subprocess.run(["coqc", "-Q", compiled, "Deltafix", "Stories.v"], cwd=tmp_path,
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr[:2000]


def test_agree_needs_every_number(compiled, tmp_path):
    """The comparison above can fail: one support off by one."""
    text = story(3)
    at = text.rindex(")]")
    wrong = text[:at] + "0" + text[at:]
    (tmp_path / "Wrong.v").write_text("From Deltafix Require Import Run.\n" + wrong)
    ran = subprocess.run(["coqc", "-Q", compiled, "Deltafix", "Wrong.v"], cwd=tmp_path,
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert 'The term "eq_refl" has type' in ran.stderr


@pytest.mark.parametrize("text", [
    "Axiom wrong : False.\nTheorem t : False.\nProof. exact wrong. Qed.\n",
    "Theorem t : False.\nProof.\nAdmitted.\n",
    "Require Import Classical.\nTheorem t : True \\/ ~ True.\nProof. apply classic. Qed.\n",
    "Theorem t : False.\nProof. exact I. Qed.\n",
])  # fmt: skip
def test_what_is_not_proved_is_refused(text, tmp_path):
    (tmp_path / "_CoqProject").write_text("-Q . Deltafix\nMain.v\n")
    (tmp_path / "Main.v").write_text(text + "Print Assumptions t.\n")
    for _ in range(2):  # a failure is not remembered as done
        assert check(tmp_path, tmp_path / "build").returncode == 1

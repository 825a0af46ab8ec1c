"""Judges of reaching definitions in C: a bit-vector worklist, and programs that really run.

`worklist` solves the textbook equations over the same graph. `Programs` writes random functions in
two texts with equal lines: a plain one, and one in which every read and write reports its line to a
log when gcc has compiled it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

Rows = set[tuple[str, ...]]
Facts = dict[str, Rows]


def worklist(facts: Facts) -> Rows:
    """(use, variable, definition) by bit vectors: in = union of out, out = gen + (in - kill)."""
    get = lambda name: facts.get(name, set())  # noqa: E731
    kills = get("defines") | get("declares")
    exposed: dict[str, set[str]] = {}
    for function, variable in get("exposed"):
        exposed.setdefault(function, set()).add(variable)
    writes = kills | get("may_define") | get("hands")
    writes |= {(s, v) for s, f in get("clobbers") for v in exposed.get(f, ())}
    bits = {write: 1 << i for i, write in enumerate(sorted(writes))}
    of_variable: dict[str, int] = {}
    for (_, variable), bit in bits.items():
        of_variable[variable] = of_variable.get(variable, 0) | bit
    gen: dict[str, int] = {}
    kill: dict[str, int] = {}
    for (step, variable), bit in bits.items():
        gen[step] = gen.get(step, 0) | bit
        if (step, variable) in kills:
            kill[step] = kill.get(step, 0) | of_variable[variable]
    after: dict[str, list[str]] = {}
    for source, target in get("flow"):
        after.setdefault(source, []).append(target)
    reach: dict[str, int] = {}
    waiting = [step for (step,) in get("entry")]
    met = set(waiting)
    while waiting:
        step = waiting.pop()
        out = gen.get(step, 0) | (reach.get(step, 0) & ~kill.get(step, 0))
        for target in after.get(step, ()):
            if out & ~reach.get(target, 0) or target not in met:
                met.add(target)
                reach[target] = reach.get(target, 0) | out
                waiting.append(target)
    return {
        (use, variable, definition)
        for use, variable in get("uses")
        for (definition, written), bit in bits.items()
        if written == variable and reach.get(use, 0) & bit
        if (definition, written) not in get("declares")
    }


_LOG = """#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
static struct { void *at; int line; } last[64]; static int count, fuel; static jmp_buf out;
static void def(void *at, int line) {
  for (int i = 0; i < count; i++) if (last[i].at == at) { last[i].line = line; return; }
  last[count].at = at; last[count++].line = line; }
static void use(void *at, const char *name, int line) {
  for (int i = 0; i < count; i++)
    if (last[i].at == at) printf("%d %s %d\\n", line, name, last[i].line);
}
static int tick(void) { if (fuel-- < 0) longjmp(out, 1); return 1; }
#define U(v) (use(&(v), #v, __LINE__), v)
#define D(v) def(&(v), __LINE__)
#define N(v) def(&(v), -__LINE__)
#line 1
"""


class Programs:
    """Random functions; `plain` and `traced` hold their lines side by side."""

    def __init__(self, seed: int, count: int) -> None:
        self.random = Random(seed)
        self.plain: list[str] = []
        self.traced: list[str] = []
        self.count = count
        self._say("int g;")
        self._say("void bump(void) { g = g + 1; }")
        self._say("void touch(int *to) { *to = 3; }")
        for number in range(count):
            self._function(number)

    def run(self, folder: Path, compiler: str) -> set[tuple[int, str, int]]:
        """(line of a read, variable, line of the write it saw); negative: no value was there."""
        calls = "\n".join(
            f"  count = 0; fuel = 60; if (!setjmp(out)) f{i}({x});"
            for i in range(self.count)
            for x in (0, 1, 4)
        )
        text = _LOG + "\n".join(self.traced) + "\nint main(void) {\n" + calls + "\nreturn 0; }\n"
        (folder / "traced.c").write_text(text)
        command = [compiler, "-O0", "-w", "-o", "traced", "traced.c"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        told = subprocess.run(
            [folder / "traced"], cwd=folder, check=True, capture_output=True, text=True
        )
        seen = set()
        for line in set(told.stdout.splitlines()):
            use, name, definition = line.split()
            seen.add((int(use), name, int(definition)))
        return seen

    def _say(self, plain: str, traced: str | None = None) -> None:
        self.plain.append(plain)
        self.traced.append(plain if traced is None else traced)

    def _function(self, number: int) -> None:
        self.labels = [f"l{number}_{i}" for i in range(2)]
        self.waiting = list(self.labels)
        self._say(f"int f{number}(int a) {{", f"int f{number}(int a) {{ D(a); D(g);")
        self._say("int b;", "int b = 5; N(b);")
        self._say("int c = 1, d;", "int c = 1, d = 7; D(c); N(d);")
        self._say("int *p = &b;", "int *p = &b; D(p);")
        self._block(3, loop=False)
        for label in self.waiting:
            self._say(f"{label}: ;")
        self._say("return a + b + c + d + g;", "return U(a) + U(b) + U(c) + U(d) + U(g);")
        self._say("}")

    def _expression(self, depth: int = 2) -> tuple[str, str]:
        kind = self.random.randrange(9) if depth else self.random.randrange(4)
        name = self.random.choice("aabbccddg")
        if kind < 3:
            return name, f"U({name})"
        if kind == 3:
            return str(kind := self.random.randrange(4)), str(kind)
        if kind == 4:
            return "*p", "*U(p)"
        one, two = self._expression(depth - 1), self._expression(depth - 1)
        if kind == 5:
            return f"({one[0]} ? {two[0]} : {name})", f"({one[1]} ? {two[1]} : U({name}))"
        if kind == 6:
            return f"({name} = {one[0]})", f"({name} = {one[1]}, D({name}), {name})"
        operator = self.random.choice(["+", "<", "&&", "||", "==", "&", ","])
        return f"({one[0]} {operator} {two[0]})", f"({one[1]} {operator} {two[1]})"

    def _block(self, depth: int, *, loop: bool) -> None:
        for _ in range(self.random.randrange(1, 5)):
            self._statement(depth, loop=loop)

    def _statement(self, depth: int, *, loop: bool) -> None:
        kind = self.random.randrange(16)
        name = self.random.choice("abcdg")
        plain, traced = self._expression()
        if self.waiting and self.random.randrange(9) == 0:
            self._say(f"{self.waiting.pop()}: ;", None)
        if depth and kind < 7:
            self._nested(kind, depth, plain, traced, loop=loop)
        elif kind == 7:
            self._say(f"{name}++;", f"U({name}); {name}++; D({name});")
        elif kind == 8:
            self._say(f"{name} += {plain};", f"U({name}); {name} += {traced}; D({name});")
        elif kind == 9:
            self._say(f"*p = {plain};", f"{{ int v = {traced}; *U(p) = v; D(*p); }}")
        elif kind == 10:
            self._say("bump();", "bump(); D(g);")
        elif kind == 11:
            self._say("touch(&c);", "touch(&c); D(c);")
        elif kind == 12:
            target = self.random.choice("bg")
            self._say(f"p = &{target};", f"p = &{target}; D(p);")
        elif kind == 13 and loop:
            word = self.random.choice(["break", "continue"])
            self._say(f"if ({plain}) {word};", f"if ({traced}) {word};")
        elif kind == 14:
            label = self.random.choice(self.labels)
            self._say(f"if ({plain}) goto {label};", f"if ({traced} && tick()) goto {label};")
        else:
            self._say(f"{name} = {plain};", f"{name} = {traced}; D({name});")

    def _nested(self, kind: int, depth: int, plain: str, traced: str, *, loop: bool) -> None:
        if kind < 3:
            self._say(f"if ({plain}) {{", f"if ({traced}) {{")
            self._block(depth - 1, loop=loop)
            if kind:
                self._say("} else {")
                self._block(depth - 1, loop=loop)
            self._say("}")
        elif kind == 3:
            self._say(f"while ({plain}) {{", f"while (tick() && ({traced})) {{")
            self._block(depth - 1, loop=True)
            self._say("}")
        elif kind == 4:
            self._say("do {")
            self._block(depth - 1, loop=True)
            self._say(f"}} while ({plain});", f"}} while (tick() && ({traced}));")
        elif kind == 5:
            self._say(
                f"for (d = 0; d < 3 && {plain}; d++) {{",
                f"for (d = 0, D(d); tick() && U(d) < 3 && {traced}; U(d), d++, D(d)) {{",
            )
            self._block(depth - 1, loop=True)
            self._say("}")
        else:
            self._say(f"switch ({plain}) {{", f"switch ({traced}) {{")
            for value in range(3):
                self._say("default:" if value == 2 else f"case {value}:")
                self._block(depth - 1, loop=False)
                if self.random.randrange(2):
                    self._say("break;")
            self._say("}")

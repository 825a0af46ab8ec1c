"""Judges of points-to in C: Andersen's algorithm with a worklist, and programs that really run.

`andersen` solves the constraints by growing sets along edges that appear as pointers are found;
it shares the facts with the rules and nothing else. `Heaps` writes random programs in two texts: a
plain one, and one that reports after every statement what each pointer holds.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path
from random import Random

Location = tuple[str, str]
Facts = dict[str, set[tuple[str, ...]]]


class Andersen:
    """`pt` maps a location to the locations whose addresses it may hold."""

    def __init__(self, facts: Facts) -> None:
        self.facts = defaultdict(set, facts)
        self.pt: dict[Location, set[Location]] = defaultdict(set)
        self.edges: dict[Location, set[Location]] = defaultdict(set)
        self.wholes: dict[str, set[str]] = defaultdict(set)
        self.callees: set[tuple[str, str]] = set()
        self.waiting: list[tuple[Location, Location]] = []
        same = self.facts["same_type"]
        types = {t for (t,) in self.facts["record_type"]}
        for _ in same:
            types |= {t for t, u in same if u in types}
        self.whole = {v for (v,) in self.facts["record"]}
        self.whole |= {v for v, t in self.facts["typed"] if t in types}
        self.nested = {f for (f,) in self.facts["embedded"]}
        self.nested |= {f for f, t in self.facts["field_typed"] if t in types}
        self.arrays = {f for (f,) in self.facts["array_field"]}
        self.decays = self.arrays - {f for (f,) in self.facts["plain_field"]}
        self.grids = {f for (f,) in self.facts["grid_field"]}
        self.known = {
            row[0]
            for name in ("function", "allocates", "returns", "moves", "runs")
            for row in self.facts[name]
        }
        self._solve()

    def points_to(self) -> set[tuple[str, str]]:
        """The rows of the view."""
        told = {v for (v,) in self.facts["variable"]}
        allocators = {f for (f,) in self.facts["allocates"]}
        told |= {s for s, f in self.callees if f in allocators}
        return {
            (spelled(place), spelled(target))
            for place, targets in self.pt.items()
            if place[0] in told
            for target in targets
        }

    def _solve(self) -> None:
        arrays = {v for (v,) in self.facts["array"]}
        for p, f, o, g in self.facts["addr"]:
            self._hold((p, f), (o, g))
        for name in self.known:
            self._hold((name, ""), (name, ""))
        for p, f, q, g in self.facts["copy"]:
            self._assign((p, f), (q, g))
        layout = {(t, n): {f} for t, n, f in self.facts["field_at"]}
        for t, n, f in self.facts["field_at"]:
            layout[t, n].add(f)
        for _ in self.facts["same_type"]:
            for t, u in self.facts["same_type"]:
                for (kind, n), fields in list(layout.items()):
                    if kind == u:
                        layout.setdefault((t, n), set()).update(fields)
        uneven = {t for (t, _), fields in layout.items() if fields & (self.nested | self.arrays)}
        for p, t, n, q, g in self.facts["entry"]:
            there = layout.get((t, n), set()) if t not in uneven else set()
            for f in there or {"?"}:
                self._assign((p, f), (q, g))
        for e, v in self.facts["extern"]:
            self._assign((e, ""), (v, ""))
            self._fill(e, v)
            if v in arrays:
                self._hold((e, ""), (v, ""))
        size = -1
        while size != (size := sum(map(len, self.pt.values())) + len(self.callees)):
            self._spread()
            self._call()

    def _hold(self, place: Location, target: Location) -> None:
        if target not in self.pt[place]:
            self.pt[place].add(target)
            self.waiting.append((place, target))

    def _edge(self, source: Location, into: Location) -> None:
        if into not in self.edges[source]:
            self.edges[source].add(into)
            for target in list(self.pt[source]):
                self._hold(into, target)

    def _fill(self, into: str, source: str) -> None:
        if into not in self.wholes[source]:
            self.wholes[source].add(into)
            for base, field in list(self.pt):
                if base == source and field:
                    for target in list(self.pt[base, field]):
                        self._hold((into, field), target)

    def _assign(self, into: Location, source: Location) -> None:
        if source[1] not in self.decays:
            self._edge(source, into)
        self._edge((source[0], "?"), into)
        if source[1] in self.arrays:
            self._hold(into, source)
        if (
            (into[1] == "" and into[0] in self.whole)
            or (source[1] == "" and source[0] in self.whole)
            or {into[1], source[1]} & self.nested
        ):
            self._fill(into[0], source[0])

    def _spread(self) -> None:
        loads, stores, members = (defaultdict(list) for _ in range(3))
        for p, f, q, g in self.facts["load"]:
            loads[q].append((p, f, g))
        for p, f, q, g in self.facts["store"]:
            stores[p].append((f, q, g))
        for p, q, f in self.facts["member"]:
            members[q].append((p, f))
        while self.waiting:
            place, target = self.waiting.pop()
            for into in list(self.edges[place]):
                self._hold(into, target)
            for f, g in self.facts["overlaps"]:
                if g == place[1]:
                    self._hold((place[0], f), target)
            if place[1]:
                for into in list(self.wholes[place[0]]):
                    self._hold((into, place[1]), target)
                continue
            for p, f, g in loads[place[0]]:
                there = (target[0], g) if g else target
                if g not in self.decays:
                    self._edge(there, (p, f))
                self._edge((target[0], "?"), (p, f))
                if g in self.arrays or (not g and target[1] in self.grids):
                    self._hold((p, f), there)
                if (f == "" and p in self.whole) or {f, g} & self.nested:
                    self._fill(p, target[0])
            for f, q, g in stores[place[0]]:
                self._edge((q, g), (target[0], f) if f else target)
                if (g == "" and q in self.whole) or f in self.nested:
                    self._fill(target[0], q)
            for p, f in members[place[0]]:
                self._hold((p, ""), (target[0], f) if f else target)

    def _call(self) -> None:
        args = {(s, i): (a, f) for s, i, a, f in self.facts["arg"]}
        result = dict(self.facts["result"])
        for site, q in self.facts["call"]:
            for name, field in list(self.pt[q, ""]):
                if field == "" and name in self.known:
                    self.callees.add((site, name))
        for site, name in self.callees:
            into = (result[site], "")
            for f, i, p in self.facts["param"]:
                if f == name and (site, i) in args:
                    self._assign((p, ""), args[site, i])
            for f, q in self.facts["ret"]:
                if f == name:
                    self._assign(into, (q, ""))
            if (name,) in self.facts["allocates"]:
                self._hold(into, (site, ""))
            for f, i in self.facts["returns"]:
                if f == name and (site, i) in args:
                    self._assign(into, args[site, i])
            for f, i, j in self.facts["moves"]:
                if f == name and (site, i) in args and (site, j) in args:
                    for to in list(self.pt[args[site, i]]):
                        for of in list(self.pt[args[site, j]]):
                            self._edge(of, to)
                            self._fill(to[0], of[0])
            for f, i, n, j in self.facts["passes"]:
                if f == name and (site, i) in args and (site, j) in args:
                    for g, m, p in self.facts["param"]:
                        if m == n and (g, "") in self.pt[args[site, i]]:
                            self._assign((p, ""), args[site, j])


def spelled(place: Location) -> str:
    """A location as the views write it."""
    return f"{place[0]}.{place[1]}" if place[1] else place[0]


_PLAIN = """#include <stdlib.h>
#include <string.h>
struct S { int *a; struct S *next; int *(*f)(int *); };
int x0, x1, x2;
int *p0 = &x0, *p1 = &x1, *p2 = &x2, **pp0 = &p0, **pp1 = &p1, *t[2] = { &x0, &x1 };
int *id(int *v) { return v; }
int *keep(int *v) { p0 = v; return &x2; }
void swap(int **v, int **w) { int *u = *v; *v = *w; *w = u; }
void give(struct S *v, int *w) { v->a = w; }
struct S s0 = { .a = &x0, .next = &s0, .f = id }, s1 = { &x1, &s0, keep };
struct S *n0 = &s0, *n1 = &s1;
int *(*f0)(int *) = id, *(*f1)(int *) = keep;
union U { int *left; int *right; } w = { .left = &x0 };
"""
_LOG = """#include <stdio.h>
static struct { char *at; long size; const char *name; } objects[400]; static int count;
static void *put(void *at, long size, const char *name) {
  objects[count].at = at; objects[count].size = size; objects[count++].name = name; return at; }
static void see(const char *name, void *value, int field) {
  for (int i = 0; i < count; i++) {
    long inside = (char *)value - objects[i].at;
    if (inside >= 0 && inside < objects[i].size)
      printf("%s %s%s\\n", name, objects[i].name, field && objects[i].size == 24 ? ".a" : ""); } }
#define LOOK do { \\
  see("p0", p0, 0); see("p1", p1, 0); see("p2", p2, 0); see("pp0", pp0, 1); see("pp1", pp1, 1); \\
  see("t", t[0], 0); see("t", t[1], 0); see("n0", n0, 0); see("n1", n1, 0); \\
  see("s0.a", s0.a, 0); see("s1.a", s1.a, 0); see("s0.next", s0.next, 0); \\
  see("s1.next", s1.next, 0); see("s0.f", s0.f, 0); see("s1.f", s1.f, 0); see("f0", f0, 0); \\
  see("f1", f1, 0); see("w.right", w.right, 0); } while (0);
"""
_OBJECTS = ["x0", "x1", "x2", "p0", "p1", "p2", "t", "s0", "s1"]
_STATEMENTS = """
p{i} = &x{j};|p{i} = p{j};|pp{k} = &p{j};|pp{k} = &s{l}.a;|pp{k} = &t[{l}];|*pp{k} = p{j};
p{i} = *pp{k};|n{k} = &s{l};|n{k} = n{l};|n{k} = n{l}->next;|n{k}->next = n{l};|n{k}->a = p{j};
p{i} = n{k}->a;|pp{k} = &n{l}->a;|*n{k} = *n{l};|s{k} = s{l};|s{k} = *n{l};|t[{k}] = p{j};
p{i} = t[{k}];|f{k} = id;|f{k} = keep;|n{k}->f = f{l};|p{i} = f{k}(p{j});|p{i} = n{k}->f(p{j});
memcpy(n{k}, &s{l}, sizeof *n{k});|swap(pp{k}, pp{l});|give(n{k}, p{j});|w.left = p{j};
p{i} = w.right;|p{i} = x0 ? *pp{k} : (*n{l}).a;|*(t + {k}) = *pp{l};|n{k} = &(*n{l});
(*n{k}).next->a = *t;|f{k} = n{l}->f;|s{k} = x1 ? s{l} : *n{k};
""".replace("\n", "|").strip("|").split("|")  # fmt: skip


class Heaps:
    """A random program of some functions over shared pointers, structs, a union and the heap."""

    def __init__(self, seed: int, functions: int, statements: int = 14) -> None:
        random = Random(seed)
        self.functions = functions
        plain, traced = [], []
        for number in range(functions):
            plain.append(f"void f{number}_run(void) {{")
            traced.append(plain[-1])
            allocated = 0
            for _ in range(statements):
                picked = {name: random.randrange(3 if name in "ij" else 2) for name in "ijkl"}
                if random.randrange(12) == 0:
                    allocated += 1
                    node = f"n{picked['k']}"
                    after = f"{node}->a = &x{picked['i']}; {node}->next = {node}; {node}->f = id;"
                    site = f"m.c:f{number}_run@malloc#{allocated}"
                    plain.append(f"{node} = malloc(sizeof(struct S)); {after}")
                    given = f'put(malloc(sizeof(struct S)), sizeof(struct S), "{site}")'
                    traced.append(f"{node} = {given}; {after}")
                else:
                    plain.append(random.choice(_STATEMENTS).format(**picked))
                    traced.append(plain[-1])
                traced.append("LOOK")
            plain.append("}")
            traced.append("}")
        self.plain = _PLAIN + "\n".join(plain) + "\n"
        self.traced = _PLAIN + _LOG + "\n".join(traced) + "\n"

    def run(self, folder: Path, compiler: str) -> set[tuple[str, str]]:
        """(pointer, object) as they were at some moment of two rounds through all functions."""
        known = " ".join(f'put(&{name}, sizeof {name}, "{name}");' for name in _OBJECTS)
        known += ' put(id, 1, "id"); put(keep, 1, "keep");'
        calls = " ".join(f"f{number}_run();" for number in range(self.functions)) * 2
        text = f"{self.traced}int main(void) {{ {known} LOOK {calls} return 0; }}\n"
        (folder / "traced.c").write_text(text)
        command = [compiler, "-O0", "-w", "-o", "traced", "traced.c"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        told = subprocess.run(
            [folder / "traced"], cwd=folder, check=True, capture_output=True, text=True
        )
        return {(line.split()[0], line.split()[1]) for line in set(told.stdout.splitlines())}

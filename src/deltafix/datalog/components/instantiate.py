"""Instances written out: a text with components becomes one without.

`.init a = C<number>` gives every relation and type that C and its bases declare the prefix `a.`,
and a copy of their rules and directives under those names. Two passes: the first finds every
instance and what it declares, the second copies, when all names are known. Invariant: the work is
bounded by `MAX_ITEMS` copies; a component that is never instantiated adds nothing.

DF180 no such component, DF181 a component that needs itself, DF182 wrong number of arguments,
DF183 override of what is not overridable, DF111 declared twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from deltafix.datalog.components.reading import MAX_DEPTH
from deltafix.datalog.components.rename import (
    renamed_functor,
    renamed_lattice,
    renamed_order,
    renamed_relation,
    renamed_rule,
    renamed_type,
)
from deltafix.datalog.components.scope import Argument, Frame, Home, Layer
from deltafix.datalog.components.tree import ComponentSyntax, InstanceSyntax, Reference
from deltafix.datalog.parser import Syntax
from deltafix.diagnostics import Diagnostic, Span, suggest

MAX_ITEMS = 100_000
"""Declarations, rules and directives that instances may produce in one program."""


def instantiate(syntax: Syntax) -> tuple[Syntax, tuple[Diagnostic, ...]]:
    """The same program without components, and what is wrong with them.

    Linear in the text and in what the instances produce.
    """
    if not syntax.components and not syntax.instances:
        return syntax, ()
    work = _Instantiation()
    program = Frame("", None, [Layer(syntax)])
    work.fill(program, ())
    out = Syntax(starts=syntax.starts)
    if not work.found:
        _copy(program, out)
    else:
        out.types.extend(syntax.types)
    return out, tuple(work.found)


class _Instantiation:
    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self.items = 0

    def report(self, code: str, message: str, place: Span, hint: str) -> None:
        self.found.append(Diagnostic(code, message, place, hint))

    def fill(self, frame: Frame, stack: tuple[tuple[str, int, tuple[str, ...]], ...]) -> None:
        """Find what a frame declares, and its instances. `stack`: the instances around it."""
        for layer in frame.layers:
            syntax = layer.syntax
            frame.relations.update(declared.name for declared in syntax.relations)
            frame.types.update(declared.name for declared in syntax.types)
            frame.branches.update(b.name for one in syntax.types for b in one.branches if b.name)
            for component in syntax.components:
                mine = Home(component, frame, layer)
                first = frame.components.setdefault(component.name, mine)
                if first is not mine:
                    message = f"component `{component.name}` is declared twice"
                    hint = f"first declared on line {first.component.span.line}"
                    self.report("DF111", message, component.span, hint)
            self.items += len(syntax.relations) + len(syntax.types) + len(syntax.rules)
            self.items += len(syntax.directives) + len(syntax.instances)
        for layer in frame.layers:
            for item in layer.syntax.instances:
                self.instance(frame, layer, item, stack)

    def instance(
        self,
        frame: Frame,
        layer: Layer,
        item: InstanceSyntax,
        stack: tuple[tuple[str, int, tuple[str, ...]], ...],
    ) -> None:
        """One `.init`: its frame, filled, and its declarations in the frame around it."""
        if item.name in frame.instances:
            message = f"instance `{frame.prefix}{item.name}` is declared twice"
            self.report("DF111", message, item.span, "give one of them another name")
            return
        if self.items > MAX_ITEMS:
            if self.items < 2 * MAX_ITEMS:
                message = f"instances produce more than {MAX_ITEMS:,} declarations and rules"
                self.report("DF181", message, item.span, "instantiate fewer components")
                self.items = 2 * MAX_ITEMS
            return
        home = self.find(frame, layer, item.component)
        if home is None:
            return
        component = home.component
        arguments = self.arguments(frame, layer, item.component)
        mark = (component.name, id(component), tuple(argument.type for argument in arguments))
        if mark in stack or len(stack) >= MAX_DEPTH:
            names = [*(name for name, _, _ in stack), component.name]
            trail = " -> ".join(names if len(names) < 6 else [*names[:3], "…", names[-1]])
            message = f"component `{component.name}` instantiates itself: {trail}"
            self.report("DF181", message, item.span, "instantiate it outside")
            return
        inner = Frame(f"{frame.prefix}{item.name}.", frame, [])
        frame.instances[item.name] = inner
        before = len(self.found)
        self.inherit(inner, home, arguments, item.component)
        if len(self.found) > before:
            return
        self.fill(inner, (*stack, mark))
        frame.relations.update(f"{item.name}.{name}" for name in inner.relations)
        frame.types.update(f"{item.name}.{name}" for name in inner.types)
        frame.branches.update(f"{item.name}.{name}" for name in inner.branches)
        self.items += len(inner.relations)

    def find(self, frame: Frame, layer: Layer, reference: Reference) -> Home | None:
        """The component that a reference names; reported if there is none."""
        name = reference.name.text
        found = frame.component(name, layer)
        if found is None:
            name = layer.binding[name].name if name in layer.binding else name
            known = frame.component_names()
            close = suggest(name, known)
            valid = f"components: {' '.join(known)}" if known else f"declare it: .comp {name} {{ }}"
            hint = f"did you mean `{close}`?" if close else valid
            self.report("DF180", f"there is no component `{name}`", reference.name.span, hint)
        return found

    def arguments(self, frame: Frame, layer: Layer, reference: Reference) -> tuple[Argument, ...]:
        """What the arguments of a reference mean where it stands."""
        names = [token.text for token in reference.arguments]
        bound = layer.binding
        return tuple(
            Argument(
                bound[name].name if name in bound else name,
                frame.type(name, layer),
                frame.component(name, layer),
            )
            for name in names
        )

    def inherit(
        self,
        frame: Frame,
        home: Home,
        arguments: tuple[Argument, ...],
        reference: Reference,
        *,
        overridden: frozenset[str] = frozenset(),
        stack: tuple[ComponentSyntax, ...] = (),
    ) -> None:
        """Add the layers of a component's bases and its own to a frame."""
        component = home.component
        if any(one is component for one in stack):
            trail = " -> ".join(one.name for one in (*stack, component))
            message = f"component `{component.name}` inherits from itself: {trail}"
            self.report("DF181", message, reference.name.span, "leave one of the bases out")
            return
        wanted = len(component.parameters)
        if len(arguments) != wanted:
            shown = ", ".join(token.text for token in component.parameters)
            form = f"{component.name}<{shown}>" if shown else component.name
            plural = "" if wanted == 1 else "s"
            message = f"`{component.name}` has {wanted} parameter{plural}, {len(arguments)} given"
            self.report("DF182", message, reference.name.span, f"write `{form}` with your types")
            return
        names = [token.text for token in component.parameters]
        binding = home.layer.binding | dict(zip(names, arguments, strict=True))
        layer = Layer(component.body, binding, overridden)
        if any(_same(layer, other) for other in frame.layers):
            return
        mine = frozenset(token.text for token in component.overrides)
        first = len(frame.layers)
        for base in component.bases:
            found = self.find(home.frame, layer, base)
            if found is not None:
                given = self.arguments(home.frame, layer, base)
                left_out = overridden | mine
                around = (*stack, component)
                self.inherit(frame, found, given, base, overridden=left_out, stack=around)
        self.overrides(component, [inner.syntax for inner in frame.layers[first:]])
        frame.layers.append(layer)

    def overrides(self, component: ComponentSyntax, bases: Iterable[Syntax]) -> None:
        """Report each `.override` of a relation that no base declares overridable."""
        declared = {one.name: one for base in bases for one in base.relations}
        open_ = [name for name, one in declared.items() if "overridable" in one.qualifiers]
        for token in component.overrides:
            if token.text in open_:
                continue
            if token.text in declared:
                message = f"`{token.text}` is not overridable"
                hint = f"declare it in its component: `.decl {token.text}(...) overridable`"
            else:
                message = f"`{component.name}` inherits no relation `{token.text}`"
                close = suggest(token.text, open_)
                hint = f"did you mean `{close}`?" if close else "nothing inherited is overridable"
                if open_ and not close:
                    hint = f"overridable: {' '.join(open_)}"
            self.report("DF183", message, token.span, hint)


def _same(layer: Layer, other: Layer) -> bool:
    """Whether a component reached twice, with the same arguments, is one layer (a diamond)."""
    types = {name: argument.type for name, argument in layer.binding.items()}
    others = {name: argument.type for name, argument in other.binding.items()}
    return layer.syntax is other.syntax and types == others


def _copy(frame: Frame, out: Syntax) -> None:
    """Write a frame's items under their full names, then those of its instances."""
    for layer in frame.layers:
        syntax = layer.syntax
        type_name = partial(frame.type, layer=layer)
        for declared in syntax.relations:
            name = frame.prefix + declared.name
            out.relations.append(renamed_relation(declared, name, type_name))
        for kind in syntax.types:
            name = frame.prefix + kind.name
            out.types.append(renamed_type(kind, name, type_name, frame.branch))
        for functor in syntax.functors:
            one = renamed_functor(functor, type_name)
            if one not in out.functors:
                out.functors.append(one)
        for lattice in syntax.lattices:
            out.lattices.append(renamed_lattice(lattice, type_name, frame.branch))
        for directive in syntax.directives:
            out.directives.append(replace(directive, relation=frame.relation(directive.relation)))
        for rule in syntax.rules:
            kept = tuple(head for head in rule.heads if head.relation not in layer.overridden)
            if kept:
                name = rule.name and frame.prefix + rule.name
                mine = replace(rule, heads=kept, name=name)
                out.rules.append(renamed_rule(mine, frame.relation, type_name, frame.branch))
        for order in syntax.orders:
            if order.less.relation not in layer.overridden:
                called = replace(order, name=order.name and frame.prefix + order.name)
                out.orders.append(renamed_order(called, frame.relation, type_name, frame.branch))
        out.pragmas.extend(syntax.pragmas)
    for inner in frame.instances.values():
        _copy(inner, out)

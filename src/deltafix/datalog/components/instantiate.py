"""Instances written out: a text with components becomes one without.

`.init a = C<number>` gives every relation and type that C and its bases declare the prefix `a.`,
and a copy of their rules and directives under those names. Two passes: the first finds every
instance and what it declares, the second copies, when all names are known. Invariant: the work is
bounded by `MAX_ITEMS` copies; a component that is never instantiated adds nothing.

DF180 no such component, DF181 a component that needs itself, DF182 wrong number of arguments,
DF183 override of what is not overridable, DF111 declared twice.

Only names change in an item: spans stay, so an error in an instance is shown in the component.

A `Layer` is one component's text with its parameters bound; a `Frame` is an instance: the layers of
its component and of everything it inherits from, and what they declare. A name means the nearest
declaration, in the instance itself, then in the instance that holds it, up to the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

from deltafix.datalog.components.reading import (
    MAX_DEPTH,
    ComponentSyntax,
    InstanceSyntax,
    Reference,
)
from deltafix.datalog.lexer import Token
from deltafix.datalog.parser import Syntax
from deltafix.datalog.types import TypeSyntax
from deltafix.diagnostics import Diagnostic, Span, did_you_mean, suggest
from deltafix.rules import ast
from deltafix.rules.terms import Call, Const

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
    if not work.diagnostics:
        _copy(program, out)
    else:
        out.types.extend(syntax.types)
    return out, tuple(work.diagnostics)


class _Instantiation:
    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.items = 0

    def report(self, code: str, message: str, span: Span, hint: str) -> None:
        self.diagnostics.append(Diagnostic(code, message, span, hint))

    def fill(self, frame: Frame, stack: tuple[tuple[str, int, tuple[str, ...]], ...]) -> None:
        """Find what a frame declares, and its instances. `stack`: the instances around it."""
        for layer in frame.layers:
            syntax = layer.syntax
            frame.relations.update(declared.name for declared in syntax.relations)
            frame.types.update(declared.name for declared in syntax.types)
            frame.branches.update(
                b.name for type_ in syntax.types for b in type_.branches if b.name
            )
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
        before = len(self.diagnostics)
        self.inherit(inner, home, arguments, item.component)
        if len(self.diagnostics) > before:
            return
        self.fill(inner, (*stack, mark))
        frame.relations.update(f"{item.name}.{name}" for name in inner.relations)
        frame.types.update(f"{item.name}.{name}" for name in inner.types)
        frame.branches.update(f"{item.name}.{name}" for name in inner.branches)
        self.items += len(inner.relations)

    def find(self, frame: Frame, layer: Layer, reference: Reference) -> Home | None:
        """The component that a reference names; reported if there is none."""
        name = reference.name.text
        home = frame.component(name, layer)
        if home is None:
            name = layer.binding[name].name if name in layer.binding else name
            known = frame.component_names()
            close = suggest(name, known)
            valid = f"components: {' '.join(known)}" if known else f"declare it: .comp {name} {{ }}"
            hint = f"did you mean `{close}`?" if close else valid
            self.report("DF180", f"there is no component `{name}`", reference.name.span, hint)
        return home

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
        if any(ancestor is component for ancestor in stack):
            trail = " -> ".join(ancestor.name for ancestor in (*stack, component))
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
            base_home = self.find(home.frame, layer, base)
            if base_home is not None:
                given = self.arguments(home.frame, layer, base)
                left_out = overridden | mine
                around = (*stack, component)
                self.inherit(frame, base_home, given, base, overridden=left_out, stack=around)
        self.overrides(component, [inner.syntax for inner in frame.layers[first:]])
        frame.layers.append(layer)

    def overrides(self, component: ComponentSyntax, bases: Iterable[Syntax]) -> None:
        """Report each `.override` of a relation that no base declares overridable."""
        declared = {relation.name: relation for base in bases for relation in base.relations}
        open_ = [
            name for name, relation in declared.items() if "overridable" in relation.qualifiers
        ]
        for token in component.overrides:
            if token.text in open_:
                continue
            if token.text in declared:
                message = f"`{token.text}` is not overridable"
                hint = f"declare it in its component: `.decl {token.text}(...) overridable`"
            else:
                message = f"`{component.name}` inherits no relation `{token.text}`"
                valid = f"overridable: {' '.join(open_)}"
                valid = valid if open_ else "nothing inherited is overridable"
                hint = did_you_mean(token.text, open_, valid)
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
            renamed = renamed_functor(functor, type_name)
            if renamed not in out.functors:
                out.functors.append(renamed)
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


Naming = Callable[[str], str]


def _columns(columns: tuple[ast.Attribute, ...], types: Naming) -> tuple[ast.Attribute, ...]:
    return tuple(replace(column, type=types(column.type)) for column in columns)


def renamed_relation(declared: ast.RelationDecl, name: str, types: Naming) -> ast.RelationDecl:
    """The declaration under another name, its columns' types replaced."""
    return replace(declared, name=name, attributes=_columns(declared.attributes, types))


def renamed_type(declared: TypeSyntax, name: str, types: Naming, branches: Naming) -> TypeSyntax:
    """The declaration under another name, the types it is made of and its branches replaced."""
    parents = tuple(_token(parent, types(parent.text)) for parent in declared.parents)
    renamed = tuple(
        replace(b, name=branches(b.name) if b.name else "", fields=_columns(b.fields, types))
        for b in declared.branches
    )
    return replace(declared, name=name, parents=parents, branches=renamed)


def renamed_functor(declared: ast.FunctorDecl, types: Naming) -> ast.FunctorDecl:
    """The declaration with its types replaced; a functor's name is the whole program's."""
    arguments = _columns(declared.arguments, types)
    return replace(declared, arguments=arguments, result=types(declared.result))


def renamed_lattice(declared: ast.LatticeDecl, types: Naming, branches: Naming) -> ast.LatticeDecl:
    """The lattice of the type under its full name, branches in its constants replaced."""
    operations = tuple(
        (name, _renamed(term, str, types, branches)) for name, term in declared.operations
    )
    return replace(declared, type=types(declared.type), operations=operations)


def _token(token: Token, text: str) -> Token:
    return replace(token, text=text)


def renamed_rule(rule: ast.Rule, relations: Naming, types: Naming, branches: Naming) -> ast.Rule:
    """The rule with every atom's relation, every cast's type and every branch replaced."""
    renamed = _renamed(rule, relations, types, branches)
    assert isinstance(renamed, ast.Rule)  # noqa: S101  renaming keeps the kind of node
    return renamed


def renamed_order(
    order: ast.Dominates, relations: Naming, types: Naming, branches: Naming
) -> ast.Dominates:
    """A subsumption, renamed as a rule is."""
    renamed = _renamed(order, relations, types, branches)
    assert isinstance(renamed, ast.Dominates)  # noqa: S101  renaming keeps the kind of node
    return renamed


def _renamed(node: Any, relations: Naming, types: Naming, branches: Naming) -> Any:
    if isinstance(node, tuple):
        return tuple(_renamed(part, relations, types, branches) for part in node)
    if isinstance(node, Call) and node.functor == "as":
        inner, target = node.args
        if isinstance(target, Const):
            target = replace(target, value=types(str(target.value)))
        return replace(node, args=(_renamed(inner, relations, types, branches), target))
    if not is_dataclass(node) or isinstance(node, Span | type):
        return node
    parts = {
        part.name: _renamed(value, relations, types, branches)
        for part in fields(node)
        if isinstance(value := getattr(node, part.name), tuple) or is_dataclass(value)
    }
    if isinstance(node, ast.Atom):
        parts["relation"] = relations(node.relation)
    if isinstance(node, Call) and node.functor.startswith("$"):
        parts["functor"] = f"${branches(node.functor[1:])}"
    return replace(node, **parts)


@dataclass(frozen=True, slots=True)
class Home:
    """A component with the instance and the layer whose text declares it."""

    component: ComponentSyntax
    frame: Frame
    layer: Layer


@dataclass(frozen=True, slots=True)
class Argument:
    """What a parameter stands for: a name, as a type by its full name, and as a component.

    As a component the name means what is called so where the parameter is used, as in Soufflé, and
    only then what is called so where the argument stands.
    """

    name: str
    type: str
    component: Home | None


@dataclass(slots=True)
class Layer:
    """One component's text inside an instance; rules for `overridden` relations are left out.

    `binding` holds the parameters of the component and of those its text stands in.
    """

    syntax: Syntax
    binding: dict[str, Argument] = field(default_factory=dict)
    overridden: frozenset[str] = frozenset()


@dataclass(slots=True)
class Frame:
    """An instance (or the whole program): its dotted prefix, its layers, and what they declare.

    `relations`, `types` and `branches` hold local names, dotted for those of instances inside.
    """

    prefix: str
    parent: Frame | None
    layers: list[Layer]
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    branches: set[str] = field(default_factory=set)
    components: dict[str, Home] = field(default_factory=dict)
    instances: dict[str, Frame] = field(default_factory=dict)

    def enclosing(self) -> Iterator[Frame]:
        """This instance, the one it stands in, and so on to the whole program."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent

    def _full(self, name: str, declared: Callable[[Frame], set[str]]) -> str:
        """A name as the nearest frame that declares it has it; itself where none does."""
        frames = (frame for frame in self.enclosing() if name in declared(frame))
        return next((frame.prefix + name for frame in frames), name)

    def relation(self, name: str) -> str:
        """The full name of a relation."""
        return self._full(name, attrgetter("relations"))

    def branch(self, name: str) -> str:
        """The full name of a branch of an algebraic data type."""
        return self._full(name, attrgetter("branches"))

    def type(self, name: str, layer: Layer) -> str:
        """The full name of a type; a parameter of the layer is what it stands for."""
        if name in layer.binding:
            return layer.binding[name].type
        return self._full(name, attrgetter("types"))

    def component(self, name: str, layer: Layer) -> Home | None:
        """A component by name; a parameter of the layer is what it stands for."""
        bound = layer.binding.get(name)
        wanted = name if bound is None else bound.name
        for frame in self.enclosing():
            if wanted in frame.components:
                return frame.components[wanted]
        return None if bound is None else bound.component

    def component_names(self) -> list[str]:
        """Every component that can be named here, the nearest first."""
        return [name for frame in self.enclosing() for name in frame.components]

"""What a name means inside an instance of a component.

Nouns: a `Layer` is one component's text with its parameters bound; a `Frame` is an instance: the
layers of its component and of everything it inherits from, and what they declare. Invariant: a
name means the nearest declaration, in the instance itself, then in the instance that holds it, up
to the program; a name that is declared nowhere keeps its spelling and is reported by `rules.check`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltafix.datalog.components.tree import ComponentSyntax
from deltafix.datalog.parser import Syntax


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

    def relation(self, name: str) -> str:
        """The full name of a relation."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.relations:
                return frame.prefix + name
            frame = frame.parent
        return name

    def branch(self, name: str) -> str:
        """The full name of a branch of an algebraic data type."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.branches:
                return frame.prefix + name
            frame = frame.parent
        return name

    def type(self, name: str, layer: Layer) -> str:
        """The full name of a type; a parameter of the layer is what it stands for."""
        if name in layer.binding:
            return layer.binding[name].type
        frame: Frame | None = self
        while frame is not None:
            if name in frame.types:
                return frame.prefix + name
            frame = frame.parent
        return name

    def component(self, name: str, layer: Layer) -> Home | None:
        """A component by name; a parameter of the layer is what it stands for."""
        bound = layer.binding.get(name)
        wanted = name if bound is None else bound.name
        frame: Frame | None = self
        while frame is not None:
            if wanted in frame.components:
                return frame.components[wanted]
            frame = frame.parent
        return None if bound is None else bound.component

    def component_names(self) -> list[str]:
        """Every component that can be named here, the nearest first."""
        found: list[str] = []
        frame: Frame | None = self
        while frame is not None:
            found.extend(frame.components)
            frame = frame.parent
        return found

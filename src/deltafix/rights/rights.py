"""An opened model: tuples in, questions answered, changes out.

A `Rights` is a database whose input relations hold tuples. Relations of the model that are named in
`materialise` are kept as views: then lists are lookups, and who gained and lost what is in every
delta. All others are searched when asked (`search`). Both give the same answers. Invariant: a
question sees the last committed transaction, with its contextual tuples and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from deltafix.engine.connect import connect
from deltafix.errors import NoSuchFactError, RightsQuestionError, RightsTupleError, StateError
from deltafix.rights.bulk import rows_of_table
from deltafix.rights.changes import Part, RightsDelta
from deltafix.rights.dsl import parse_dsl
from deltafix.rights.expansion import Expansion, expansion_of
from deltafix.rights.graph import Graph, Node, Source
from deltafix.rights.lists import Downwards, Upwards
from deltafix.rights.model import Model
from deltafix.rights.program import View, program_of
from deltafix.rights.proofs import proof_of
from deltafix.rights.reader import Contextual, Plain, Reader
from deltafix.rights.reading import read_model
from deltafix.rights.refusals import Refusal, refusal_of
from deltafix.rights.search import Search
from deltafix.rights.tuples import (
    Tuple,
    listed,
    object_of,
    placed,
    relation_node,
    shown,
    subject_of,
    tuple_of,
)
from deltafix.rights.validate import checked

if TYPE_CHECKING:
    from deltafix.engine.watch import Watch
    from deltafix.facts.delta import Delta
    from deltafix.provenance.proof import Proof
    from deltafix.rules.ast import Program

_MARK = "rights"
"""Under which a state folder notes the model, and what is kept."""


class Users(NamedTuple):
    """Who has a relation to an object.

    Attributes:
        users: sorted; or `user:*` alone: everyone of the type but `excluded`.
        excluded: sorted; none unless everyone else has it.
    """

    users: list[str]
    excluded: list[str]

    def has(self, user: str) -> bool:
        """Whether a user of the type is among them."""
        everyone = f"{user.partition(':')[0]}:*"
        public = everyone in self.users and "#" not in user
        return user in self.users or (public and user not in self.excluded)


class _Laid(NamedTuple):
    """A model laid out: its graph, its program, and what that keeps."""

    graph: Graph
    program: Program
    kept: tuple[str, ...]
    views: dict[tuple[int, str], View]
    sources: dict[str, Source]
    shown: dict[str, Part]

    def delta(self, delta: Delta) -> RightsDelta:
        """What a delta of the engine says, under this model."""
        return RightsDelta(delta, self.sources, self.shown, {})


def _laid(model: Model, materialise: Iterable[str]) -> _Laid:
    graph = checked(model)
    names = [materialise] if isinstance(materialise, str) else list(dict.fromkeys(materialise))
    kept = [_kept(graph, name).number for name in names]
    program, views = program_of(graph, kept)
    whole = {key: view for key, view in views.items() if key[0] in kept}
    parts: dict[str, Part] = {}
    for (number, users), view in whole.items():
        node = graph.nodes[number]
        for which, name in (("|", view.holds), ("*", view.everyone), ("-", view.excepted)):
            if name:
                parts[name] = (node.type, node.name, users, which)
    return _Laid(graph, program, tuple(names), whole, graph.sources(), parts)


def _kept(graph: Graph, name: str) -> Node:
    type_, mark, relation = name.partition("#")
    if not mark:
        message = f"{name!r} names no relation; write `document#viewer`"
        raise RightsQuestionError(message, value=name)
    return relation_node(graph, type_, relation)


def open(  # noqa: A001  as `deltafix.rights.open`
    model: Model | str | Path | Mapping[str, Any],
    path: str | Path | None = None,
    *,
    materialise: Iterable[str] = (),
    fsync: str = "always",
) -> Rights:
    """Open a model.

    Args:
        model: OpenFGA's DSL as text, its JSON form as text or as `json.loads` made it, a `Path` of
            a file with either, or a `Model`.
        path: a folder, or URL, where tuples outlive the process; None keeps them in memory. What
            is there under another model is brought to this one, as `change_model` does.
        materialise: relations to be kept as views, as `document#viewer`.
        fsync: as `deltafix.connect` takes it.

    Raises:
        RightsModelError: the model is none; with every diagnostic.
        RightsRefusedError: it has conditions or modules.
        RightsQuestionError: `materialise` names what the model does not have.
        RightsTupleError: tuples in the folder that the model does not allow.
        StateInUseError, StateError: as `deltafix.connect`.
    """
    wanted = _laid(read_model(model), materialise)
    if path is None:
        return Rights(connect(wanted.program), wanted)
    was: list[_Laid] = []

    def program(marks: Mapping[str, Any]) -> Program:
        noted = marks.get(_MARK)
        if noted is None and marks:
            raise StateError(f"{path} is a state of something else; take another folder")
        known = wanted if noted is None else _laid(parse_dsl(noted[0]), noted[1])
        was.append(known)
        return known.program

    db = connect(program, path, fsync=fsync)
    try:
        rights = Rights(db, was[0])
        if getattr(db, "marks", {}).get(_MARK) != _noted(wanted):
            with rights.transaction() as tx:
                tx._change(wanted)
    except BaseException:
        db.close()
        raise
    return rights


def _noted(laid: _Laid) -> list[Any]:
    return [str(laid.graph.model), list(laid.kept)]


class Rights:
    """Made by `open`. A context manager; for several threads."""

    def __init__(self, db: Any, laid: _Laid) -> None:
        self._db = db
        self._laid = laid
        self._changes = laid.delta

    @property
    def model(self) -> Model:
        """The model that holds now."""
        return self._laid.graph.model

    @property
    def materialised(self) -> tuple[str, ...]:
        """The relations that are kept as views."""
        return self._laid.kept

    @property
    def database(self) -> Any:
        """The database behind it: its program, its last epoch, its memory."""
        return self._db

    # --- changes -----------------------------------------------------------------------------

    def transaction(self, *, missing: str = "error") -> RightsTransaction:
        """Begin a transaction; as a context manager it commits on a clean exit.

        Args:
            missing: what deleting a tuple that is not there does: `"error"` or `"ignore"`.
        """
        return RightsTransaction(self, missing)

    def write(self, tuples: Any) -> RightsDelta:
        """Write tuples in a transaction of their own. See `RightsTransaction.write`."""
        with self.transaction() as tx:
            tx.write(tuples)
        return tx.delta

    def delete(self, tuples: Any, *, missing: str = "error") -> RightsDelta:
        """Delete tuples in a transaction of their own. See `RightsTransaction.delete`."""
        with self.transaction(missing=missing) as tx:
            tx.delete(tuples)
        return tx.delta

    def change_model(
        self,
        model: Model | str | Path | Mapping[str, Any],
        *,
        materialise: Iterable[str] | None = None,
    ) -> RightsDelta:
        """Have another model, or keep other relations, from now on. See the transaction's."""
        with self.transaction() as tx:
            tx.change_model(model, materialise=materialise)
        return tx.delta

    def watch(
        self, relation: str | None, callback: Callable[[RightsDelta], object]
    ) -> Watch[Delta]:
        """Call back after every transaction that changes a kept relation; with None, any tuple.

        What the callback is given has the whole transaction's changes: `delta.changes(relation)`.
        `close` ends a watch, and so does the end of a `with` block.

        Raises RightsQuestionError for a relation that is not kept.
        """
        if relation is not None:
            self._require_kept(relation)

        def told(delta: Delta) -> None:
            found = self._changes(delta)
            if found.concerns(relation):
                callback(found)

        watch: Watch[Delta] = self._db.watch(None, told)
        return watch

    def _require_kept(self, relation: str) -> None:
        _kept(self._laid.graph, relation)
        if relation not in self._laid.kept:
            there = ", ".join(self._laid.kept) or "none"
            message = (
                f"{relation!r} is searched when asked, so nobody knows when it changes; open with "
                f'materialise=["{relation}"] to keep it (kept: {there})'
            )
            raise RightsQuestionError(message, relation=relation)

    # --- questions ---------------------------------------------------------------------------

    def check(
        self,
        user: str,
        relation: str,
        object: str,  # noqa: A002
        *,
        contextual: Any = (),
    ) -> bool:
        """Whether a user has a relation to an object.

        Args:
            user: `user:anne`; also a userset, `group:eng#member`, or `user:*`: whoever no tuple
                names.
            relation: of the object's type.
            object: `document:roadmap`.
            contextual: tuples that hold for this question beside the committed ones.

        A kept relation is looked up; another is searched: O(usersets and related objects between
        the object and the user).

        Raises RightsQuestionError, and RightsTupleError for contextual tuples.
        """
        return self.batch_check([(user, relation, object)], contextual=contextual)[0]

    def batch_check(self, questions: Iterable[Any], *, contextual: Any = ()) -> list[bool]:
        """Several checks of one state, in their order. Questions are tuples; the rest as `check`.

        What one check of a user finds out is known to the next.
        """
        found: list[bool] = []
        searches: dict[str, Search] = {}
        with self._reading(contextual) as (laid, reader, views):
            for question in questions:
                user, relation, object_ = tuple_of(question)
                node, at = self._asked(laid, reader, relation, object_)
                search = searches.get(user)
                if search is None:
                    subject = subject_of(laid.graph, user)
                    search = searches[user] = Search(laid.graph, reader, subject, views)
                found.append(search.holds(node.number, at))
        return found

    def list_objects(
        self,
        user: str,
        relation: str,
        type: str,  # noqa: A002
        *,
        contextual: Any = (),
    ) -> list[str]:
        """The objects of a type to which a user has a relation, sorted.

        Of a kept relation O(objects found, and objects of `user:*`); else a search from the user
        up: O(what holds on the way).

        Raises as `check`.
        """
        with self._reading(contextual) as (laid, reader, views):
            node = relation_node(laid.graph, type, relation)
            subject = subject_of(laid.graph, user)
            search = Search(laid.graph, reader, subject, views)
            codes = Upwards(laid.graph, search).objects(node)
            return sorted(f"{type}:{reader.symbol(code)}" for code in codes)

    def list_users(
        self,
        relation: str,
        object: str,  # noqa: A002
        type: str,  # noqa: A002
        *,
        contextual: Any = (),
    ) -> Users:
        """The users of a type that have a relation to an object.

        Args:
            relation: of the object's type.
            object: as `check` takes it.
            contextual: as `check` takes it.
            type: `user`, or `group#member` for the usersets that have it.

        Of a kept relation O(users found); else a search from the object down: O(goals below it, and
        the users of each).

        Raises as `check`.
        """
        with self._reading(contextual) as (laid, reader, views):
            node, at = self._asked(laid, reader, relation, object)
            kind, _, within = type.partition("#")
            if within:
                relation_node(laid.graph, kind, within)
            else:
                subject_of(laid.graph, f"{type}:*")
            search = Downwards(laid.graph, reader, type, views)
            crowd = search.users((node.number, at))
            end = f"#{within}" if within else ""

            def listed_(codes: Iterable[int]) -> list[str]:
                return sorted(f"{kind}:{reader.symbol(code)}{end}" for code in codes)

            if not crowd.everyone:
                return Users(listed_(crowd.some), [])
            return Users([f"{type}:*"], listed_(crowd.some))

    def expand(self, relation: str, object: str, *, contextual: Any = ()) -> Expansion:  # noqa: A002
        """How users come to a relation to an object: the definition, with the tuples in it.

        One level, as Zanzibar's Expand: usersets and related objects are named, not followed.

        Raises as `check`.
        """
        with self._reading(contextual) as (laid, reader, _):
            node, at = self._asked(laid, reader, relation, object)
            definition = laid.graph.model.relation(node.type, node.name)
            assert definition is not None  # noqa: S101  its node was found
            return expansion_of(laid.graph.model, reader, node.type, definition, at)

    def why(
        self,
        user: str,
        relation: str,
        object: str,  # noqa: A002
        *,
        contextual: Any = (),
    ) -> Proof:
        """Why a user has a relation to an object: a proof in tuples and lines of the model.

        One of least height: relations on the longest way down to a tuple. `proof.leaves` are the
        tuples; what is excluded and does not hold is named at its step. Searched, also in kept
        relations: O(usersets and related objects below the object).

        Raises NoSuchFactError if the user has it not, and as `check`.
        """
        with self._reading(contextual) as (laid, reader, _):
            node, at = self._asked(laid, reader, relation, object)
            subject = subject_of(laid.graph, user)
            search = Search(laid.graph, reader, subject, smallest=True)
            if not search.holds(node.number, at):
                message = f"{user} is not {relation} of {object}; why-not says where each way ends"
                raise NoSuchFactError(message)
            return proof_of(laid.graph, search, laid.sources, (node.number, at))

    def why_not(
        self,
        user: str,
        relation: str,
        object: str,  # noqa: A002
        *,
        contextual: Any = (),
        limit: int = 100,
    ) -> Refusal:
        """Why a user has not a relation to an object: every way to it, and where each one ends.

        So many relations at objects are explained, each once. Searched, also in kept relations:
        O(usersets and related objects below the object).

        Raises NoSuchFactError if the user has it, and as `check`.
        """
        with self._reading(contextual) as (laid, reader, _):
            node, at = self._asked(laid, reader, relation, object)
            search = Search(laid.graph, reader, subject_of(laid.graph, user))
            if search.holds(node.number, at):
                message = f"{user} is {relation} of {object}; why has the proof"
                raise NoSuchFactError(message)
            return refusal_of(laid.graph, search, laid.sources, (node.number, at), limit)

    def tuples(self) -> Iterator[Tuple]:
        """All tuples that were written, one relation after another. O(tuples)."""
        laid = self._laid
        for name, source in laid.sources.items():
            for row in self._db.rows(name):
                yield shown(source, row)

    def __len__(self) -> int:
        """The number of tuples. O(1)."""
        return sum(self._db.count(name) for name in self._laid.sources)

    @contextmanager
    def _reading(
        self, contextual: Any
    ) -> Iterator[tuple[_Laid, Reader, Mapping[tuple[int, str], View]]]:
        """One state: its model, what reads its tuples, and the views that go for it."""
        with self._db.probing() as probe:
            laid = self._laid
            more = [placed(laid.graph, tuple_of(one)) for one in listed(contextual)]
            if more:  # views know nothing of these
                yield laid, Contextual(probe, more), {}
            else:
                yield laid, Plain(probe), laid.views

    @staticmethod
    def _asked(laid: _Laid, reader: Reader, relation: str, object_: str) -> tuple[Node, int]:
        type_, name = object_of(laid.graph, object_)
        return relation_node(laid.graph, type_, relation), reader.code(name)

    # --- life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the state; watches end. Idempotent."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        kept = ", ".join(self.materialised) or "nothing"
        return f"<Rights: {len(self):,} tuples, {kept} kept>"


class RightsTransaction:
    """Made by `Rights.transaction`; begins at once, and others wait until it ends."""

    def __init__(self, rights: Rights, missing: str) -> None:
        self._rights = rights
        self._tx = rights._db.transaction(missing=missing)
        self._was = self._laid = rights._laid
        self._delta = self._laid.delta
        self._changed = False

    def write(self, tuples: Any) -> int:
        """Write tuples; those that are there are no-ops. Returns how many were new.

        Args:
            tuples: (user, relation, object) triples, mappings with these keys, or a table with
                these columns (pyarrow, pandas, polars), which is read by columns.

        Raises RightsTupleError for a tuple that the model does not allow; nothing was written.
        """
        return sum(self._tx.insert(name, rows) for name, rows in self._rows(tuples))

    def delete(self, tuples: Any) -> int:
        """Delete tuples. Returns how many were there. Arguments as for `write`.

        Raises RightsTupleError for a tuple that the model does not allow or, unless `missing` is
        `"ignore"`, that is not there; nothing was deleted.
        """
        found = list(self._rows(tuples))
        if self._tx._missing == "error":
            for name, rows in found:
                there = self._tx.given(name, rows)
                if not there.all():
                    row = _row(rows, int(there.argmin()))
                    missing = shown(self._laid.sources[name], row)
                    message = (
                        f"cannot delete `{missing}`: no such tuple was written; "
                        f'`missing="ignore"` would skip it'
                    )
                    raise RightsTupleError(message, value=missing)
        return sum(self._tx.delete(name, rows) for name, rows in found)

    def change_model(
        self,
        model: Model | str | Path | Mapping[str, Any],
        *,
        materialise: Iterable[str] | None = None,
    ) -> None:
        """Have another model from the commit on, for what the difference of the rules costs.

        The delta says who gains and who loses in relations that are kept; of one that was not kept
        before, all of it.

        Args:
            model: as `open` takes it.
            materialise: the relations to keep; None: those kept now.

        Raises as `open`; RightsTupleError for tuples, some of this transaction perhaps, that the
        model does not allow: delete them in the transaction first.
        """
        kept = self._laid.kept if materialise is None else materialise
        self._change(_laid(read_model(model), kept))

    def _change(self, laid: _Laid) -> None:
        for name, source in self._was.sources.items():
            if name not in laid.sources:
                left = self._tx.given_rows(name)
                if left.num_rows:
                    one = shown(source, _row(left, 0))
                    message = (
                        f"{left.num_rows:,} tuple(s) such as `{one}` are not allowed by this "
                        f"model, which has no `{name}`; delete them in the same transaction, first"
                    )
                    raise RightsTupleError(message, value=one)
        was, rows = self._was, self._rights._db.rows
        left = [name for name in was.sources if name not in laid.sources]
        left += [
            name
            for name, part in was.shown.items()
            if name not in laid.shown and "#".join(part[:2]) in laid.kept
        ]
        gone = {name: rows(name) for name in left}
        sources, parts = was.sources | laid.sources, {**laid.shown}
        parts |= {name: was.shown[name] for name in left if name in was.shown}
        self._delta = lambda delta: RightsDelta(delta, sources, parts, gone)
        if laid.program != self._was.program:
            self._tx.change_program(laid.program)
        if hasattr(self._tx, "mark"):
            self._tx.mark(_MARK, _noted(laid))
        self._laid, self._changed = laid, True

    def _rows(self, tuples: Any) -> Iterable[tuple[str, Any]]:
        if self._changed:
            message = (
                "the model changes in this transaction; write tuples before, or in another one"
            )
            raise RightsTupleError(message)
        return _by_source(self._laid, tuples)

    def commit(self) -> RightsDelta:
        """Commit; returns what changed. On an error everything is rolled back first."""
        with self._committing():
            self._tx.commit()
        return self.delta

    def rollback(self) -> None:
        """Forget the edits; all is as before."""
        self._tx.rollback()

    @property
    def delta(self) -> RightsDelta:
        """What the committed transaction changed."""
        return self._delta(self._tx.delta)

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Show readers and watchers the model with its tuples: it is put there before they come."""
        rights = self._rights
        rights._laid, rights._changes = self._laid, self._delta
        try:
            yield
        finally:
            if not self._tx.is_committed:
                rights._laid = self._was
            rights._changes = rights._laid.delta

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with self._committing():
            self._tx.__exit__(kind, error, at)


def _by_source(laid: _Laid, tuples: Any) -> Iterable[tuple[str, Any]]:
    """Rows by input relation; a tuple that is named twice is there once."""
    if hasattr(tuples, "__arrow_c_stream__") or hasattr(tuples, "num_columns"):
        return rows_of_table(laid.graph, tuples)
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for one in listed(tuples):
        source, row = placed(laid.graph, tuple_of(one))
        found.setdefault(source, {})[row] = None
    return [(name, list(rows)) for name, rows in found.items()]


def _row(rows: Any, place: int) -> tuple[str, ...]:
    if isinstance(rows, Sequence):
        row: tuple[str, ...] = rows[place]
        return row
    return tuple(column[place].as_py() for column in rows.columns)

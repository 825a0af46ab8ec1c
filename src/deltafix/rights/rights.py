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
from typing import TYPE_CHECKING, Any, NamedTuple

from deltafix.closing import Closing
from deltafix.diagnostics import plural
from deltafix.engine.connect import connect
from deltafix.errors import NoSuchFactError, RightsQuestionError, StateError
from deltafix.facts.values import require_callback
from deltafix.rights.asking import Asked, Context, asked_of, question_of
from deltafix.rights.changes import RightsDelta
from deltafix.rights.dsl import parse_dsl
from deltafix.rights.expansion import Expansion, expansion_of
from deltafix.rights.layout import MARK, Layout, kept_node, layout_of, noted
from deltafix.rights.lists import Downwards, Upwards
from deltafix.rights.model import Model
from deltafix.rights.proofs import proof_of
from deltafix.rights.reading import read_model
from deltafix.rights.refusals import Refusal, refusal_of
from deltafix.rights.search import Search
from deltafix.rights.transaction import RightsTransaction
from deltafix.rights.tuples import AnyTuple, relation_node, shown, subject_of

if TYPE_CHECKING:
    from deltafix.engine.watch import Watch
    from deltafix.facts.delta import Delta
    from deltafix.provenance.proof import Proof
    from deltafix.rules.ast import Program


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


def open(  # noqa: A001  as `deltafix.rights.open`
    model: Model | str | Path | Mapping[str, Any] | Sequence[Path],
    path: str | Path | None = None,
    *,
    materialise: Iterable[str] = (),
    fsync: str = "always",
) -> Rights:
    """Open a model.

    Args:
        model: OpenFGA's DSL as text, its JSON form as text or as `json.loads` made it, a `Path` of
            a file with either or of `fga.mod`, the `Path`s of modules' files, or a `Model`.
        path: a folder, or URL, where tuples outlive the process; None keeps them in memory. What
            is there under another model is brought to this one, as `change_model` does.
        materialise: relations to be kept as views, as `document#viewer`.
        fsync: as `deltafix.connect` takes it.

    Raises:
        RightsModelError: the model is none; with every diagnostic.
        MissingDependencyError: it has conditions, and cel-python is not there.
        RightsQuestionError: `materialise` names what the model does not have.
        RightsTupleError: tuples in the folder that the model does not allow.
        StateInUseError, StateError: as `deltafix.connect`.
    """
    wanted = layout_of(read_model(model), materialise)
    if path is None:
        return Rights(connect(wanted.program), wanted)
    was: list[Layout] = []

    def program(marks: Mapping[str, Any]) -> Program:
        noted = marks.get(MARK)
        if noted is None and marks:
            raise StateError(f"{path} is a state of something else; take another folder")
        known = wanted if noted is None else layout_of(parse_dsl(noted[0]), noted[1])
        was.append(known)
        return known.program

    db = connect(program, path, fsync=fsync)
    try:
        rights = Rights(db, was[0])
        if getattr(db, "marks", {}).get(MARK) != noted(wanted):
            with rights.transaction() as tx:
                tx._change(wanted)
    except BaseException:
        db.close()
        raise
    return rights


class Rights(Closing):
    """Made by `open`. A context manager; for several threads."""

    def __init__(self, db: Any, laid: Layout) -> None:
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
        model: Model | str | Path | Mapping[str, Any] | Sequence[Path],
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
        require_callback(callback, "a RightsDelta")

        def call_back(delta: Delta) -> None:
            changes = self._changes(delta)
            if changes.concerns(relation):
                callback(changes)

        watch: Watch[Delta] = self._db.watch(None, call_back)
        return watch

    def _require_kept(self, relation: str) -> None:
        kept_node(self._laid.graph, relation)
        if relation not in self._laid.kept:
            kept = ", ".join(self._laid.kept) or "none"
            message = (
                f"{relation!r} is searched when asked, so nobody knows when it changes; open with "
                f'materialise=["{relation}"] to keep it (kept: {kept})'
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
        context: Context = None,
    ) -> bool:
        """Whether a user has a relation to an object.

        Args:
            user: `user:anne`; also a userset, `group:eng#member`, or `user:*`: whoever no tuple
                names.
            relation: of the object's type.
            object: `document:roadmap`.
            contextual: tuples that hold for this question beside the committed ones.
            context: values for parameters of conditions, by name, as JSON has them. Where a tuple
                has a value for the same parameter, the tuple's counts.

        A kept relation is looked up, and searched only where conditions decide; another is
        searched: O(usersets and related objects between the object and the user).

        Raises RightsQuestionError, RightsTupleError for contextual tuples, and, only if the answer
        rests on such a condition, RightsParameterError for parameters that nobody gives and
        RightsContextError for a condition that cannot be evaluated.
        """
        questions = [(user, relation, object)]
        return self.batch_check(questions, contextual=contextual, context=context)[0]

    def batch_check(
        self, questions: Iterable[Any], *, contextual: Any = (), context: Context = None
    ) -> list[bool]:
        """Several checks of one state, in their order. Questions are tuples; the rest as `check`.

        What one check of a user finds out is known to the next.
        """
        answers: list[bool] = []
        searches: dict[str, tuple[Search, Search]] = {}
        with self._asking(contextual, context) as asked:
            for question in questions:
                user, relation, object_ = question_of(question)
                node, at = asked.goal(relation, object_)
                pair = searches.get(user)
                if pair is None:
                    pair = searches[user] = asked.searches(user)
                text = f"check({user}, {relation}, {object_})"
                holds = asked.agreed(text, pair, lambda search: search.holds(node.number, at))  # noqa: B023  called here
                answers.append(holds)
        return answers

    def list_objects(
        self,
        user: str,
        relation: str,
        type: str,  # noqa: A002
        *,
        contextual: Any = (),
        context: Context = None,
    ) -> list[str]:
        """The objects of a type to which a user has a relation, sorted.

        Of a kept relation O(objects found, and objects of `user:*`); else a search from the user
        up: O(what holds on the way).

        Raises as `check`.
        """
        with self._asking(contextual, context) as asked:
            graph = asked.laid.graph
            node = relation_node(graph, type, relation)
            sure, possible = (Upwards(graph, search) for search in asked.searches(user))
            sure.excluding, possible.excluding = possible, sure
            text = f"list_objects({user}, {relation}, {type})"
            codes = asked.agreed(text, (sure, possible), lambda up: up.objects(node))
            return sorted(f"{type}:{asked.sure.symbol(code)}" for code in codes)

    def list_users(
        self,
        relation: str,
        object: str,  # noqa: A002
        type: str,  # noqa: A002
        *,
        contextual: Any = (),
        context: Context = None,
    ) -> Users:
        """The users of a type that have a relation to an object.

        Args:
            relation: of the object's type.
            object: as `check` takes it.
            contextual: as `check` takes it.
            context: as `check` takes it.
            type: `user`, or `group#member` for the usersets that have it.

        Of a kept relation O(users found); else a search from the object down: O(goals below it, and
        the users of each).

        Raises as `check`.
        """
        with self._asking(contextual, context) as asked:
            graph, reader = asked.laid.graph, asked.sure
            node, at = asked.goal(relation, object)
            kind, _, within = type.partition("#")
            if within:
                relation_node(graph, kind, within)
            else:
                subject_of(graph, f"{type}:*")
            sure = Downwards(graph, reader, type, asked.views)
            possible = Downwards(graph, asked.possible, type, asked.views)
            sure.excluding, possible.excluding = possible, sure
            goal = (node.number, at)
            text = f"list_users({relation}, {object}, {type})"
            crowd = asked.agreed(text, (sure, possible), lambda down: down.users(goal))
            end = f"#{within}" if within else ""

            def listed_(codes: Iterable[int]) -> list[str]:
                return sorted(f"{kind}:{reader.symbol(code)}{end}" for code in codes)

            if not crowd.everyone:
                return Users(listed_(crowd.some), [])
            return Users([f"{type}:*"], listed_(crowd.some))

    def expand(
        self,
        relation: str,
        object: str,  # noqa: A002
        *,
        contextual: Any = (),
        context: Context = None,
    ) -> Expansion:
        """How users come to a relation to an object: the definition, with the tuples in it.

        One level, as Zanzibar's Expand: usersets and related objects are named, not followed. A
        tuple whose condition does not hold is left out; one whose condition is open is there with
        it: `user:anne with in_office`.

        Raises as `check`, but nothing for open conditions.
        """
        with self._asking(contextual, context) as asked:
            node, at = asked.goal(relation, object)
            model = asked.laid.graph.model
            definition = model.relation(node.type, node.name)
            assert definition is not None  # noqa: S101  its node was found
            return expansion_of(model, (asked.sure, asked.possible), node.type, definition, at)

    def why(
        self,
        user: str,
        relation: str,
        object: str,  # noqa: A002
        *,
        contextual: Any = (),
        context: Context = None,
    ) -> Proof:
        """Why a user has a relation to an object: a proof in tuples and lines of the model.

        One of least height: relations on the longest way down to a tuple. `proof.leaves` are the
        tuples; what is excluded and does not hold is named at its step. Searched, also in kept
        relations: O(usersets and related objects below the object).

        Raises NoSuchFactError if the user has it not, and as `check`.
        """
        with self._asking(contextual, context) as asked:
            node, at = asked.goal(relation, object)
            pair = asked.searches(user, smallest=True)
            text = f"why({user}, {relation}, {object})"
            if not asked.agreed(text, pair, lambda search: search.holds(node.number, at)):
                message = f"{user} is not {relation} of {object}; why-not says where each way ends"
                raise NoSuchFactError(message)
            laid = asked.laid
            return proof_of(laid.graph, pair[0], laid.sources, (node.number, at))

    def why_not(
        self,
        user: str,
        relation: str,
        object: str,  # noqa: A002
        *,
        contextual: Any = (),
        context: Context = None,
        limit: int = 100,
    ) -> Refusal:
        """Why a user has not a relation to an object: every way to it, and where each one ends.

        So many relations at objects are explained, each once. Searched, also in kept relations:
        O(usersets and related objects below the object). A tuple whose condition is open counts
        as there: that way ends even so.

        Raises NoSuchFactError if the user has it, and as `check`.
        """
        with self._asking(contextual, context) as asked:
            node, at = asked.goal(relation, object)
            pair = asked.searches(user, smallest=True)
            text = f"why_not({user}, {relation}, {object})"
            if asked.agreed(text, pair, lambda search: search.holds(node.number, at)):
                message = f"{user} is {relation} of {object}; why has the proof"
                raise NoSuchFactError(message)
            laid = asked.laid
            return refusal_of(laid.graph, pair, laid.sources, (node.number, at), limit)

    def tuples(self) -> Iterator[AnyTuple]:
        """All tuples that were written, one relation after another. O(tuples)."""
        laid = self._laid
        for name, source in laid.sources.items():
            for row in self._db.rows(name):
                yield shown(source, row)

    def __len__(self) -> int:
        """The number of tuples. O(1)."""
        return sum(self._db.count(name) for name in self._laid.sources)

    @contextmanager
    def _asking(self, contextual: Any, context: Context) -> Iterator[Asked]:
        with self._db.probing() as probe:
            yield asked_of(self._laid, probe, contextual, context)

    # --- life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the state; watches end. Idempotent."""
        self._db.close()

    def __repr__(self) -> str:
        kept = ", ".join(self.materialised) or "nothing"
        return f"<Rights: {plural(len(self), 'tuple')}, {kept} kept>"

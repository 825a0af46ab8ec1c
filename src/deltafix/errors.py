"""Every error deltafix raises on purpose, as one small tree.

Invariant: an error carries a stable `code`, the offending values, and what would be valid;
a class also subclasses the built-in a caller would already catch. Wording may change, codes may
not.
This module does not print: `diagnostics` renders errors that have a place in a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

__all__ = [
    "AccessError",
    "BadRowError",
    "BudgetError",
    "CancelledError",
    "ChangeError",
    "ConfigError",
    "CycleError",
    "CyclicDataError",
    "DeltafixError",
    "DriftError",
    "EndlessDataError",
    "EvaluationError",
    "ExplanationError",
    "FactError",
    "FunctorError",
    "GoneError",
    "IncompleteActionError",
    "InternalError",
    "JavaNotFoundError",
    "LawError",
    "LazyCycleError",
    "LimitError",
    "MissingDependencyError",
    "MissingRowError",
    "NoSuchFactError",
    "OffsetError",
    "OperatorError",
    "PipelineError",
    "ProgramChangedError",
    "ProgramError",
    "PrologError",
    "PrologSyntaxError",
    "ProofBoundError",
    "ReactiveError",
    "ReducerError",
    "RefusedPredicateError",
    "RepeatedRequestError",
    "ReplicationError",
    "RightsContextError",
    "RightsError",
    "RightsModelError",
    "RightsParameterError",
    "RightsQuestionError",
    "RightsTupleError",
    "SinkError",
    "SourceError",
    "SparkMissingError",
    "SqlAbortedError",
    "SqlDataError",
    "SqlError",
    "SqlIntegrityError",
    "SqlOperationalError",
    "SqlProgrammingError",
    "SqlRefusedError",
    "StateError",
    "StateInUseError",
    "StateVersionError",
    "StepContractError",
    "SubscriberError",
    "TopicError",
    "TransactionError",
    "TypeMismatchError",
    "UnknownPredicateError",
    "UnknownRelationError",
    "UnsafeNegationError",
]


class DeltafixError(Exception):
    """Base of everything deltafix raises on purpose. `code` is stable across releases."""

    code: ClassVar[str] = "DF000"

    def __init__(self, message: str = "", **values: object) -> None:
        super().__init__(message)
        self.values = values
        """The offending values by name (relation, row, column, line, …), for callers and tests."""


class ProgramError(DeltafixError, ValueError):
    """A program cannot be accepted. Carries every diagnostic found, not only the first.

    `diagnostics` holds `deltafix.diagnostics.Diagnostic` values in text order; the message is
    their rendered form.
    """

    code = "DF100"

    def __init__(self, message: str = "", diagnostics: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.diagnostics: tuple[Any, ...] = tuple(diagnostics)


class FactError(DeltafixError, ValueError):
    """A row does not fit its relation: wrong width, unreadable value, wrong place in a file."""

    code = "DF200"


class UnknownRelationError(FactError, KeyError):
    """A relation name that the program does not declare."""

    code = "DF201"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class TypeMismatchError(FactError, TypeError):
    """A value whose Python type does not fit the column's declared type."""

    code = "DF202"


class MissingRowError(FactError, LookupError):
    """Deleting a row that is not there; `missing="ignore"` makes it a no-op."""

    code = "DF203"


class SourceError(DeltafixError, OSError):
    """An input file or folder cannot be read or is not what it should be."""

    code = "DF300"


class SinkError(DeltafixError, OSError):
    """An output file or folder cannot be written."""

    code = "DF301"


class TransactionError(DeltafixError, RuntimeError):
    """A transaction is used out of turn: nested, finished, or in a closed database."""

    code = "DF400"


class BudgetError(DeltafixError, RuntimeError):
    """A run went over `max_rows`, `max_rounds` or `timeout`; the transaction was rolled back.

    `values["relations"]` are those that were computed then, as somebody wrote them, where they are
    known.
    """

    code = "DF410"


class FunctorError(DeltafixError, RuntimeError):
    """A function of the user's raised, or gave what is no value of its type; rolled back."""

    code = "DF430"


class CyclicDataError(DeltafixError, ValueError):
    """An aggregate of a recursion would need its own value by way of these data; rolled back.

    `cycle` is relations with rows, each needing the next, the first again at the end; columns that
    do not tell one call from another are `...`.
    """

    code = "DF431"

    def __init__(
        self, message: str = "", cycle: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    ) -> None:
        super().__init__(message)
        self.cycle = cycle


class EndlessDataError(DeltafixError, ValueError):
    """The best value of a key rests on a worse one of its own: it gets better without end.

    `cycle` is relations with rows, each resting on the next: the key's, the last one the worse.
    """

    code = "DF432"

    def __init__(
        self,
        message: str = "",
        cycle: tuple[tuple[str, tuple[Any, ...]], ...] = (),
        **values: object,
    ) -> None:
        super().__init__(message, **values)
        self.cycle = cycle


class CancelledError(DeltafixError, RuntimeError):
    """The run was cancelled (Ctrl-C or `db.cancel()`); the transaction was rolled back."""

    code = "DF411"


class LimitError(DeltafixError, OverflowError):
    """A documented limit of the implementation was reached; see docs/limits.md."""

    code = "DF420"


class StateError(DeltafixError, OSError):
    """A state folder cannot be used: damaged, of another program, of another version."""

    code = "DF500"


class StateInUseError(StateError):
    """Another process holds the state; the message names it."""

    code = "DF501"


class StateVersionError(StateError):
    """A state that another version of deltafix wrote, in a format that this one does not read."""

    code = "DF502"


class MissingDependencyError(DeltafixError, ImportError):
    """An optional package is not installed; the message says which extra brings it."""

    code = "DF010"


class ReactiveError(DeltafixError, RuntimeError):
    """A collection graph is used out of turn, or an operator broke its contract."""

    code = "DF600"


class OperatorError(ReactiveError):
    """A user function raised; the epoch was rolled back. Names operator, key and value.

    `operator` is the operator's label, `key` and `value` are what the function was given (None
    when it does not apply); the original exception is `__cause__`.
    """

    code = "DF601"

    def __init__(self, message: str, operator: str, key: object = None, value: object = None):
        super().__init__(message)
        self.operator = operator
        self.key = key
        self.value = value


class ReducerError(ReactiveError, ValueError):
    """A reducer breaks what its type claims, or is put together from parts that do not fit."""

    code = "DF602"


class SubscriberError(ReactiveError):
    """A subscriber raised after its epoch was committed; the epoch stands, others were told.

    `of` is what it subscribed to, `reason` what it raised, `committed` what stands.
    """

    code = "DF603"

    def __init__(self, of: str, reason: Exception, committed: str) -> None:
        super().__init__(
            f"a subscriber of {of} raised {type(reason).__name__}: {reason}; "
            f"{committed} is committed, and the others were told",
            of=of,
        )


class LazyCycleError(OperatorError):
    """A lazy function asks, by way of other keys, for the result it is computing.

    `cycle` is the keys in the order of asking, the first again at the end.
    """

    code = "DF604"

    def __init__(self, message: str, operator: str, cycle: tuple[object, ...]) -> None:
        super().__init__(message, operator, cycle[0])
        self.cycle = cycle


class ChangeError(DeltafixError, ValueError):
    """A value or a change that its change action, formula or fixpoint does not admit."""

    code = "DF630"


class IncompleteActionError(ChangeError, TypeError):
    """A difference was asked of a change action without a minus operator."""

    code = "DF631"


class LawError(DeltafixError, AssertionError):
    """A law does not hold; the message is the smallest counter-example, in words.

    `law` is the law's name, `example` the values it fails on.
    """

    code = "DF610"

    def __init__(self, message: str, law: str = "", example: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.law = law
        self.example = example


class StepContractError(DeltafixError, ValueError):
    """A level-1 caller broke an obligation: a delta that is not accurate, an unstable step."""

    code = "DF620"


class NotInFixpointError(DeltafixError, KeyError):
    """The rank or the proof of an element that the fixpoint does not contain was asked for."""

    code = "DF621"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class CycleError(DeltafixError, ValueError):
    """Counting derivations met a cycle, where a count cannot tell support from itself."""

    code = "DF622"


class SparkMissingError(DeltafixError, ImportError):
    """Spark is asked for and not installed; the message names the extra, and what needs none."""

    code = "DF650"

    def __init__(self) -> None:
        super().__init__(
            "Spark is not installed: `pip install 'deltafix[spark]'`, or leave out --spark, "
            'or set runner = "local" in a pipeline file'
        )


class JavaNotFoundError(DeltafixError, RuntimeError):
    """No Java of version 17 or newer; the message lists where it was looked for."""

    code = "DF651"


class SparkJobError(DeltafixError, RuntimeError):
    """Spark gave up a job of shards; the message has what its last task raised, or what it says."""

    code = "DF654"


class PipelineError(DeltafixError, RuntimeError):
    """A pipeline cannot go on; the message names the input, output or file, and a way out."""

    code = "DF660"


class ConfigError(PipelineError, ValueError):
    """A pipeline file cannot be accepted: names file, section, key, value, and what is valid."""

    code = "DF661"


class DriftError(PipelineError, ValueError):
    """The columns of an input are not those of its relation; names what is there and wanted."""

    code = "DF662"


class BadRowError(PipelineError, ValueError):
    """A row that cannot be taken, under `bad_rows = "fail"`; the epoch was rolled back."""

    code = "DF663"


class ProgramChangedError(PipelineError):
    """The rules differ from those the outputs were made with, and `on-change` is to refuse."""

    code = "DF664"


class ReplicationError(PipelineError):
    """A database cannot tell all changes since the last epoch; names why, and how to go on."""

    code = "DF665"


class KeyBreachError(PipelineError, ValueError):
    """Two rows of a table have one PRIMARY KEY or UNIQUE; the epoch was rolled back."""

    code = "DF666"


class TopicError(PipelineError):
    """A topic of Kafka's cannot be read: its broker does not answer, or has no such topic."""

    code = "DF667"


class OffsetError(TopicError):
    """A topic does not have the records behind those that were read: retention, or made anew."""

    code = "DF668"


class RepeatedRequestError(PipelineError, ValueError):
    """A request came under the idempotency key of another one, with another body."""

    code = "DF669"


class ExplanationError(DeltafixError, ValueError):
    """A question about a fact or a delta that has no answer as it is asked."""

    code = "DF680"


class NoSuchFactError(ExplanationError, LookupError):
    """A question about a row that does not hold, `why_not` of one that does, or no delta names."""

    code = "DF681"


class ProofBoundError(ExplanationError, OverflowError):
    """The proof has more steps than asked for; the message names the setting."""

    code = "DF682"


class LiveError(DeltafixError, ValueError):
    """A request to the live door that cannot be done as it is; it says what would be valid."""

    code = "DF690"


class GoneError(LiveError):
    """A place in a history that is kept no more: the rows are to be read again."""

    code = "DF691"


class AccessError(DeltafixError, ValueError):
    """A key, a file of one, or an origin that a server cannot take; it says what would be valid."""

    code = "DF692"


class PrologError(ProgramError):
    """A tabled logic program cannot be accepted or run; `diagnostics` name clause and literal."""

    code = "DF700"


class PrologSyntaxError(PrologError):
    """The text is no Prolog of the accepted subset."""

    code = "DF710"


class RefusedPredicateError(PrologError):
    """A predicate without a place in a pure tabled program: cut, assert, findall, write."""

    code = "DF711"


class UnknownPredicateError(PrologError, LookupError):
    """A goal whose predicate has no clause and no declaration."""

    code = "DF712"


class UnsafeNegationError(PrologError):
    """A negated goal with an unbound variable when its turn comes."""

    code = "DF713"


class EvaluationError(PrologError, ArithmeticError):
    """A built-in cannot work on its arguments: unbound variable, wrong type, division by zero."""

    code = "DF714"


class SqlError(ProgramError):
    """Base of what `deltafix.sql` refuses; `diagnostics` have line, column and a way out."""

    code = "DF720"


class SqlProgrammingError(SqlError):
    """The statement is not SQL, or its names and types do not fit the tables."""

    code = "DF721"


class SqlRefusedError(SqlError, NotImplementedError):
    """A construct that is not maintained; the help says how to write it instead."""

    code = "DF722"


class SqlIntegrityError(SqlError):
    """A row breaks NOT NULL, PRIMARY KEY or UNIQUE; nothing changed.

    `rows` are places among the rows to be added, from 0: of the row that breaks it, and of the one
    that it breaks it with, if that is to be added, too. `table` is the one whose rows those are.
    """

    code = "DF723"
    rows: tuple[int, ...] = ()
    table: str = ""


class SqlDataError(SqlError, ArithmeticError):
    """A value that its type does not hold: overflow, division by zero, a cast that fails."""

    code = "DF724"


class SqlOperationalError(SqlError, RuntimeError):
    """A statement out of turn: COMMIT without BEGIN, a closed connection."""

    code = "DF725"


class SqlAbortedError(SqlOperationalError):
    """A statement in a transaction that an error has rolled back; ROLLBACK ends it."""

    code = "DF727"


class DbtError(DeltafixError, ValueError):
    """A dbt project that cannot be opened, or a model of it that is no query to be maintained."""

    code = "DF726"


class RightsError(DeltafixError):
    """Base of what `deltafix.rights` refuses."""

    code = "DF740"


class RightsModelError(RightsError, ProgramError):
    """An authorization model that is none; `diagnostics` have line, column and a way out."""

    code = "DF741"


class RightsTupleError(RightsError, FactError):
    """A relationship tuple that the model does not allow; nothing was written."""

    code = "DF743"


class RightsQuestionError(RightsError, ValueError):
    """A question about a type or relation that the model does not have."""

    code = "DF744"


class RightsContextError(RightsError, ValueError):
    """A condition that the answer rests on cannot be evaluated in this context."""

    code = "DF745"


class RightsParameterError(RightsContextError):
    """Parameters of a condition that the answer rests on are missing.

    `values["parameters"]` has, by condition, the names that neither tuple nor question gives.
    """

    code = "DF746"


class InternalError(DeltafixError, AssertionError):
    """An invariant of deltafix itself is broken: a bug. Names the stage."""

    code = "DF900"

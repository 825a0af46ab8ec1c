"""Matching, unification and instantiation over rows."""

from hypothesis import given
from hypothesis import strategies as st

from deltafix.tabling.terms import atom, integer, struct, var
from deltafix.tabling.unify import instantiate, match, unify, unify_pair

X, Y, Z = var(0), var(1), var(2)
a, b = atom("a"), atom("b")


def f(*args):
    return struct("f", args)


def test_match_binds_and_checks_repeated_variables():
    assert match((X, Y), (None, None), (a, b)) == (a, b)
    assert match((X, X), (None,), (a, b)) is None
    assert match((f(X, a), X), (None,), (f(b, a), b)) == (b,)
    assert match((f(X), X), (None,), (f(b), a)) is None


def test_unify_shares_variables_between_entries():
    row = unify((X, Y), (None, None), (var(0), var(0)))
    assert row is not None
    assert row[0] is row[1]
    assert instantiate((X, Y), row) == (var(0), var(0))


def test_unification_is_sound_a_variable_never_contains_itself():
    assert unify_pair(X, f(X), (None,)) is None
    assert unify((X, X), (None,), (var(0), f(var(0)))) is None
    assert unify_pair(f(X, Y), f(Y, f(X)), (None, None)) is None


def test_instantiation_numbers_variables_by_first_occurrence():
    assert instantiate((f(Z, X), Z), (None, None, None)) == (f(var(0), var(1)), var(0))


def test_deep_terms_unify_and_instantiate_without_recursion():
    deep = a
    open_deep = X
    for _ in range(50_000):
        deep, open_deep = f(deep), f(open_deep)
    row = match((open_deep,), (None,), (deep,))
    assert row == (a,)
    assert instantiate((open_deep,), row) == (deep,)
    other = unify_pair(open_deep, f(Y), (None, None))
    assert other is not None


terms = st.recursive(
    st.sampled_from([X, Y, Z, a, b, integer(1)]),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda args: f(*args)),
    max_leaves=8,
)


@given(terms, terms)
def test_law_unified_terms_are_equal_when_instantiated_and_order_does_not_matter(left, right):
    row = unify_pair(left, right, (None, None, None))
    other = unify_pair(right, left, (None, None, None))
    assert (row is None) == (other is None)
    if row is not None:
        one, two = instantiate((left, right), row)
        assert one is two


ground = st.recursive(
    st.sampled_from([a, b, integer(1)]),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda args: f(*args)),
    max_leaves=6,
)


@given(
    st.lists(st.tuples(terms, ground), min_size=1, max_size=3),
    st.lists(st.none() | ground, min_size=3, max_size=3),
    st.lists(ground, min_size=3, max_size=3),
    st.booleans(),
)
def test_law_matching_ground_values_is_unification(pairs, row, values, fits):
    patterns = [pattern for pattern, _ in pairs]
    if fits:  # values that an instance of the patterns has
        held = tuple(old or new for old, new in zip(row, values, strict=True))
        found = instantiate(patterns, held)
    else:
        found = tuple(value for _, value in pairs)
    matched = match(patterns, tuple(row), found)
    assert matched == unify(patterns, tuple(row), found)
    if fits:
        assert matched is not None
    if matched is not None:
        assert instantiate(patterns, matched) == tuple(found)


@given(terms)
def test_law_a_term_unifies_with_its_own_instance_and_gives_it(term):
    row = unify((term,), (None, None, None), (term,))
    assert row is not None
    assert instantiate((term,), row) == instantiate((term,), (None, None, None))

"""What a framework looks up by name, as tables that a user switches on by name.

    deltafix dead-code PATH --framework django --framework pytest

A `Framework` says three things: which decorators hand on what they decorate without telling anybody
(so an unused view is dead although it requires a login), which bases notice that they are derived
from, and which names in which files the framework looks up. Invariant: it is data; what
follows from it is decided by `program.dl`. Without one a decorator that is not known keeps
what it decorates alive.
"""

# ruff: noqa: SIM905  tables of names read better as words
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from deltafix.analyses.facts import Place
from deltafix.diagnostics import suggest
from deltafix.errors import FactError


class UnknownFrameworkError(FactError, LookupError):
    """There is no framework of this name; the message lists those there are."""

    code = "DF653"


@dataclass(frozen=True, slots=True)
class Framework:
    """What one framework does with names.

    `pure` and `enlists` are full dotted names of decorators and of base classes. `looks_up` is a
    list of (file pattern, names): the file pattern is matched as by `fnmatch` against the path
    with a slash before it; a name is a pattern on a module's own names, and `.` is the module.
    """

    name: str
    pure: frozenset[str] = frozenset()
    enlists: frozenset[str] = frozenset()
    looks_up: tuple[tuple[str, str], ...] = field(default=())

    def roots(self, path: str, places: Iterable[Place]) -> Iterator[str]:
        """The symbols of one file that the framework looks up by name."""
        patterns = [names.split() for file, names in self.looks_up if fnmatchcase(f"/{path}", file)]
        if not patterns:
            return
        for place in places:
            name = place.symbol.partition(":")[2] or "."
            if any(_fits(name, pattern) for names in patterns for pattern in names):
                yield place.symbol


def _fits(name: str, pattern: str) -> bool:
    """Whether a module's own name fits; names inside classes and functions never do."""
    return name == pattern or ("." not in name and fnmatchcase(name, pattern))


_DJANGO = Framework(
    "django",
    pure=frozenset(
        """
        django.contrib.auth.decorators.login_required
        django.contrib.auth.decorators.permission_required
        django.contrib.auth.decorators.user_passes_test
        django.contrib.admin.views.decorators.staff_member_required
        django.db.transaction.atomic django.db.transaction.non_atomic_requests
        django.utils.decorators.method_decorator django.utils.functional.cached_property
        django.utils.functional.classproperty django.utils.safestring.mark_safe
        django.views.decorators.cache.cache_control django.views.decorators.cache.cache_page
        django.views.decorators.cache.never_cache
        django.views.decorators.csrf.csrf_exempt django.views.decorators.csrf.csrf_protect
        django.views.decorators.csrf.ensure_csrf_cookie
        django.views.decorators.debug.sensitive_post_parameters
        django.views.decorators.debug.sensitive_variables
        django.views.decorators.http.condition django.views.decorators.http.require_GET
        django.views.decorators.http.require_POST django.views.decorators.http.require_safe
        django.views.decorators.http.require_http_methods
        django.views.decorators.vary.vary_on_cookie django.views.decorators.vary.vary_on_headers
        """.split()
    ),
    enlists=frozenset(
        """
        django.apps.AppConfig django.db.models.Model django.contrib.auth.models.AbstractUser
        django.contrib.auth.models.AbstractBaseUser django.contrib.auth.models.PermissionsMixin
        """.split()
    ),
    looks_up=(
        ("*/settings.py", ". [A-Z]*"),
        ("*/settings/*.py", ". [A-Z]*"),
        ("*/urls.py", ". urlpatterns app_name handler[45]0?"),
        ("*/migrations/*.py", ". Migration"),
        ("*/management/commands/*.py", ". Command"),
        ("*/templatetags/*.py", ". register"),
        ("*/[aw]sgi.py", ". application"),
        ("*/apps.py", "."),
        ("*/admin.py", "."),
        ("*/models.py", "."),
        ("*/models/*.py", "."),
    ),
)

_FLASK = Framework(
    "flask",
    pure=frozenset(
        """
        flask.copy_current_request_context flask.stream_with_context flask.cli.with_appcontext
        flask_login.login_required flask_login.fresh_login_required
        """.split()
    ),
    looks_up=(
        ("*.py", "create_app make_app"),
        ("*/app.py", ". app application"),
        ("*/wsgi.py", ". app application"),
        ("*/__init__.py", "app application"),
    ),
)

_PYTEST = Framework(
    "pytest",
    pure=frozenset({"pytest.fixture", "pytest_asyncio.fixture"}),
    looks_up=(
        ("*/conftest.py", ". collect_ignore collect_ignore_glob pytest_*"),
        ("*/test_*.py", "pytestmark"),
        ("*_test.py", "pytestmark"),
    ),
)

_CLICK = Framework(
    "click",
    pure=frozenset(
        """
        click.argument click.command click.confirmation_option click.group click.help_option
        click.option click.pass_context click.pass_obj click.password_option click.version_option
        """.split()
    ),
)

FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {framework.name: framework for framework in (_CLICK, _DJANGO, _FLASK, _PYTEST)}
)
"""The frameworks by name."""


def frameworks_named(names: Iterable[str]) -> tuple[Framework, ...]:
    """The frameworks of these names, each once, sorted. Raises UnknownFrameworkError."""
    wanted = sorted(set(names))
    for name in wanted:
        if name not in FRAMEWORKS:
            close = suggest(name, sorted(FRAMEWORKS))
            help_ = f"did you mean {close!r}? " if close else ""
            raise UnknownFrameworkError(
                f"there is no framework {name!r}; {help_}there are {', '.join(FRAMEWORKS)}",
                name=name,
            )
    return tuple(FRAMEWORKS[name] for name in wanted)

"""What frameworks look up by name: each framework against trees judged by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltafix.analyses.dead_code import DEAD_CODE
from deltafix.analyses.dead_code.extract import extract
from deltafix.analyses.dead_code.frameworks import (
    FRAMEWORKS,
    UnknownFrameworkError,
    frameworks_named,
)
from deltafix.analyses.dead_code.job import DeadCode
from deltafix.analyses.reading import read_fragments

MAIN = 'if __name__ == "__main__": '


def dead(tree: dict[str, str], *frameworks: str) -> list[str]:
    with DeadCode(roots=["entry-points"], frameworks=frameworks, confidence="likely") as job:
        job.update([extract(path, text.encode()) for path, text in tree.items()])
        job.check_invariants()
        return [finding.symbol for finding in job.dead()]


DJANGO = {
    "shop/__init__.py": "",
    "shop/settings.py": "DEBUG = True\nhelper = 1\n",
    "shop/urls.py": "from shop import views\nurlpatterns = [views.cart]\nspare = 1\n"
    "handler404 = 0\n",
    "shop/models.py": "from django.db import models\nclass Cart(models.Model):\n"
    "    total = models.IntegerField()\nclass Plain: ...\n",
    "shop/views.py": "from django.contrib.auth.decorators import login_required\n"
    "@login_required\ndef cart(request): ...\n@login_required\ndef old(request): ...\n",
    "shop/migrations/__init__.py": "",
    "shop/migrations/0001_initial.py": "from django.db import migrations\n"
    "class Migration(migrations.Migration):\n    dependencies = []\n",
    "shop/management/commands/tidy.py": "from django.core.management.base import BaseCommand\n"
    "class Command(BaseCommand):\n    def handle(self): ...\nclass Other: ...\n",
}


def test_django_looks_up_settings_urls_models_migrations_and_commands() -> None:
    assert dead(DJANGO, "django") == [
        "shop.management.commands.tidy:Other",
        "shop.models:Plain",
        "shop.settings:helper",
        "shop.urls:spare",
        "shop.views:old",  # a login is required of nobody
    ]


def test_without_the_framework_models_die_and_every_decorated_view_lives() -> None:
    without = dead(DJANGO)
    assert {"shop.models:Cart", "shop.urls:urlpatterns", "shop.settings:DEBUG"} <= set(without)
    assert "shop.views:old" not in without


def test_flask_finds_factories_and_applications() -> None:
    tree = {
        "app.py": "from flask import Flask\napp = Flask('x')\n@app.route('/')\ndef index(): ...\n"
        "def unused(): ...\n",
        "factory.py": "def create_app(): return make()\ndef make(): ...\ndef application(): ...\n",
    }
    assert dead(tree, "flask") == ["app:unused", "factory:application"]
    # A route keeps its view and the names its decorator uses; a factory needs the framework.
    assert "factory:create_app" in dead(tree)


PYTEST = {
    "conftest.py": "import pytest\n@pytest.fixture\ndef base(): ...\n"
    "@pytest.fixture\ndef tree(base): ...\n@pytest.fixture()\ndef idle(): ...\n"
    "@pytest.fixture(autouse=True)\ndef always(): ...\n@pytest.fixture\ndef by_name(): ...\n"
    "@pytest.fixture(name='else')\ndef renamed(): ...\n@pytest.fixture\ndef asked(): ...\n"
    "collect_ignore = []\n",
    "test_it.py": "import pytest\ndef test_a(tree, request): request.getfixturevalue('asked')\n"
    "@pytest.mark.usefixtures('by_name')\ndef test_b(): ...\n",
}


def test_a_fixture_that_nobody_asks_for_is_dead() -> None:
    assert dead(PYTEST, "pytest") == ["conftest:idle"]
    assert dead(PYTEST) == []  # a decorator keeps every fixture


def test_a_fixture_dies_with_the_last_test_that_asks_for_it() -> None:
    with DeadCode(frameworks=["pytest"], confidence="likely") as job:
        job.update([extract(path, text.encode()) for path, text in PYTEST.items()])
        change = job.update([extract("test_it.py", b"def test_a(asked, by_name): ...\n")])
        assert [one.symbol for one in change.became_dead] == ["conftest:base", "conftest:tree"]
        assert change.work.touched < job.fact_count


def test_a_click_command_in_no_group_is_dead() -> None:
    tree = {
        "cli.py": "import click\n@click.group()\ndef cli(): ...\n@cli.command()\ndef used(): ...\n"
        "@click.command()\n@click.option('--x')\ndef lost(x): ...\n" + MAIN + "cli()\n"
    }
    assert dead(tree, "click") == ["cli:lost"]
    assert dead(tree) == []


def test_the_rules_of_thumb_need_no_framework() -> None:
    # exports, properties, overrides of what stands outside, protocols of the language
    tree = {
        "m.py": "import json\n__all__ = ['api']\ndef api(): return Shape().area, Enc()\n"
        "class Shape:\n    @property\n    def area(self): return 1\n    @area.setter\n"
        "    def area(self, v): ...\n    @property\n    def idle(self): ...\n"
        "    def __repr__(self): ...\nclass Enc(json.JSONEncoder):\n    def default(self, o): ...\n"
    }
    assert dead(tree) == ["m:Shape.idle"]


def test_an_unknown_framework_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownFrameworkError, match=r"did you mean 'django'.*click, django, flask"):
        DeadCode(frameworks=["djano"])
    assert frameworks_named(["pytest", "click", "pytest"]) == (
        FRAMEWORKS["click"],
        FRAMEWORKS["pytest"],
    )


def test_this_repositorys_own_tests_ask_for_all_their_fixtures() -> None:
    """Its fixtures are judged: those in use are alive, and none of them only for its decorator."""
    tree = DEAD_CODE.tree(Path(__file__).parents[1] / "cli")
    fragments = list(read_fragments(tree, list(tree.scan().files), DEAD_CODE.extract))
    with DeadCode(frameworks=["pytest"], confidence="likely") as job:
        job.update(fragments)
        fixtures = {row[0] for row in job.rows("fixture")}
        assert "conftest:deltafix" in fixtures
        found = {finding.symbol for finding in job.dead()}
        assert found.isdisjoint(fixtures)

"""The recipes of examples/: test suites that run in branches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Iterator, List

import duramen
import pytest
from conftest import Daemon

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def shop(daemon: Daemon) -> Iterator[None]:
    """The source of the examples, which other tests do not expect beside their own."""
    daemon.run("source", "add", "shop", "--script", str(EXAMPLES / "django/shop.sql"))
    yield
    daemon.run("source", "remove", "shop")


def passes(folder: str, *command: str) -> str:
    """Runs a test suite, and tells what it said."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    place = EXAMPLES / folder
    done = subprocess.run([sys.executable, *command], cwd=place, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def left() -> List[str]:
    with duramen.Client() as client:
        return [each["name"] for each in client.branches()]


def test_django_creates_no_database_and_drops_none(here: Daemon, shop: None) -> None:
    before = left()
    said = passes("django", "manage.py", "test", "--verbosity", "2")
    assert "Ran 4 tests" in said and "Applying orders.0001_orders... OK" in said
    assert "test database" not in said
    assert left() == before
    # Its migrations fit its models.
    assert "No changes" in passes("django", "manage.py", "makemigrations", "--check", "--dry-run")


def test_sqlalchemy_has_an_engine_a_test(here: Daemon, shop: None) -> None:
    before = left()
    assert "3 passed" in passes("sqlalchemy", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert left() == before

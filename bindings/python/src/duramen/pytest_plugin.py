"""A branch a test, for pytest.

``duramen_branch`` is a :class:`duramen.Branch`, ``duramen_database_url`` its URL. Which source and policy: the marker
``@pytest.mark.duramen(source="app", policy="ddl", ttl=600)``, else the ini options ``duramen_source`` and ``duramen_policy``.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Iterator

import pytest

from .client import Branch, Client
from .errors import DuramenError, NotFound

#: A branch that a run which was killed has left ends by itself after so many seconds.
TTL_S = 900


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ini options."""
    parser.addini("duramen_source", "The source of branches, if the daemon has several", default="")
    parser.addini("duramen_policy", "What tests may do in their branches", default="")


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", "duramen(source, policy, ttl): which branch a test gets")


@pytest.fixture(scope="session")
def duramen_client() -> Iterator[Client]:
    """The daemon that the environment names."""
    with Client() as client:
        yield client


@pytest.fixture
def duramen_branch(request: pytest.FixtureRequest, duramen_client: Client) -> Iterator[Branch]:
    """A branch of the test's own, destroyed after it, whatever happened."""
    marker = request.node.get_closest_marker("duramen")
    wanted = dict(marker.kwargs) if marker else {}
    unknown = set(wanted) - {"source", "policy", "ttl"}
    if unknown or (marker and marker.args):
        raise pytest.UsageError("the marker duramen takes source=, policy= and ttl=")
    # Named here, so that it is found when the run is interrupted between the lease and the reply.
    name = f"pytest-{uuid.uuid4().hex[:16]}"
    try:
        branch = duramen_client.create(
            wanted.get("source") or request.config.getini("duramen_source") or None,
            name=name,
            policy=wanted.get("policy") or request.config.getini("duramen_policy") or None,
            ttl=wanted.get("ttl", TTL_S),
        )
    except KeyboardInterrupt:
        with suppress(DuramenError):
            duramen_client.branch(name).destroy()
        raise
    try:
        yield branch
    finally:
        # The test may have destroyed it, or its time was over.
        with suppress(NotFound):
            branch.destroy()


@pytest.fixture
def duramen_database_url(duramen_branch: Branch) -> str:
    """The URL of the test's branch, for any client of PostgreSQL."""
    return duramen_branch.url

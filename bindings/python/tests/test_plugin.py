"""A branch a test."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duramen
import pytest
from conftest import Daemon, until

TESTS = """
import duramen, psycopg, pytest

@pytest.mark.parametrize("number", range(6))
def test_is_alone(duramen_branch, number):
    assert duramen_branch.query("delete from t").affected == 2

def test_url(duramen_database_url):
    with psycopg.connect(duramen_database_url) as connection:
        assert connection.execute("select count(*) from t").fetchone() == (2,)

@pytest.mark.duramen(source="app", policy="ddl")
def test_marked(duramen_branch):
    duramen_branch.query("create table u (y int)")

def test_policy(duramen_branch):
    with pytest.raises(duramen.StatementFailed):
        duramen_branch.query("create table u (y int)")

def test_fails(duramen_branch):
    assert False

def test_ends_its_branch(duramen_branch):
    duramen_branch.destroy()
"""


def left() -> "list[str]":
    with duramen.Client() as client:
        return [each["name"] for each in client.branches()]


@pytest.mark.parametrize("workers", [(), ("-n", "3")])
def test_each_test_has_its_own(here: Daemon, pytester: pytest.Pytester, workers: "tuple[str, ...]") -> None:
    before = left()
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nduramen_source = app\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *workers)
    result.assert_outcomes(passed=10, failed=1)
    assert left() == before


def test_a_wrong_marker_is_told(here: Daemon, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import pytest\n@pytest.mark.duramen(sauce='app')\ndef test(duramen_branch): pass\n")
    result = pytester.runpytest_subprocess()
    result.stdout.fnmatch_lines(["*takes source=, policy= and ttl=*"])


def test_a_token_is_not_shown_where_it_is_passed_on(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import duramen\ndef test(): duramen.Client('http://db.example:6433', 'ci:' + 'SEC' + 'RET')\n")
    result = pytester.runpytest_subprocess("--showlocals")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*use https*"])
    result.stdout.no_fnmatch_line("*ci:SECRET*")


def test_an_interrupt_leaves_no_branch(here: Daemon, tmp_path: Path) -> None:
    before = left()
    path = tmp_path / "test_long.py"
    path.write_text("import time\ndef test(duramen_branch):\n    time.sleep(60)\n")
    run = subprocess.Popen([sys.executable, "-m", "pytest", "-q", str(path)], stdout=subprocess.DEVNULL)
    until("the test has its branch", lambda: len(left()) > len(before))
    run.send_signal(signal.SIGINT)
    run.wait(30)
    until("the branch is gone", lambda: left() == before)


def test_what_a_branch_adds_to_a_test_is_told(here: Daemon, tmp_path: Path) -> None:
    """No bar in a test: the figure is printed, for the documentation."""

    def seconds(argument: str) -> float:
        path = tmp_path / f"test_{argument or 'nothing'}.py"
        path.write_text(f"import pytest\n@pytest.mark.parametrize('n', range(200))\ndef test(n, {argument}): pass\n")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), cwd=tmp_path)
        took = time.monotonic() - begin
        assert re.search("200 passed", done.stdout), done.stdout
        return took

    without, with_branch = seconds(""), seconds("duramen_branch")
    print(f"200 tests: {without:.2f} s, with a branch each {with_branch:.2f} s")
    print(f"a branch adds {(with_branch - without) * 5:.1f} ms to a test")

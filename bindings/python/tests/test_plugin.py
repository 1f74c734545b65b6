"""A branch a test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Optional

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


class Between:
    """A socket before the daemon's, in a home of its own: it counts connections, and may keep what is replied to the first one."""

    def __init__(self, folder: Path, daemon: Daemon, keeps: bool = False) -> None:
        self.home = folder
        self.behind = str(daemon.home / "daemon.sock")
        self.count = 0
        self.keeps = keeps
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(folder / "daemon.sock"))
        self.socket.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            client = self.socket.accept()[0]
            self.count += 1
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.behind)
            kept = self.keeps and self.count == 1
            for ends in ((client, server), (server, None if kept else client)):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    @staticmethod
    def pass_on(reader: socket.socket, writer: Optional[socket.socket]) -> None:
        while data := reader.recv(65536):
            if writer:
                writer.sendall(data)
        if writer:
            writer.shutdown(socket.SHUT_WR)


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


@pytest.mark.parametrize("is_told", [True, False])
def test_an_interrupt_leaves_no_branch(here: Daemon, tmp_path: Path, is_told: bool) -> None:
    """Also when it comes after the lease, and before the reply that tells of it."""
    before = left()
    path = tmp_path / "test_long.py"
    path.write_text("import time\ndef test(duramen_branch):\n    open('began', 'w')\n    time.sleep(60)\n")
    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        Between(Path(folder), here, keeps=not is_told)
        command = [sys.executable, "-m", "pytest", "-q", str(path)]
        run = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, cwd=tmp_path, env={**os.environ, "DURAMEN_HOME": folder}
        )
        until("the branch is there", lambda: len(left()) > len(before))
        if is_told:
            until("the test began", (tmp_path / "began").exists)
        run.send_signal(signal.SIGINT)
        run.wait(30)
    until("the branch is gone", lambda: left() == before)
    assert is_told == (tmp_path / "began").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_process_has_one_connection(
    here: Daemon, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        between = Between(Path(folder), here)
        monkeypatch.setenv("DURAMEN_HOME", folder)
        pytester.makepyfile(
            "import pytest\n@pytest.mark.parametrize('n', range(12))\ndef test(duramen_branch, n): pass\n"
        )
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n", str(workers))
        result.assert_outcomes(passed=12)
        assert between.count == max(1, workers)

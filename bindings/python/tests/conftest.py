"""A daemon of the tests' own, with one source, app, of a table t with two rows."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

pytest_plugins = ["pytester"]
SCRIPT = "create table t (x int, name text); insert into t values (1, 'a'), (2, null);"


def free_port() -> int:
    """One that nobody has right now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Daemon:
    """One that serves, and can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.log = folder / "log"
        self.program = os.environ["DURAMEN_PROGRAM"]
        self.url = f"http://127.0.0.1:{free_port()}"
        self.router = f"127.0.0.1:{free_port()}"
        self.process: "subprocess.Popen[str]"
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it serves."""
        listen = ["--http-listen", self.url.split("//")[1], "--pg-listen", self.router, "--volume-size", "3G"]
        self.process = subprocess.Popen(
            [self.program, "--home", str(self.home), "serve", *listen],
            stdout=subprocess.PIPE,
            stderr=self.log.open("a"),
            text=True,
        )
        assert self.process.stdout is not None
        assert "serves" in self.process.stdout.readline(), self.log.read_text()

    def stop(self) -> None:
        """Ends it, with its servers."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def run(self, *arguments: str) -> Any:
        """What a command of the program says."""
        command = [self.program, "--home", str(self.home), *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def token(self, name: str, *more: str) -> str:
        """A token, as DURAMEN_TOKEN is written."""
        return f"{name}:{self.run('token', 'create', name, *more)['secret']}"

    def environment(self) -> Dict[str, str]:
        """What has programs find it by its socket."""
        return {"DURAMEN_HOME": str(self.home)}


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    """A daemon with a source."""
    with tempfile.TemporaryDirectory(prefix="dm-") as folder:
        os.chmod(folder, 0o755)
        daemon = Daemon(Path(folder))
        try:
            script = Path(folder) / "app.sql"
            script.write_text(SCRIPT)
            daemon.run("source", "add", "app", "--script", str(script), "--hot", "8")
            yield daemon
        finally:
            daemon.stop()


@pytest.fixture
def here(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """The same, where the environment names it."""
    for name in ("DURAMEN_URL", "DURAMEN_TOKEN", "DURAMEN_CA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in daemon.environment().items():
        monkeypatch.setenv(name, value)
    return daemon


def until(what: str, is_so: Any) -> None:
    """Waits until something is so."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.05)

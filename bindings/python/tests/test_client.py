"""What a program does with branches, by the socket and with a token."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import duramen
import psycopg
import pytest
from conftest import Daemon

ROOT = Path(__file__).parent.parent


def test_what_is_generated_is_up_to_date(daemon: Daemon) -> None:
    written = {name: (ROOT / "src/duramen" / name).read_text() for name in ("models.py", "aio.py")}
    document = subprocess.run([daemon.program, "openapi"], capture_output=True, text=True, check=True).stdout
    code = "import generate, json, sys; d = json.load(sys.stdin); " + (
        "print(generate.module(d), end='\\0'); "
        "print(generate.unwaiting((generate.PACKAGE / 'client.py').read_text()), end='')"
    )
    made = subprocess.run([sys.executable, "-c", code], input=document, capture_output=True, text=True, cwd=ROOT)
    assert made.stdout.split("\0") == [written["models.py"], written["aio.py"]], made.stderr


def test_types_hold() -> None:
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_branch_is_there_for_a_while(here: Daemon) -> None:
    with duramen.branch("app") as branch:
        assert branch.query("select x, name from t order by x").dicts() == [
            {"x": 1, "name": "a"},
            {"x": 2, "name": None},
        ]
        inserted, counted = branch.transaction(
            [("insert into t values ($1, $2)", [3, "'; drop table t; --"]), "select count(*) from t"]
        )
        assert (inserted.affected, counted.scalar()) == (1, 3)
        with psycopg.connect(branch.url) as connection:
            assert connection.execute("select name from t where x = 3").fetchone() == ("'; drop table t; --",)
        branch.reset()
        assert branch.query("select count(*) from t").scalar() == 2
        assert branch.evidence()["branch"]["name"] == branch.name
        with pytest.raises(duramen.StatementFailed) as failed:
            branch.query("select nothing from nowhere")
        assert failed.value.sqlstate == "42P01"
    with duramen.Client() as client, pytest.raises(duramen.NotFound):
        client.branch(branch.name)


def request(client: socket.socket) -> bytes:
    """One with its body, which comes by itself."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += client.recv(65536)
    head, _, body = read.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    while len(body) < length:
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


def test_a_branch_whose_reply_was_lost_is_leased_once(daemon: Daemon) -> None:
    token = daemon.token("unlucky", "--max-branches", "2")
    door = int(daemon.url.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)

        def forward() -> None:
            for number in range(2):
                with listener.accept()[0] as client, socket.create_connection(("127.0.0.1", door), 20) as server:
                    server.sendall(request(client))
                    reply = server.recv(65536)
                    if number == 1:
                        client.sendall(reply)

        thread = threading.Thread(target=forward)
        thread.start()
        with duramen.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", token) as client:
            name = client.create("app").name
        thread.join(20)
    with duramen.Client(daemon.url, token) as client:
        assert [branch["name"] for branch in client.branches()] == [name]
        client.branch(name).destroy()


def test_the_same_for_asyncio(here: Daemon) -> None:
    async def both() -> None:
        async with duramen.branch("app") as one, duramen.branch("app") as other:
            await asyncio.gather(one.query("delete from t"), other.query("insert into t values (3)"))
            counts = [(await each.query("select count(*) from t")).scalar() for each in (one, other)]
            assert counts == [0, 3]
        async with duramen.AsyncClient() as client:
            assert one.name not in [each["name"] for each in await client.branches()]

    asyncio.run(both())


def test_a_branch_is_given_back_when_its_block_fails(here: Daemon) -> None:
    with pytest.raises(ZeroDivisionError), duramen.branch("app", name="failing"):
        _ = 1 / 0
    with duramen.Client() as client:
        assert "failing" not in [each["name"] for each in client.branches()]
        with client.create("app", name="gone") as branch:
            branch.destroy()


def test_with_a_token_and_its_end(daemon: Daemon) -> None:
    token = daemon.token("ci", "--role", "user", "--source", "app", "--policy", "read-write", "--max-branches", "2")
    client = duramen.Client(daemon.url, token)
    branch = client.create(ttl=60)
    with psycopg.connect(branch.url) as connection:
        assert connection.execute("select count(*) from t").fetchone() == (2,)
    with pytest.raises(duramen.NotAllowed):
        client.create(policy="ddl")
    client.create()
    with pytest.raises(duramen.Later) as later:
        client.create()
    assert later.value.retry_after is not None
    daemon.run("token", "revoke", "ci")
    with pytest.raises(duramen.NotAuthenticated):
        branch.query("select 1")
    with pytest.raises(duramen.NotAuthenticated):
        duramen.Client(daemon.url, "ci:wrong").sources()


def test_over_tls_by_the_certificate_to_trust(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DURAMEN_URL", daemon.url.replace("http://127.0.0.1", "https://localhost"))
    monkeypatch.setenv("DURAMEN_TOKEN", daemon.token("tls"))
    monkeypatch.setenv("DURAMEN_CA", str(daemon.home / "doors/certificate.pem"))

    async def wait() -> None:
        async with duramen.branch("app") as branch:
            assert (await branch.query("select count(*) from t")).scalar() == 2

    with duramen.branch("app") as branch:
        assert branch.query("select $1::int + 1", [1]).scalar() == 2
        with psycopg.connect(branch.url) as connection:
            assert connection.execute("select count(*) from t").fetchone() == (2,)
    asyncio.run(wait())
    monkeypatch.delenv("DURAMEN_CA")
    with duramen.Client() as client, pytest.raises(duramen.Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        client.sources()
    nothing = tmp_path / "nothing.pem"
    for text in (None, "not a certificate"):
        if text:
            nothing.write_text(text)
        with pytest.raises(duramen.DuramenError, match="DURAMEN_CA.*nothing.pem"):
            duramen.Client(ca=str(nothing))


def test_secrets_are_told_to_nobody(daemon: Daemon, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = daemon.token("quiet")
    secret = token.split(":")[1]
    client = duramen.Client(daemon.url, token)
    with client.create("app") as branch:
        said = [repr(client), repr(branch), repr(client._place), str(vars(branch))]
        for fails in (lambda: branch.query("select 1/0"), lambda: client.branch("no such")):
            try:
                fails()
            except duramen.Refused as error:
                said.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))
        assert secret in branch.url
    said.append(caplog.text)
    assert len(said) == 7 and not any(secret in each for each in said)
    with pytest.raises(duramen.DuramenError, match="use https"):
        duramen.Client("http://db.example:6433", token)


def test_a_daemon_that_restarts_is_found_again(here: Daemon) -> None:
    with duramen.Client() as client:
        branch = client.create("app", name="stays")
        branch.query("insert into t values (9)")
        here.stop()
        with pytest.raises(duramen.Unreachable):
            branch.query("select 1")
        here.start()
        assert branch.query("select count(*) from t").scalar() == 3
        branch.destroy()


def test_certificates_are_read_for_https_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading those of the system takes 60 ms, in each worker of pytest-xdist."""
    read: "list[object]" = []
    usual = ssl.SSLContext.load_verify_locations

    def counted(context: ssl.SSLContext, *args: object, **more: object) -> None:
        read.append(args)
        usual(context, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counted)
    duramen.Client(home="/nowhere").close()
    duramen.Client("http://127.0.0.1:6433", "ci:secret").close()
    duramen.AsyncClient(home="/nowhere")
    assert not read
    duramen.Client("https://127.0.0.1:6433", "ci:secret").close()
    assert read

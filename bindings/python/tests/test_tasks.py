"""Workers for tasks of durable functions, which are killed, and lose what they have."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List

import duramen
import psycopg
import pytest
from conftest import Daemon, until

LEASE_S = 1.5
#: A program that does invoices: the argument says how, and in which database.
PROGRAM = """
import asyncio, sys, time
import duramen

INSERT = "INSERT INTO invoices (order_id) VALUES (%s) RETURNING id"

@duramen.task("invoice")
def write(task: duramen.Task) -> dict:
    row = task.connection.execute(INSERT, (task.input["order"],)).fetchone()
    time.sleep(0.02)
    return {"invoice": row[0]}

@duramen.task("invoice")
async def write_async(task: duramen.AsyncTask) -> dict:
    row = await (await task.connection.execute(INSERT, (task.input["order"],))).fetchone()
    await asyncio.sleep(0.02)
    return {"invoice": row[0]}

kind, url, lease = sys.argv[1:]
if kind == "sync":
    duramen.run_worker(url, [write], lease=float(lease))
else:
    asyncio.run(duramen.run_async_worker(url, [write_async], lease=float(lease)))
"""


class Shop:
    """A branch with durable functions, and a worker of theirs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def ask(self, sql: str, *values: Any) -> Any:
        """The first value."""
        row = self.connection.execute(sql, values).fetchone()
        return row and row[0]

    def start(self, name: str, given: Any) -> str:
        """An instance that waits for a task of this name."""
        return str(self.ask("SELECT df.start(df.task(%s, %s::text))", name, json.dumps(given)))

    def status(self, instance: str) -> str:
        """Of an instance."""
        return str(self.ask("SELECT df.status(%s)", instance))

    def ends(self, instance: str, status: str) -> None:
        """Waits until it has."""
        until(f"{instance} is {status}", lambda: self.status(instance) == status)

    def rows(self) -> int:
        """How many invoices there are."""
        return int(self.ask("SELECT count(*) FROM invoices"))


@pytest.fixture(scope="module")
def database(daemon: Daemon) -> Iterator[Shop]:
    with duramen.Client(home=str(daemon.home)) as client, client.create("app", policy="ddl") as branch:
        command = [daemon.program, "--home", str(daemon.home)]
        url = subprocess.run(
            [*command, "branch", "url", "--administrator", branch.name], capture_output=True, text=True, check=True
        ).stdout.strip()
        subprocess.run([*command, "fn", "install", url], check=True, timeout=60)
        with psycopg.connect(url, autocommit=True) as connection:
            database = connection.execute("SELECT quote_ident(current_database())").fetchone()
            connection.execute(f"ALTER DATABASE {database[0]} SET df.enable_superuser_instances = on")
        worker = subprocess.Popen([*command, "fn", "worker", "--allow-superuser", url], stdout=subprocess.DEVNULL)
        try:
            yield Shop(url)
        finally:
            worker.terminate()
            worker.wait(30)


@pytest.fixture
def shop(database: Shop) -> Shop:
    database.connection.execute("DROP TABLE IF EXISTS invoices")
    database.connection.execute("CREATE TABLE invoices (id bigint GENERATED ALWAYS AS IDENTITY, order_id int)")
    return database


Serve = Callable[..., None]


@pytest.fixture
def serve(shop: Shop) -> Iterator[Serve]:
    """A worker of these functions in a thread, to the end of the test."""
    stop = threading.Event()
    threads: List[threading.Thread] = []

    def start(*functions: "duramen.TaskFunction[duramen.Task, Any]") -> None:
        options = {"lease": LEASE_S, "stop": stop}
        threads.append(threading.Thread(target=duramen.run_worker, args=(shop.url, functions), kwargs=options))
        threads[-1].start()

    yield start
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_workers_that_are_killed_have_each_effect_once(shop: Shop, tmp_path: Path, kind: str) -> None:
    orders, kills = 60, 15
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, str(program), kind, shop.url, str(LEASE_S)])

    instances = [shop.start("invoice", {"order": order}) for order in range(orders)]
    programs = [start() for _ in range(3)]
    try:
        for kill in range(kills):
            # At another moment of what they do each time; a program takes about 0.3 s to begin.
            time.sleep(0.3 + (kill * 37 % 100) / 1000)
            killed = programs.pop(0)
            killed.kill()
            killed.wait(10)
            programs.append(start())
        for instance in instances:
            shop.ends(instance, "completed")
    finally:
        for each in programs:
            each.kill()
            each.wait(10)
    assert shop.rows() == orders
    assert shop.ask("SELECT count(DISTINCT order_id) FROM invoices") == orders


def test_a_task_that_takes_longer_than_its_lease_is_kept(shop: Shop, serve: Serve) -> None:
    attempts: List[int] = []

    @duramen.task
    def slow(task: duramen.Task) -> int:
        attempts.append(task.attempt)
        task.connection.execute("SELECT pg_sleep(%s)", (3 * LEASE_S,))
        return task.attempt

    serve(slow)
    serve(slow)
    instance = shop.start("slow", {})
    shop.ends(instance, "completed")
    assert attempts == [1]


def test_what_fails_is_told_and_leaves_nothing(shop: Shop, serve: Serve) -> None:
    @duramen.task
    def divide(task: duramen.Task) -> None:
        task.connection.execute("INSERT INTO invoices (order_id) VALUES (1)")
        task.connection.execute("SELECT 1 / %s::int", (task.input["by"],))

    @duramen.task
    def currval(task: duramen.Task) -> None:
        # The SQLSTATE of a task that is not wanted any more; but here it is the function that fails.
        task.connection.execute("SELECT currval(pg_get_serial_sequence('invoices', 'id'))")

    @duramen.task
    def no_json(_: duramen.Task) -> object:
        return object()

    serve(divide, currval, no_json)
    for name, said in [("currval", "not yet defined"), ("divide", "division by zero"), ("no_json", "TypeError")]:
        instance = shop.start(name, {"by": 0})
        shop.ends(instance, "failed")
        assert said in str(shop.ask("SELECT output FROM df.results(ARRAY[%s])", instance))
    assert shop.rows() == 0
    instance = shop.start("divide", {"by": 1})
    shop.ends(instance, "completed")
    assert shop.rows() == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_what_is_done_too_late_is_rolled_back(shop: Shop, kind: str) -> None:
    """Somebody else has the task by the time that the function returns, and ends it."""
    insert = "INSERT INTO invoices (order_id) VALUES (1)"
    stop = threading.Event()

    def overtake(token: str) -> None:
        shop.ask("SELECT df.release_task(%s)", token)
        other = shop.ask("SELECT token FROM df.claim_tasks('{late}', 60)")
        shop.ask("SELECT df.complete_task(%s, '\"by another\"')", other)
        stop.set()

    @duramen.task
    def late(task: duramen.Task) -> str:
        task.connection.execute(insert)
        overtake(task.token)
        return "too late"

    @duramen.task("late")
    async def late_async(task: duramen.AsyncTask) -> str:
        await task.connection.execute(insert)
        overtake(task.token)
        return "too late"

    async def work() -> None:
        worker = asyncio.ensure_future(duramen.run_async_worker(shop.url, [late_async]))
        while not stop.is_set():
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)

    instance = shop.start("late", {})
    if kind == "sync":
        duramen.run_worker(shop.url, [late], stop=stop)
    else:
        asyncio.run(asyncio.wait_for(work(), 30))
    shop.ends(instance, "completed")
    assert (shop.ask("SELECT df.result(%s)", instance), shop.rows()) == ('"by another"', 0)


def test_a_task_that_is_cancelled_is_not_done_to_its_end(shop: Shop, serve: Serve) -> None:
    @duramen.task
    def forever(task: duramen.Task) -> None:
        task.connection.execute("INSERT INTO invoices (order_id) VALUES (1)")
        task.connection.execute("SELECT pg_sleep(60)")

    @duramen.task
    def after(_: duramen.Task) -> None:
        pass

    serve(forever, after)
    instance = shop.start("forever", {})
    until("it runs", lambda: shop.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == 1)
    shop.ask("SELECT df.cancel(%s)", instance)
    shop.ends(instance, "cancelled")
    # The worker is free again, long before the minute is over.
    instance = shop.start("after", {})
    shop.ends(instance, "completed")
    assert shop.rows() == 0


def test_a_connection_that_breaks_is_made_again(shop: Shop, serve: Serve) -> None:
    attempts: List[int] = []

    @duramen.task
    def broken(task: duramen.Task) -> None:
        attempts.append(task.attempt)
        task.connection.execute("INSERT INTO invoices (order_id) VALUES (1)")
        if task.attempt == 1:
            task.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    serve(broken)
    instance = shop.start("broken", {})
    shop.ends(instance, "completed")
    assert (attempts, shop.rows()) == ([1, 2], 1)


def test_a_worker_for_asyncio_gives_back_what_it_has(shop: Shop) -> None:
    started: List[int] = []

    @duramen.task
    async def patient(task: duramen.AsyncTask) -> int:
        started.append(task.attempt)
        await task.connection.execute("INSERT INTO invoices (order_id) VALUES (1)")
        if task.attempt == 1:
            await task.connection.execute("SELECT pg_sleep(60)")
        return task.attempt

    async def both() -> None:
        instance = shop.start("patient", {})
        # A lease that would be over after the test.
        first = asyncio.ensure_future(duramen.run_async_worker(shop.url, [patient], lease=600))
        while not started:
            await asyncio.sleep(0.02)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.ensure_future(duramen.run_async_worker(shop.url, [patient], lease=600))
        end = time.monotonic() + 20
        while shop.status(instance) != "completed":
            assert time.monotonic() < end
            await asyncio.sleep(0.02)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    asyncio.run(asyncio.wait_for(both(), 60))
    assert (started, shop.rows()) == ([1, 2], 1)


def test_a_worker_that_cannot_work_says_why(shop: Shop) -> None:
    @duramen.task("same")
    def one(_: duramen.Task) -> None:
        pass

    with pytest.raises(duramen.DuramenError, match="one for each name"):
        duramen.run_worker(shop.url, [one, one])
    with pytest.raises(duramen.DuramenError, match="from a second"):
        duramen.run_worker(shop.url, [one], lease=0)
    with pytest.raises(psycopg.OperationalError):
        duramen.run_worker("postgresql://nobody@127.0.0.1:1/nothing", [one])

"""The clients and workers of compare.py, each a process of its own: systems.py ROLE SYSTEM URL NUMBER.

A client reads one command a line, {"op": "run" | "starts", "clients": N, "seconds": S}, and answers each with one line. A
worker says one line when it is ready and works until it is killed. Every instance has a number, and its result must be it.
"""

import asyncio
import itertools
import json
import sys
import threading
import time

import psycopg
import psycopg.sql

LIMIT_S = 30
POLL_S = 0.01  # Of the queues of DBOS, whose default is 1 s, and of its handles.
ABSURD_POLL_S = 0.005  # Of absurd's workers, whose default is 0.25 s, and of the reader of results.


class Batched:
    """Clients on connections of their own, and one connection that reads the results of what ended, in batches."""

    def __init__(self, url):
        self.url, self.lock, self.waiting, self.early = url, threading.Lock(), {}, set()
        self.connections = []
        self.reader = psycopg.connect(url, autocommit=True)
        self.prepare()
        threading.Thread(target=self.read, daemon=True).start()

    def client(self, index):
        while len(self.connections) <= index:
            connection = psycopg.connect(self.url, autocommit=True)
            connection.execute("SET jit = off")
            self.connections.append(self.wrap(connection))
        return self.connections[index]

    def answer(self, ids, rows):
        for row in rows:
            with self.lock:
                waiter = self.waiting.pop(str(row[0]), None)
            if waiter:
                waiter[1] = self.number(row)
                waiter[0].set()

    def once(self, client, number):
        identity = self.start(client, number)
        waiter = [threading.Event(), None]
        with self.lock:
            self.waiting[identity] = waiter
            early = identity in self.early
            self.early.discard(identity)
        if early:
            self.answer([identity], self.results(client, [identity]))
        end = time.monotonic() + LIMIT_S
        while not waiter[0].wait(2) and time.monotonic() < end:
            self.answer([identity], self.results(client, [identity]))
        return waiter[1]


class Duramen(Batched):
    def prepare(self):
        self.reader.execute("SET jit = off")
        channel = self.reader.execute("SELECT df._done_channel()").fetchone()[0]
        self.reader.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))
        self.reader.execute("SELECT pg_try_advisory_lock_shared(6579571, 1)")

    def wrap(self, connection):
        return connection

    def start(self, client, number):
        query = "SELECT df.start(%s)"
        return client.execute(query, (f"SELECT {number} AS n",), prepare=True).fetchone()[0]

    def results(self, client, ids):
        query = "SELECT instance_id, status, output FROM df.results(%s)"
        return client.execute(query, (ids,), prepare=True).fetchall()

    def number(self, row):
        output = json.loads(row[2]) if isinstance(row[2], str) else row[2]
        return output["rows"][0]["n"] if row[1] == "completed" else row[1:]

    def read(self):
        while True:
            heard = [n.payload for n in self.reader.notifies(timeout=1, stop_after=1)]
            ids = [identity for payload in heard for identity in payload.split(",")]
            with self.lock:
                wanted = [identity for identity in ids if identity in self.waiting]
                self.early.update(identity for identity in ids if identity not in self.waiting)
            if wanted:
                self.answer(wanted, self.results(self.reader, wanted))


class Absurd(Batched):
    def prepare(self):
        pass

    def wrap(self, connection):
        from absurd_sdk import Absurd as Sdk

        sdk = Sdk(connection, queue_name="bench")
        sdk.register_task("one", queue="bench")(lambda params, context: None)
        return sdk

    def start(self, client, number):
        return str(client.spawn("one", {"n": number}, queue="bench")["task_id"])

    def results(self, client, ids):
        connection = getattr(client, "_conn", client)
        query = """SELECT task_id, state, completed_payload FROM absurd.t_bench
                   WHERE task_id = ANY(%s::uuid[]) AND state IN ('completed', 'failed', 'cancelled')"""
        return connection.execute(query, (ids,), prepare=True).fetchall()

    def number(self, row):
        return row[2] if row[1] == "completed" else row[1:]

    def read(self):
        while True:
            time.sleep(ABSURD_POLL_S)
            with self.lock:
                ids = list(self.waiting)
            if ids:
                self.answer(ids, self.results(self.reader, ids))


def launch(url, number, listen):
    """DBOS with a workflow of one step, as a function and as a coroutine."""
    from dbos import DBOS

    config = {
        "name": "bench",
        "system_database_url": url,
        "sys_db_pool_size": 32,
        "sys_db_polling_concurrency": 16,
        "max_executor_threads": 64,
        "executor_id": f"bench-{number}",
        "application_version": "1",
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    def step(n):
        return n

    @DBOS.workflow()
    def one(n):
        return step(n)

    @DBOS.step()
    async def step_async(n):
        return n

    @DBOS.workflow()
    async def one_async(n):
        return await step_async(n)

    DBOS.listen_queues(["bench"] if listen else [])
    DBOS.launch()
    if listen:
        DBOS.register_queue("bench", polling_interval_sec=POLL_S, on_conflict="always_update")
    return DBOS, one, one_async


class Dbos:
    """In one process with its workflows, as its documentation has it."""

    def __init__(self, url, system, number):
        queue = "queue" in system
        self.is_async = "async" in system
        dbos, one, one_async = launch(url, number, queue)
        if self.is_async and queue:
            async def once(client, n):
                handle = await dbos.enqueue_workflow_async("bench", one_async, n)
                return await handle.get_result(polling_interval_sec=POLL_S)
        elif self.is_async:
            async def once(client, n):
                return await one_async(n)
        elif queue:
            def once(client, n):
                return dbos.enqueue_workflow("bench", one, n).get_result(polling_interval_sec=POLL_S)
        else:
            def once(client, n):
                return one(n)
        self.once = once

    def client(self, index):
        return None


class DbosStarter:
    """Enqueues for processes that are not running yet."""

    def __init__(self, url):
        from dbos import DBOSClient

        self.dbos = DBOSClient(system_database_url=url)
        self.options = {"queue_name": "bench", "workflow_name": "launch.<locals>.one", "app_version": "1"}
        self.is_async = False

    def client(self, index):
        return None

    def start(self, client, number):
        self.dbos.enqueue(self.options, number)


def run(system, numbers, command):
    end = [0.0]
    latencies, errors, wrong = [], [], []
    calls = [system.client(index) for index in range(command["clients"])]
    starts = command["op"] == "starts"

    def note(begin, number, result):
        latencies.append(time.perf_counter() - begin)
        if not starts and result != number:
            wrong.append(f"{number}: {result!r}"[:200])

    def loop(client):
        while time.perf_counter() < end[0]:
            number, begin = next(numbers), time.perf_counter()
            try:
                note(begin, number, (system.start if starts else system.once)(client, number))
            except Exception as error:  # It is counted, and the row says so.
                errors.append(f"{type(error).__name__}: {error}"[:200])

    async def loop_async(client):
        while time.perf_counter() < end[0]:
            number, begin = next(numbers), time.perf_counter()
            try:
                note(begin, number, await system.once(client, number))
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}"[:200])

    async def all_async():
        await asyncio.gather(*(loop_async(client) for client in calls))

    begin = time.perf_counter()
    end[0] = begin + command["seconds"]
    if getattr(system, "is_async", False):
        system.loop.run_until_complete(all_async())
    else:
        threads = [threading.Thread(target=loop, args=(client,)) for client in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elapsed = time.perf_counter() - begin
    return {"elapsed": elapsed, "latencies": latencies, "errors": errors, "wrong": wrong}


def main(role, name, url, number):
    if role == "worker" and name.startswith("absurd"):
        from absurd_sdk import Absurd as Sdk

        sdk = Sdk(url, queue_name="bench")
        sdk.register_task("one")(lambda params, context: context.step("one", lambda: params["n"]))
        print("ready", flush=True)
        sdk.start_worker(worker_id=f"w{number}", concurrency=1, batch_size=20, poll_interval=ABSURD_POLL_S)
        return
    if role == "worker":
        launch(url, number, True)
        print("ready", flush=True)
        threading.Event().wait()
    if name == "duramen":
        system = Duramen(url)
    elif name.startswith("absurd"):
        system = Absurd(url)
    elif name == "dbos starts":
        system = DbosStarter(url)
    else:
        system = Dbos(url, name, number)
        system.loop = asyncio.new_event_loop()
    numbers = itertools.count(int(number) * 100_000_000 + 1)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run(system, numbers, json.loads(line))), flush=True)


main(*sys.argv[1:5])

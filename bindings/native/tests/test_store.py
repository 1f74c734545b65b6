"""The store from Python: against a dict, over forks and openings, from threads, and beside another process."""

import gc
import os
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from duramen_native import Branch, Conflict, Follower, InvalidRequest, Store, StoreError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
KEYS = st.text(min_size=1, max_size=20) | st.binary(min_size=1, max_size=20)


def as_bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


@given(VALUES)
def test_values_come_back(value: object) -> None:
    main = Store().branch()
    main.kv.put("k", value)
    found = main.kv.get("k")
    assert found == value and type(found) is type(value)


class AgainstADict(RuleBasedStateMachine):
    """Branches of a store in memory, each beside a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store()
        self.model: dict[str, dict[bytes, object]] = {"main": {}}

    def any_branch(self, number: int) -> str:
        return sorted(self.model)[number % len(self.model)]

    @rule(number=st.integers(0, 9), key=KEYS, value=VALUES)
    def put(self, number: int, key: str | bytes, value: object) -> None:
        name = self.any_branch(number)
        self.store.branch(name).kv[key] = value
        self.model[name][as_bytes(key)] = value

    @rule(number=st.integers(0, 9), key=KEYS)
    def delete(self, number: int, key: str | bytes) -> None:
        name = self.any_branch(number)
        was_there = self.store.branch(name).kv.delete(key)
        assert was_there == (as_bytes(key) in self.model[name])
        self.model[name].pop(as_bytes(key), None)

    @rule(number=st.integers(0, 9))
    def fork(self, number: int) -> None:
        name, source = f"fork-{len(self.model)}", self.any_branch(number)
        if name not in self.model:
            self.store.fork(source, name)
            self.model[name] = dict(self.model[source])

    @rule(number=st.integers(0, 9), pairs=st.dictionaries(KEYS, VALUES, max_size=5), give_up=st.booleans())
    def transact(self, number: int, pairs: dict, give_up: bool) -> None:
        name = self.any_branch(number)
        try:
            with self.store.branch(name).transaction() as tx:
                for key, value in pairs.items():
                    tx.kv[key] = value
                    assert key in tx.kv
                if give_up:
                    raise KeyError("given up")
        except KeyError:
            return
        self.model[name].update({as_bytes(key): value for key, value in pairs.items()})

    @invariant()
    def all_is_there(self) -> None:
        for name, expected in self.model.items():
            found = {as_bytes(key): value for key, value in self.store.branch(name).kv}
            assert found == expected
            assert list(found) == sorted(expected)


TestAgainstADict = AgainstADict.TestCase
TestAgainstADict.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_ranges_go_both_ways_over_pages(tmp_path) -> None:
    with Store(tmp_path / "s") as store:
        kv = store.branch().kv
        kv.put_many((f"{number:05}", number) for number in range(1000))
        assert [value for _, value in kv.scan(start="00100", end="00900")] == list(range(100, 900))
        assert [value for _, value in kv.scan(reverse=True)] == list(range(999, -1, -1))
        assert [value for _, value in kv.scan(prefix="0001")] == list(range(10, 20))
        # As of one moment.
        pairs = kv.scan()
        next(pairs)
        kv.delete_range(prefix="0")
        assert len(list(pairs)) == 999 and kv.count() == 0
        with pytest.raises(TypeError):
            kv.scan(start="a", prefix="b")
        kv.put_many({7: "seven", 300: "three hundred"})
        assert [value for _, value in kv] == ["seven", "three hundred"], "numbers lie in their order"


def test_a_store_is_there_again_and_is_not_written_twice(tmp_path) -> None:
    path = tmp_path / "s"
    with Store(path, durability="strict") as store:
        store.branch().kv["k"] = {"a": [1, 2.5, b"x", None]}
        with pytest.raises(Conflict):
            Store(path)
    with pytest.raises(StoreError):
        store.branch().kv["k"] = 1
    del store
    gc.collect()
    with Store(path) as store:
        assert store.branch().kv["k"] == {"a": [1, 2.5, b"x", None]}
        assert store.verify() > 0
    with Store(path, read_only=True) as store, pytest.raises(InvalidRequest):
        store.branch().kv["k"] = 1


def test_conflicts_are_raised() -> None:
    main = Store().branch()
    version = main.state.init("leader", "alice")
    assert main.state.read("leader") == ("alice", version)
    main.state.cas("leader", version, "bob")
    with pytest.raises(Conflict):
        main.state.cas("leader", version, "eve")
    first, second = main.transaction(), main.transaction()
    first.kv["k"] = 1
    second.kv["k"] = 2
    first.commit()
    with pytest.raises(Conflict):
        second.commit()
    with pytest.raises(InvalidRequest):
        first.kv["k"] = 3
    with pytest.raises(KeyError):
        main.kv["nothing"]
    with pytest.raises(TypeError):
        main.kv["k"] = object()
    with pytest.raises(OverflowError):
        main.kv["k"] = 2**63
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidRequest):
        main.kv["k"] = deep
    with pytest.raises(InvalidRequest):
        main.kv.put("", 1)


def test_branches_are_merged_and_their_past_is_read(tmp_path) -> None:
    store = Store(tmp_path / "s")
    main = store.branch()
    store.keep_history()
    first = main.kv.put("colour", "green")
    store.tag("main", "v1")
    draft = main.fork("draft")
    draft.kv["colour"] = "red"
    assert [change["key"] for change in store.diff("main", "draft")] == ["colour"]
    assert store.merge("draft", "main", dry_run=True)["written"] == 1
    assert main.kv["colour"] == "green"
    store.merge("draft", "main")
    assert main.kv["colour"] == "red" and main.at("v1").kv["colour"] == main.at(first).kv["colour"] == "green"
    assert main.at(datetime.now(timezone.utc)).kv["colour"] == "red"
    with pytest.raises(TypeError):
        main.at(datetime.now())
    with pytest.raises(InvalidRequest):
        main.at(datetime.now(timezone.utc) - timedelta(days=1))
    assert [state["value"] for state in main.key_history("colour")] == ["red", "green"]
    assert main.revert_to("v1") == (1, 0) and main.kv["colour"] == "green"
    assert store.fork("main", "again", at="v1").kv["colour"] == "green"
    assert {"main", "draft", "again"} == set(store.branches())
    draft.kv["colour"], main.kv["colour"] = "blue", "black"
    with pytest.raises(InvalidRequest):
        store.merge("draft", "main")
    assert store.merge("draft", "main", strategy="theirs")["conflicts"][0]["key"] == "colour"
    with pytest.raises(InvalidRequest):
        store.merge("draft", "main", rules=["nonsense"])
    Store.backup(tmp_path / "s", tmp_path / "copy")
    assert Store(tmp_path / "copy").branch().kv["colour"] == "blue"


def parted_and_kept() -> tuple[Store, Branch]:
    store = Store()
    main = store.branch()
    main.kv["a"], main.kv["b"] = 1, 1
    main.space("second").json.set("doc", "$", {"n": 1})
    draft = main.fork("draft")
    for branch, n in ((main, 2), (draft, 3)):
        branch.kv["a"], branch.kv["b"] = n, n
        branch.space("second").json.set("doc", "$.n", n)
    report = store.merge("draft", "main", strategy="keep")
    assert (report["kept"], report["carried"], report["written"]) == (3, 0, 0)
    assert all(conflict["kept"] for conflict in report["conflicts"])
    return store, main


def test_conflicts_are_kept_and_settled() -> None:
    store, main = parted_and_kept()
    before = main.snapshot()
    found = main.conflicts.list()
    assert [(it["primitive"], it["space"], it["key"]) for it in found] == [
        ("kv", "default", "a"),
        ("kv", "default", "b"),
        ("json", "second", "doc"),
    ]
    first = found[0]
    assert (first["base"], first["ours"], first["theirs"], first["now"]) == (1, 2, 3, 2)
    assert first["source"] == "draft" and not first["changed"] and first["unreadable"] is None
    assert found[2]["paths"] == ["$.n"]
    after = main.conflicts.list(after=("kv", "default", "a"), limit=1)
    assert [it["key"] for it in after] == ["b"]
    assert main.conflicts.count() == 3 and main.conflicts.count(space="second") == 1

    main.conflicts.resolve("a", "theirs")
    assert main.kv["a"] == 3 and main.conflicts.get("a") is None
    with pytest.raises(InvalidRequest, match="no open conflict"):
        main.conflicts.resolve("a", "theirs")
    main.conflicts.resolve("doc", kind="json", space="second", value={"n": 7})
    assert main.space("second").json.get("doc") == {"n": 7}
    main.kv["b"] = 9
    with pytest.raises(InvalidRequest, match="has changed"):
        main.conflicts.resolve("b", "base")
    assert main.conflicts.resolve_all("ours") == {"settled": 0, "open": 1}
    with main.transaction() as tx:
        tx.conflicts.resolve("b", "base", even_if_changed=True)
        assert tx.conflicts.count() == 0 and main.conflicts.count() == 1
    assert main.kv["b"] == 1 and main.conflicts.list() == []
    assert before.conflicts.count() == 3
    with pytest.raises(StoreError):
        before.conflicts.resolve("a", "now")
    for wrong in ({}, {"take": "mine"}, {"take": "ours", "value": 1}, {"take": "ours", "kind": "no"}):
        with pytest.raises(InvalidRequest):
            main.conflicts.resolve("a", **wrong)


def test_conflicts_are_settled_all_at_once() -> None:
    store, main = parted_and_kept()
    fork = main.fork("fork")
    assert main.conflicts.resolve_all("theirs", kind="kv") == {"settled": 2, "open": 0}
    assert main.kv["a"] == main.kv["b"] == 3 and main.conflicts.count() == 1
    assert store.merge("main", "fork")["carried"] == 2
    assert fork.conflicts.count() == 1
    main.events.append("e", {"n": 1})
    fork.events.append("e", {"n": 2})
    with pytest.raises(InvalidRequest, match="event logs are not kept"):
        store.merge("fork", "main", strategy="keep")


def test_documents_events_and_spaces() -> None:
    main = Store().branch()
    main.json.set("user:1", "$", {"name": "Ada", "tags": [1]})
    main.json.set("user:1", "$.name", "Eve")
    main.json.merge_patch("user:1", {"tags": None})
    assert main.json.get("user:1") == {"name": "Eve"} and main.json.get("user:1", "$.name") == "Eve"
    assert "user:1" in main.json and main.json.keys("user:") == ["user:1"]
    assert main.events.append("login", {"user": 1}) == 0
    assert main.events.append("logout", {"user": 1}) == 1
    assert [event["type"] for event in main.events.range(reverse=True)] == ["logout", "login"]
    assert main.events.range(event_type="login")[0]["payload"] == {"user": 1}
    assert main.events.verify() == len(main.events) == 2
    tenant = main.space("tenant-7")
    tenant.kv["k"] = 1
    assert "k" not in main.kv and main.spaces() == ["default", "tenant-7"]
    with pytest.raises(InvalidRequest):
        main.space("No Space")


def test_vectors_of_numpy(tmp_path) -> None:
    main = Store(tmp_path / "s").branch()
    main.vectors.create("words", 8)
    words = main.vectors["words"]
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(500, 8)).astype(np.float32)
    words.upsert_many([f"{number:03}" for number in range(500)], rows)
    words.upsert("named", rows[7], {"lang": "de"})
    assert len(words) == 501
    query = rows[3]
    norm = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    best = int(np.argmax(norm @ (query / np.linalg.norm(query))))
    found = words.search(query, 5)
    assert found[0]["key"] == f"{best:03}" and len(found) == 5
    assert words.search(query, 5, filter=[{"field": "lang", "op": "eq", "value": "de"}])[0]["key"] == "named"
    vector, metadata = words.get("named")
    assert vector.dtype == np.float32 and np.array_equal(vector, rows[7]) and metadata == {"lang": "de"}
    # Neither of another type nor in another order.
    assert words.search(query.astype(np.float64), 1)[0]["key"] == found[0]["key"]
    assert words.search(list(map(float, query)), 1)[0]["key"] == found[0]["key"]
    assert words.search(np.stack([query, query], axis=1)[:, 0], 1)[0]["key"] == found[0]["key"]
    for bad in (rows[:, ::2], rows[:10], np.asfortranarray(rows), np.zeros((500, 0), np.float32)):
        with pytest.raises((InvalidRequest, TypeError)):
            words.upsert_many(["a"] * 500, bad)
    with pytest.raises(InvalidRequest):
        words.search([1.0, 2.0])


def test_what_json_does_not_have_is_refused() -> None:
    main = Store().branch()
    cyclic: list = []
    cyclic.append(cyclic)
    for bad in (float("nan"), float("inf"), {"a": [float("nan")]}, cyclic):
        with pytest.raises(InvalidRequest):
            main.json.set("d", "$", bad)
        with pytest.raises(InvalidRequest):
            main.events.append("e", {"x": bad})
    with pytest.raises(TypeError):
        main.json.set("d", "$", b"bytes")
    with pytest.raises(UnicodeEncodeError):
        main.kv["k"] = "\ud800"
    assert "d" not in main.json and len(main.events) == 0


def test_a_forked_process_neither_writes_nor_unlocks(tmp_path) -> None:
    path = tmp_path / "s"
    store = Store(path)
    main = store.branch()
    main.kv["n"] = 1
    pairs, watch, tx = main.kv.scan(), main.watch(), main.transaction()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            refused = 0
            uses = [
                lambda: main.kv.put("n", 2),
                lambda: main.kv["n"],
                lambda: next(pairs),
                lambda: watch.next(0.0),
                lambda: tx.commit(),
                lambda: store.branches(),
                lambda: store.close(),
                lambda: main.fork("f"),
            ]
            for use in uses:
                try:
                    use()
                except InvalidRequest:
                    refused += 1
            del store, main, pairs, watch, tx, uses, use
            gc.collect()
            try:
                Store(path)
            except Conflict:
                refused += 1
            refused += Follower(path).branch().kv["n"] == 1
            status = 0 if refused == 10 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(Conflict):
        Store(path)
    main.kv["n"] = 3
    assert store.verify() >= 0 and main.kv["n"] == 3


def test_threads_write_and_read_at_once(tmp_path) -> None:
    main = Store(tmp_path / "s", durability="strict").branch()
    pairs = main.kv.scan()
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(50):
                main.kv.add("sum", 1)
                main.kv[f"{number}/{step}"] = step
                next(pairs, None)
                list(main.kv.scan(prefix=f"{number}/"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "they wait for each other"
    assert not failed and main.kv["sum"] == 400


def test_the_interpreter_goes_on_while_a_watch_waits() -> None:
    main = Store().branch()
    watch = main.watch(kind="kv", prefix="user:")
    begin = time.monotonic()
    assert watch.next(0.2) is None and time.monotonic() - begin >= 0.2
    threading.Timer(0.1, lambda: main.kv.put("user:1", "Ada")).start()
    version, changes = next(watch)
    assert version == 1 and changes[0]["right"] == "Ada"


def test_another_process_is_followed(tmp_path) -> None:
    path = tmp_path / "s"
    store = Store(path)
    store.branch().kv["n"] = 0
    code = (
        "import sys; from duramen_native import Follower\n"
        "watch = Follower(sys.argv[1]).watch(kind='kv')\n"
        "print('ready', flush=True)\n"
        "for _, changes in watch:\n"
        "    print(changes[0]['right'], flush=True)\n"
        "    if changes[0]['right'] == 5: break\n"
    )
    follower = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    assert follower.stdout.readline() == "ready\n"
    for number in range(1, 6):
        store.branch().kv["n"] = number
        if number % 2:
            store.checkpoint()
        assert follower.stdout.readline() == f"{number}\n"
    assert follower.wait(30) == 0
    assert Follower(path).branch().kv["n"] == 5


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path) -> None:
    path = tmp_path / "s"
    code = (
        "import sys; from duramen_native import Store\n"
        "kv = Store(sys.argv[1]).branch().kv\n"
        "for n in range(10**9):\n"
        "    kv['n'] = n\n"
        "    print(n, flush=True)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(200):
        last = writer.stdout.readline()
    os.kill(writer.pid, 9)
    told = [line for line in [last, *writer.stdout.read().splitlines()] if line.strip()]
    writer.wait()
    assert Store(path, wait=5.0).branch().kv["n"] >= int(told[-1])


DOCUMENTS = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 2.0]) | st.text(max_size=2),
)


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), DOCUMENTS, max_size=12), st.integers(-5, 5))
@settings(max_examples=60)
def test_an_index_finds_what_a_look_at_each_document_finds(
    documents: dict[str, dict[str, object]], least: int
) -> None:
    main = Store().branch()
    main.indexes.create("by-a", ["a", "b"])
    for key, document in documents.items():
        main.json.set(key, "$", document)
    rows, end = main.json.find(f"a >= {least}")

    def counts(value: object) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= least

    assert (rows, end) == (sorted((k, d) for k, d in documents.items() if counts(d.get("a"))), None)
    assert main.json.explain(f"a >= {least}", order=["a", "b"]).startswith("index by-a for a >= ")


def test_finding_goes_on_page_by_page_and_a_unique_index_refuses() -> None:
    store = Store()
    main = store.branch()
    assert main.indexes.create("value", "$", on="kv", unique=True)
    main.kv.put_many({f"k{n}": n for n in range(10)})
    found, after = [], None
    while True:
        rows, after = main.kv.find(
            [{"field": "$", "op": "gt", "value": 2}], order="$", backwards=True, after=after, limit=3
        )
        found += [value for _, value in rows]
        if after is None:
            break
    assert found == [9, 8, 7, 6, 5, 4, 3]
    with pytest.raises(InvalidRequest, match="unique index"):
        main.kv["other"] = 4
    with main.transaction() as tx:
        del tx.kv["k4"]
        tx.kv["other"] = 4
        assert tx.kv.find("$ = 4")[0] == [("other", 4)]
    assert main.indexes.list() == {"value": {"on": "kv", "fields": ["$"], "unique": True, "where": ""}}
    assert main.indexes.drop("value") and not main.indexes.drop("value")
    main.kv["again"] = 4
    for wrong in ["$ ~", "$ =", 7]:
        with pytest.raises((InvalidRequest, TypeError)):
            main.kv.find(wrong)  # type: ignore[arg-type]


def test_a_log_of_events_is_trimmed() -> None:
    events = Store().branch().events
    for n in range(6):
        events.append("tick", {"n": n})
    assert events.trim(4) == 4
    assert (events.first(), len(events), events.verify()) == (4, 6, 2)
    assert [event["seq"] for event in events.range()] == [4, 5]
    assert (events.since(0), events.since(2**62)) == (4, 6)


def test_a_pair_with_a_time_to_live_is_gone_then() -> None:
    main = Store().branch()
    main.kv.put("session", "alice", ttl=3600)
    left = main.kv.ttl("session")
    assert left is not None and 3500 < left <= 3600
    assert main.kv.persist("session") and main.kv.ttl("session") is None
    assert main.kv.expire("session", 0.001)
    time.sleep(0.01)
    assert "session" not in main.kv and main.kv.get("session") is None
    assert not main.kv.expire("session", 1) and not main.kv.persist("session")
    for wrong in (0, -1, float("nan"), 1e12):
        with pytest.raises((InvalidRequest, ValueError)):
            main.kv.put("session", 1, ttl=wrong)
    with main.transaction() as tx:
        assert tx.kv.put("session", 1, ttl=60) is None
    assert main.kv.ttl("session") is not None


def test_blobs_are_put_and_read(tmp_path) -> None:
    main = Store(tmp_path / "store").branch()
    film = os.urandom(700_000)
    (tmp_path / "film").write_bytes(film)
    with open(tmp_path / "film", "rb") as file:
        info = main.blobs.put("film", file)
    assert info["bytes"] == len(film) and main.blobs.info("film") == info
    assert main.blobs.put("again", film) == info
    assert main.blobs.get("film") == film
    assert main.blobs.get("film", 300_000, 5) == film[300_000:300_005]
    assert main.snapshot().blobs.get("film", 699_990) == film[699_990:]
    assert main.blobs.list() == ["again", "film"] and main.blobs.list(after="again") == ["film"]

    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError("the line is cut")

    with pytest.raises((StoreError, OSError), match="the line is cut"):
        main.blobs.put("film", Broken())
    assert main.blobs.get("film") == film
    with main.transaction() as tx:
        with pytest.raises(InvalidRequest):
            tx.blobs.put("film", b"")
        assert tx.blobs.delete("film")
    assert main.blobs.info("film") is None
    with pytest.raises(KeyError):
        main.blobs.get("film")

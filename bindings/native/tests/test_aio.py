"""The store on asyncio: many tasks, cancelled ones, exceptions, watches, and its end."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from duramen_native import Conflict, InvalidRequest, Store, Transaction, aio


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within() -> None:
        await asyncio.wait_for(test(), timeout=120)

    asyncio.run(within())


def test_a_hundred_tasks_lose_no_count_and_all_kinds_of_data_are_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with aio.open(tmp_path / "store") as store:
            main = await store.branch()

            async def task(number: int) -> None:
                await main.transact(lambda tx: tx.kv.add("count", 1))
                await main.kv.put(f"task/{number:03}", number)
                assert await main.kv.get(f"task/{number:03}") == number

            await asyncio.gather(*(task(number) for number in range(100)))
            assert await main.kv.get("count") == 100
            assert [value async for _, value in main.kv.scan(prefix="task/")] == list(range(100))
            await main.kv.put("session", 1, ttl=3600)
            assert await main.kv.ttl("session") and await main.kv.persist("session")
            assert (await main.blobs.put("blob", b"film"))["bytes"] == 4
            assert await main.blobs.get("blob", 1) == b"ilm" and await main.blobs.list() == ["blob"]
            version = await main.state.set("cell", 1)
            with pytest.raises(Conflict):
                await main.state.cas("cell", (version or 0) + 7, 2)
            await main.events.append("done", {"tasks": 100})
            assert await main.events.count() == 1
            await main.json.set("user", "$", {"name": "Ada"})
            assert await main.json.get("user", "$.name") == "Ada"
            await main.vectors.create("texts", 2)
            await main.vectors["texts"].upsert("a", [1.0, 0.0])
            assert (await main.vectors["texts"].search([1.0, 0.1], 1))[0]["key"] == "a"
            await main.space("tenant").kv.put("k", 1)
            draft = await store.fork("main", "draft")
            await draft.kv.put("count", 101)
            assert (await store.merge("draft", "main"))["written"] == 1
            await draft.kv.put("count", 102)
            await main.kv.put("count", 103)
            assert (await store.merge("draft", "main", strategy="keep"))["kept"] == 1
            assert await (await main.snapshot()).conflicts.count() == 1
            assert (await main.conflicts.list())[0]["theirs"] == 102
            await main.conflicts.resolve("count", "base")
            before = await main.snapshot()
            await main.kv.put("count", 0)
            assert (await before.kv.get("count"), await main.kv.get("count")) == (101, 0)
    run(test)
    # The folder is free when the handles are gone.
    gc.collect()
    with Store(tmp_path / "store") as again:
        assert again.branch().kv["count"] == 0


def test_the_loop_goes_on_while_work_waits() -> None:
    async def test() -> None:
        gate = threading.Event()
        async with aio.open(threads=1) as store:
            waiting = asyncio.ensure_future(store.run(lambda _: gate.wait(60)))
            ticks = 0
            while ticks < 50:
                await asyncio.sleep(0.001)
                ticks += 1
            assert not waiting.done()
            gate.set()
            assert await waiting

    run(test)


def test_what_is_cancelled_is_done_whole_or_not_at_all() -> None:
    async def test() -> None:
        begun, gate = threading.Event(), threading.Event()

        def both(tx: Transaction) -> None:
            begun.set()
            assert gate.wait(60)
            tx.kv.put("begun/a", 1)
            tx.kv.put("begun/b", 2)

        async with aio.open(threads=1) as store:
            main = await store.branch()
            working = asyncio.ensure_future(main.transact(both))
            await asyncio.to_thread(begun.wait, 60)
            # There is no thread for it.
            queued = asyncio.ensure_future(main.kv.put("queued", 1))
            await asyncio.sleep(0)
            for task in (working, queued):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            gate.set()
            assert await main.kv.count("begun/") == 2
            assert await main.kv.get("queued") is None

    run(test)


def test_an_exception_of_the_work_is_raised_and_nothing_is_written() -> None:
    def failing(tx: Transaction) -> None:
        tx.kv.put("a", 1)
        raise KeyError("of the work")

    async def test() -> None:
        async with aio.open() as store:
            main = await store.branch()
            with pytest.raises(KeyError, match="of the work"):
                await main.transact(failing)
            assert await main.kv.get("a") is None
            with pytest.raises(InvalidRequest, match="no branch"):
                await store.branch("nowhere")

    run(test)


def test_a_slow_watch_misses_no_key_and_a_cancelled_wait_loses_nothing() -> None:
    async def test() -> None:
        async with aio.open() as store:
            main = await store.branch()
            watch = await main.watch(kind="kv")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(watch), 0.02)
            for number in range(200):
                await main.kv.put(f"{number % 5}", number)
            seen: dict[str, Any] = {}
            async for _, changes in watch:
                for change in changes:
                    # Each change begins where the one before ended.
                    assert seen.get(change["key"]) == change["left"]
                    seen[change["key"]] = change["right"]
                if seen.get("4") == 199:
                    break
            assert seen == {str(key): 195 + key for key in range(5)}

    run(test)


def test_a_closed_store_says_so() -> None:
    async def test() -> None:
        store = await aio.open()
        main = await store.branch()
        watch = await main.watch()
        watching = asyncio.ensure_future(anext(watch))
        late = asyncio.ensure_future(main.kv.put("late", 1))
        await asyncio.sleep(0)
        await store.close()
        # What had begun was waited for.
        assert await late is not None
        with pytest.raises(InvalidRequest, match="closed"):
            await main.kv.get("late")
        # It sees what came before the end, or that it is over.
        with pytest.raises(InvalidRequest, match="closed"):
            await watching
            await anext(watch)

    run(test)

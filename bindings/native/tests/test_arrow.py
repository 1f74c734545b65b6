"""Tables of Arrow out of the store and into it, by pyarrow, beside a writer and over errors."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from duramen_native import InvalidRequest, Store


@pytest.fixture
def main():
    with Store() as store:
        yield store.branch()


def test_documents_come_back_as_they_were(main):
    documents = {f"k{n:04}": {"n": n, "x": n / 3, "tags": ["a"] * (n % 3 + 1), "s": {"t": n % 2 == 0}} for n in range(500)}
    for key, document in documents.items():
        main.json.set(key, "$", document)
    found = main.json.to_arrow(batch_rows=100)
    main.json.set("k0000", "$", {"n": "written later"})
    table = pa.table(found)
    assert sorted(table.column_names) == ["key", "n", "s", "tags", "x"]
    assert table.schema.field("n").type == pa.int64()
    assert table["n"].num_chunks == 5
    assert table["n"].to_pylist() == list(range(500))
    # A second reader begins at the first row, too.
    assert pa.table(found) == table
    again = main.space("again")
    assert again.json.load_arrow(table) == 500
    assert {key: again.json.get(key) for key in again.json.keys()} == documents
    assert again.json.load_arrow(found, prefix="p:") == 500
    assert again.json.get("p:k0499") == documents["k0499"]


def test_what_does_not_fit_is_named_or_kept(main):
    main.json.set("a", "$", {"n": 1})
    main.json.set("b", "$", {"n": "two"})
    with pytest.raises(Exception, match='field "n" of document "b" is text'):
        pa.table(main.json.to_arrow(sample=1))
    table = pa.table(main.json.to_arrow(sample=1, rest="rest"))
    assert table["n"].to_pylist() == [1, None]
    again = main.space("again")
    again.json.load_arrow(table, rest="rest")
    assert again.json.get("b") == {"n": "two"}


def test_types_of_arrow_have_their_place(main):
    table = pa.table(
        {
            "id": [7, 8],
            "day": [datetime.date(2026, 11, 27), None],
            "price": [Decimal("1.50"), None],
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "at": pa.array([0, 1500], pa.timestamp("ms", "UTC")),
        }
    )
    assert main.json.load_arrow(table, key="id", keep_key=True) == 2
    assert main.json.get("7") == {
        "id": 7,
        "day": "2026-11-27",
        "price": "1.50",
        "kind": "a",
        "at": "1970-01-01T00:00:00Z",
    }
    assert main.json.load_arrow(table, key=None, prefix="n:", keep_nulls=True) == 2
    assert main.json.get("n:0000000001", "$.price") is None
    assert "day" in main.json.get("n:0000000001")
    with pytest.raises(InvalidRequest, match="Duration"):
        main.json.load_arrow(pa.table({"key": ["a"], "d": pa.array([1], pa.duration("s"))}))
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        main.json.load_arrow([1])


def test_pairs_events_and_vectors(main):
    main.kv.put_many({"a": 1, "b": 2})
    assert pa.table(main.kv.to_arrow()).to_pydict() == {"key": ["a", "b"], "value": [1, 2]}
    again = main.space("again")
    again.kv.load_arrow(pa.table({"key": pa.array([1, 2], pa.uint64()), "value": [b"x", None]}))
    assert (again.kv[1], again.kv[2]) == (b"x", None)

    for n in range(3):
        main.events.append("tick", {"n": n})
    events = pa.table(main.events.to_arrow(1, event_type="tick"))
    assert events["seq"].to_pylist() == [1, 2]
    assert events.schema.field("at").type == pa.timestamp("ms", "UTC")

    main.vectors.create("points", 2)
    points = main.vectors["points"]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.float32)), 2)
    assert points.load_arrow(pa.table({"key": ["a", "b", "c"], "vector": vectors})) == 3
    assert pa.table(points.to_arrow("b"))["vector"].to_pylist() == [[2.0, 3.0]]


def test_a_stream_that_fails_says_what_is_loaded(main):
    def batches():
        yield pa.record_batch({"key": ["a"], "n": [1]})
        raise ValueError("the source broke")

    schema = pa.schema({"key": pa.string(), "n": pa.int64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(InvalidRequest, match="the source broke"):
        main.json.load_arrow(reader)


def test_a_snapshot_has_tables_and_a_transaction_has_none(main):
    main.kv["a"] = 1
    snapshot = main.snapshot()
    main.kv["a"] = 2
    assert pa.table(snapshot.kv.to_arrow())["value"].to_pylist() == [1]
    with main.transaction() as tx:
        with pytest.raises(InvalidRequest, match="a transaction"):
            tx.kv.to_arrow()
        tx.kv.load_arrow(pa.table({"key": ["b"], "value": [3]}))
    assert main.kv["b"] == 3

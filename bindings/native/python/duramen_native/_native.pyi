from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, TypedDict, final

import numpy as np
import numpy.typing as npt

__version__: str
__all__ = [
    "__version__",
    "StoreError",
    "InvalidRequest",
    "Conflict",
    "StoreFailed",
    "ArrowTable",
    "Store",
    "Branch",
    "Snapshot",
    "Transaction",
    "Space",
    "Kv",
    "PairIterator",
    "Blobs",
    "Cells",
    "Events",
    "Documents",
    "Vectors",
    "Collection",
    "Conflicts",
    "Indexes",
    "Follower",
    "Watch",
]

class _HasArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

_Key = str | bytes | int
_Value = None | bool | int | float | str | bytes | list[Any] | tuple[Any, ...] | dict[str, Any]
_State = str | int | datetime
_Kind = Literal["kv", "state", "event", "json", "vector", "index"]
_Level = Literal["memory", "buffered", "strict"]
_Vector = npt.NDArray[np.float32] | Sequence[float]

class StoreError(Exception): ...
class InvalidRequest(StoreError): ...
class Conflict(StoreError): ...
class StoreFailed(StoreError): ...

class _Event(TypedDict):
    seq: int
    type: str
    payload: dict[str, Any]
    at_ms: int

class _Match(TypedDict):
    key: str
    score: float
    distance: float
    metadata: Any

class _Change(TypedDict):
    primitive: _Kind
    space: str
    key: str
    change: Literal["added", "removed", "modified"]
    left: Any
    right: Any

class _Report(TypedDict):
    written: int
    deleted: int
    version: int | None
    kept: int
    carried: int
    conflicts: list[dict[str, Any]]

class _OpenConflict(TypedDict):
    primitive: _Kind
    space: str
    key: str
    source: str | None
    version: int
    merged_ms: int
    base: Any
    ours: Any
    theirs: Any
    paths: list[str]
    now: Any
    changed: bool
    unreadable: str | None

class _Settled(TypedDict):
    settled: int
    open: int

_Take = Literal["ours", "theirs", "base", "now", "delete"]

class _Retained(TypedDict):
    version: int
    time_ms: int
    tags: list[str]
    entries: int
    bytes: int

class _KeyState(TypedDict):
    version: int | None
    time_ms: int | None
    value: Any

class _Condition(TypedDict):
    field: str
    op: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "contains"]
    value: Any

_Filter = str | Sequence[_Condition]

class _Index(TypedDict):
    on: Literal["json", "kv"]
    fields: list[str]
    unique: bool
    where: str

@final
class Conflicts:
    def list(
        self,
        *,
        kind: _Kind | None = None,
        space: str | None = None,
        prefix: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int = 1000,
    ) -> list[_OpenConflict]: ...
    def count(
        self, *, kind: _Kind | None = None, space: str | None = None, prefix: str | None = None
    ) -> int: ...
    def get(self, key: str, *, kind: _Kind = "kv", space: str = "default") -> _OpenConflict | None: ...
    def resolve(
        self,
        key: str,
        take: _Take | None = None,
        *,
        kind: _Kind = "kv",
        space: str = "default",
        value: Any = None,
        even_if_changed: bool = False,
    ) -> None: ...
    def resolve_all(
        self,
        take: _Take,
        *,
        kind: _Kind | None = None,
        space: str | None = None,
        prefix: str | None = None,
        even_if_changed: bool = False,
    ) -> _Settled: ...

@final
class Kv:
    def put(self, key: _Key, value: _Value, *, ttl: float | None = None) -> int | None: ...
    def ttl(self, key: _Key) -> float | None: ...
    def expire(self, key: _Key, ttl: float) -> bool: ...
    def persist(self, key: _Key) -> bool: ...
    def put_many(self, pairs: dict[Any, _Value] | Iterable[tuple[_Key, _Value]]) -> int | None: ...
    def get(self, key: _Key, default: Any = None) -> Any: ...
    def get_many(self, keys: Sequence[_Key]) -> list[Any]: ...
    def add(self, key: _Key, by: int = 1) -> int: ...
    def delete(self, key: _Key) -> bool: ...
    def delete_range(
        self, *, start: _Key | None = None, end: _Key | None = None, prefix: _Key | None = None
    ) -> int: ...
    def count(self, prefix: _Key = ...) -> int: ...
    def find(
        self,
        filter: _Filter | None = None,
        *,
        order: str | Sequence[str] | None = None,
        backwards: bool = False,
        prefix: _Key = ...,
        after: str | None = None,
        limit: int = 1000,
    ) -> tuple[list[tuple[str | bytes, Any]], str | None]: ...
    def scan(
        self,
        *,
        start: _Key | None = None,
        end: _Key | None = None,
        prefix: _Key | None = None,
        reverse: bool = False,
    ) -> PairIterator: ...
    def __contains__(self, key: _Key, /) -> bool: ...
    def __getitem__(self, key: _Key, /) -> Any: ...
    def __setitem__(self, key: _Key, value: _Value, /) -> None: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    def __iter__(self) -> PairIterator: ...
    def to_arrow(
        self,
        prefix: _Key | None = None,
        *,
        sample: int = 1000,
        rest: str | None = None,
        batch_rows: int | None = None,
    ) -> ArrowTable: ...
    def load_arrow(
        self,
        data: _HasArrowStream,
        *,
        key: str = "key",
        value: str = "value",
        rest: str | None = None,
        keep_nulls: bool = False,
    ) -> int: ...

@final
class ArrowTable:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class PairIterator(Iterator[tuple[str | bytes, Any]]):
    def __iter__(self) -> PairIterator: ...
    def __next__(self) -> tuple[str | bytes, Any]: ...

class _BlobInfo(TypedDict):
    bytes: int
    blake3: str

class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

@final
class Blobs:
    def put(self, key: str, data: bytes | _Readable) -> _BlobInfo: ...
    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes: ...
    def info(self, key: str) -> _BlobInfo | None: ...
    def delete(self, key: str) -> bool: ...
    def list(self, prefix: str = "", *, after: str | None = None, limit: int = 1000) -> list[str]: ...

@final
class Cells:
    def init(self, key: str, value: _Value) -> int | None: ...
    def set(self, key: str, value: _Value) -> int | None: ...
    def cas(self, key: str, expected: int | None, value: _Value) -> int | None: ...
    def read(self, key: str) -> tuple[Any, int] | None: ...
    def delete(self, key: str) -> bool: ...

@final
class Events:
    def append(self, event_type: str, payload: dict[str, Any]) -> int: ...
    def range(
        self, start: int = 0, *, event_type: str | None = None, limit: int = 1000, reverse: bool = False
    ) -> list[_Event]: ...
    def verify(self) -> int: ...
    def first(self) -> int: ...
    def trim(self, before: int) -> int: ...
    def since(self, at_ms: int) -> int: ...
    def to_arrow(
        self, start: int = 0, *, event_type: str | None = None, batch_rows: int | None = None
    ) -> ArrowTable: ...
    def __len__(self) -> int: ...

@final
class Documents:
    def set(self, key: str, path: str, value: Any) -> int | None: ...
    def get(self, key: str, path: str = "$") -> Any: ...
    def delete(self, key: str, path: str = "$") -> bool: ...
    def merge_patch(self, key: str, patch: Any) -> int | None: ...
    def keys(self, prefix: str = "", *, after: str | None = None, limit: int = 1000) -> list[str]: ...
    def to_arrow(
        self,
        prefix: str = "",
        *,
        key_column: str = "key",
        sample: int = 1000,
        rest: str | None = None,
        batch_rows: int | None = None,
    ) -> ArrowTable: ...
    def load_arrow(
        self,
        data: _HasArrowStream,
        *,
        key: str | None = ...,
        keep_key: bool = False,
        prefix: str = "",
        rest: str | None = None,
        keep_nulls: bool = False,
    ) -> int: ...
    def find(
        self,
        filter: _Filter | None = None,
        *,
        order: str | Sequence[str] | None = None,
        backwards: bool = False,
        prefix: str = "",
        after: str | None = None,
        limit: int = 1000,
    ) -> tuple[list[tuple[str, Any]], str | None]: ...
    def explain(
        self, filter: _Filter | None = None, *, order: str | Sequence[str] | None = None
    ) -> str: ...
    def __contains__(self, key: str, /) -> bool: ...

@final
class Indexes:
    def create(
        self,
        name: str,
        fields: str | Sequence[str],
        *,
        on: Literal["json", "kv"] = "json",
        unique: bool = False,
        where: _Filter | None = ...,
    ) -> bool: ...
    def drop(self, name: str) -> bool: ...
    def list(self) -> dict[str, _Index]: ...

@final
class Vectors:
    def create(
        self, name: str, dimension: int, metric: Literal["cosine", "euclidean", "dot"] = "cosine"
    ) -> bool: ...
    def list(self) -> list[str]: ...
    def __getitem__(self, name: str, /) -> Collection: ...

@final
class Collection:
    def to_arrow(self, prefix: str = "", *, batch_rows: int | None = None) -> ArrowTable: ...
    def load_arrow(
        self,
        data: _HasArrowStream,
        *,
        key: str = "key",
        vector: str = "vector",
        metadata: str | None = None,
    ) -> int: ...
    @property
    def name(self) -> str: ...
    def upsert(self, key: str, vector: _Vector, metadata: Any = None) -> int | None: ...
    def upsert_many(self, keys: Sequence[str], rows: npt.NDArray[np.float32]) -> int | None: ...
    def get(self, key: str) -> tuple[npt.NDArray[np.float32], Any] | None: ...
    def delete(self, key: str) -> bool: ...
    def search(
        self, query: _Vector, k: int = 10, *, filter: _Filter | None = None
    ) -> list[_Match]: ...
    def __len__(self) -> int: ...

@final
class Space:
    @property
    def name(self) -> str: ...
    @property
    def kv(self) -> Kv: ...
    @property
    def blobs(self) -> Blobs: ...
    @property
    def state(self) -> Cells: ...
    @property
    def events(self) -> Events: ...
    @property
    def json(self) -> Documents: ...
    @property
    def vectors(self) -> Vectors: ...
    @property
    def indexes(self) -> Indexes: ...

class _Scope:
    def space(self, name: str) -> Space: ...
    def spaces(self) -> list[str]: ...
    @property
    def kv(self) -> Kv: ...
    @property
    def blobs(self) -> Blobs: ...
    @property
    def state(self) -> Cells: ...
    @property
    def events(self) -> Events: ...
    @property
    def json(self) -> Documents: ...
    @property
    def vectors(self) -> Vectors: ...
    @property
    def indexes(self) -> Indexes: ...
    @property
    def conflicts(self) -> Conflicts: ...

@final
class Branch(_Scope):
    @property
    def name(self) -> str: ...
    def fork(self, name: str) -> Branch: ...
    def snapshot(self) -> Snapshot: ...
    def at(self, state: _State) -> Snapshot: ...
    def revert_to(self, state: _State) -> tuple[int, int]: ...
    def key_history(
        self, key: _Key, *, kind: _Kind = "kv", space: str = "default", limit: int = 100
    ) -> list[_KeyState]: ...
    def history(self) -> list[_Retained]: ...
    def transaction(self) -> Transaction: ...
    def with_durability(self, level: _Level) -> Branch: ...
    def bulk_load(self, pairs: Iterable[tuple[_Key, _Value]], *, space: str = "default") -> int: ...
    def watch(
        self,
        *,
        kind: _Kind | None = None,
        space: str | None = None,
        prefix: str | None = None,
        since: _State | None = None,
    ) -> Watch: ...

@final
class Snapshot(_Scope):
    @property
    def version(self) -> int: ...
    def diff(
        self,
        other: Snapshot,
        *,
        kind: _Kind | None = None,
        space: str | None = None,
        prefix: str | None = None,
        limit: int = 1000,
    ) -> list[_Change]: ...

@final
class Transaction(_Scope):
    def commit(self) -> int: ...
    def rollback(self) -> None: ...
    def __enter__(self) -> Transaction: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]: ...

@final
class Follower:
    def __new__(cls, path: str | PathLike[str]) -> Follower: ...
    def branch(self, name: str = "main") -> Branch: ...
    def watch(
        self,
        branch: str = "main",
        *,
        kind: _Kind | None = None,
        space: str | None = None,
        prefix: str | None = None,
        since: _State | None = None,
    ) -> Watch: ...

@final
class Watch(Iterator[tuple[int, list[_Change]]]):
    def next(self, timeout: float | None = None) -> tuple[int, list[_Change]] | None: ...
    def __iter__(self) -> Watch: ...
    def __next__(self) -> tuple[int, list[_Change]]: ...

@final
class Store:
    def __new__(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        durability: _Level = "buffered",
        read_only: bool = False,
        memory_bytes: int | None = None,
        wait: float = 0.0,
    ) -> Store: ...
    def branch(self, name: str = "main") -> Branch: ...
    def branches(self) -> list[str]: ...
    def fork(
        self, source: str, name: str, *, at: _State | None = None, ttl: float | None = None
    ) -> Branch: ...
    def create_branch(self, name: str) -> Branch: ...
    def delete_branch(self, name: str) -> None: ...
    def reset_branch(self, name: str) -> None: ...
    def merge(
        self,
        source: str,
        target: str,
        *,
        strategy: Literal["fail", "ours", "theirs", "keep"] = "fail",
        rules: Sequence[str] = ...,
        dry_run: bool = False,
        resequence_events: bool = False,
    ) -> _Report: ...
    def apply_change(
        self,
        before: Snapshot,
        after: Snapshot,
        target: str,
        *,
        strategy: Literal["fail", "ours", "theirs", "keep"] = "fail",
    ) -> _Report: ...
    def diff(
        self,
        left: str,
        right: str,
        *,
        kind: _Kind | None = None,
        space: str | None = None,
        prefix: str | None = None,
        limit: int = 1000,
    ) -> list[_Change]: ...
    def keep_history(
        self,
        branch: str = "main",
        *,
        every: float | None = None,
        versions: int | None = None,
        age: float | None = None,
        size: int | None = None,
    ) -> None: ...
    def forget_history(self, branch: str = "main") -> None: ...
    def tag(self, branch: str, tag: str) -> int: ...
    def delete_tag(self, branch: str, tag: str) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def sync(self) -> None: ...
    def checkpoint(self) -> None: ...
    def compact(self) -> None: ...
    def verify(self) -> int: ...
    @staticmethod
    def backup(
        path: str | PathLike[str], to: str | PathLike[str], *, since: str | PathLike[str] | None = None
    ) -> dict[str, int]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Store: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]: ...

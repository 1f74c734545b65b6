"""What the daemon sends and takes. Written by generate.py out of the OpenAPI document: do not edit."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

__all__ = [
    "Audited",
    "BranchEvidence",
    "BranchView",
    "ContentHash",
    "DiffCounts",
    "DiffEvidence",
    "DiskUse",
    "Fake",
    "FleetCopy",
    "FleetSource",
    "FollowSettings",
    "FollowView",
    "Generalise",
    "HistoryView",
    "Keep",
    "Limits",
    "Mask",
    "Masking",
    "Noise",
    "Parent",
    "Policy",
    "PoolSize",
    "PromotedBranch",
    "Refill",
    "RefillSettings",
    "Sanitised",
    "Shift",
    "SnapshotSettings",
    "SourceComparison",
    "SourceFingerprint",
    "SourceSettings",
    "SourceView",
    "Subset",
    "Unit",
    "Upgraded",
    "WatchedTable",
]



class _BranchEvidence(TypedDict):
    branch: BranchView
    """The branch."""
    events: List[Any]
    """The branch's events out of the audit log."""
    snapshot_digest: str
    """The snapshot's digest when it was imported."""
    snapshot_digest_now: str
    """The snapshot's digest now."""
    source: SourceComparison
    """The two compared."""
    source_at_import: SourceFingerprint
    """The live source when it was imported."""
    source_now: SourceFingerprint
    """The live source now."""


class BranchEvidence(_BranchEvidence, total=False):
    """`GET /v1/branches/{name}/evidence`"""
    diff: Optional[DiffEvidence]
    table: Optional[WatchedTable]



class _BranchView(TypedDict):
    created_at: str
    """When it was leased."""
    data: str
    """What data it holds: `full`, or `masked` if rules of its source were applied to it."""
    durable: bool
    """Whether its commits are flushed (`fsync=on`)."""
    expires_at: str
    """When the lease ends."""
    generation: int
    """The generation of the source that it was cloned from."""
    id: str
    """Its unique id, which outlives the name in evidence and audit log."""
    name: str
    """The branch's name."""
    policy: Policy
    """What its holder may do."""
    protected: bool
    """Whether it refuses to be destroyed, and does not expire."""
    source: str
    """Its source."""
    state: str
    """`ready`; `asleep` when its server is stopped until somebody comes; or `failed` when it could not be brought back."""
    url: str
    """A connection URL for any PostgreSQL driver on this machine."""


class BranchView(_BranchView, total=False):
    """A leased branch. It never holds the source's address."""
    disk: Optional[DiskUse]
    existing: bool
    """Whether this create found the branch there already."""
    holder: Optional[str]
    """The id of the token by which it was created; absent if it was created on the daemon's own socket."""
    node: Optional[str]
    """The node of the fleet that it is on; only in lists of a daemon that is in one."""
    parent: Optional[Parent]
    problem: Optional[str]
    """Why its server does not run, if that is so."""



class _ContentHash(TypedDict):
    count: int
    """Rows of a table, bytes of a file."""
    hash: str
    """Its hash, independent of the rows' order."""


class ContentHash(_ContentHash, total=False):
    """The content of one table or file."""



class _DiffCounts(TypedDict):
    added: int
    """Rows that the branch alone has."""
    changed: int
    """Rows with the same key and other values."""
    listed: int
    """Those of all these that were told."""
    removed: int
    """Rows that the snapshot alone has."""


class DiffCounts(_DiffCounts, total=False):
    """How many rows differ."""



class _DiffEvidence(TypedDict):
    digest: str
    """The digest. A change set of the same changes names the same one."""
    rows: DiffCounts
    """Rows; the digest covers those that are listed."""
    sequences: int
    """Sequences."""
    statements: int
    """Statements."""


class DiffEvidence(_DiffEvidence, total=False):
    """What a branch changed: the statements that make what it was made of define what it defines, and its rows and sequences, in one digest."""



class _DiskUse(TypedDict):
    quota: int
    """Bytes that it may write."""
    used: int
    """Bytes that it wrote and still holds. What it shares with its snapshot is not among them."""


class DiskUse(_DiskUse, total=False):
    """What a branch has written."""



class _FleetCopy(TypedDict):
    node: str
    """The node."""
    state: str
    """`held`: it has the current generation; `behind`: an earlier one, which serves until the current one has come; `wanted`: none
yet; `extra`: it has the source and no place for it; `other`: it has another source of that name, which serves nothing;
`unreachable` and `lost`: as the node is."""


class FleetCopy(_FleetCopy, total=False):
    """A source on one node of a fleet."""
    done: Optional[int]
    """Bytes of the current one that have come, while it comes."""
    generation: Optional[int]
    """The generation that it has."""
    problem: Optional[str]
    """Why it does not come, if it does not."""



class _FleetSource(TypedDict):
    copies: List[FleetCopy]
    """The nodes that have it, or are to have it."""
    id: str
    """Which source it is: another one of the same name has another."""
    keeper: str
    """The node that makes its generations, on which it is refreshed, changed and removed."""
    name: str
    """Its name."""
    origin: str
    """The kind of its origin."""
    replicas: int
    """On how many nodes it is to be."""


class FleetSource(_FleetSource, total=False):
    """A source of a fleet, and where it is."""
    bytes: Optional[int]
    """Their bytes."""
    digest: Optional[str]
    """The digest of its files."""
    generation: Optional[int]
    """The current generation; absent while the first is being made."""
    problem: Optional[str]
    """Why it is on fewer nodes than it is to be, if it is."""



class FollowSettings(TypedDict, total=False):
    """Whether and how a source follows its origin."""
    archive: Optional[str]
    """A directory of the daemon's machine into which the origin's `archive_command` puts its write-ahead log, by its absolute path: the
standby replays what comes there, and is connected to nothing. `None`: it streams from the origin."""
    enabled: bool
    """Whether a standby of ours replays what the origin writes, so that the next generation needs no copy of it."""
    every_s: Optional[int]
    """Seconds after which the next generation is made without being asked for. `None`: only by a refresh."""
    history_bytes: Optional[int]
    """How many bytes of the write-ahead log are kept for that at most; the earliest go first. `None`:
[`FollowSettings::HISTORY_BYTES`]."""
    keep_history_s: Optional[int]
    """For how many seconds, back from the newest moment that is kept, branches can be made of any moment. `None`: history is
not kept."""
    keep_wal: Optional[int]
    """How many bytes the standby may lack before it is given up, so that the origin does not keep them for it. `None`:
[`FollowSettings::KEEP_WAL`]."""
    logical: bool
    """Whether a server of ours subscribes to what the origin publishes, by a publication and a replication slot that are made there:
for sources that are dumped (`--logical`), which nobody can stream from."""
    publication: Optional[str]
    """A publication of the origin's own that is subscribed to. `None`: one is made there."""



class _FollowView(TypedDict):
    state: str
    """`streaming`; `replaying` what an archive has; `waiting` when the standby is not connected to the origin, or the archive cannot be used;
`starting` before it was first checked; `stopped` until the next refresh, because it lacked more than `keep_wal`."""


class FollowView(_FollowView, total=False):
    """How a source follows its origin."""
    advice: Optional[str]
    """What the origin should be set to otherwise."""
    archive: Optional[str]
    """The directory that the origin archives its log to, if the standby replays that."""
    awaits: Optional[str]
    """The segment of the archive that is awaited next."""
    every_s: Optional[int]
    """Seconds after which the next generation is made without being asked for."""
    history: Optional[HistoryView]
    kept_bytes: Optional[int]
    """Bytes of its log that the origin keeps for the slot."""
    lag_bytes: Optional[int]
    """Bytes that the origin has written and the standby lacks; or, of an archive, that this has and the standby has not replayed."""
    lag_s: Optional[int]
    """For how many seconds the standby has lacked something: 0 if it lacks nothing."""
    looked_at: Optional[str]
    """When that was seen."""
    problem: Optional[str]
    """What is wrong, if something is."""
    publication: Optional[str]
    """The publication that is subscribed to."""
    replayed_at: Optional[str]
    """When the last commit before that was, by the origin's clock."""
    replayed_to: Optional[str]
    """The position up to which the standby is known to have replayed, of an archive."""
    slot: Optional[str]
    """The replication slot that was made at the origin, by logical replication."""


_HistoryView_from = TypedDict("_HistoryView_from", {"from": Optional[str]}, total=False)
"""The earliest moment of which a branch can be made; by the origin's clock, as all of them."""

class _HistoryView(TypedDict):
    bytes: int
    """Bytes of the write-ahead log that are kept."""


class HistoryView(_HistoryView, _HistoryView_from, total=False):
    """What is kept of the past of a source that follows its origin. `GET /v1/sources/{name}/timeline` has its stretches."""
    problem: Optional[str]
    """Why nothing more is being kept, if that is so."""
    until: Optional[str]
    """The latest."""



class Limits(TypedDict, total=False):
    """What one branch may take of the machine, where that can be limited. What is absent is as usual."""
    connections: Optional[int]
    """Connections to it through the router. Usual: as many as its server takes."""
    cpu_weight: Optional[int]
    """Its share of the processors when they are busy, beside those of other branches: 1 to 10,000."""
    disk: Optional[int]
    """Bytes that it may write beyond what it shares with its snapshot. Usual: a quarter of the volume store."""
    memory: Optional[int]
    """Bytes of memory of its server, cached files included."""
    processes: Optional[int]
    """Processes of its server."""



class Masking(TypedDict, total=False):
    """The masking rules of a source. An empty object (`{}`) leaves only the labels of PostgreSQL Anonymizer as rules."""
    columns: Dict[str, Dict[str, Mask]]
    """What becomes of columns, by `schema.table` (names as in SQL) and column. A rule for a partitioned table or a parent
is one for all that inherit from it."""
    rows: Dict[str, str]
    """Conditions in SQL, by `schema.table`: rows that do not meet theirs are removed, and with them the rows whose
foreign keys refer to them."""
    subset: Optional[Subset]



class _Parent(TypedDict):
    id: str
    """Its id."""
    name: str
    """The name that the other branch had then."""
    snapshot: str
    """The snapshot of it, to which a reset goes back."""
    taken_at: str
    """When that was taken."""
    unlogged: str
    """What unlogged tables hold: `kept`, or `empty` if the other branch's server was running, as after a crash."""


class Parent(_Parent, total=False):
    """What a branch was made of."""



class _PoolSize(TypedDict):
    cold: int
    """Clones that are not started yet, beyond those of the hot level."""
    hot: Dict[str, int]
    """Started, connected and warm branches, by policy."""


class PoolSize(_PoolSize, total=False):
    """How many branches of a source are kept ready."""



class _PromotedBranch(TypedDict):
    generation: int
    """The generation that it was made of."""
    id: str
    """Its id."""
    name: str
    """The name that it had then."""
    taken_at: str
    """The moment at which it held what the generation holds."""


class PromotedBranch(_PromotedBranch, total=False):
    """The branch that a generation was."""



class RefillSettings(TypedDict, total=False):
    """How the pools of a source are refilled. Absent fields have their defaults."""
    clones: Optional[int]
    """How many clones are made at a time."""
    connects: Optional[int]
    """How many sessions connect and warm up at a time."""
    starts: Optional[int]
    """How many servers start at a time; when pipelined, how many branches are made at a time."""
    way: Optional[Refill]



class _Sanitised(TypedDict):
    action: str
    """What was done: `dropped`, `disabled`, `removed`, ..."""
    kind: str
    """What kind of thing: `subscription`, `user mapping`, `setting`, `role`, `job`, `function`, ..."""
    object: str
    """Which one."""


class Sanitised(_Sanitised, total=False):
    """One thing that sanitising did to a snapshot, or left out of it."""



class _Shift(TypedDict):
    days: int
    """By one to so many days, to either side."""
    person: str
    """The column of the same table that says whose date it is. Equal persons of all tables are moved equally."""


class Shift(_Shift, total=False):
    """How far the dates of a person are moved."""



class SnapshotSettings(TypedDict, total=False):
    """Which snapshots of branches are taken without being asked for, and how long they are kept."""
    every_s: Optional[int]
    """Seconds between two of them. `None`: only before resets and restores."""
    keep: Optional[int]
    """How many are kept of each branch. `None`: [`SnapshotSettings::KEEP`]."""
    keep_s: Optional[int]
    """For how many seconds. `None`: [`SnapshotSettings::KEEP_S`]."""



class _SourceComparison(TypedDict):
    comparable: bool
    """Whether the two can be compared: they were taken in the same way, and the source was read both times."""
    differences: List[str]
    """What differs."""
    nothing_written: bool
    """Whether not even the write position moved."""
    unchanged: bool
    """Whether contents and row statistics are the same."""


class SourceComparison(_SourceComparison, total=False):
    """The comparison of two fingerprints of the same source."""



class _SourceFingerprint(TypedDict):
    content_hash: str
    """One hash over all of `contents`, and the names in `left_out`."""
    contents: Dict[str, ContentHash]
    """Content by `database.schema.table` (or file), `database (kind)` of definitions, and `all databases (kind)`:
number of rows (or bytes) and a hash."""
    method: str
    """How: `server-binary`, or `files` for origins that do not run. `server` in manifests of 0.1, whose hashes are
others."""
    taken_at: str
    """When it was taken."""
    write_position: str
    """The write position (WAL insert location) before the contents were read; empty for files."""


class SourceFingerprint(_SourceFingerprint, total=False):
    """The state of a live source at one moment."""
    left_out: Dict[str, str]
    """What is not in `contents`, because reading it would run code of the source's users or is refused: databases,
`database.schema.table`, or `database.schema.table.column`, and why."""
    rows_written: Optional[int]
    """Rows inserted, updated and deleted in tables that are not temporary, since the server's statistics began; absent
for files and where the server does not count."""



class SourceSettings(TypedDict, total=False):
    """How branches of a source run."""
    all_databases: bool
    """Whether branches admit their holders to every database of the copied server, and not only to the one they serve."""
    audit: Audited
    """What of its branches is in the audit log."""
    durable: bool
    """Whether branches flush what they commit."""
    follow: FollowSettings
    """Whether and how it follows its origin."""
    keep: Keep
    """Which of its generations are kept though no branch needs them."""
    limits: Limits
    """What each branch may take of the machine."""
    masking: Optional[Masking]
    pool: PoolSize
    """The prepared pool."""
    refill: RefillSettings
    """How its pools are refilled."""
    replicas: Optional[int]
    """On how many nodes of its fleet it is. `None`: on the one on which it was added, if its daemon is in a fleet."""
    server: Dict[str, str]
    """Server settings of its branches, on top of the minimal ones."""
    snapshots: SnapshotSettings
    """Which snapshots of its branches are taken without being asked for."""
    warm: List[str]
    """Statements that every session runs, and rolls back, before its branch is called hot. Empty: each table
is planned for once."""



class _SourceView(TypedDict):
    branches_by_generation: Dict[str, int]
    """Branches that exist of each generation, leased or ready."""
    bytes: int
    """Size of the snapshot's files."""
    database: str
    """The database that branches serve."""
    digest: str
    """Digest over all files of the snapshot; empty while it is being taken, behind the back of who refreshed a source that follows its origin."""
    generation: int
    """The current generation."""
    imported_at: str
    """When that generation was imported."""
    name: str
    """Its name."""
    origin: str
    """The kind of its origin."""
    sanitised: List[Sanitised]
    """What the import took out."""
    server_version: str
    """The server version of its branches."""
    settings: SourceSettings
    """How its branches run."""


class SourceView(_SourceView, total=False):
    """A source, as told to callers. It never holds the origin's address."""
    data: str
    """What data it holds: `full` or `masked`."""
    fleet: Optional[FleetSource]
    follow: Optional[FollowView]
    masked_columns: int
    """How many columns were masked."""
    promoted: Optional[PromotedBranch]
    roles: List[str]
    """The login roles of the source that a branch can be entered as (`policy` `role:NAME`)."""
    unmasked: List[str]
    """Columns that look personal and are not masked, with what they look like. A scan of the source has rules for them."""
    upgraded: Optional[Upgraded]



class _Subset(TypedDict):
    table: str
    """The table to begin with (`schema.table`, names as in SQL)."""


class Subset(_Subset, total=False):
    """A part of the rows: some of one table, what belongs to them, and what all of these refer to. Tables that no chain of foreign
keys connects with that table keep all their rows."""
    keep: List[str]
    """Tables of which all rows are kept, with what these refer to."""
    percent: Optional[float]
    """How many of its rows in a hundred, the same ones each time. Either this or `where`."""
    where: Optional[str]
    """A condition in SQL for its rows, evaluated with read access only."""



class _Upgraded(TypedDict):
    from_version: str
    """The version of that generation's server."""
    generation: int
    """The generation of that source."""
    outdated_extensions: List[str]
    """What it leaves to be done: extensions of which a later version is installed."""
    output: List[str]
    """What `pg_upgrade` printed, line by line."""
    source: str
    """The source that it was made of."""
    took_ms: int
    """How long `pg_upgrade` took, in milliseconds. It linked files, and copied none."""


class Upgraded(_Upgraded, total=False):
    """How a generation was taken to a later major version."""



class _WatchedTable(TypedDict):
    name: str
    """Its name as in the contents of fingerprints, `database.schema.table`."""


class WatchedTable(_WatchedTable, total=False):
    """One table, in the source and in a branch. What is absent could not be read; `left_out` of the fingerprints, or
`not_read`, say why."""
    branch_differs: Optional[bool]
    """Whether the branch has other rows than the source had."""
    branch_now: Optional[ContentHash]
    not_read: Optional[str]
    """Why it was not read in the branch."""
    source_at_import: Optional[ContentHash]
    source_now: Optional[ContentHash]
    source_unchanged: Optional[bool]
    """Whether the source has the rows that it had; absent where one of the two is not known."""


Audited = Literal["sessions", "statements"]
"""What of branches is in the audit log."""

Fake = Literal["name", "first_name", "last_name", "company", "address", "street", "city", "zip", "country"]
"""What is made up."""

Generalise = Dict[str, Any]
"""How values get coarser."""

Keep = str
"""Which generations are kept: numbers and words, separated by commas, as in `7 daily, 4 weekly`. Words are last, hourly, daily, weekly, monthly and yearly; a number is 1 to 1,000. Empty: none."""

Mask = Union[Literal["null"], Literal["hash"], Literal["keep"], Dict[str, Any], Literal["shape"], Literal["email"], Literal["phone"], Literal["card"], Literal["iban"], Literal["shuffle"]]
"""What becomes of the values of a column. Null stays null under all of them but `constant` and `sql`."""

Noise = Dict[str, Any]
"""How far a number is moved."""

Policy = str
"""What a branch's holder may do in it: `read-only`, `read-write`, `ddl`, or `role:NAME`."""

Refill = Literal["phased", "pipelined"]
"""Whether branches are made step by step or branch by branch."""

Unit = Literal["year", "month", "day", "hour"]
"""A unit of time."""

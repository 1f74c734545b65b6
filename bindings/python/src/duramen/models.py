"""What the daemon sends and takes. Written by generate.py out of the OpenAPI document: do not edit."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

__all__ = [
    "AddSource",
    "AdministratorUrl",
    "AuditVerification",
    "Audited",
    "BranchEvidence",
    "BranchView",
    "ChangeSettings",
    "ColdBranch",
    "ContentHash",
    "CreateBranch",
    "CreateToken",
    "DiskUse",
    "DoorsView",
    "ErrorBody",
    "HttpView",
    "Limits",
    "MachineLimits",
    "Mask",
    "Masking",
    "MeasureCold",
    "NewToken",
    "Origin",
    "Policy",
    "PoolSize",
    "PoolView",
    "Problem",
    "Progress",
    "ProtectBranch",
    "QueryReply",
    "QueryRequest",
    "QueryStatement",
    "Refill",
    "RefillReport",
    "RefillSettings",
    "Removed",
    "RenewBranch",
    "ResultColumn",
    "Role",
    "RouterView",
    "Sanitised",
    "SnapshotVerification",
    "SourceComparison",
    "SourceFingerprint",
    "SourceSettings",
    "SourceView",
    "StatementReply",
    "Status",
    "Stopping",
    "Token",
    "Version",
    "Wall",
    "WatchedTable",
]



class _AddSource(TypedDict):
    name: str
    """The new source's name."""
    origin: Origin
    """Where its data comes from."""


class AddSource(_AddSource, total=False):
    """`POST /v1/sources`"""
    database: Optional[str]
    """The database that branches serve. `None`: that of the URL, else the only or largest one."""
    settings: SourceSettings
    """How its branches run."""



class _AdministratorUrl(TypedDict):
    url: str
    """The connection URL, with the administrator's secret."""


class AdministratorUrl(_AdministratorUrl, total=False):
    """How an administrator of the machine enters a branch."""



class _AuditVerification(TypedDict):
    entries: int
    """How many entries were checked."""
    head: str
    """The hash of the last good entry."""
    intact: bool
    """Whether every entry follows from the one before it."""


class AuditVerification(_AuditVerification, total=False):
    """The result of checking the audit log."""
    problem: Optional[str]
    """Where and how the chain breaks."""



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
    problem: Optional[str]
    """Why its server does not run, if that is so."""



class ChangeSettings(TypedDict, total=False):
    """`PATCH /v1/sources/{name}/settings`: what is absent stays."""
    all_databases: Optional[bool]
    """Whether branches admit their holders to every database of the copied server."""
    audit: Optional[Audited]
    cold: Optional[int]
    """Size of the cold pool."""
    durable: Optional[bool]
    """Whether branches flush what they commit."""
    hot: Dict[str, int]
    """Sizes of the hot pool by policy."""
    limits: Limits
    """What each branch may take of the machine; 0 brings back what is usual."""
    masking: Optional[Masking]
    refill: RefillSettings
    """How the pools are refilled; 0 restores a default."""
    server: Dict[str, str]
    """Server settings to set; an empty value removes one."""
    warm: Optional[List[str]]
    """New warm-up statements."""



class _ColdBranch(TypedDict):
    clone_ms: float
    """The clone alone."""
    connect_ms: float
    """Connection, warm-up left out, and `SELECT 1`."""
    cpu_ms: float
    """CPU time of the branch's processes from clone to warm session, in milliseconds."""
    first_query_ms: float
    """From the start of the clone to the answer of the first query."""
    pss_bytes: int
    """Proportional memory of the warm, idle branch, in bytes."""
    start_ms: float
    """The start of the server."""


class ColdBranch(_ColdBranch, total=False):
    """`POST /v1/measure/cold`: one branch without the pool, made and thrown away."""



class _ContentHash(TypedDict):
    count: int
    """Rows of a table, bytes of a file."""
    hash: str
    """Its hash, independent of the rows' order."""


class ContentHash(_ContentHash, total=False):
    """The content of one table or file."""



class CreateBranch(TypedDict, total=False):
    """`POST /v1/branches`"""
    expires_at: Optional[str]
    """The moment at which the lease ends, instead of `ttl_s`."""
    name: Optional[str]
    """The branch's name; a second create with the same name returns the same branch. `None`: one is made up."""
    policy: Optional[Policy]
    source: Optional[str]
    """The source. May be left out when there is only one."""
    ttl_s: Optional[int]
    """Seconds until the lease ends. `None`: an hour."""
    wait_ms: Optional[int]
    """How long to wait in the queue for a branch. `None`: 30 seconds. 0: refuse at once when none is ready."""



class CreateToken(TypedDict, total=False):
    """`POST /v1/tokens`"""
    expires_at: Optional[str]
    """When it ends. `None`: when it is revoked."""
    max_branches: Optional[int]
    """How many branches it may hold at a time. `None`: 20."""
    max_connections: Optional[int]
    """How many connections it may have at a time. `None`: 100."""
    max_ttl_s: Optional[int]
    """The longest lease that it may ask for, in seconds. `None`: as long as anybody."""
    name: str
    """Its name: the user name that clients give."""
    policies: List[Policy]
    """Under which policies. None: `read-only`, `read-write` and `ddl`."""
    role: Role
    """What its holder may do."""
    sources: List[str]
    """Of which sources. None: of all."""



class _DiskUse(TypedDict):
    quota: int
    """Bytes that it may write."""
    used: int
    """Bytes that it wrote and still holds. What it shares with its snapshot is not among them."""


class DiskUse(_DiskUse, total=False):
    """What a branch has written."""



class DoorsView(TypedDict, total=False):
    """The reply to `GET /v1/doors`."""
    http: Optional[HttpView]
    postgres: Optional[RouterView]
    problem: Optional[str]
    """What keeps doors closed that should be open."""



class _ErrorBody(TypedDict):
    code: str
    """A stable word for programs: `not_found`, `name_clash`, `no_branch_ready`, `sql_error`, ..."""
    message: str
    """What happened, where, and what to do next."""


class ErrorBody(_ErrorBody, total=False):
    """The body of every refusal."""
    sqlstate: Optional[str]
    """The SQLSTATE of an `sql_error`."""



class _HttpView(TypedDict):
    address: str
    """Where it listens."""
    fingerprint: str
    """SHA-256 of its certificate."""


class HttpView(_HttpView, total=False):
    """What the HTTP door tells of itself."""



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



class _MachineLimits(TypedDict):
    disk: Wall
    """Whether each branch has a quota of disk."""
    groups: Wall
    """Whether memory, processes and processors of each branch are limited."""
    leases: int
    """How many leases there may be in all."""


class MachineLimits(_MachineLimits, total=False):
    """Which limits hold on this machine."""



class Masking(TypedDict, total=False):
    """The masking rules of a source. An empty object (`{}`) leaves only the labels of PostgreSQL Anonymizer as rules."""
    columns: Dict[str, Dict[str, Mask]]
    """What becomes of columns, by `schema.table` (names as in SQL) and column. A rule for a partitioned table or a parent
is one for all that inherit from it."""
    rows: Dict[str, str]
    """Conditions in SQL, by `schema.table`: rows that do not meet theirs are removed, and with them the rows whose
foreign keys refer to them."""



class _MeasureCold(TypedDict):
    source: str
    """The source to make one branch of."""


class MeasureCold(_MeasureCold, total=False):
    """`POST /v1/measure/cold`"""
    policy: Policy
    """What the branch's holder could do."""



class _NewToken(TypedDict):
    secret: str
    """Its secret."""
    token: Token
    """What it may."""


class NewToken(_NewToken, total=False):
    """The reply to a create and a rotation: the only one that shows the secret."""



class _PoolSize(TypedDict):
    cold: int
    """Clones that are not started yet, beyond those of the hot level."""
    hot: Dict[str, int]
    """Started, connected and warm branches, by policy."""


class PoolSize(_PoolSize, total=False):
    """How many branches of a source are kept ready."""



class _PoolView(TypedDict):
    hot: int
    """Branches ready to be leased."""
    policy: Policy
    """The policy."""
    source: str
    """The source."""
    target: int
    """How many there should be."""
    waiting: int
    """Creates that wait in the queue."""


class PoolView(_PoolView, total=False):
    """One pool's state."""
    entries: int
    """How many of them have a process ready for their first client, which they have if clients come through a door."""



class _Problem(TypedDict):
    error: ErrorBody
    """The same as earlier versions said it."""


class Problem(_Problem, total=False):
    """The JSON of a refusal: problem details (RFC 9457), with a word for programs."""
    code: str
    """A stable word for programs: `not_found`, `name_clash`, `no_branch_ready`, `sql_error`, ..."""
    detail: str
    """What happened, where, and what to do next."""
    sqlstate: Optional[str]
    """The SQLSTATE of an `sql_error`."""
    status: int
    """The status of the reply."""
    title: str
    """What the status means."""
    type: str
    """`about:blank`: what kind of problem it is, is said by `code`."""



class _ProtectBranch(TypedDict):
    protected: bool
    """Protect it, or end its protection."""


class ProtectBranch(_ProtectBranch, total=False):
    """`POST /v1/branches/{name}/protect`"""



class _QueryReply(TypedDict):
    branch: str
    """The branch."""
    data: str
    """What data the branch holds: `full` or `masked`."""
    durable: bool
    """Whether the write is flushed to disk."""
    policy: Policy
    """The policy that applied."""
    results: List[StatementReply]
    """One result a statement."""
    server_us: int
    """Time spent in the branch's server, round trip included, in microseconds."""


class QueryReply(_QueryReply, total=False):
    """The answer to a query."""



class QueryRequest(TypedDict, total=False):
    """`POST /v1/branches/{name}/query`: one statement (`sql`, `params`), or several in one transaction."""
    max_rows: Optional[int]
    """At most this many rows; 1,000 unless said otherwise, at most 100,000."""
    params: List[Any]
    """Its parameters."""
    sql: Optional[str]
    """One statement."""
    statements: List[QueryStatement]
    """Several statements, all or none."""
    timeout_ms: Optional[int]
    """The statement timeout; 30 s unless said otherwise, at most 10 minutes."""



class _QueryStatement(TypedDict):
    sql: str
    """Exactly one SQL statement."""


class QueryStatement(_QueryStatement, total=False):
    """One statement of a query."""
    params: List[Any]
    """Values for `$1`, `$2`, ...: strings, numbers, booleans, null; arrays and objects are passed as JSON text."""



class _RefillReport(TypedDict):
    branches: int
    """How many branches became hot."""
    clone_ms: float
    """Wall time of the clones (0 when pipelined)."""
    connect_ms: float
    """Wall time of sessions and warm-up."""
    failed: int
    """Branches that could not be made, with the first reason."""
    start_ms: float
    """Wall time of the starts."""
    total_ms: float
    """Wall time of all of it."""


class RefillReport(_RefillReport, total=False):
    """What one refill did."""
    first_error: Optional[str]
    """The first reason."""



class RefillSettings(TypedDict, total=False):
    """How the pools of a source are refilled. Absent fields have their defaults."""
    clones: Optional[int]
    """How many clones are made at a time."""
    connects: Optional[int]
    """How many sessions connect and warm up at a time."""
    starts: Optional[int]
    """How many servers start at a time; when pipelined, how many branches are made at a time."""
    way: Optional[Refill]



class _Removed(TypedDict):
    removed: str
    """The source that is gone."""


class Removed(_Removed, total=False):
    """The reply to `DELETE /v1/sources/{name}`."""



class RenewBranch(TypedDict, total=False):
    """`POST /v1/branches/{name}/renew`"""
    expires_at: Optional[str]
    """The moment at which the lease ends, instead of `ttl_s`."""
    ttl_s: Optional[int]
    """Seconds from now. `None`: an hour."""



class _ResultColumn(TypedDict):
    name: str
    """Its name."""
    type: str
    """The name of its type."""


class ResultColumn(_ResultColumn, total=False):
    """A column of a result, as it is described to callers."""



class _RouterView(TypedDict):
    address: str
    """Where it listens."""
    fingerprint: str
    """SHA-256 of its certificate."""
    sessions: int
    """How many sessions it has."""


class RouterView(_RouterView, total=False):
    """What a router tells of itself."""



class _Sanitised(TypedDict):
    action: str
    """What was done: `dropped`, `disabled`, `removed`, ..."""
    kind: str
    """What kind of thing: `subscription`, `user mapping`, `setting`, `role`, `job`, `function`, ..."""
    object: str
    """Which one."""


class Sanitised(_Sanitised, total=False):
    """One thing that sanitising did to a snapshot, or left out of it."""



class _SnapshotVerification(TypedDict):
    expected: str
    """The digest in the manifest."""
    found: str
    """The digest now."""
    intact: bool
    """Whether the files are those that were imported."""


class SnapshotVerification(_SnapshotVerification, total=False):
    """The result of checking a snapshot."""



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
    limits: Limits
    """What each branch may take of the machine."""
    masking: Optional[Masking]
    pool: PoolSize
    """The prepared pool."""
    refill: RefillSettings
    """How its pools are refilled."""
    server: Dict[str, str]
    """Server settings of its branches, on top of the minimal ones."""
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
    """Digest over all files of the snapshot."""
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
    roles: List[str]
    """The login roles of the source that a branch can be entered as (`policy` `role:NAME`)."""



class _StatementReply(TypedDict):
    columns: List[ResultColumn]
    """The result's columns."""
    command: str
    """The server's command tag."""
    row_count: int
    """How many rows there are."""
    rows: List[List[Any]]
    """The rows, each an array of typed values."""
    truncated: bool
    """Whether rows were left out: more than the cap, or more than 16 MiB with those before them."""


class StatementReply(_StatementReply, total=False):
    """What one statement gave."""



class _Status(TypedDict):
    cold: int
    """Clones not yet started."""
    degraded: bool
    """Whether clones are plain copies: measurements are then invalid."""
    leases: int
    """Leases that are held."""
    pid: int
    """The daemon's process id."""
    pools: List[PoolView]
    """The pools."""
    refills: List[RefillReport]
    """The last refills, newest last, at most 64."""
    settled: bool
    """Whether every pool is full and nothing waits to be deleted."""
    to_delete: int
    """Branches that wait to be deleted."""
    version: str
    """The daemon's version."""
    volumes: str
    """How volumes are cloned."""
    volumes_reason: str
    """Why so."""


class Status(_Status, total=False):
    """`GET /v1/status`"""
    limits: MachineLimits
    """What of the machine branches are kept from taking."""
    pool_error: Optional[str]
    """The last failure of the pool, if it could not be filled."""
    warnings: List[str]
    """What the operator has to look at, each with the next step: a damaged journal, a volume store that lost writes."""



class _Stopping(TypedDict):
    stopping: bool
    """Always true: the daemon has begun to stop."""


class Stopping(_Stopping, total=False):
    """The reply to `POST /v1/shutdown` and `POST /v1/handover`."""



class _Token(TypedDict):
    created_at: str
    """When it was made."""
    id: str
    """Its id, which outlives the name: branches belong to it."""
    max_branches: int
    """How many branches it may hold at a time."""
    max_connections: int
    """How many connections it may have at a time."""
    name: str
    """Its name."""
    policies: List[Policy]
    """Under which policies."""
    role: Role
    """What its holder may do."""
    sources: List[str]
    """Of which sources; none: of all."""


class Token(_Token, total=False):
    """A token, as it is kept and shown. It holds no secret."""
    expires_at: Optional[str]
    """When it ends by itself."""
    max_ttl_s: Optional[int]
    """The longest lease that it may ask for, in seconds."""



class _Version(TypedDict):
    version: str
    """The daemon's version."""


class Version(_Version, total=False):
    """The reply to `GET /version`."""



class _Wall(TypedDict):
    detail: str
    """How, or why not."""
    holds: bool
    """Whether it is."""


class Wall(_Wall, total=False):
    """Whether something is limited here."""



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

Mask = Union[Literal["null"], Literal["hash"], Literal["keep"], Dict[str, Any]]
"""What becomes of the values of a column."""

Origin = Dict[str, Any]
"""Where a source's data comes from. Credentials in it never leave the home directory."""

Policy = str
"""What a branch's holder may do in it: `read-only`, `read-write`, `ddl`, or `role:NAME`."""

Progress = Dict[str, Any]
"""A line of a streamed reply of a long operation (import, refresh): progress, then the result or an error."""

Refill = Literal["phased", "pipelined"]
"""Whether branches are made step by step or branch by branch."""

Role = Literal["admin", "user", "viewer"]
"""What the holder of a token may do."""

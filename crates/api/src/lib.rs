//! The daemon's HTTP interface as data: what is asked and replied, which requests there are, and to whom each is open. The daemon and its
//! clients share it.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`model`] | what callers ask for and are told |
//! | [`data_diff`] | which rows of a branch differ |
//! | [`token`], [`doors`], [`console`] | who may enter from elsewhere, where, and in a browser |
//! | [`fleet`] | daemons on several machines that act as one |
//! | [`cluster`] | what whoever operates them is told |
//! | [`attachments`] | what is shown beside branches |
//! | [`route`] | all requests, in one list |
//! | [`access`] | to whom each of them is open |
//! | [`problem`] | refusals |
//! | [`openapi`] | all of it as OpenAPI 3.1 |
//!
//! | request | reply |
//! | --- | --- |
//! | `GET /healthz`, `/readyz`, `/version`, `/openapi.json` | text, or `Version`, or the OpenAPI document |
//! | `GET /metrics` | text of OpenMetrics 1.0 |
//! | `GET /v1/status` | `Status` |
//! | `GET /v1/sources`, `POST /v1/sources` | `[SourceView]`; a stream of `Progress` lines |
//! | `GET`, `DELETE /v1/sources/{name}` | `SourceView`; `{"removed": name}` |
//! | `PATCH /v1/sources/{name}/settings` | `SourceView` |
//! | `POST /v1/sources/{name}/refresh` | a stream of `Progress` lines |
//! | `POST /v1/sources/{name}/verify`, `fingerprint` | `SnapshotVerification`, `SourceFingerprint` |
//! | `GET /v1/sources/{name}/scan` | `Scan` |
//! | `GET /v1/sources/{name}/idle-pss?sample=N` | `[bytes]` |
//! | `GET`, `POST /v1/branches` | `[BranchView]`, `BranchView` |
//! | `GET`, `DELETE /v1/branches/{name}` | `BranchView` |
//! | `POST /v1/branches/{name}/query` | `QueryReply` |
//! | `POST /v1/branches/{name}/reset`, `restore`, `undo`, `renew`, `protect` | `BranchView` |
//! | `GET /v1/sources/{name}/generations` | `GenerationView`, one a generation |
//! | `POST /v1/sources/{name}/labels` | the same |
//! | `GET /v1/sources/{name}/timeline` | `Moment` |
//! | `GET /v1/sources/{name}/schema-diff?from=&to=` | `SchemaDiff` |
//! | `GET /v1/branches/{name}/export?format=&jobs=&quiesce=` | bytes |
//! | `POST /v1/branches/{name}/promote` | a stream of `Progress` lines |
//! | `POST /v1/branches/{name}/merge` | a `MergeReport` |
//! | `GET`, `POST`, `DELETE /v1/branches/{name}/snapshots` | `SnapshotView` |
//! | `GET /v1/branch-tree` | `TreeNode`, one a branch |
//! | `GET /v1/branches/{name}/evidence?table=` | `BranchEvidence` |
//! | `GET /v1/branches/{name}/schema-diff?against=` | `SchemaDiff` |
//! | `GET /v1/sources/{name}/data-diff?from=&to=&tables=&limit=` | a stream of `DataDiff` lines |
//! | `GET /v1/branches/{name}/data-diff?tables=&limit=&whole=` | a stream of `DataDiff` lines |
//! | `GET /v1/branches/{name}/administrator-url` | `AdministratorUrl` |
//! | `GET /v1/branches/{name}/sessions` | `BranchSession`, one a session |
//! | `POST /v1/branches/{name}/sessions/cancel` | `CancelledSession` |
//! | `GET /v1/events?after=&events=` | server-sent events, out of the audit log |
//! | `GET /v1/audit?limit=&before=` | `AuditEntry`, the newest first |
//! | `POST /v1/audit/verify` | `AuditVerification` |
//! | `POST /v1/measure/cold` | `ColdBranch` |
//! | `POST /v1/pairs` | a stream of `PairLine` lines |
//! | `GET /v1/doors` | `DoorsView` |
//! | `GET /v1/nodes`, `POST /v1/nodes/{name}/drain`, `DELETE /v1/nodes/{name}` | `FleetView`, `NodeChanged` |
//! | `GET /v1/cluster`, `GET /v1/node` | `ClusterView`, `NodeReport` |
//! | `GET`, `POST /v1/tokens` | `[Token]`, `NewToken` |
//! | `POST /v1/tokens/{name}/rotate`, `POST .../restore`, `DELETE /v1/tokens/{name}` | `NewToken`, `Token`, `Token` |
//! | `POST /v1/console/links` | `NewConsoleLink` |
//! | `POST /v1/session`, `GET`, `DELETE` | nothing and a cookie, `SessionView`, nothing |
//! | `GET`, `POST /v1/attachments`, `DELETE /v1/attachments/{name}` | `[Attachment]`, `Attachment` |
//! | `GET /v1/attachments/{name}/runs?suite=`, `run?id=` | `LabRuns`, `LabReport` |
//! | `GET /v1/attachments/{name}/series?suite=&measurement=` | `LabHistory` |
//! | `GET /v1/attachments/{name}/comparison?a=&b=` | `LabComparison` |
//! | `GET /v1/attachments/{name}/experiments` | `LabExperiments` |
//! | `GET /v1/attachments/{name}/store-branches` | `StoreBranches` |
//! | `GET /v1/attachments/{name}/store-contents?branch=` | `StoreContents` |
//! | `GET /v1/attachments/{name}/entries?branch=&kind=&space=&collection=&prefix=&cursor=&limit=` | `StoreEntries` |
//! | `GET /v1/attachments/{name}/entry?branch=&kind=&space=&collection=&key=` | `StoreEntry` |
//! | `GET /v1/attachments/{name}/store-history?branch=` | `StoreHistory` |
//! | `GET /v1/attachments/{name}/difference?from=&to=&kind=&space=&prefix=&cursor=&limit=` | `StoreDifference` |
//! | `GET /v1/attachments/{name}/pack` | `PackView` |
//! | `GET /v1/attachments/{name}/access-search?search=&limit=` | `AccessFound` |
//! | `GET /v1/attachments/{name}/access?type=&principal=&resource=&entitlement=&cursor=&limit=` | `AccessPage` |
//! | `GET /v1/attachments/{name}/access-why?type=&principal=&entitlement=` | `AccessWhy` |
//! | `GET /v1/attachments/{name}/functions` | `FunctionsOverview` |
//! | `GET /v1/attachments/{name}/instances?status=&queue=&search=&limit=&cursor=` | `[FunctionInstance]` |
//! | `GET /v1/attachments/{name}/instance?id=` | `FunctionDetail` |
//! | `POST /v1/attachments/{name}/instance/control` | `ControlledFunction` |
//! | `GET /v1/attachments/{name}/queues`, `schedules` | `[FunctionQueue]`, `[FunctionSchedule]` |
//! | `GET /v1/attachments/{name}/shards` | `FunctionShards` |
//! | `POST /v1/shutdown`, `/v1/handover` | `{"stopping": true}` |
//!
//! A refusal is a [`problem::Problem`] with a status of 400 or more.
#![deny(rustdoc::broken_intra_doc_links)]

pub mod access;
pub mod attachments;
pub mod cluster;
pub mod console;
pub mod data_diff;
pub mod doors;
pub mod fleet;
pub mod keep;
pub mod model;
pub mod names;
pub mod openapi;
pub mod policy;
pub mod problem;
pub mod request;
pub mod route;
pub mod segment;
mod shape;
pub mod token;

pub use shape::EVENTS;

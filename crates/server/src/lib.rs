//! The daemon: one process that owns a home directory and serves it over HTTP on a unix socket, and to holders of tokens.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`daemon`] | locking the home, opening the engine, serving until told to stop |
//! | [`http_door`] | the same interface over TCP, for holders of tokens |
//! | [`listener`] | HTTP/1.1 over a unix socket: connections, limits, draining |
//! | [`mcp`] | the door for agents: the interface as tools of the Model Context Protocol |
//! | [`process`] | the daemon as a child process |
//! | [`lock`] | one daemon a home |
//! | [`doors`] | the doors of a home: its tokens, and what listens for their holders |
//! | [`reply`] | what replies are made of |
//! | [`router`] | one port over which PostgreSQL clients enter branches |
//! | [`tokens`] | who may enter by the doors |
//!
//! The vocabulary of requests and replies is `duramen_api::model`; the few bodies that only the interface
//! knows are in [`request`].
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
//! | `GET /v1/sources/{name}/idle-pss?sample=N` | `[bytes]` |
//! | `GET`, `POST /v1/branches` | `[BranchView]`, `BranchView` |
//! | `GET`, `DELETE /v1/branches/{name}` | `BranchView` |
//! | `POST /v1/branches/{name}/query` | `QueryReply` |
//! | `POST /v1/branches/{name}/reset`, `renew`, `protect` | `BranchView` |
//! | `GET /v1/branches/{name}/evidence?table=` | `BranchEvidence` |
//! | `GET /v1/branches/{name}/administrator-url` | `AdministratorUrl` |
//! | `GET /v1/events?after=&events=` | server-sent events, out of the audit log |
//! | `POST /v1/audit/verify` | `AuditVerification` |
//! | `POST /v1/measure/cold` | `ColdBranch` |
//! | `GET /v1/doors` | `DoorsView` |
//! | `GET`, `POST /v1/tokens` | `[Token]`, `NewToken` |
//! | `POST /v1/tokens/{name}/rotate`, `DELETE /v1/tokens/{name}` | `NewToken`, `Token` |
//! | `POST /v1/shutdown`, `/v1/handover` | `{"stopping": true}` |
//!
//! [`duramen_api::openapi::document`] says the same in full. A refusal is a [`duramen_api::problem::Problem`] with a status of 400 or more. A client that
//! closes its connection ends what its request was doing.
#![deny(rustdoc::broken_intra_doc_links)]

pub mod daemon;
pub mod doors;
pub mod http_door;
pub mod listener;
pub mod lock;
pub mod mcp;
pub mod process;
pub mod reply;
pub mod router;

mod tls;

pub mod tokens;

mod api;
mod caller;
mod certificate;
mod door;
mod events;
mod holders;
mod idempotency;
mod import;
mod metrics;
mod order;
mod page;
mod replace;

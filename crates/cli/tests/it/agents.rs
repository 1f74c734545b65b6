//! Agents: the tools of `duramen mcp` on its standard streams and at the HTTP door, and `duramen agent run`. The invariants M1 to M6
//! are in `docs/design/doors.md`.

pub(crate) mod conversation;
mod run;
mod sdks;
mod tools;

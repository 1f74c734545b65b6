//! Experiments on the speed of a program: a hypothesis, the smallest change, a measurement, a verdict that is computed.
//!
//! It works for any project under git with a command that prints figures. What the words mean and what always holds is
//! in `docs/design/experiments.md`.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`disturbance`] | which blocks are retaken, because the machine changed its pace |
//! | [`agents`] | coding agents that can be asked for changes |
//! | [`event`] | what the log of a series holds |
//! | [`figures`] | how figures are read from what a command prints, and when they are believed |
//! | [`git`] | candidates as commits, and worktrees to build them in, with nothing of the user's touched |
//! | [`import`] | rows of other tools' logs |
//! | [`invariant`] | conditions on figures, such as `rows == n` |
//! | [`log`] | the file that holds it: appended to, chained, locked, proven when it is opened |
//! | [`report`] | what it has come to, for people and programs |
//! | [`run`] | a command with a deadline, to the end of all its children, and what it cost |
//! | [`schedule`] | what is run when |
//! | [`scope`] | which files a try may change |
//! | [`series`] | the engine: baselines, tries, runs by themselves, replays |
//! | [`spec`] | what is measured, what may be changed, when to stop: `experiment.toml` |
//! | [`state`] | what a series has come to, from its events |
//! | [`verdict`] | what the samples say of a try |

pub mod agents;
mod database;
pub mod disturbance;
pub mod event;
pub mod figures;
pub mod git;
mod glob;
pub mod import;
pub mod invariant;
pub mod log;
mod outputs;
mod plain;
pub mod report;
pub mod run;
pub mod schedule;
pub mod scope;
pub mod series;
pub mod spec;
pub mod state;
pub mod verdict;

pub use database::DatabaseError;

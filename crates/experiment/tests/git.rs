//! X1: nothing of the user's is touched, whatever their repository looks like. Real repositories, real git.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail loudly")]

#[path = "git/history.rs"]
mod history;
#[path = "git/opening.rs"]
mod opening;
#[path = "git/roles.rs"]
mod roles;
#[path = "git/snapshots.rs"]
mod snapshots;
#[path = "git/support.rs"]
mod support;
#[path = "git/untouched.rs"]
mod untouched;
#[path = "git/worktrees.rs"]
mod worktrees;

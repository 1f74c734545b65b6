//! X1: nothing of the user's is touched, whatever their repository looks like. Real repositories, real git.

mod history;
mod opening;
mod roles;
mod snapshots;
mod support;
mod untouched;
mod worktrees;

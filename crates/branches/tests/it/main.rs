//! What this crate promises to users who mean no harm; see the program `hostile` for those who do. Few programs, because
//! linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod archive;
mod dumps;
mod faults_of_the_engine;
mod faults_of_the_home;
mod faults_of_the_volumes;
mod filler;
mod following;
mod following_logically;
mod generation_rows;
mod generations;
mod given_up;
mod history;
mod imports_are_given_up;
mod life_of_a_branch;
mod lineage;
mod logical;
mod many_databases;
mod merge;
mod missing_libraries;
mod origin;
mod origins;
mod own_roles;
mod pairs;
mod promotion;
mod reading_takes_its_time;
mod real_extensions;
mod real_sources;
mod slow_origin;
#[allow(dead_code, reason = "what only the other program needs")]
mod support;
mod upgrade;
mod watched_tables;

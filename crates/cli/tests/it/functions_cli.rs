//! `duramen fn ...`, through the real program and a real server: what it prints, what it refuses, and with which exit
//! status.

use crate::common;

mod cluster_check;
mod clusters;
mod dashboard;
mod documentation;
mod instances;
mod lists;
pub(crate) mod metrics;
mod outside;
mod refusals;
pub(crate) mod shell;
mod supervised;
mod waiting;
mod workers;

//! Everything that draws evidence, and what the suites that bring it have in common.
//!
//! Nothing here is judged: verdicts, checks and findings are the suites'. Which direction of a figure is better follows from
//! its name and its unit ([`compare::better`]). What is said of a trend or of a difference is said by
//! [`duramen_measure::statistics`].
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`history`] | evidence kept by machine and suite, bounded |
//! | [`trends`] | the course of every figure over the runs that are alike, in words |
//! | [`collect`] | evidence read from files and folders |
//! | [`compare`] | what differs between the evidence of two variants, and how certain that is |
//! | [`diagnosis`] | what the rules of the suites find in documents |
//! | [`access`] | who gained and who lost access, as a page |
//! | [`page`] | a page that opens in any browser, with its charts |
//! | [`site`] | one page over any number of documents |
//! | [`markdown`] | the same, short, for pull requests |
//! | [`suite`] | what a suite is, and how it is run |
//! | [`text`] | evidence for a terminal |

pub mod access;
pub mod collect;
pub mod compare;
pub mod diagnosis;
mod document;
pub mod history;
pub mod markdown;
pub mod page;
mod settings;
mod shell;
pub mod site;
pub mod suite;
pub mod text;
pub mod trends;

pub use document::Document;
pub use settings::{config_digest, differences, in_words, machine_id, Difference};

//! All evidence in one place: results kept per host with their trends, one page over everything, Markdown.
//!
//! Nothing here is judged: verdicts, checks and findings are the suites', and which direction of a figure is better is
//! told by the caller. What is said of a trend is said by [`duramen_measure::statistics`].
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`history`] | evidence kept by machine and suite, bounded |
//! | [`trends`] | the course of every figure over the runs that are alike, in words |
//! | [`collect`] | evidence read from files and folders |
//! | [`site`] | one page over any number of documents |
//! | [`markdown`] | the same, short, for pull requests |

pub mod collect;
mod document;
pub mod history;
pub mod markdown;
mod settings;
mod shell;
pub mod site;
pub mod trends;

pub use document::Document;
pub use settings::{config_digest, machine_id};

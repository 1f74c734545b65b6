//! Measuring, and saying what was measured.
//!
//! Every other crate of Duramen reads the time and draws random numbers here, so that a run can be replayed; every
//! claim is measured with the load generators here and told in the evidence document defined here.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`histogram`] | latency histograms that can be merged and kept |
//! | [`load`] | closed loops and open loops |
//! | [`host`] | the machine's fingerprint with its fsync floor |
//! | [`process`] | CPU time and memory of processes |
//! | [`evidence`] | the evidence document |
//! | [`rules`] | what holds for the evidence of every suite |
//! | [`statistics`] | how sure a difference is |
//! | [`target`] | what a figure was to reach, and how it stands |
//!
//! From a load to its evidence:
//!
//! ```
//! use duramen_measure::evidence::{Evidence, Measurement, Verdict};
//! use duramen_measure::host::Host;
//! use duramen_measure::load::closed_loop;
//!
//! let mut evidence = Evidence::new("example", Host::fingerprint(&std::env::temp_dir())?);
//! evidence.configure("clients", 4);
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! let run = runtime.block_on(closed_loop(4, 100, |call| async move { call.index % 7 }))?;
//! let latencies = run.latencies();
//!
//! evidence.measurements.push(Measurement::from_histogram("remainder", &latencies));
//! evidence.measurements.push(Measurement::scalar("throughput", "1/s", run.throughput_per_s()));
//! evidence.check("all operations ended", run.samples.len() == 400, format!("{} of 400", run.samples.len()));
//! assert_eq!(evidence.finish(), Verdict::Pass);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(rustdoc::broken_intra_doc_links)]

pub mod evidence;
pub mod histogram;
pub mod host;
pub mod load;
pub mod process;
pub mod rules;
pub mod statistics;
pub mod target;

//! Workloads of users: transactions with weights and parameters, scripts of pgbench as they are, and the schema that they
//! need. They run as a role of their own, which has rights in its own schema and nowhere else.

pub mod agent;
mod crew;
mod described;
mod error;
mod expression;
mod place;
mod random;
mod scan;
mod schema;
mod script;
mod session;
mod tally;
mod value;
mod workload;

/// Computes an expression as scripts do, with random numbers of a seed: `random(1, 6) + 1`.
///
/// # Errors
/// What is wrong with it, or cannot be computed.
pub fn compute(text: &str, seed: u64) -> Result<String, String> {
    let parsed =
        expression::Expression::parse(text, 1).map_err(|fault| format!("{:?}: {}", fault.word, fault.why))?;
    let mut rng = duramen_base::entropy::rng(seed);
    let mut scope = expression::Scope { variables: &std::collections::HashMap::new(), rng: &mut rng };
    scope.value(&parsed).map(|value| value.to_string())
}

pub use crew::{Block, Crew, Following, DRAIN, LONGEST, VISIBLE};
pub use described::MOST_CLIENTS;
pub use error::{Fault, WorkloadError};
pub use place::{Place, ROLE, SCHEMA};
pub use schema::{Schema, PGBENCH};
pub use script::{Script, GIVEN, LONGEST_SLEEP};
pub use session::{MOST_TRIES, RETRIED};
pub use tally::{Failures, Freshness, KindTally, Tally};
pub use workload::{Kind, Source, Sources, Workload, MOST_KINDS};

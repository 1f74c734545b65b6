//! What a daemon tells of itself: `duramen status`.

use crate::{
    context::{Context, Outcome},
    output,
};
use duramen_api::doors::DoorsView;
use duramen_client::ClientError;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen status
  duramen status --json | jq .settled";

fn door_facts(doors: &DoorsView) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    match (&doors.postgres, &doors.problem) {
        (Some(router), _) => {
            facts.push(("PostgreSQL clients", format!("{}, {} connected", router.address, router.sessions)));
            facts.push(("certificate", format!("SHA-256 {}", router.fingerprint)));
        }
        (None, Some(problem)) => facts.push(("PostgreSQL clients", problem.clone())),
        (None, None) => facts.push(("PostgreSQL clients", "by sockets only".to_owned())),
    }
    if let Some(http) = &doors.http {
        facts.push(("HTTP clients", http.address.to_string()));
        if doors.postgres.is_none() {
            facts.push(("certificate", format!("SHA-256 {}", http.fingerprint)));
        }
    }
    facts
}

pub(crate) async fn run(context: &Context) -> Outcome {
    let mut connection = context.connect().await?;
    let status = connection.status().await?;
    if context.json {
        output::json(&status)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut facts = vec![
        ("daemon", format!("duramen {}, pid {}", status.version, status.pid)),
        ("home", context.client()?.to_string()),
        ("volumes", format!("{}: {}", status.volumes, status.volumes_reason)),
        ("leases", status.leases.to_string()),
        ("cold", status.cold.to_string()),
        ("to delete", status.to_delete.to_string()),
        ("settled", output::yes(status.settled)),
    ];
    if let Some(last) = status.refills.last() {
        let text = format!(
            "{} branches in {:.0} ms (clone {:.0}, start {:.0}, connect {:.0}), {} failed",
            last.branches, last.total_ms, last.clone_ms, last.start_ms, last.connect_ms, last.failed
        );
        facts.push(("last refill", text));
    }
    if let Some(error) = &status.pool_error {
        facts.push(("pool error", error.clone()));
    }
    match connection.doors().await {
        Ok(doors) => facts.extend(door_facts(&doors)),
        // It is for those who are on its machine.
        Err(ClientError::Refused { status: 403, .. }) => {}
        Err(error) => return Err(error.into()),
    }
    facts.extend(status.warnings.iter().map(|warning| ("warning", warning.clone())));
    output::print(output::pairs(facts));
    if !status.pools.is_empty() {
        let rows = status.pools.iter().map(|pool| {
            [
                pool.source.clone(),
                pool.policy.to_string(),
                format!("{} of {}", pool.hot, pool.target),
                pool.waiting.to_string(),
            ]
        });
        output::print(format_args!("\n{}", output::table(["SOURCE", "POLICY", "HOT", "WAITING"], rows)));
    }
    Ok(ExitCode::SUCCESS)
}

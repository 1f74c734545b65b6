//! What is wrong with databases that run durable functions together.

use crate::finding::{Finding, Kind};
use duramen_functions::cluster::{Cluster, Health, Says, ShardState};
use std::collections::BTreeMap;

/// What is wrong with shards, as each of them was asked, in no order.
#[must_use]
pub fn findings(cluster: &Cluster, health: &[Health]) -> Vec<Finding> {
    let mut found = Vec::new();
    for shard in health {
        match &shard.says {
            Some(says) => one(shard, says, &mut found),
            None => silent(shard, &mut found),
        }
    }
    schemas(health, &mut found);
    lists(cluster, health, &mut found);
    same(health, &mut found);
    found
}

fn about(shard: &Health) -> String {
    format!("shard {}", shard.shard.number)
}

fn silent(shard: &Health, found: &mut Vec<Finding>) {
    // Told with the others' versions.
    if shard.schema.is_some() {
        return;
    }
    let number = shard.shard.number;
    found.push(Finding::new(
        Kind::ShardSilent,
        about(shard),
        shard.problem.clone().unwrap_or_else(|| "no answer".to_owned()),
        match shard.shard.state {
            ShardState::Open => format!(
                "look at its server and its standby; the others go on. To send new instances elsewhere: duramen fn cluster drain {number}"
            ),
            _ => format!("look at its server; if it is lost for good: duramen fn cluster remove {number} --force"),
        },
    ));
}

fn one(shard: &Health, says: &Says, found: &mut Vec<Finding>) {
    let number = shard.shard.number;
    let left = says.counts.pending.saturating_add(says.counts.running);
    if shard.shard.state == ShardState::Draining && left > 0 {
        found.push(Finding::new(
            Kind::DrainedNotEmpty,
            about(shard),
            format!("it is drained, and has {left} instances that have not ended"),
            format!("wait, or cancel them (duramen fn list); then duramen fn cluster remove {number}, or open it again"),
        ));
    }
    if left > 0 && says.counts.workers == 0 {
        let seen = says.worker_seen_s.map_or_else(
            || "none was ever there".to_owned(),
            |seen| format!("the last was heard of {seen:.0} s ago"),
        );
        found.push(Finding::new(
            Kind::NoWorker,
            about(shard),
            format!("{left} instances have not ended, and no worker serves it: {seen}"),
            "start one: duramen fn worker URL --cluster",
        ));
    }
    match (says.replication.is_synchronous, says.replication.holds()) {
        (false, _) => found.push(Finding::new(
            Kind::NotSynchronous,
            about(shard),
            "commits wait for no standby: what its primary had not sent is lost with it",
            "set up a synchronous standby (Patroni: synchronous_mode), if instances must outlive the loss of a machine",
        )),
        (true, Some(false)) => found.push(Finding::new(
            Kind::CommitsWait,
            about(shard),
            "synchronous_standby_names names standbys of which none is connected: commits wait",
            "start the standby; to go on without: ALTER SYSTEM SET synchronous_standby_names = '', and reload",
        )),
        (true, Some(true)) => {}
        (true, None) => found.push(Finding::new(
            Kind::StandbysHidden,
            about(shard),
            "whether a synchronous standby is there cannot be seen by this role",
            "GRANT pg_monitor TO the role",
        )),
    }
}

fn schemas(health: &[Health], found: &mut Vec<Finding>) {
    let mut by: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for shard in health {
        if let Some(schema) = shard.schema {
            by.entry(schema).or_default().push(shard.shard.number.to_string());
        }
    }
    let foreign: Vec<&Health> =
        health.iter().filter(|shard| shard.says.is_none() && shard.schema.is_some()).collect();
    let Some(first) = foreign.first() else { return };
    let each: Vec<String> =
        by.iter().map(|(schema, shards)| format!("{schema} on {}", shards.join(", "))).collect();
    found.push(Finding::new(
        Kind::SchemaDiffers,
        "the shards",
        format!(
            "versions of the schema: {}. Workers of this version do not serve the others",
            each.join("; ")
        ),
        first.problem.clone().unwrap_or_default(),
    ));
}

fn lists(cluster: &Cluster, health: &[Health], found: &mut Vec<Finding>) {
    let said: Vec<(&Health, &Says)> =
        health.iter().filter_map(|shard| Some((shard, shard.says.as_ref()?))).collect();
    let newest = said.iter().map(|(_, says)| says.counts.version).max().unwrap_or(0).max(cluster.version());
    for (shard, says) in said {
        if !says.same_list {
            found.push(Finding::new(
                Kind::ListSplit,
                about(shard),
                format!(
                    "its list of shards is another one than that of shard {}, of the same version {}",
                    cluster.here(),
                    cluster.version()
                ),
                "compare df._shard on all shards, and make them the same by hand",
            ));
        } else if says.counts.version < newest {
            found.push(Finding::new(
                Kind::ListBehind,
                about(shard),
                format!(
                    "it knows version {} of the list of shards, and others know {newest}",
                    says.counts.version
                ),
                "a worker with --cluster tells it within a minute; without one: duramen fn cluster open 0",
            ));
        }
    }
}

fn same(health: &[Health], found: &mut Vec<Finding>) {
    let mut by: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for shard in health {
        if let Some(identity) = &shard.identity {
            by.entry(identity.as_str()).or_default().push(shard.shard.number.to_string());
        }
    }
    for shards in by.values().filter(|shards| shards.len() > 1) {
        found.push(Finding::new(
            Kind::SameDatabase,
            "the shards",
            format!("shards {} are one database", shards.join(" and ")),
            "correct where the list says that they are (df._shard), from a copy of it: duramen cluster backup has one",
        ));
    }
}

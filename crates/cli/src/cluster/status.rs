//! `duramen cluster status`: one screen for who operates it.

use super::{
    asked::{ask, Asked, Asks},
    check::{ended, summed},
};
use crate::{
    context::{Context, Outcome},
    output,
};
use duramen_api::{
    cluster::{ClusterView, EtcdMember, EtcdView, NodeAnswer},
    fleet::FleetNode,
};
use duramen_base::clock;
#[cfg(feature = "engines")]
use duramen_functions::cluster::{Health, Replication};
use duramen_operate::finding::Limits;
use serde::Serialize;
use std::fmt::Write as _;

pub(crate) async fn run(context: &Context, asks: &Asks) -> Outcome {
    let asked = ask(context, asks).await?;
    let findings = asked.findings(&Limits::usual(clock::utc_now()));
    if context.json {
        #[derive(Serialize)]
        struct Printed<'a> {
            #[serde(flatten)]
            asked: &'a Asked,
            findings: &'a [duramen_operate::finding::Finding],
        }
        output::json(&Printed { asked: &asked, findings: &findings })?;
        return Ok(ended(&findings));
    }
    let mut text = String::new();
    if let Some(view) = &asked.fleet {
        fleet(view, &mut text);
    }
    if let Some(problem) = &asked.fleet_problem {
        add(&mut text, format_args!("the fleet: {problem}"));
    }
    if asked.no_fleet {
        add(&mut text, format_args!("the fleet: the daemon is in none"));
    }
    #[cfg(feature = "engines")]
    functions(&asked, &mut text);
    let says = match findings.is_empty() {
        true => "",
        false => ": `duramen cluster check` says what, and what to do",
    };
    add(&mut text, format_args!("\n{}{says}", summed(&findings)));
    output::print(text);
    Ok(ended(&findings))
}

fn add(text: &mut String, line: std::fmt::Arguments<'_>) {
    // A String takes whatever is written.
    let _ = writeln!(text, "{line}");
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

fn fleet(cluster: &ClusterView, text: &mut String) {
    let view = &cluster.view;
    let age = view.age_ms.map_or_else(
        || "etcd was not heard of yet".to_owned(),
        |age| format!("etcd was heard of {:.1} s ago", age as f64 / 1000.0),
    );
    add(text, format_args!("fleet {}, as node {} ({}) sees it; {age}", view.fleet, view.node, view.standing));
    let head = [
        "NODE",
        "STATE",
        "SINCE",
        "ANSWERS",
        "VERSION",
        "BRANCHES",
        "READY",
        "NAMES",
        "MEMORY FREE",
        "DISK FREE",
        "SOURCES",
    ];
    let rows =
        view.nodes.iter().map(|node| row(node, cluster.nodes.iter().find(|answer| answer.name == node.name)));
    text.push_str(&output::table(head, rows));
    for answer in cluster.nodes.iter().filter(|answer| answer.problem.is_some()) {
        add(text, format_args!("node {}: {}", answer.name, or_dash(answer.problem.clone())));
    }
    etcd(&cluster.etcd, text);
}

fn row(node: &FleetNode, answer: Option<&NodeAnswer>) -> [String; 11] {
    let since = match (node.gone_for_s, node.drains_since, node.registered_at) {
        (Some(gone), ..) => Some(format!("gone for {gone} s")),
        (None, Some(since), _) | (None, None, Some(since)) => Some(output::time(since)),
        (None, None, None) => None,
    };
    let state = match node.kept_for_s {
        Some(left) => format!("{}, lost in {left} s", node.state),
        None => node.state.clone(),
    };
    let answers = match answer {
        Some(NodeAnswer { report: Some(_), took_ms, .. }) => format!("in {took_ms} ms"),
        Some(_) => "no".to_owned(),
        None => "-".to_owned(),
    };
    [
        node.name.clone(),
        state,
        or_dash(since),
        answers,
        or_dash(node.version.clone()),
        or_dash(node.leases.map(|count| count.to_string())),
        or_dash(node.hot.map(|count| count.to_string())),
        node.names.to_string(),
        or_dash(node.memory_free.map(output::bytes)),
        or_dash(node.disk_free.map(output::bytes)),
        or_dash(Some(node.sources.join(", ")).filter(|sources| !sources.is_empty())),
    ]
}

fn etcd(etcd: &EtcdView, text: &mut String) {
    let read = match etcd.read_ms {
        Some(took) => format!("a read took {took} ms"),
        None => format!("it confirms nothing: {}", or_dash(etcd.problem.clone())),
    };
    let members = match etcd.voting {
        0 => "no member says how many there are".to_owned(),
        voting => {
            let spare = match etcd.present.checked_sub(etcd.quorum) {
                Some(0) => "none may fail".to_owned(),
                Some(spare) => format!("{spare} may fail"),
                None => "too few".to_owned(),
            };
            format!("{} of {voting} members, {} are needed: {spare}", etcd.present, etcd.quorum)
        }
    };
    add(text, format_args!("\netcd: {members}; {read}"));
    let rows = etcd.members.iter().map(member);
    text.push_str(&output::table(["MEMBER", "NAME", "ROLE", "VERSION", "DATABASE", "IN USE", "SAYS"], rows));
}

fn member(member: &EtcdMember) -> [String; 7] {
    let role = match (&member.version, member.leads, member.learns, member.is_led) {
        (None, ..) => "-",
        (_, true, ..) => "leads",
        (_, _, true, _) => "learns",
        (_, _, _, true) => "follows",
        _ => "has no leader",
    };
    let says = member.problem.clone().into_iter().chain(member.errors.iter().cloned()).collect::<Vec<_>>();
    [
        or_dash(member.address.clone()),
        or_dash(member.name.clone()),
        role.to_owned(),
        or_dash(member.version.clone()),
        or_dash(member.size.map(output::bytes)),
        or_dash(member.used.map(output::bytes)),
        says.join("; "),
    ]
}

#[cfg(feature = "engines")]
fn functions(asked: &Asked, text: &mut String) {
    if let Some(problem) = &asked.functions_problem {
        add(text, format_args!("\nthe shards: {problem}"));
    }
    let Some(shards) = &asked.functions else { return };
    add(
        text,
        format_args!(
            "\nshards of durable functions: version {} of the list, read from shard {}",
            shards.version, shards.here
        ),
    );
    let head =
        ["SHARD", "STATE", "LIST", "WORKERS", "SEEN", "WAITING", "OLDEST", "RUNNING", "STANDBYS", "PLACE"];
    text.push_str(&output::table(head, shards.shards.iter().map(shard)));
    for shard in shards.shards.iter().filter(|shard| shard.problem.is_some()) {
        add(text, format_args!("shard {}: {}", shard.shard.number, or_dash(shard.problem.clone())));
    }
}

#[cfg(feature = "engines")]
fn shard(health: &Health) -> [String; 10] {
    let seconds = |seconds: Option<f64>| or_dash(seconds.map(|seconds| format!("{seconds:.0} s")));
    let says = health.says.as_ref();
    let count = |of: fn(&duramen_functions::cluster::Counts) -> i64| {
        says.map_or_else(|| "?".to_owned(), |says| of(&says.counts).to_string())
    };
    [
        health.shard.number.to_string(),
        health.shard.state.to_string(),
        count(|counts| counts.version),
        count(|counts| counts.workers),
        seconds(says.and_then(|says| says.worker_seen_s)),
        count(|counts| counts.pending),
        seconds(says.and_then(|says| says.oldest_s)),
        count(|counts| counts.running),
        says.map_or_else(|| "?".to_owned(), |says| standbys(&says.replication)),
        health.shard.place.clone(),
    ]
}

#[cfg(feature = "engines")]
fn standbys(replication: &Replication) -> String {
    let Some(standbys) = &replication.standbys else {
        return if replication.is_synchronous { "hidden" } else { "none waited for" }.to_owned();
    };
    let each: Vec<String> =
        standbys.iter().map(|standby| format!("{} {}", standby.name, standby.sync)).collect();
    match each.is_empty() {
        true => "none".to_owned(),
        false => each.join(", "),
    }
}

//! What is wrong in a fleet and with its etcd.

use crate::finding::{Finding, Kind, Limits, Severity};
use duramen_api::{
    cluster::{ClusterView, EtcdMember, EtcdView, NodeAnswer, NodeReport, SuspendedToken},
    fleet::FleetNode,
};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// A view of the fleet that is older is told.
const VIEW_AGE_MS: u64 = 10_000;
/// A database of etcd that is fuller is told.
const FULL_PERCENT: u64 = 80;
/// So many names are told.
const NAMED_MAX: usize = 10;

/// What is wrong in a fleet, as a daemon has told it, in no order.
#[must_use]
pub fn findings(view: &ClusterView, limits: &Limits) -> Vec<Finding> {
    let mut found = Vec::new();
    for node in &view.view.nodes {
        state(node, limits, &mut found);
    }
    for answer in &view.nodes {
        answered(answer, limits, &mut found);
    }
    versions(&view.nodes, &mut found);
    tokens(&view.nodes, &mut found);
    if view.orphan_count > 0 {
        found.push(Finding::new(
            Kind::NamesOrphaned,
            "the fleet",
            format!(
                "{} claimed by nodes that it does not have (forgotten ones): {}",
                counted(view.orphan_count as usize, "name is", "names are"),
                named(&view.orphans)
            ),
            "nothing: whoever creates a branch of such a name gets it; until then it stands in lists as lost",
        ));
    }
    if let Some(restore) = &view.restore {
        found.push(Finding::new(
            Kind::RestoreUnfinished,
            "the fleet",
            format!(
                "the restore of the backup of {} was begun at {:.0} and is not finished",
                restore.made_at, restore.began_at
            ),
            "`duramen cluster restore` with the same file once more: it goes on where it was",
        ));
    }
    etcd(&view.etcd, limits, &mut found);
    found
}

fn state(node: &FleetNode, limits: &Limits, found: &mut Vec<Finding>) {
    let about = format!("node {}", node.name);
    let gone = node.gone_for_s.map_or_else(String::new, |gone| format!(" for {}", span(gone)));
    match node.state.as_str() {
        "unreachable" => {
            let kept = node.kept_for_s.map_or_else(String::new, |left| format!(" for {} more", span(left)));
            found.push(Finding::new(
                Kind::NodeUnreachable,
                about,
                format!("it has not been registered{gone}; {} kept for it{kept}", names(node.names)),
                "start its machine or its daemon; if its disk is gone: duramen node forget",
            ));
        }
        "lost" => {
            let severity = if node.names > 0 { Severity::Error } else { Severity::Warning };
            let lost = Finding::new(
                Kind::NodeLost,
                about,
                format!(
                    "it has not been registered{gone}; {} claimed by it without anybody who has the branches",
                    names(node.names)
                ),
                format!(
                    "start it, and it has its branches again; if it is gone for good: duramen node forget {}",
                    node.name
                ),
            );
            found.push(lost.at(severity));
        }
        _ => {}
    }
    let drains = node.drains_since.filter(|since| limits.now.duration_since(*since) > limits.drain);
    if let Some(since) = drains {
        found.push(Finding::new(
            Kind::DrainForgotten,
            format!("node {}", node.name),
            format!(
                "it takes no new branches since {since:.0}, and has {}",
                counted(node.names as usize, "branch", "branches")
            ),
            format!(
                "duramen node undrain {}, or take it out: duramen node forget, when its daemon is stopped",
                node.name
            ),
        ));
    }
}

fn answered(answer: &NodeAnswer, limits: &Limits, found: &mut Vec<Finding>) {
    let about = || format!("node {}", answer.name);
    let Some(report) = &answer.report else {
        let problem = answer.problem.as_deref().unwrap_or("no answer");
        found.push(Finding::new(
            Kind::NodeSilent,
            about(),
            format!("it is registered, and does not answer the node that was asked: {problem}"),
            "look at the network between the two, and at its daemon's log; a daemon of an older version does not know the question",
        ));
        return;
    };
    if report.standing != "member" {
        found.push(Finding::new(
            Kind::NodeNotMember,
            about(),
            format!(
                "it gives no names ({}): {}",
                report.standing,
                report.problem.as_deref().unwrap_or("no reason is known")
            ),
            "what it holds goes on; creates there are refused until the reason is gone",
        ));
    }
    if let Some(ahead) =
        answer.clock_ahead_ms.filter(|ahead| beyond(*ahead, answer.took_ms) > limits.clock_ms)
    {
        let (by, way) = (ahead.unsigned_abs(), if ahead > 0 { "ahead of" } else { "behind" });
        found.push(Finding::new(
            Kind::ClockDiffers,
            about(),
            format!("its clock is {by} ms {way} that of the node that was asked"),
            "let both follow a time server; leases of branches and tokens end by the clock of the node that has them",
        ));
    }
    certificates(report, limits, found);
    if report.to_free > 0 {
        found.push(Finding::new(
            Kind::NamesUnfreed,
            about(),
            format!(
                "{} of branches that have ended are not freed: etcd has not answered it",
                counted(report.to_free as usize, "name", "names")
            ),
            "they are freed when etcd answers; look at etcd if this stays",
        ));
    }
    if report.unread > 0 {
        found.push(Finding::new(
            Kind::ValuesUnread,
            about(),
            format!(
                "it cannot read {} in etcd: a later version wrote them, or they are damaged",
                counted(report.unread as usize, "value", "values")
            ),
            "upgrade it, if others are newer; else look at the keys below /duramen/ with etcdctl",
        ));
    }
    if let Some(age) = report.age_ms.filter(|age| *age > VIEW_AGE_MS) {
        found.push(Finding::new(
            Kind::ViewOld,
            about(),
            format!("what it knows of the others is {} old", span(age / 1000)),
            "its watch of etcd is cut off: look at the network between it and etcd",
        ));
    }
    for name in &report.untold_revocations {
        found.push(Finding::new(
            Kind::RevocationUntold,
            about(),
            format!("the token {name} was revoked there, and the other nodes still let its holder in: etcd has not heard of it"),
            "bring etcd back; until then stop the other daemons' doors, if it matters",
        ));
    }
    for warning in &report.warnings {
        let next = format!("duramen status, on {}", answer.name);
        found.push(Finding::new(Kind::NodeWarns, about(), warning.clone(), next));
    }
}

/// How far a clock is off for sure.
fn beyond(ahead: i64, took_ms: u64) -> u64 {
    ahead.unsigned_abs().saturating_sub(took_ms / 2 + 1)
}

fn certificates(report: &NodeReport, limits: &Limits, found: &mut Vec<Finding>) {
    let node = &report.node;
    let mut tell = |until: Option<Timestamp>, what: &str, next: String| {
        let Some(until) = until else { return };
        let left = until.duration_since(limits.now);
        if left > limits.certificate {
            return;
        }
        let severity = if left > limits.certificate_soon { Severity::Warning } else { Severity::Error };
        let when = match left > SignedDuration::ZERO {
            true => format!("ends at {until:.0}, in {} days", left.as_hours() / 24),
            false => format!("ended at {until:.0}: nodes refuse each other"),
        };
        let finding =
            Finding::new(Kind::CertificateEnds, format!("node {node}"), format!("{what} {when}"), next);
        found.push(finding.at(severity));
    };
    tell(
        report.certificate_until,
        "its certificate",
        format!("duramen node certify {node} --ca DIR, put it into HOME/fleet there, and restart its daemon"),
    );
    tell(
        report.authority_until,
        "the fleet's authority",
        "make another one (duramen node init), certify all nodes by it, and restart all of them".to_owned(),
    );
}

fn versions(nodes: &[NodeAnswer], found: &mut Vec<Finding>) {
    let mut by: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for report in nodes.iter().filter_map(|node| node.report.as_ref()) {
        by.entry(report.version.as_str()).or_default().push(report.node.as_str());
    }
    if by.len() < 2 {
        return;
    }
    let each: Vec<String> =
        by.iter().map(|(version, nodes)| format!("{version} on {}", nodes.join(", "))).collect();
    found.push(Finding::new(
        Kind::VersionsDiffer,
        "the fleet",
        format!("nodes run different versions: {}", each.join("; ")),
        "go on with the upgrade, one node after the other (docs/operating.md)",
    ));
}

/// A token that is suspended on every node was lost by etcd; one that is on some was revoked on another one.
fn tokens(nodes: &[NodeAnswer], found: &mut Vec<Finding>) {
    let reports: Vec<&NodeReport> = nodes.iter().filter_map(|node| node.report.as_ref()).collect();
    let of =
        |report: &NodeReport| report.suspended_tokens.iter().cloned().collect::<BTreeSet<SuspendedToken>>();
    let mut sets = reports.iter().map(|report| of(report));
    let Some(first) = sets.next() else { return };
    let (everywhere, anywhere) = sets.fold((first.clone(), first), |(every, any), set| {
        (every.intersection(&set).cloned().collect(), any.union(&set).cloned().collect())
    });
    let list = |tokens: &BTreeSet<SuspendedToken>| {
        named(&tokens.iter().map(|token| token.name.clone()).collect::<Vec<_>>())
    };
    if !everywhere.is_empty() {
        found.push(Finding::new(
            Kind::TokenSuspended,
            "the fleet",
            format!(
                "etcd has lost {}, which let nobody in: {}",
                counted(everywhere.len(), "token", "tokens"),
                list(&everywhere)
            ),
            "duramen cluster restore, from the last backup; without one see docs/fleet.md (Security)",
        ));
    }
    let revoked: BTreeSet<SuspendedToken> = anywhere.difference(&everywhere).cloned().collect();
    if !revoked.is_empty() {
        let note = Finding::new(
            Kind::TokenSuspended,
            "the fleet",
            format!(
                "some nodes keep {} that the fleet has no more: {}",
                counted(revoked.len(), "token", "tokens"),
                list(&revoked)
            ),
            "nothing, if they were revoked: they let nobody in",
        );
        found.push(note.at(Severity::Note));
    }
}

fn etcd(etcd: &EtcdView, limits: &Limits, found: &mut Vec<Finding>) {
    let spare = etcd.present.checked_sub(etcd.quorum);
    if etcd.voting > 0 && spare.is_none() {
        found.push(Finding::new(
            Kind::EtcdNoQuorum,
            "etcd",
            format!("{} of its {} members are there and have a leader; {} are needed", etcd.present, etcd.voting, etcd.quorum),
            "bring members back; until then no names are given, and what is there goes on (docs/operating.md)",
        ));
    } else if etcd.read_ms.is_none() {
        found.push(Finding::new(
            Kind::EtcdSilent,
            "etcd",
            format!("nothing is confirmed: {}", etcd.problem.as_deref().unwrap_or("no answer")),
            "look at its members, and at the network between them and this node",
        ));
    } else if etcd.voting > 1 && spare == Some(0) {
        found.push(Finding::new(
            Kind::EtcdThin,
            "etcd",
            format!(
                "{} of its {} members are there: if one more fails, no names are given",
                etcd.present, etcd.voting
            ),
            "bring the others back, or add members: an odd number, three or five",
        ));
    }
    if etcd.voting == 1 {
        found.push(Finding::new(
            Kind::EtcdSingle,
            "etcd",
            "it has one member: when that fails no names are given, and when its disk fails tokens are lost",
            "add two members on two other machines (etcdctl member add)",
        ));
    }
    for member in &etcd.members {
        of_etcd(member, limits, found);
    }
}

fn of_etcd(member: &EtcdMember, limits: &Limits, found: &mut Vec<Finding>) {
    let name = member.name.as_deref().or(member.address.as_deref()).unwrap_or("a member");
    let about = format!("etcd {name}");
    if member.address.is_none() {
        found.push(Finding::new(
            Kind::EtcdMemberUnknown,
            about,
            "it is a member, and not in the address that this node was given (--fleet)",
            "add it to --fleet of all nodes, so that they can ask it when others fail",
        ));
        return;
    }
    if let Some(problem) = &member.problem {
        let next = "start it; if its data is gone: etcdctl member remove, and member add";
        found.push(Finding::new(Kind::EtcdMemberSilent, about, problem.clone(), next));
        return;
    }
    for alarm in member.errors.iter().filter(|error| !error.contains("no leader")) {
        found.push(Finding::new(
            Kind::EtcdAlarm,
            about.clone(),
            format!("alarm: {alarm}"),
            "NOSPACE: etcdctl compact, defrag, alarm disarm; CORRUPT: remove the member, and add it anew",
        ));
    }
    let quota = member.quota.unwrap_or(limits.etcd_quota);
    if let Some(size) = member.size.filter(|size| *size >= quota / 100 * FULL_PERCENT) {
        let used = member.used.map_or_else(String::new, |used| format!(", of which {used} are in use"));
        found.push(Finding::new(
            Kind::EtcdFull,
            about,
            format!("its database has {size} of {quota} bytes{used}: at the limit etcd takes no writes"),
            "etcdctl compact and defrag; set --auto-compaction-retention, or a larger --quota-backend-bytes",
        ));
    }
}

fn names(count: u32) -> String {
    counted(count as usize, "name is", "names are")
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Seconds in words, roughly.
fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
#[path = "../tests/unit/fleet.rs"]
mod tests;

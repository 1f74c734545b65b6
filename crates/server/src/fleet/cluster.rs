//! What whoever operates a fleet is told: every node and every member of etcd is asked by itself, all at once, each with a limit. What does
//! not answer is told, and not left out.

use super::{list::all, nodes::standing, Peers};
use crate::{
    api::{Answer, Call},
    caller::Caller,
    reply::{json, Refusal},
};
use axum::body::Body;
use duramen_api::{
    cluster::{ClusterView, EtcdMember, EtcdView, NodeAnswer, NodeReport, RestoreView, SuspendedToken},
    route::Op,
};
use duramen_base::clock;
use duramen_fleet::{
    health::{EtcdHealth, MemberHealth},
    view::NodeState,
};
use http_body_util::{BodyExt, Limited};
use std::time::Duration;
use tokio::time::timeout;

/// How long a node has to say how it is.
const LIMIT: Duration = Duration::from_secs(2);
/// How long etcd has in all.
const ETCD_LIMIT: Duration = Duration::from_secs(5);
/// The longest report.
const REPORT_MAX: usize = 1 << 20;
/// So many names of nodes that are not there are told.
const ORPHANS_MAX: usize = 100;

impl Peers {
    /// What this node says of itself.
    pub(crate) fn report(&self) -> NodeReport {
        let (standing, problem) = standing(&self.fleet);
        let (age_ms, unread) = {
            let view = self.fleet.view();
            (view.age().map(ms), view.unread())
        };
        let tokens = self.tokens.as_ref();
        let suspended = tokens.map(|tokens| tokens.suspended()).unwrap_or_default();
        let untold = tokens.map(|tokens| tokens.to_tell()).unwrap_or_default();
        let status = self.engine.status();
        NodeReport {
            node: self.fleet.node().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: clock::utc_now(),
            standing: standing.to_owned(),
            problem,
            age_ms,
            to_free: count(self.fleet.to_free()),
            unread: count(unread),
            certificate_until: self.trust.certificate_until(),
            authority_until: self.trust.authority_until(),
            suspended_tokens: suspended.into_iter().map(|(id, name)| SuspendedToken { name, id }).collect(),
            untold_revocations: untold.into_iter().map(|revoked| revoked.name).collect(),
            warnings: status.pool_error.into_iter().chain(status.warnings).collect(),
        }
    }

    /// How the fleet is.
    pub(super) async fn cluster(&self, call: &Call<'_>, caller: &Caller) -> Answer {
        let own = self.fleet.node();
        let (others, orphans) = {
            let view = self.fleet.view();
            let is_there = |state| matches!(state, NodeState::Ready | NodeState::Draining);
            let others = view.nodes().into_iter().filter(|node| node.name != own && is_there(node.state));
            (others.map(|node| node.name).collect::<Vec<_>>(), view.orphans(ORPHANS_MAX))
        };
        let asking = all(others.iter().map(|node| self.asked(node, call, caller)));
        let etcd = timeout(ETCD_LIMIT, self.fleet.etcd_health());
        let restore = timeout(ETCD_LIMIT, self.fleet.unfinished_restore());
        let (mut nodes, etcd, restore) = tokio::join!(asking, etcd, restore);
        nodes.push(NodeAnswer {
            name: own.to_owned(),
            report: Some(self.report()),
            problem: None,
            took_ms: 0,
            clock_ahead_ms: Some(0),
        });
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let late = || EtcdHealth {
            problem: Some(format!("nothing within {} s", ETCD_LIMIT.as_secs())),
            ..EtcdHealth::default()
        };
        json(&ClusterView {
            view: self.view(),
            nodes,
            etcd: etcd_view(etcd.unwrap_or_else(|_| late())),
            orphan_count: count(orphans.1),
            orphans: orphans.0,
            restore: restore
                .ok()
                .and_then(Result::ok)
                .flatten()
                .map(|mark| RestoreView { made_at: mark.made_at, began_at: mark.began_at }),
        })
    }

    /// What another node says of itself. Its clock is compared with this one's in the middle of the time that it took.
    async fn asked(&self, node: &str, call: &Call<'_>, caller: &Caller) -> NodeAnswer {
        let (begin, sent) = (clock::now(), clock::unix_ms());
        let answer = timeout(LIMIT, self.report_of(node, call, caller)).await;
        let took = ms(begin.elapsed());
        let answer = match answer {
            Ok(answer) => answer.map_err(|refusal| refusal.body.message),
            Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
        };
        let (report, problem) = match answer {
            Ok(report) => (Some(report), None),
            Err(problem) => (None, Some(problem)),
        };
        let middle = sent.saturating_add(i64::try_from(took / 2).unwrap_or(0));
        let ahead = report.as_ref().map(|report| report.time.as_millisecond().saturating_sub(middle));
        NodeAnswer { name: node.to_owned(), report, problem, took_ms: took, clock_ahead_ms: ahead }
    }

    async fn report_of(&self, node: &str, call: &Call<'_>, caller: &Caller) -> Result<NodeReport, Refusal> {
        let wanted = Call { endpoint: Op::NodeReport.endpoint(), head: call.head, name: "" };
        let response = self.ask(node, (&wanted, wanted.endpoint.path), caller, Body::empty()).await?;
        let status = response.status();
        let told = |error: &dyn std::fmt::Display| super::connections::unreachable(node, "", error);
        let text = Limited::new(response.into_body(), REPORT_MAX).collect().await;
        let text = text.map_err(|error| told(&error))?.to_bytes();
        if !status.is_success() {
            let said: Option<duramen_api::problem::Problem> = serde_json::from_slice(&text).ok();
            let said = said.map_or_else(|| status.to_string(), |problem| problem.error.message);
            return Err(Refusal::new(status, "refused", said));
        }
        serde_json::from_slice(&text).map_err(|error| told(&error))
    }
}

fn etcd_view(health: EtcdHealth) -> EtcdView {
    let EtcdHealth { members, voting, quorum, present, read, problem } = health;
    EtcdView {
        members: members.into_iter().map(member).collect(),
        voting: count(voting),
        quorum: count(quorum),
        present: count(present),
        read_ms: read.map(ms),
        problem,
    }
}

fn member(member: MemberHealth) -> EtcdMember {
    let MemberHealth { address, name, said, problem } = member;
    let named = EtcdMember { address, name, problem, ..EtcdMember::default() };
    let Some(said) = said else { return named };
    EtcdMember {
        version: Some(said.version),
        leads: said.leads,
        is_led: said.is_led,
        learns: said.learns,
        size: Some(said.size),
        used: Some(said.used),
        quota: said.quota,
        errors: said.errors,
        ..named
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! Each finding of a fleet by what a daemon may say; those that can be brought about for real are in `crates/cli/tests/fleet`.

use super::*;
use duramen_api::{cluster::RestoreView, fleet::FleetView};

const NOW: &str = "2026-03-01T00:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn limits() -> Limits {
    Limits::usual(at(NOW))
}

fn node(name: &str, state: &str) -> FleetNode {
    FleetNode {
        name: name.to_owned(),
        state: state.to_owned(),
        kept_for_s: None,
        names: 2,
        registered_at: Some(at(NOW)),
        drains_since: None,
        gone_for_s: None,
        address: None,
        version: None,
        memory_free: None,
        disk_free: None,
        leases: None,
        hot: None,
        sources: Vec::new(),
    }
}

fn report(name: &str) -> NodeReport {
    NodeReport {
        node: name.to_owned(),
        version: "1".to_owned(),
        time: at(NOW),
        standing: "member".to_owned(),
        problem: None,
        age_ms: Some(100),
        to_free: 0,
        unread: 0,
        certificate_until: Some(at("2027-01-01T00:00:00Z")),
        authority_until: Some(at("2030-01-01T00:00:00Z")),
        suspended_tokens: Vec::new(),
        untold_revocations: Vec::new(),
        warnings: Vec::new(),
    }
}

fn answer(report: NodeReport) -> NodeAnswer {
    let (name, clock_ahead_ms) = (report.node.clone(), Some(0));
    NodeAnswer { name, report: Some(report), problem: None, took_ms: 10, clock_ahead_ms }
}

fn member(number: usize) -> EtcdMember {
    EtcdMember {
        address: Some(format!("10.0.0.{number}:2379")),
        name: Some(format!("e{number}")),
        version: Some("3.5.9".to_owned()),
        leads: number == 0,
        is_led: true,
        size: Some(20 << 10),
        used: Some(10 << 10),
        ..EtcdMember::default()
    }
}

fn well() -> ClusterView {
    ClusterView {
        view: FleetView {
            fleet: "f".to_owned(),
            node: "a".to_owned(),
            standing: "member".to_owned(),
            problem: None,
            age_ms: Some(100),
            to_free: 0,
            writes: 0,
            nodes: vec![node("a", "ready"), node("b", "ready")],
            sources: Vec::new(),
        },
        nodes: vec![answer(report("a")), answer(report("b"))],
        etcd: EtcdView {
            members: (0..3).map(member).collect(),
            voting: 3,
            quorum: 2,
            present: 3,
            read_ms: Some(3),
            problem: None,
        },
        orphans: Vec::new(),
        orphan_count: 0,
        restore: None,
    }
}

/// What is found of a fleet in which one thing is changed.
fn found(change: impl FnOnce(&mut ClusterView)) -> Vec<(&'static str, Severity, String)> {
    let mut view = well();
    change(&mut view);
    let all = findings(&view, &limits());
    all.into_iter()
        .map(|found| (found.kind.name(), found.severity, format!("{}: {}", found.about, found.what)))
        .collect()
}

fn only(change: impl FnOnce(&mut ClusterView)) -> (&'static str, Severity, String) {
    let all = found(change);
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

fn second(view: &mut ClusterView) -> &mut NodeReport {
    view.nodes[1].report.as_mut().unwrap()
}

#[test]
fn nothing_is_found_where_all_is_well() {
    assert_eq!(found(|_| {}), []);
    // A drain of an hour, a clock that is off by less than is known, a version of etcd that says its quota.
    let all = found(|view| {
        view.view.nodes[0].drains_since = Some(at("2026-02-28T23:00:00Z"));
        view.nodes[1].took_ms = 2000;
        view.nodes[1].clock_ahead_ms = Some(-1900);
        view.etcd.members[0].quota = Some(8 << 30);
        view.etcd.members[0].size = Some(2 << 30);
    });
    assert_eq!(all, []);
}

#[test]
fn nodes_that_are_away_are_told_with_what_they_hold() {
    let (kind, severity, text) = only(|view| {
        view.view.nodes[1].state = "unreachable".to_owned();
        view.view.nodes[1].kept_for_s = Some(299);
        view.view.nodes[1].gone_for_s = Some(4);
    });
    assert_eq!((kind, severity), ("node-unreachable", Severity::Error));
    assert_eq!(text, "node b: it has not been registered for 4 s; 2 names are kept for it for 4 min more");
    let (kind, severity, _) = only(|view| view.view.nodes[1].state = "lost".to_owned());
    assert_eq!((kind, severity), ("node-lost", Severity::Error));
    let (_, severity, _) = only(|view| {
        view.view.nodes[1].state = "lost".to_owned();
        view.view.nodes[1].names = 0;
    });
    assert_eq!(severity, Severity::Warning);
    let (kind, _, text) = only(|view| {
        view.nodes[1].report = None;
        view.nodes[1].problem = Some("no answer within 2 s".to_owned());
    });
    assert!(kind == "node-silent" && text.contains("within 2 s"), "{text}");
    let (kind, _, text) = only(|view| {
        second(view).standing = "joining".to_owned();
        second(view).problem = Some("etcd was not reached".to_owned());
    });
    assert!(kind == "node-not-member" && text.contains("(joining): etcd was not reached"), "{text}");
}

#[test]
fn clocks_certificates_and_versions() {
    let (kind, _, text) = only(|view| view.nodes[1].clock_ahead_ms = Some(-5000));
    assert!(kind == "clock-differs" && text.contains("5000 ms behind"), "{text}");
    let (_, _, text) = only(|view| view.nodes[1].clock_ahead_ms = Some(i64::MAX));
    assert!(text.contains("ahead of"), "{text}");
    let (kind, severity, text) =
        only(|view| second(view).certificate_until = Some(at("2026-03-20T00:00:00Z")));
    assert_eq!((kind, severity), ("certificate-ends", Severity::Warning));
    assert!(text.contains("in 19 days"), "{text}");
    let (_, severity, text) = only(|view| second(view).authority_until = Some(at("2026-02-01T00:00:00Z")));
    assert!(severity == Severity::Error && text.contains("authority ended"), "{text}");
    let (kind, _, text) = only(|view| second(view).version = "2".to_owned());
    assert!(kind == "versions-differ" && text.contains("1 on a; 2 on b"), "{text}");
}

#[test]
fn tokens_that_etcd_lost_are_told_from_those_that_were_revoked() {
    let token = |name: &str| SuspendedToken { name: name.to_owned(), id: format!("t-{name}") };
    let (kind, severity, text) = only(|view| {
        for node in &mut view.nodes {
            node.report.as_mut().unwrap().suspended_tokens = vec![token("ci")];
        }
    });
    assert_eq!((kind, severity), ("token-suspended", Severity::Warning));
    assert!(text.contains("etcd has lost 1 token, which let nobody in: ci"), "{text}");
    let (_, severity, _) = only(|view| second(view).suspended_tokens = vec![token("old")]);
    assert_eq!(severity, Severity::Note);
    let (kind, severity, _) = only(|view| second(view).untold_revocations = vec!["ci".to_owned()]);
    assert_eq!((kind, severity), ("revocation-untold", Severity::Error));
}

#[test]
fn what_lags_or_is_left_behind() {
    let (kind, _, text) = only(|view| {
        view.view.nodes[0].drains_since = Some(at("2026-02-20T00:00:00Z"));
        view.view.nodes[0].state = "draining".to_owned();
    });
    assert!(kind == "drain-forgotten" && text.contains("has 2 branches"), "{text}");
    assert_eq!(only(|view| second(view).to_free = 3).0, "names-unfreed");
    assert_eq!(only(|view| second(view).unread = 1).0, "values-unread");
    assert_eq!(only(|view| second(view).age_ms = Some(60_000)).0, "view-old");
    assert_eq!(only(|view| second(view).warnings = vec!["the disk".to_owned()]).0, "node-warns");
    let (kind, _, text) = only(|view| {
        view.orphans = (0..100).map(|number| format!("n{number}")).collect();
        view.orphan_count = 4000;
    });
    assert!(
        kind == "names-orphaned" && text.contains("4000 names are") && text.contains("and 90 more"),
        "{text}"
    );
    let (kind, severity, _) = only(|view| {
        view.restore = Some(RestoreView { made_at: at(NOW), began_at: at(NOW) });
    });
    assert_eq!((kind, severity), ("restore-unfinished", Severity::Error));
}

#[test]
fn how_far_etcd_is_from_its_quorum() {
    let without = |view: &mut ClusterView, number: usize| {
        view.etcd.members[number].version = None;
        view.etcd.members[number].problem = Some("no connection".to_owned());
        view.etcd.present -= 1;
    };
    let all = found(|view| without(view, 2));
    assert_eq!(all.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), ["etcd-thin", "etcd-member-silent"]);
    let all = found(|view| {
        without(view, 2);
        without(view, 1);
        view.etcd.read_ms = None;
    });
    assert_eq!((all[0].0, all[0].1), ("etcd-no-quorum", Severity::Error));
    assert!(!all.iter().any(|(kind, ..)| *kind == "etcd-silent"), "it is said once");
    let (kind, severity, text) = only(|view| {
        view.etcd = EtcdView { problem: Some("nothing within 5 s".to_owned()), ..EtcdView::default() };
    });
    assert!((kind, severity) == ("etcd-silent", Severity::Error) && text.contains("within 5 s"), "{text}");
    let (kind, ..) = only(|view| {
        view.etcd.members.truncate(1);
        (view.etcd.voting, view.etcd.quorum, view.etcd.present) = (1, 1, 1);
    });
    assert_eq!(kind, "etcd-single");
    assert_eq!(only(|view| view.etcd.members[1].address = None).0, "etcd-member-unknown");
    let alarm = "memberID:1 alarm:NOSPACE ".to_owned();
    let (kind, severity, _) = only(|view| view.etcd.members[1].errors = vec![alarm]);
    assert_eq!((kind, severity), ("etcd-alarm", Severity::Error));
    let (kind, _, text) = only(|view| view.etcd.members[1].size = Some(1900 << 20));
    assert!(kind == "etcd-full" && text.contains("etcd e1"), "{text}");
}

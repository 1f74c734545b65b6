//! `duramen cluster ...` on real daemons and a real etcd: each finding is brought about where that takes seconds, and what was agreed on
//! is backed up, lost and put back. OP-1 to OP-7 are in `docs/design/operating.md`.

use crate::bed::{end, until, within, Bed, Made};
use crate::sessions::{enter, enter_soon, token};
use crate::support::{create, text};
use duramen_api::token::Role;
use duramen_base::clock;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::{os::unix::fs::PermissionsExt, process::Output, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

const PREFIX: &str = "/duramen/test/v1/";

fn cluster(bed: &Bed, node: &str, arguments: &[&str]) -> Output {
    bed.node(node).home.run(&[&["cluster"], arguments].concat())
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// What is found, but for what holds of any machine that tests run on.
fn check_with(bed: &Bed, node: &str, more: &[&str]) -> Vec<(String, String)> {
    let begin = clock::now();
    let output = cluster(bed, node, &[&["check", "--json", "--only", "fleet"], more].concat());
    assert!(begin.elapsed() < Duration::from_secs(12), "{:?}", begin.elapsed());
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    let word = |value: &Value| value.as_str().expect("text").to_owned();
    let all = printed["findings"].as_array().expect("findings");
    let errors = all.iter().filter(|finding| finding["severity"] == "error").count();
    assert_eq!(output.status.code(), Some(i32::from(errors > 0)), "{printed}");
    let found = all.iter().map(|finding| (word(&finding["kind"]), word(&finding["about"])));
    found.filter(|(kind, _)| kind != "node-warns").collect()
}

fn check(bed: &Bed) -> Vec<(String, String)> {
    check_with(bed, "a", &[])
}

async fn comes_to(bed: &Bed, kind: &str, about: &str) {
    let wanted = (kind.to_owned(), about.to_owned());
    until(&format!("{kind} of {about} is found"), async || check(bed).contains(&wanted)).await;
}

async fn is_well(bed: &Bed) {
    until("nothing is found", async || check(bed).is_empty()).await;
}

async fn put(bed: &Bed, key: &str, value: Option<&str>) {
    bed.etcd.put(&format!("{PREFIX}{key}"), value).await.expect("an answer");
}

/// The figures of a node.
async fn figures(bed: &Bed, node: &str) -> String {
    let mut stream =
        UnixStream::connect(bed.node(node).root().join("daemon.sock")).await.expect("its socket");
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    text
}

/// The first sample that begins so.
fn figure(page: &str, begins: &str) -> f64 {
    let line =
        page.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {page}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// All members of etcd lose their data, and begin anew; daemons go on.
async fn lose_etcd(bed: &Bed) {
    for member in bed.etcd.members() {
        member.kill().expect("it ends");
        std::fs::remove_dir_all(member.dir().join("data")).expect("its data");
    }
    for member in bed.etcd.members() {
        member.start(&bed.network).expect("it starts");
    }
    bed.etcd.ready().await.expect("a leader");
}

#[test]
fn what_is_wrong_is_found_and_said() {
    within(Made { nodes: 2, ..Made::default() }, |bed| async move {
        let output = cluster(&bed, "b", &["status", "--only", "fleet"]);
        let screen = said(&output);
        assert_eq!(output.status.code(), Some(0), "{screen}");
        for shown in [
            "fleet test, as node b (member)",
            "etcd: 3 of 3 members, 2 are needed: 1 may fail",
            "e2",
            " leads ",
        ] {
            assert!(screen.contains(shown), "{shown}: {screen}");
        }
        assert_eq!(screen.matches(" ready ").count(), 2, "{screen}");
        is_well(&bed).await;
        // The figures of the fleet: a branch is asked for on the other node than the one that has it.
        create(&mut bed.node("a").connect().await, "seen").await.expect("a branch");
        let (has, other) = match bed.held().await["seen"].0.as_str() {
            "a" => ("a", "b"),
            _ => ("b", "a"),
        };
        bed.node(other).connect().await.branch("seen").await.expect("it is there");
        let page = figures(&bed, other).await;
        assert_eq!(figure(&page, r#"duramen_fleet_nodes{state="ready"}"#), 2.0);
        assert_eq!(figure(&page, r#"duramen_fleet_nodes{state="lost"}"#), 0.0);
        assert!(figure(&page, "duramen_fleet_fence_left_seconds ") > 0.0);
        assert!(figure(&page, "duramen_fleet_view_age_seconds ") < 10.0);
        assert!(figure(&page, r#"duramen_fleet_etcd_request_seconds_count{outcome="answered"}"#) > 1.0);
        assert!(figure(&page, r#"duramen_fleet_hops_total{operation="Branch",outcome="answered"}"#) >= 1.0);
        let page = figures(&bed, has).await;
        assert_eq!(figure(&page, "duramen_fleet_names "), 1.0);
        bed.node(has).connect().await.destroy_branch("seen").await.expect("destroyed");
        let page = figures(&bed, has).await;
        assert_eq!(figure(&page, "duramen_fleet_names_to_free "), 0.0);
        assert!(figure(&page, "duramen_fleet_names_freed_late_total ") <= 1.0);
        // What only a limit is far from.
        let found = check_with(&bed, "a", &["--certificate-limit", "900d", "--etcd-quota", "20K"]);
        let abouts = |kind: &str| found.iter().filter(|(found, _)| found == kind).count();
        assert_eq!((abouts("certificate-ends"), abouts("etcd-full")), (2, 3), "{found:?}");

        put(&bed, "drains/b", Some(r#"{"since":"2026-01-02T03:04:05Z"}"#)).await;
        comes_to(&bed, "drain-forgotten", "node b").await;
        let output = bed.node("a").home.run(&["node", "undrain", "b"]);
        assert!(output.status.success(), "{}", said(&output));
        let claim = r#"{"node":"nobody","id":"b-1","claimed_at":"2026-01-02T03:04:05Z"}"#;
        put(&bed, "names/left", Some(claim)).await;
        comes_to(&bed, "names-orphaned", "the fleet").await;
        put(&bed, "names/left", Some("{")).await;
        comes_to(&bed, "values-unread", "node b").await;
        put(&bed, "names/left", None).await;
        let mark = r#"{"digest":"d","made_at":"2026-01-02T03:04:05Z","began_at":"2026-01-02T03:04:05Z","run":"r","step":1,"done":false}"#;
        put(&bed, "restore", Some(mark)).await;
        comes_to(&bed, "restore-unfinished", "the fleet").await;
        put(&bed, "restore", None).await;

        // A token that is revoked is kept by the other node, and that is nothing to do.
        let ci = token(&bed, "a", "ci", Role::User).await;
        drop(ci);
        bed.node("a").connect().await.revoke_token("ci").await.expect("revoked");
        comes_to(&bed, "token-suspended", "the fleet").await;
        assert!(cluster(&bed, "a", &["check", "--only", "fleet"]).status.success());

        // etcd: one member less, then two, then an alarm.
        let members = bed.etcd.members();
        members[2].hold(true);
        comes_to(&bed, "etcd-thin", "etcd").await;
        members[1].hold(true);
        comes_to(&bed, "etcd-no-quorum", "etcd").await;
        let output = cluster(&bed, "a", &["status", "--only", "fleet"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("of 3 members, 2 are needed: too few"), "{}", said(&output));
        // A node that gives no names says so, and a revocation that etcd does not hear of.
        comes_to(&bed, "node-not-member", "node b").await;
        members.iter().for_each(|member| member.hold(false));
        until("etcd is back", async || {
            check(&bed).iter().all(|(kind, _)| kind == "token-suspended" || kind == "values-unread")
        })
        .await;

        // A daemon that does not answer, and then is not registered.
        bed.node("b").signal(Signal::STOP);
        comes_to(&bed, "node-silent", "node b").await;
        comes_to(&bed, "node-unreachable", "node b").await;
        bed.node("b").signal(Signal::CONT);
        until("b is back", async || check(&bed).iter().all(|(_, about)| about != "node b")).await;
        // No daemon at all.
        bed.node("b").kill().await;
        let output = cluster(&bed, "b", &["check", "--only", "fleet"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("[fleet-silent]"), "{}", said(&output));
        bed.node("b").program.start(&bed.network).expect("it starts");
        bed.ready().await;
        end(bed).await;
    });
}

/// OP-1 to OP-5.
#[test]
fn etcd_that_lost_everything_is_given_back_what_was_agreed_on() {
    within(Made { nodes: 2, ..Made::default() }, |bed| async move {
        let mut at = bed.node("a").connect().await;
        create(&mut at, "kept").await.expect("a branch");
        let ci = token(&bed, "a", "ci", Role::User).await;
        drop(enter_soon(&bed, 1, &ci, "app@mine").await);
        at.drain_node("b", true).await.expect("it drains");
        let file = bed.dir.path().join("cluster.json");
        let file = file.to_str().expect("a path");
        let fleet = format!("etcd://{}/test", bed.etcd.clients().join(","));
        let keep = |what: &str, more: &[&str]| {
            cluster(&bed, "a", &[&[what, file, "--fleet", &fleet, "--etcd-insecure"], more].concat())
        };
        let made = keep("backup", &["--json"]);
        assert!(made.status.success(), "{}", said(&made));
        let printed: Value = serde_json::from_slice(&made.stdout).expect("JSON");
        assert_eq!(
            (&printed["fleet"]["members"], &printed["fleet"]["tokens"]),
            (&2.into(), &1.into()),
            "{printed}"
        );
        let mode = std::fs::metadata(file).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!std::fs::read_to_string(file).expect("text").contains(&ci.secret));
        // It was not lost: nothing to do, and a token that was revoked since is not brought back by it.
        assert!(said(&keep("restore", &[])).contains("nothing was put back"));

        lose_etcd(&bed).await;
        until("the token lets nobody in", async || enter(&bed, 0, &ci, "app@mine").await.is_err()).await;
        let wanted = ("token-suspended".to_owned(), "the fleet".to_owned());
        until("it is found", async || check(&bed).contains(&wanted)).await;
        let restored = keep("restore", &[]);
        let words = said(&restored);
        assert!(restored.status.success(), "{words}");
        assert!(
            words.contains("1 token") && words.contains("revoke those that were revoked since: ci"),
            "{words}"
        );
        for number in 0..2 {
            drop(enter_soon(&bed, number, &ci, "app@mine").await);
        }
        // Twice.
        assert!(said(&keep("restore", &[])).contains("nothing was put back"));
        until("b drains again", async || bed.node("a").sees("b").await == "draining").await;
        at.drain_node("b", false).await.expect("it drains no more");
        assert!(bed.claims().await.contains_key("kept"));
        is_well(&bed).await;
        at.revoke_token("ci").await.expect("revoked");
        let refused = keep("restore", &[]);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).contains("was restored here already"), "{}", said(&refused));
        let forced = keep("restore", &["--force"]);
        assert!(forced.status.success() && said(&forced).contains("ci"), "{}", said(&forced));
        at.drain_node("b", false).await.expect("it drains no more");
        // OP-3: a damaged one, another fleet's, and a later one.
        let whole = std::fs::read_to_string(file).expect("text");
        std::fs::write(file, whole.replacen("members/a", "members/x", 1)).expect("written");
        assert!(said(&keep("restore", &["--force"])).contains("is damaged"));
        std::fs::write(file, whole.replacen("duramen.cluster/1", "duramen.cluster/9", 1)).expect("written");
        assert!(said(&keep("restore", &["--force"])).contains("use a newer duramen"));
        std::fs::write(file, &whole).expect("written");
        let other = format!("etcd://{}/other", bed.etcd.clients().join(","));
        let output = cluster(&bed, "a", &["restore", file, "--fleet", &other, "--etcd-insecure"]);
        assert!(said(&output).contains("is of the fleet test, and not of other"), "{}", said(&output));
        for name in ["kept", "mine"] {
            at.destroy_branch(name).await.expect("destroyed");
        }
        end(bed).await;
    });
}

/// OP-5: the command itself is killed in the middle.
#[test]
fn a_restore_that_is_killed_is_found_and_finished() {
    within(Made { nodes: 1, ..Made::default() }, |bed| async move {
        const NAMES: usize = 2400;
        for number in 0..NAMES {
            let value = format!(r#"{{"node":"gone","id":"b-{number}","claimed_at":"2026-01-02T03:04:05Z"}}"#);
            put(&bed, &format!("names/n-{number}"), Some(&value)).await;
        }
        let file = bed.dir.path().join("cluster.json");
        let file = file.to_str().expect("a path");
        let fleet = format!("etcd://{}/test", bed.etcd.clients().join(","));
        let restore = ["cluster", "restore", file, "--fleet", &fleet, "--etcd-insecure"];
        let made = cluster(&bed, "a", &["backup", file, "--fleet", &fleet, "--etcd-insecure"]);
        assert!(made.status.success(), "{}", said(&made));
        let mut killed = false;
        for _ in 0..5 {
            lose_etcd(&bed).await;
            let mut command = bed.node("a").home.command(&restore);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
            let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
            let mark = format!("{PREFIX}restore");
            while bed.etcd.get(&mark).await.ok().flatten().is_none() {
                if child.try_wait().expect("its state").is_some() {
                    break;
                }
            }
            let _ = kill_process(pid, Signal::KILL);
            child.wait().expect("its end");
            let mark = bed.etcd.get(&mark).await.expect("an answer").expect("a mark");
            if mark.contains(r#""done":false"#) {
                killed = true;
                break;
            }
        }
        assert!(killed, "it was never in the middle");
        let half = bed.etcd.below(&format!("{PREFIX}names/")).await.expect("names").len();
        assert!(half > 0 && half < NAMES, "{half}");
        comes_to(&bed, "restore-unfinished", "the fleet").await;
        let done = bed.node("a").home.run(&restore);
        assert!(done.status.success() && said(&done).contains("goes on"), "{}", said(&done));
        assert_eq!(bed.etcd.below(&format!("{PREFIX}names/")).await.expect("names").len(), NAMES);
        until("that is over", async || check(&bed).iter().all(|(kind, _)| kind != "restore-unfinished"))
            .await;
        end(bed).await;
    });
}

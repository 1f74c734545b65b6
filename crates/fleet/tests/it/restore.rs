//! Backups of what is agreed on: read at one revision, and put back into an etcd that lost it.

use crate::bed::{registered, until, Bed, Held};
use duramen_base::clock;
use duramen_fleet::{
    agreed::{Agreed, Agreement},
    member::Fleet,
    restore::{RestoreError, Restored, Wanted, KEYS_AT_A_TIME},
};
use std::{sync::Arc, time::Duration};

const PREFIX: &str = "/duramen/test/v1/";

fn wanted(agreed: &Agreed) -> Wanted<'_> {
    Wanted { agreed, digest: "d-1", made_at: clock::utc_now(), force: false }
}

async fn restore(bed: &Agreement, agreed: &Agreed) -> Result<Restored, RestoreError> {
    bed.restore(wanted(agreed), async |_, _| {}).await
}

fn keys(agreed: &Agreed) -> Vec<&str> {
    agreed.keys.iter().map(|key| key.key.as_str()).collect()
}

/// What it is but for revisions, which are etcd's own.
fn pairs(agreed: &Agreed) -> Vec<(&str, &[u8])> {
    agreed.keys.iter().map(|key| (key.key.as_str(), key.value.as_slice())).collect()
}

async fn put(bed: &Bed, key: &str, value: Option<&str>) {
    bed.etcd.put(&format!("{PREFIX}{key}"), value).await.unwrap();
}

/// All members lose their data, and the node registers anew.
async fn lost(bed: &Bed, node: &Fleet) {
    bed.lose().await;
    let agreement = bed.agreement();
    until("it is registered anew", async || {
        let own = format!("members/{}", node.node());
        agreement.read().await.is_ok_and(|agreed| keys(&agreed).contains(&own.as_str()))
    })
    .await;
    registered(node).await;
}

/// So many names of a node that is not there.
async fn many_names(bed: &Bed, count: usize) {
    let mut client = bed.client().await;
    for number in 0..count {
        let value = format!(r#"{{"node":"gone","id":"b-{number}","claimed_at":"2026-01-02T03:04:05Z"}}"#);
        client.put(format!("{PREFIX}names/n-{number:05}"), value, None).await.unwrap();
    }
}

/// OP-1, OP-2: what nodes hold wins, and what is of the moment is not in it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_is_back_and_what_nodes_have_claimed_stays() {
    let bed = Bed::new(3).await;
    let (agreement, a, b) = (bed.agreement(), bed.node("a").await, bed.node("b").await);
    a.claim("x", "b-1", Some("s"), None).await.unwrap();
    a.confirm("x", "b-1").await.unwrap();
    b.claim("gone", "b-2", Some("s"), Some("t-1")).await.unwrap();
    b.confirm("gone", "b-2").await.unwrap();
    a.add_token("ci", br#"{"id":"t-1","name":"ci"}"#).await.unwrap();
    a.drain("b", true).await.unwrap();
    put(&bed, "sources/later", Some("what this version does not know")).await;
    let agreed = agreement.read().await.unwrap();
    assert_eq!(
        keys(&agreed),
        ["drains/b", "members/a", "members/b", "names/gone", "names/x", "sources/later", "tokens/ci"]
    );
    b.leave().await;
    lost(&bed, &a).await;
    let held = Held::of(&[("x", "b-1")]);
    until("it has claimed what it holds", async || {
        a.reconcile(&held).await.is_ok_and(|done| done.claimed == ["x"])
    })
    .await;
    // Connections of before went with the members that were lost, as those of another command would have.
    let agreement = bed.agreement();
    let before = agreement.read().await.unwrap();
    assert_eq!(keys(&before), ["members/a", "names/x"]);
    let done = restore(&agreement, &agreed).await.unwrap();
    // Tokens are the last.
    assert_eq!(done.put, ["members/b", "drains/b", "names/gone", "sources/later", "tokens/ci"]);
    assert_eq!((done.kept, done.resumed), (Vec::new(), false), "a node that registered again is the same");
    let after = agreement.read().await.unwrap();
    assert_eq!(keys(&after), keys(&agreed));
    let own = |all: &Agreed| {
        let own = ["members/a", "names/x"];
        all.keys.iter().filter(|key| own.contains(&key.key.as_str())).cloned().collect::<Vec<_>>()
    };
    assert_eq!(own(&after), own(&before), "what the node brought is untouched");
    // And nobody was turned out.
    until("a goes on", async || a.still_has("x", "b-1").await.is_ok()).await;
    until("it sees the token", async || !a.view().tokens().is_empty()).await;
    // Once more there is nothing to do, and nothing is written.
    let revision = bed.revision().await;
    assert_eq!(restore(&agreement, &agreed).await.unwrap(), Restored::default());
    assert!(bed.revision().await - revision <= 1, "only a node's own record");
    assert!(a.unfinished_restore().await.unwrap().is_none());
}

/// OP-2: a name that another node has meanwhile stays with it, and one that its node does not hold any more is freed by it (FL-6).
#[tokio::test(flavor = "multi_thread")]
async fn names_that_were_given_away_since_stay_and_old_ones_are_freed() {
    let bed = Bed::new(1).await;
    let (agreement, a) = (bed.agreement(), bed.node("a").await);
    for (name, id) in [("x", "b-1"), ("y", "b-2")] {
        a.claim(name, id, Some("s"), None).await.unwrap();
        a.confirm(name, id).await.unwrap();
    }
    let agreed = agreement.read().await.unwrap();
    lost(&bed, &a).await;
    let b = bed.node("b").await;
    until("b has the name", async || b.claim("x", "b-9", Some("s"), None).await.is_ok()).await;
    b.confirm("x", "b-9").await.unwrap();
    let error = restore(&agreement, &agreed).await.unwrap_err();
    assert!(matches!(error, RestoreError::GoneOn { .. }), "{error}");
    assert!(error.to_string().contains("members/b, names/x"), "{error}");
    let done = agreement.restore(Wanted { force: true, ..wanted(&agreed) }, async |_, _| {}).await.unwrap();
    assert_eq!((done.put, done.kept), (vec!["names/y".to_owned()], vec!["names/x".to_owned()]));
    assert_eq!(b.find("x").await.unwrap().unwrap().id, "b-9");
    until("a sees the old name", async || a.view().name("y").is_some()).await;
    let done = a.reconcile(&Held::default()).await.unwrap();
    assert_eq!(done.freed, ["y"]);
    until("it is free", async || a.find("y").await.unwrap().is_none()).await;
}

/// OP-4: an etcd that has not lost its data is left alone, so that what was revoked stays revoked.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_has_gone_on_is_left_alone_unless_it_is_meant() {
    let bed = Bed::new(1).await;
    let (agreement, a) = (bed.agreement(), bed.node("a").await);
    let value: &[u8] = br#"{"id":"t-1","name":"ci"}"#;
    a.add_token("ci", value).await.unwrap();
    a.add_token("dev", b"{}").await.unwrap();
    let agreed = agreement.read().await.unwrap();
    assert_eq!(restore(&agreement, &agreed).await.unwrap(), Restored::default(), "all of it is there");
    a.replace_token("ci", value, None).await.unwrap();
    let error = restore(&agreement, &agreed).await.unwrap_err();
    assert!(matches!(error, RestoreError::NotLost { .. }), "{error}");
    assert!(error.to_string().contains("tokens/ci"), "{error}");
    assert_eq!(a.token("ci").await.unwrap(), None);
    let done = agreement.restore(Wanted { force: true, ..wanted(&agreed) }, async |_, _| {}).await.unwrap();
    assert_eq!(done.put, ["tokens/ci"]);
    // It was restored: what is revoked after that needs a word, too, also once etcd has lost all.
    lost(&bed, &a).await;
    assert_eq!(restore(&agreement, &agreed).await.unwrap().put, ["tokens/ci", "tokens/dev"]);
    a.replace_token("ci", value, None).await.unwrap();
    let error = restore(&agreement, &agreed).await.unwrap_err();
    assert!(matches!(error, RestoreError::Before { .. }), "{error}");
    // A token of another secret is not the backup's.
    lost(&bed, &a).await;
    a.add_token("ci", b"another").await.unwrap();
    let error = restore(&agreement, &agreed).await.unwrap_err();
    assert!(error.to_string().contains("it has tokens/ci"), "{error}");
    let done = agreement.restore(Wanted { force: true, ..wanted(&agreed) }, async |_, _| {}).await.unwrap();
    assert_eq!((done.put, done.kept), (vec!["tokens/dev".to_owned()], vec!["tokens/ci".to_owned()]));
    assert_eq!(a.token("ci").await.unwrap().unwrap(), b"another");
}

/// OP-5: what is half done is known, and done again; and another backup does not mix with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_killed_anywhere_is_finished_by_the_next() {
    let bed = Bed::new(1).await;
    let (agreement, a) = (bed.agreement(), bed.node("a").await);
    many_names(&bed, 3 * KEYS_AT_A_TIME + 7).await;
    a.add_token("ci", b"{}").await.unwrap();
    let agreed = agreement.read().await.unwrap();
    let other = Wanted { digest: "d-2", ..wanted(&agreed) };
    for killed_before in 0..4 {
        lost(&bed, &a).await;
        let (came, mut comes) = tokio::sync::mpsc::channel(1);
        let restoring = agreement.restore(wanted(&agreed), async |done, of| {
            assert_eq!(of, 4);
            if done == killed_before {
                came.send(()).await.unwrap();
                std::future::pending::<()>().await;
            }
        });
        tokio::select! {
            done = restoring => panic!("it was not stopped: {done:?}"),
            _ = comes.recv() => {}
        }
        let half = agreement.read().await.unwrap();
        let names = half.keys.iter().filter(|key| key.key.starts_with("names/")).count();
        assert_eq!(names, killed_before * KEYS_AT_A_TIME);
        assert!(!keys(&half).contains(&"tokens/ci"), "nobody is let in by a half");
        let mark = agreement.mark().await.unwrap();
        assert_eq!(mark.is_some_and(|mark| !mark.done), killed_before > 0);
        assert_eq!(a.unfinished_restore().await.unwrap().is_some(), killed_before > 0);
        if killed_before > 0 {
            let error = agreement.restore(other, async |_, _| {}).await.unwrap_err();
            assert!(matches!(error, RestoreError::Other { .. }), "{error}");
        }
        let done = restore(&agreement, &agreed).await.unwrap();
        assert_eq!(done.resumed, killed_before > 0);
        let whole = agreement.read().await.unwrap();
        let (whole, wanted) = (pairs(&whole), pairs(&agreed));
        assert_eq!(whole.len(), wanted.len());
        assert!(agreement.mark().await.unwrap().unwrap().done);
    }
}

/// OP-5: members of etcd that stall in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_of_etcd_at_any_step_is_waited_for_or_told() {
    let bed = Arc::new(Bed::new(1).await);
    let agreement = bed.agreement();
    many_names(&bed, 2 * KEYS_AT_A_TIME).await;
    let agreed = agreement.read().await.unwrap();
    for stalled_before in 0..2 {
        bed.lose().await;
        let mut held = false;
        let done = agreement
            .restore(wanted(&agreed), async |done, _| {
                if done == stalled_before && !held {
                    held = true;
                    bed.hold(true);
                    let bed = Arc::clone(&bed);
                    // Longer than one try, and less than all of them.
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(2500)).await;
                        bed.hold(false);
                    });
                }
            })
            .await
            .unwrap();
        bed.hold(false);
        assert_eq!(done.put.len(), 2 * KEYS_AT_A_TIME);
        assert_eq!(pairs(&agreement.read().await.unwrap()), pairs(&agreed));
    }
}

/// OP-5: of two at once one is told, and what they leave is whole.
#[tokio::test(flavor = "multi_thread")]
async fn two_restores_at_once_do_not_mix() {
    let bed = Bed::new(1).await;
    let agreement = Arc::new(bed.agreement());
    many_names(&bed, 5 * KEYS_AT_A_TIME).await;
    let agreed = Arc::new(agreement.read().await.unwrap());
    bed.lose().await;
    let mut both = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (agreement, agreed) = (Arc::clone(&agreement), Arc::clone(&agreed));
        both.spawn(async move { restore(&agreement, &agreed).await });
    }
    let done = both.join_all().await;
    let overtaken = done.iter().filter(|done| matches!(done, Err(RestoreError::Overtaken))).count();
    assert!(done.iter().any(Result::is_ok) && overtaken <= 1, "{done:?}");
    assert_eq!(pairs(&agreement.read().await.unwrap()), pairs(&agreed));
    assert!(agreement.mark().await.unwrap().unwrap().done);
}

/// OP-3.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_another_fleet_or_of_no_fleet_is_refused() {
    let bed = Bed::new(1).await;
    let agreement = bed.agreement();
    many_names(&bed, 2).await;
    let agreed = agreement.read().await.unwrap();
    bed.lose().await;
    let other = Agreed { fleet: "other".to_owned(), ..agreed.clone() };
    let error = restore(&agreement, &other).await.unwrap_err();
    assert!(matches!(error, RestoreError::OtherFleet { .. }), "{error}");
    let mut hostile = agreed.clone();
    for key in ["../../other/v1/tokens/ci", "nodes/a", "restore", "names/n-00000"] {
        hostile.keys[0].key = key.to_owned();
        hostile.keys.sort_by(|a, b| a.key.cmp(&b.key));
        let done = restore(&agreement, &hostile).await;
        let Err(RestoreError::Misplaced { .. }) = done else {
            // It is a key of the fleet, whatever it is called.
            let all = bed.etcd.below("/duramen/").await.unwrap();
            assert!(all.iter().all(|(key, _)| key.starts_with(PREFIX)), "{key}: {all:?}");
            bed.lose().await;
            continue;
        };
    }
    bed.hold(true);
    let begin = clock::now();
    let error = restore(&agreement, &agreed).await.unwrap_err();
    assert!(matches!(error, RestoreError::Etcd { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(30));
    bed.hold(false);
}

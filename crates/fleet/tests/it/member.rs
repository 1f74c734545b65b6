//! Nodes: who they are, when they are gone, and that a drain is agreed on.

use crate::bed::{registered, until, Bed};
use duramen_fleet::{
    member::{Settings, Standing},
    names::ClaimError,
    view::NodeState,
};
use std::time::Duration;

/// FL-12.
#[tokio::test(flavor = "multi_thread")]
async fn another_home_is_not_let_in_under_the_name_of_a_node() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    let other = bed.joining(Settings { home: "h-other".to_owned(), ..bed.settings("a") });
    until("it is refused", async || matches!(other.standing(), Standing::Refused(_))).await;
    assert!(matches!(other.claim("x", "b-1", None, None).await, Err(ClaimError::NotMember { .. })));
    a.claim("x", "b-2", None, None).await.unwrap();
    assert!(!a.forget("a").await.unwrap(), "who is registered is not forgotten");
    a.leave().await;
    assert_eq!(bed.keys("nodes/").await, [""; 0], "it is gone at once");
    assert!(other.forget("a").await.unwrap());
    registered(&other).await;
    assert_eq!(bed.keys("names/").await, ["x"], "names stay");
}

/// A process that was killed and started again within its lease is in at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_killed_is_back_before_its_lease_ends() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    a.hand_over();
    let begin = duramen_base::clock::now();
    let back = bed.node("a").await;
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    back.claim("x", "b-1", None, None).await.unwrap();
    // FL-2: what is left of the killed one, should it go on, gives nothing: its registration is another one.
    assert!(a.claim("y", "b-2", None, None).await.is_err());
}

/// FL-11: once a drain is acknowledged no claim succeeds, on a node that may not have seen it yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_node_gives_no_names() {
    let bed = Bed::new(1).await;
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    for _ in 0..10 {
        b.drain("a", true).await.unwrap();
        let refused = a.claim("x", "b-1", None, None).await.expect_err("it drains");
        assert!(matches!(refused, ClaimError::Draining { .. }), "{refused}");
        until("all see it", async || b.view().state("a") == NodeState::Draining).await;
        b.drain("a", false).await.unwrap();
        a.claim("x", "b-1", None, None).await.unwrap();
        a.ended("x", "b-1");
        assert!(a.freed("x", "b-1", Duration::from_secs(5)).await);
    }
}

/// FL-2: by its own clock a node stops no later than etcd says.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_etcd_stops_giving_names_in_time() {
    let bed = Bed::new(3).await;
    let a = bed.node("a").await;
    bed.hold(true);
    let begin = duramen_base::clock::now();
    until("it knows", async || matches!(a.standing(), Standing::Joining(_))).await;
    assert!(begin.elapsed() <= Duration::from_millis(5200), "{:?}", begin.elapsed());
    bed.hold(false);
    registered(&a).await;
}

/// One member of etcd may die: nothing is noticed but a pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_etcd_may_die() {
    let bed = Bed::new(3).await;
    let a = bed.node("a").await;
    bed.etcd.members()[0].kill().unwrap();
    let mut given = 0;
    for number in 0..40 {
        given += i32::from(a.claim(&format!("n-{number}"), &format!("b-{number}"), None, None).await.is_ok());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(given >= 35, "{given} of 40");
    assert!(matches!(a.standing(), Standing::Member(_)));
}

/// FL-12: a copy of a home, on another machine or in another directory, takes neither the node nor its names, also when the
/// original is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_copied_home_does_not_take_the_place_of_the_original() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    let number = bed.keys("nodes/").await;
    let elsewhere = |starts: &[&str]| Settings {
        place: "p-copy".to_owned(),
        starts: starts.iter().map(|start| (*start).to_owned()).collect(),
        ..bed.settings("a")
    };
    // Copied while the original runs: it waits.
    let copy = bed.joining(elsewhere(&["s-a", "s-copy"]));
    until("it says why", async || {
        matches!(copy.standing(), Standing::Joining(why) if why.contains("another machine or directory"))
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bed.keys("nodes/").await, number);
    a.claim("x", "b-1", None, None).await.expect("the original was not turned out");
    copy.leave().await;
    // The original was started again since it was copied: the copy is refused for good.
    a.hand_over();
    let again =
        bed.joining(Settings { starts: vec!["s-a".to_owned(), "s-a2".to_owned()], ..bed.settings("a") });
    registered(&again).await;
    again.leave().await;
    let copy = bed.joining(elsewhere(&["s-a", "s-copy2"]));
    until(
        "it is refused",
        async || matches!(copy.standing(), Standing::Refused(why) if why.contains("earlier copy")),
    )
    .await;
    assert_eq!(bed.keys("names/").await, ["x"]);
    copy.leave().await;
    // A home that was moved, and has all starts, is let in.
    registered(&bed.joining(elsewhere(&["s-a", "s-a2", "s-moved"]))).await;
}

/// FL-13: a node that should stay out is not registered until it should not.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_kept_out_is_not_registered() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    a.keep_out(Some(Standing::Refused("names clash".to_owned())));
    assert!(a.claim("x", "b-1", None, None).await.is_err());
    until("its registration ends", async || bed.keys("nodes/").await.is_empty()).await;
    assert_eq!(a.standing(), Standing::Refused("names clash".to_owned()));
    a.keep_out(None);
    registered(&a).await;
}

/// A drain that was seen has been seen with all names that were given before it.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_has_seen_a_drain_has_all_names_of_before() {
    let bed = Bed::new(1).await;
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    for number in 0..50 {
        let name = format!("n-{number}");
        a.claim(&name, &name, None, None).await.unwrap();
        let revision = b.drain("a", true).await.unwrap();
        assert!(b.seen(revision, Duration::from_secs(5)).await);
        assert!(b.view().name(&name).is_some(), "{name}");
        b.drain("a", false).await.unwrap();
    }
    assert!(b.is_member("a").await && !b.is_member("z").await);
}

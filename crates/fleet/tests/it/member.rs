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

//! Names: given once, for two writes, and neither leaked nor lost.

use crate::bed::{registered, until, Bed, Held, GRACE};
use duramen_fleet::{
    member::{Fleet, Settings, Standing},
    names::{ClaimError, Holds, Local, Reconciled},
    view::NodeState,
};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};

const SOON: Duration = Duration::from_secs(5);

/// FL-1: of many claims of a name on several nodes one succeeds, and the others are told who has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_given_once() {
    let bed = Bed::new(3).await;
    let nodes = [bed.node("a").await, bed.node("b").await, bed.node("c").await];
    for name in ["x", "y", "z"] {
        let mut claims = tokio::task::JoinSet::new();
        for number in 0..60 {
            let node = Arc::clone(&nodes[number % 3]);
            claims.spawn(async move {
                let id = format!("b-{number}");
                (node.claim(name, &id, Some("s"), None).await, id)
            });
        }
        let (mut given, mut held) = (Vec::new(), Vec::new());
        while let Some(claim) = claims.join_next().await {
            match claim.unwrap() {
                (Ok(()), id) => given.push(id),
                (Err(ClaimError::Held { record, .. }), _) => held.push(record.id),
                (Err(error), id) => panic!("{id}: {error}"),
            }
        }
        assert_eq!((given.len(), held.len()), (1, 59), "{given:?}");
        assert!(held.iter().all(|id| *id == given[0]), "{held:?}");
    }
}

/// FL-9: a hundred leases are two hundred writes, counted by etcd itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_two_writes() {
    let bed = Bed::new(1).await;
    let node = bed.node("a").await;
    let (before, asked) = (bed.revision().await, node.writes());
    for number in 0..100 {
        let (name, id) = (format!("n-{number}"), format!("b-{number}"));
        node.claim(&name, &id, Some("s"), Some("t-1")).await.unwrap();
        node.confirm(&name, &id).await.unwrap();
        node.ended(&name, &id);
        assert!(node.freed(&name, &id, SOON).await);
    }
    let (writes, asked) = (bed.revision().await - before, node.writes() - asked);
    assert_eq!((writes, asked), (200, 200));
    assert_eq!(bed.keys("names/").await, [""; 0]);
}

/// A process that is told to stop does so a moment later.
async fn silent(node: &Fleet) {
    const MOMENT: Duration = Duration::from_millis(200);
    until("etcd does not answer", async || tokio::time::timeout(MOMENT, node.find("x")).await.is_err()).await;
}

/// FL-4, FL-6: with etcd silent a claim is refused in time, and what it may have done is undone.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_answered_is_refused_and_leaks_nothing() {
    let bed = Bed::new(3).await;
    let node = bed.node("a").await;
    node.claim("kept", "b-0", None, None).await.unwrap();
    node.confirm("kept", "b-0").await.unwrap();
    bed.hold(true);
    silent(&node).await;
    let begin = duramen_base::clock::now();
    let error = node.claim("x", "b-1", None, None).await.expect_err("nobody answers");
    assert!(matches!(error, ClaimError::Etcd { .. } | ClaimError::NotMember { .. }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    // The end of a branch needs no etcd, and is told later.
    node.ended("kept", "b-0");
    assert!(!node.freed("kept", "b-0", Duration::from_millis(300)).await);
    until("the fence is over", async || {
        matches!(node.claim("y", "b-2", None, None).await, Err(ClaimError::NotMember { .. }))
    })
    .await;
    bed.hold(false);
    registered(&node).await;
    until("all is freed", async || node.to_free() == 0 && bed.keys("names/").await.is_empty()).await;
    node.claim("x", "b-3", None, None).await.unwrap();
}

/// FL-6: who asked goes away in the middle of a claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_nobody_waits_for_is_freed() {
    let bed = Bed::new(1).await;
    let node = bed.node("a").await;
    for pause in 0..20 {
        let id = format!("b-{pause}");
        let claim = node.claim("x", &id, None, None);
        if tokio::time::timeout(Duration::from_micros(100 * pause), claim)
            .await
            .is_ok_and(|claim| claim.is_ok())
        {
            node.ended("x", &id);
        }
        until("it is freed", async || node.to_free() == 0 && bed.keys("names/").await.is_empty()).await;
    }
}

/// FL-2, FL-5: names of a node that is gone are kept for it, then given to others; on its return its branch is kept under
/// another name, and those whose names were not given away get theirs back.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_a_dead_node_are_free_after_its_grace() {
    let bed = Bed::new(1).await;
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    for (name, id) in [("x", "b-1"), ("y", "b-2")] {
        a.claim(name, id, Some("s"), None).await.unwrap();
        a.confirm(name, id).await.unwrap();
    }
    a.hand_over();
    let died = duramen_base::clock::now();
    until("it is unreachable", async || b.view().state("a") == NodeState::Unreachable).await;
    assert!(died.elapsed() < Duration::from_millis(6500), "{:?}", died.elapsed());
    let refused = b.claim("x", "b-3", None, None).await.expect_err("it is kept");
    assert!(
        matches!(&refused, ClaimError::Held { record, state: NodeState::Unreachable, .. } if record.id == "b-1")
    );
    until("it is lost", async || b.view().state("a") == NodeState::Lost).await;
    assert!(died.elapsed() >= GRACE);
    b.claim("x", "b-3", None, None).await.unwrap();
    b.confirm("x", "b-3").await.unwrap();

    let back = bed.node("a").await;
    let held = Held::of(&[("x", "b-1"), ("y", "b-2")]);
    let done = back.reconcile(&held).await.unwrap();
    assert_eq!((done.claimed.len(), done.freed.len(), done.renamed.len()), (0, 0, 1), "{done:?}");
    let other = &done.renamed[0].1;
    assert_eq!(held.names(), [other.as_str(), "y"]);
    assert_eq!(back.find("x").await.unwrap().unwrap().id, "b-3", "nobody takes it from who was given it");
    assert_eq!(back.find("y").await.unwrap().unwrap().id, "b-2");
    assert_eq!(back.find(other).await.unwrap().unwrap().id, "b-1");
    until("the watch shows it", async || back.view().name(other).is_some()).await;
    assert_eq!(back.reconcile(&held).await.unwrap(), Reconciled::default());
}

/// FL-5: a takeover that was decided on what is no longer so changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn who_returns_at_the_last_moment_keeps_its_names() {
    let bed = Bed::new(1).await;
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    a.claim("x", "b-1", None, None).await.unwrap();
    a.confirm("x", "b-1").await.unwrap();
    a.hand_over();
    until("it is lost", async || b.view().state("a") == NodeState::Lost).await;
    // The other sees nothing any more: to it the node is lost for good.
    b.hand_over();
    let _back = bed.node("a").await;
    let claim = b.claim("x", "b-2", None, None).await.expect_err("the node is there");
    assert!(
        matches!(claim, ClaimError::Held { .. } | ClaimError::Etcd { .. } | ClaimError::NotMember { .. }),
        "{claim}"
    );
    assert_eq!(bed.node("c").await.find("x").await.unwrap().unwrap().id, "b-1");
}

/// FL-3, FL-6: an etcd that lost everything costs no branch; a claim without a branch is freed.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_etcd_is_filled_again_from_what_nodes_hold() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    a.claim("x", "b-1", None, None).await.unwrap();
    a.confirm("x", "b-1").await.unwrap();
    let options = etcd_client::DeleteOptions::new().with_prefix();
    bed.client().await.delete("/", Some(options)).await.unwrap();
    let held = Held::of(&[("x", "b-1")]);
    until("it is registered again", async || {
        a.view().name("x").is_none() && a.reconcile(&held).await.is_ok_and(|done| done.claimed == ["x"])
    })
    .await;
    assert_eq!(held.names(), ["x"]);
    assert_eq!(a.find("x").await.unwrap().unwrap().id, "b-1");
    // What a killed process had claimed and not written down.
    a.claim("orphan", "b-9", None, None).await.unwrap();
    a.hand_over();
    let back = bed.node("a").await;
    until("the orphan is seen", async || back.view().name("orphan").is_some()).await;
    assert_eq!(back.reconcile(&held).await.unwrap().freed, ["orphan"]);
    assert!(back.freed("orphan", "b-9", SOON).await);
    assert_eq!(bed.keys("names/").await, ["x"]);
}

/// FL-6: reconciling beside creates and ends frees none of them, and loses none.
#[tokio::test(flavor = "multi_thread")]
async fn reconciling_beside_creates_takes_nothing_from_them() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    let held = Arc::new(Held::default());
    let creates = {
        let (a, held) = (Arc::clone(&a), Arc::clone(&held));
        tokio::spawn(async move {
            for number in 0..200 {
                let (name, id) = (format!("n-{number}"), format!("b-{number}"));
                a.claim(&name, &id, None, None).await.unwrap();
                held.0.lock().unwrap().extend(Held::of(&[(&name, &id)]).0.into_inner().unwrap());
                a.confirm(&name, &id).await.unwrap();
                if number % 2 == 0 {
                    held.0.lock().unwrap().retain(|local| local.id != id);
                    a.ended(&name, &id);
                }
            }
        })
    };
    while !creates.is_finished() {
        let done = a.reconcile(&*held).await.unwrap();
        assert_eq!((done.freed, done.renamed), (Vec::new(), Vec::new()));
    }
    creates.await.unwrap();
    until("what ended is freed", async || a.to_free() == 0).await;
    let mut names = bed.keys("names/").await;
    let mut expected = held.names();
    names.sort();
    expected.sort();
    assert_eq!(names, expected);
}

/// FL-12, FL-5: a home that is not let in under a node's name brings none of that node's names together with what it holds.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_refused_a_node_frees_none_of_its_names() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    a.claim("x", "b-1", None, None).await.unwrap();
    a.confirm("x", "b-1").await.unwrap();
    let other = bed.joining(Settings { home: "h-other".to_owned(), ..bed.settings("a") });
    until("it is refused, and sees the name", async || {
        matches!(other.standing(), Standing::Refused(_)) && other.view().name("x").is_some()
    })
    .await;
    let refused = other.reconcile(&Held::default()).await.expect_err("it is not registered");
    assert!(matches!(refused, ClaimError::NotMember { .. }), "{refused}");
    // Nor does it free what it says has ended, were it of the same id: a copy has those.
    other.ended("x", "b-1");
    assert!(!other.freed("x", "b-1", Duration::from_secs(1)).await);
    assert_eq!(bed.keys("names/").await, ["x"]);
    assert_eq!(other.to_free(), 1);
    a.ended("x", "b-1");
    assert!(a.freed("x", "b-1", SOON).await, "its own node does");
}

/// FL-1, FL-4: after a takeover the old holder does not hand its branch out by that name, with etcd or without.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_was_taken_over_is_not_handed_out_by_its_old_holder() {
    let bed = Bed::new(1).await;
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    a.claim("x", "b-1", None, None).await.unwrap();
    a.confirm("x", "b-1").await.unwrap();
    until("a sees it", async || a.view().name("x").is_some()).await;
    a.still_has("x", "b-1").await.expect("by the fence");
    bed.hold(true);
    a.still_has("x", "b-1").await.expect("without etcd, as long as the fence says so");
    bed.hold(false);
    // It hears no more of etcd, and goes on.
    a.hand_over();
    until("it is lost", async || b.view().state("a") == NodeState::Lost).await;
    b.claim("x", "b-2", None, None).await.unwrap();
    let refused = a.still_has("x", "b-1").await.expect_err("another one has it");
    assert!(matches!(refused, ClaimError::Held { ref record, .. } if record.node == "b"), "{refused}");
    bed.hold(true);
    silent(&a).await;
    let refused = a.still_has("x", "b-1").await.expect_err("nobody says so");
    bed.hold(false);
    assert!(matches!(refused, ClaimError::Etcd { .. }), "{refused}");
}

/// FL-3: a claim of the node itself, of a branch that is long gone, costs a living branch no name, as after etcd was put back to an
/// earlier day.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_claim_of_the_node_itself_renames_no_branch() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    a.claim("x", "b-old", None, None).await.unwrap();
    a.hand_over();
    let back = bed.node("a").await;
    until("the old claim is seen", async || back.view().name("x").is_some()).await;
    let held = Held::of(&[("x", "b-new")]);
    let done = back.reconcile(&held).await.unwrap();
    assert_eq!((done.renamed, done.claimed), (Vec::new(), vec!["x".to_owned()]));
    assert_eq!(held.names(), ["x"]);
    until("the old one is freed", async || back.to_free() == 0).await;
    assert_eq!(back.find("x").await.unwrap().unwrap().id, "b-new");
}

/// A node whose branch ends right after it was asked what it holds, and whose name another branch of it gets at once.
struct Moving {
    fleet: Arc<Fleet>,
    asked: AtomicBool,
    before: Held,
    since: Held,
}

impl Holds for Moving {
    fn all(&self) -> Vec<Local> {
        if self.asked.swap(true, Ordering::Relaxed) {
            return self.since.all();
        }
        let claiming = async {
            for local in self.since.all() {
                self.fleet.claim(&local.name, &local.id, None, None).await.unwrap();
                self.fleet.confirm(&local.name, &local.id).await.unwrap();
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(claiming));
        self.before.all()
    }

    fn rename(&self, name: &str, id: &str, other: &str) -> Result<(), String> {
        self.since.rename(name, id, other)
    }
}

/// FL-1, FL-6: a branch that ends while names are brought together with branches takes its name back from nobody, and keeps it from
/// nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_ends_while_names_are_reconciled_has_no_name() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    let moving = |since: &[(&str, &str)]| Moving {
        fleet: Arc::clone(&a),
        asked: AtomicBool::new(false),
        before: Held::of(&[("x", "b-1")]),
        since: Held::of(since),
    };
    let done = a.reconcile(&moving(&[("x", "b-2")])).await.unwrap();
    assert_eq!((done.claimed, done.renamed), (vec![], vec![]));
    assert_eq!(a.find("x").await.unwrap().unwrap().id, "b-2", "the name is the other branch's");
    a.ended("x", "b-2");
    assert!(a.freed("x", "b-2", SOON).await);
    until("it is seen", async || a.view().name("x").is_none()).await;
    a.reconcile(&moving(&[])).await.unwrap();
    assert!(a.freed("x", "b-1", SOON).await);
    assert_eq!(bed.keys("names/").await, [""; 0], "it is nobody's");
}

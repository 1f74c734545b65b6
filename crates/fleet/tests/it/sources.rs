//! Definitions of sources, and places of their copies.

use crate::bed::{until, Bed};
use duramen_base::clock;
use duramen_fleet::{
    record::{GenerationRecord, SourceRecord},
    sources::{ChangeError, Was, DEFINITION_MAX},
    view::NodeState,
};

fn source(keeper: &str, id: &str) -> SourceRecord {
    SourceRecord {
        id: id.to_owned(),
        keeper: keeper.to_owned(),
        origin: "script".to_owned(),
        settings: serde_json::json!({ "durable": true }),
        replicas: 2,
        generation: Some(GenerationRecord {
            number: 1,
            digest: "d".to_owned(),
            bytes: 7,
            manifest: "m".to_owned(),
        }),
        places: vec![keeper.to_owned()],
        defined_at: clock::utc_now(),
    }
}

fn placed(of: &SourceRecord, places: &[&str]) -> SourceRecord {
    SourceRecord { places: places.iter().map(|&place| place.to_owned()).collect(), ..of.clone() }
}

/// FL-14: of many that define one name at the same moment one does; FL-16: so it is with a place.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_defined_once_and_a_place_is_taken_once() {
    let bed = Bed::new(3).await;
    let (a, b, c) = (bed.node("a").await, bed.node("b").await, bed.node("c").await);
    for round in 0..20 {
        let name = format!("s{round}");
        let (of_a, of_b) = (source("a", "s-a"), source("b", "s-b"));
        let (one, two) = tokio::join!(
            a.change_source(&name, Was::Absent, Some(&of_a)),
            b.change_source(&name, Was::Absent, Some(&of_b))
        );
        assert_eq!(u32::from(one.is_ok()) + u32::from(two.is_ok()), 1, "{one:?}, {two:?}");
        let kept = if one.is_ok() { &of_a } else { &of_b };
        let refused = one.err().or(two.err()).expect("one of them");
        assert!(
            matches!(&refused, ChangeError::Changed { now: Some(now), .. } if now.as_ref() == kept),
            "{refused:?}"
        );
        let found = c.source(&name).await.unwrap().expect("it is there");
        assert_eq!(found.record.as_ref(), Some(kept));

        let (by_b, by_c) = (placed(kept, &[&kept.keeper, "x"]), placed(kept, &[&kept.keeper, "c"]));
        let (one, two) = tokio::join!(
            b.change_source(&name, Was::Revision(found.revision), Some(&by_b)),
            c.change_source(&name, Was::Revision(found.revision), Some(&by_c))
        );
        assert_eq!(u32::from(one.is_ok()) + u32::from(two.is_ok()), 1, "{one:?}, {two:?}");
        let now = a.source(&name).await.unwrap().expect("it is there");
        assert_eq!(now.record, Some(if one.is_ok() { by_b } else { by_c }));
        // What is so already is done, and not refused: an answer may have been lost.
        let again = a.change_source(&name, Was::Absent, now.record.as_ref()).await.expect("it is so");
        assert_eq!(again, now.revision);
        until("all see it", async || {
            b.view().sources().get(&name).is_some_and(|it| it.revision == now.revision)
        })
        .await;
    }
    let mut long = source("a", "s-a");
    long.settings = serde_json::json!("x".repeat(DEFINITION_MAX));
    let refused = a.change_source("long", Was::Absent, Some(&long)).await;
    assert!(matches!(refused, Err(ChangeError::TooLong { .. })), "{refused:?}");
}

/// FL-2, FL-16: who is not registered changes nothing; the place of a node that is back is not taken, whatever was seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_nodes_place_is_taken_unless_it_is_back() {
    let bed = Bed::new(1).await;
    let (a, b) = (bed.node("a").await, bed.node("b").await);
    let first = placed(&source("a", "s-1"), &["a", "b"]);
    let revision = a.change_source("s", Was::Absent, Some(&first)).await.expect("it is defined");
    b.hand_over();
    until("it is lost", async || a.view().state("b") == NodeState::Lost).await;
    let seen = a.view().lost("b").expect("it is lost");
    let refused = b.change_source("s", Was::Revision(revision), None).await;
    assert!(matches!(refused, Err(ChangeError::NotMember { .. })), "{refused:?}");
    let taken = placed(&first, &["a", "c"]);
    // It comes back before its place is taken.
    let back = bed.node("b").await;
    let refused = a.change_source("s", Was::Lost(revision, "b", seen), Some(&taken)).await;
    assert!(matches!(refused, Err(ChangeError::Changed { .. })), "{refused:?}");
    assert_eq!(a.source("s").await.unwrap().unwrap().record, Some(first));
    back.hand_over();
    until("it is lost", async || a.view().state("b") == NodeState::Lost).await;
    let seen = a.view().lost("b").expect("it is lost");
    a.change_source("s", Was::Lost(revision, "b", seen), Some(&taken)).await.expect("it is taken");
    assert_eq!(a.source("s").await.unwrap().unwrap().record, Some(taken));
    // An etcd that does not answer: whether it was done is unknown, and said so.
    bed.hold(true);
    let refused = a.change_source("other", Was::Absent, Some(&source("a", "s-2"))).await;
    bed.hold(false);
    assert!(matches!(refused, Err(ChangeError::Etcd { .. } | ChangeError::NotMember { .. })), "{refused:?}");
}

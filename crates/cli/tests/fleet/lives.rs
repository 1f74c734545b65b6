//! What a fleet does for its users, and what they see when a node dies, is cut off, drains, or etcd is gone.

use crate::bed::{end, until, within, Bed, Made};
use crate::support::{create, query};
use duramen_api::model::CreateBranch;
use duramen_client::ClientError;
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// The code of a refusal.
pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> String {
    match answer {
        Err(ClientError::Refused { body, .. }) => body.code,
        other => panic!("it is not refused: {other:?}"),
    }
}

/// Any node answers for all; a create by a name is the same branch wherever it is asked for (FL-1); the list is of all.
async fn any_node_answers_for_all(bed: &Bed) {
    let mut made = Vec::new();
    for number in 0..6 {
        let mut at = bed.nodes[number % 3].connect().await;
        made.push(create(&mut at, &format!("n-{number}")).await.expect("a branch"));
    }
    let held = bed.held().await;
    let used: BTreeSet<&String> = held.values().map(|(node, _)| node).collect();
    assert_eq!((held.len(), used.len()), (6, 3), "they are spread: {held:?}");
    for node in &bed.nodes {
        let mut at = node.connect().await;
        let ids: Vec<String> = at.branches().await.unwrap().into_iter().map(|branch| branch.id).collect();
        assert_eq!(ids, made.iter().map(|branch| branch.id.clone()).collect::<Vec<_>>(), "{}", node.name);
        for branch in &made {
            let again = create(&mut at, &branch.name).await.expect("the same");
            assert_eq!((again.id.as_str(), again.existing), (branch.id.as_str(), true), "{}", node.name);
            assert_eq!(at.branch(&branch.name).await.unwrap().id, branch.id);
        }
        let sql = format!("INSERT INTO t VALUES ({}, '{}')", 100 + node.name.as_bytes()[0], node.name);
        let statement = duramen_api::model::QueryRequest { sql: Some(sql), ..Default::default() };
        at.query("n-0", &statement).await.expect("a row");
        assert_eq!(code(at.branch("n-none").await), "not_found");
    }
    let mut at = bed.nodes[1].connect().await;
    let rows = query(&mut at, "n-0", "SELECT note FROM t WHERE id > 0 ORDER BY id").await.unwrap();
    assert_eq!(rows, json!([["a"], ["b"], ["c"]]));
    at.reset_branch("n-0").await.expect("a reset elsewhere");
    assert_eq!(query(&mut at, "n-0", "SELECT count(*) FROM t").await.unwrap(), json!([[1]]));
    // A child is made where its parent is.
    let wanted = CreateBranch {
        name: Some("child".to_owned()),
        from: Some("n-0".to_owned()),
        ..CreateBranch::default()
    };
    at.create_branch(&wanted).await.expect("a child");
    let held = bed.held().await;
    assert_eq!(held["child"].0, held["n-0"].0);
    for name in ["child", "n-0", "n-1", "n-2", "n-3", "n-4", "n-5"] {
        at.destroy_branch(name).await.expect("destroyed");
        // Free on every node at once.
        let again = create(&mut bed.nodes[2].connect().await, name).await.expect("another one");
        assert!(!again.existing && !made.iter().any(|branch| branch.id == again.id), "{name}");
        at.destroy_branch(name).await.expect("destroyed");
    }
}

/// FL-11: what a drained node holds goes on; no new branch is made there, not even by its own clients.
async fn a_node_drains(bed: &Bed) {
    let mut at = bed.node("a").connect().await;
    let mut others = bed.node("b").connect().await;
    others.drain_node("a", true).await.expect("it drains");
    for number in 0..4 {
        create(&mut at, &format!("d-{number}")).await.expect("made elsewhere");
    }
    assert!(bed.held().await.values().all(|(node, _)| node != "a"));
    for number in 0..4 {
        at.destroy_branch(&format!("d-{number}")).await.expect("destroyed");
    }
    others.drain_node("a", false).await.expect("it takes some again");
    until("all see it", async || bed.node("c").sees("a").await == "ready").await;
    assert_eq!(code(others.drain_node("nobody", true).await), "unknown_node");
    assert_eq!(code(others.forget_node("a").await), "node_is_there");
}

/// FL-3, FL-4: with etcd gone what is there goes on, and creates say so; what ended meanwhile is freed later.
async fn etcd_goes_away(bed: &Bed) {
    let mut at = bed.node("a").connect().await;
    for name in ["kept", "ends"] {
        create(&mut at, name).await.expect("a branch");
    }
    bed.etcd.members().iter().for_each(|member| member.hold(true));
    for name in ["kept", "ends"] {
        for node in &bed.nodes {
            let rows = query(&mut node.connect().await, name, "SELECT count(*) FROM t").await;
            // The first seconds any node answers, then at least the one that holds it.
            let holds = bed_holder(bed, name).await == node.name;
            if holds {
                assert_eq!(rows.expect("it goes on"), json!([[1]]));
            }
        }
    }
    until("creates say so", async || {
        ["not_in_fleet", "fleet_silent"].contains(&code(create(&mut at, "new").await).as_str())
    })
    .await;
    let holder = bed_holder(bed, "ends").await;
    let mut at_holder = bed.node(&holder).connect().await;
    at_holder.reset_branch("ends").await.expect("a reset");
    at_holder.destroy_branch("ends").await.expect("the end of a branch needs no etcd");
    bed.etcd.members().iter().for_each(|member| member.hold(false));
    until("all are back", async || {
        let mut back = true;
        for node in &bed.nodes {
            back &= node.view().await.is_some_and(|view| view.standing == "member" && view.to_free == 0);
        }
        back
    })
    .await;
    create(&mut at, "ends").await.expect("its name is free");
    assert_eq!(query(&mut at, "kept", "SELECT count(*) FROM t").await.unwrap(), json!([[1]]));
    for name in ["kept", "ends"] {
        at.destroy_branch(name).await.expect("destroyed");
    }
}

/// The node that has a branch, by what nodes hold.
async fn bed_holder(bed: &Bed, name: &str) -> String {
    for node in &bed.nodes {
        if std::fs::read_to_string(node.root().join("leases.jsonl"))
            .is_ok_and(|text| text.lines().rev().any(|line| line.contains(&format!("\"name\":\"{name}\""))))
        {
            return node.name.to_owned();
        }
    }
    panic!("nobody has {name}");
}

#[test]
fn any_node_answers_for_all_drains_and_goes_on_without_etcd() {
    within(Made::default(), |bed| async move {
        any_node_answers_for_all(&bed).await;
        a_node_drains(&bed).await;
        bed.settled().await;
        etcd_goes_away(&bed).await;
        bed.settled().await;
        end(bed).await;
    });
}

/// FL-2, FL-5: a node that is cut off keeps what it holds and gives no names; others say that it is unreachable, then lost; its
/// names are then given to others, and on its return its branch has another name, and its rows.
#[test]
fn a_node_that_is_cut_off_is_unreachable_then_lost_and_comes_back() {
    within(Made { grace: "6s", ..Made::default() }, |bed| async move {
        let (a, b) = (bed.node("a"), bed.node("b"));
        let mut at_a = a.connect().await;
        let mut at_b = b.connect().await;
        for node in ["b", "c"] {
            at_b.drain_node(node, true).await.expect("so that it is made on a");
        }
        for name in ["x", "y"] {
            create(&mut at_a, name).await.expect("a branch on a");
        }
        for node in ["b", "c"] {
            at_b.drain_node(node, false).await.expect("and no more");
        }
        let insert = duramen_api::model::QueryRequest {
            sql: Some("INSERT INTO t VALUES (7, 'kept')".to_owned()),
            ..Default::default()
        };
        at_b.query("x", &insert).await.expect("by a hop");
        bed.network.pull(0, true).expect("the cable is pulled");
        let cut = duramen_base::clock::now();
        until("it is unreachable", async || b.sees("a").await == "unreachable").await;
        let seen = cut.elapsed();
        assert!(seen < Duration::from_secs(8), "{seen:?}");
        assert_eq!(code(at_b.branch("x").await), "node_unreachable");
        assert_eq!(code(create(&mut at_b, "x").await), "node_unreachable");
        // It keeps its sessions, and gives no names.
        assert_eq!(
            query(&mut at_a, "x", "SELECT note FROM t WHERE id = 7").await.unwrap(),
            json!([["kept"]])
        );
        until("a knows it", async || a.view().await.is_some_and(|view| view.standing == "joining")).await;
        assert_eq!(code(create(&mut at_a, "z").await), "not_in_fleet");
        until("it is lost", async || b.sees("a").await == "lost").await;
        assert_eq!(code(at_b.branch("x").await), "node_lost");
        let taken = create(&mut at_b, "x").await.expect("its name is free");
        // FL-1: the old branch is handed out to nobody by the name that another one has.
        let refused = code(create(&mut at_a, "x").await);
        assert!(["not_in_fleet", "fleet_silent"].contains(&refused.as_str()), "{refused}");
        bed.network.pull(0, false).expect("the cable is back");
        until("it is back", async || b.sees("a").await == "ready").await;
        bed.settled().await;
        assert_eq!(at_a.branch("x").await.unwrap().id, taken.id);
        let list = at_b.branches().await.unwrap();
        let names: Vec<&str> = list.iter().map(|branch| branch.name.as_str()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        let other = names.iter().find(|name| name.starts_with("x.was-")).expect("another name");
        assert_eq!(
            query(&mut at_b, other, "SELECT note FROM t WHERE id = 7").await.unwrap(),
            json!([["kept"]])
        );
        assert_eq!(list.iter().find(|branch| branch.name == "y").unwrap().node.as_deref(), Some("a"));
        // A node that does not answer is named, and not waited for.
        bed.network.pull(0, true).expect("the cable is pulled again");
        let begin = duramen_base::clock::now();
        let list = at_b.branches().await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert_eq!(list.len(), 1);
        bed.network.pull(0, false).expect("the cable is back");
        until("it is back", async || b.sees("a").await == "ready").await;
        bed.settled().await;
        end(bed).await;
    });
}

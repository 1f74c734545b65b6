//! Creates that are asked for again with their Idempotency-Key, on another node than at first.

use crate::bed::{end, until, within, Bed, Made};
use crate::sessions::{bearer, send, token};
use duramen_api::token::{NewToken, Role};
use std::collections::BTreeSet;

/// The id, the name and whether it was there already, of the branch that a create is answered with; or the code of the refusal.
async fn asked(
    bed: &Bed,
    number: usize,
    token: &NewToken,
    key: &str,
) -> Result<(String, String, bool), String> {
    let headers = format!("{}idempotency-key: {key}\r\ncontent-type: application/json\r\n", bearer(token));
    let answer = send(bed, number, ("POST", "/v1/branches"), &headers, r#"{"source":"app"}"#).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
    let text = |field: &str| value[field].as_str().expect("text").to_owned();
    match head.starts_with("HTTP/1.1 200") {
        true => Ok((text("id"), text("name"), value["existing"].as_bool().unwrap_or_default())),
        false => Err(text("code")),
    }
}

/// FL-1, FL-9: a key is one branch, on whichever node it is shown, also after the node first asked died.
#[test]
fn a_key_is_one_branch_on_all_nodes() {
    within(Made { hot: 8, ..Made::default() }, |bed| async move {
        let (ci, eve) = (token(&bed, "a", "ci", Role::User).await, token(&bed, "a", "eve", Role::User).await);
        let before = written(&bed).await;
        let first = asked(&bed, 0, &ci, "one").await.expect("a branch");
        for number in [1, 2, 0] {
            let again = asked(&bed, number, &ci, "one").await.expect("the same");
            assert_eq!((&again.0, &again.1), (&first.0, &first.1), "{number}");
        }
        assert_eq!(written(&bed).await - before, 1, "FL-9: it was claimed once");
        let other = asked(&bed, 1, &eve, "one").await.expect("a key is its holder's");
        assert_ne!(other.0, first.0);
        // Beside each other, at all nodes at once.
        for round in 0..10 {
            let key = format!("round-{round}");
            let all =
                tokio::join!(asked(&bed, 0, &ci, &key), asked(&bed, 1, &ci, &key), asked(&bed, 2, &ci, &key));
            let mut ids = BTreeSet::new();
            for answer in [all.0, all.1, all.2] {
                match answer {
                    Ok((id, ..)) => drop(ids.insert(id)),
                    Err(code) => {
                        assert!(["request_in_progress", "name_moves"].contains(&code.as_str()), "{code}")
                    }
                }
            }
            assert_eq!(ids.len(), 1, "{key}: {ids:?}");
            let (id, name, _) = asked(&bed, round % 3, &ci, &key).await.expect("the same");
            assert!(ids.contains(&id), "{key}");
            bed.node("a").connect().await.destroy_branch(&name).await.expect("destroyed");
        }
        // The node that was asked dies, and another one has the branch.
        let mut at = bed.node("b").connect().await;
        for node in ["a", "c"] {
            at.drain_node(node, true).await.expect("so that it is made on b");
        }
        until("a sees it", async || bed.node("a").sees("c").await == "draining").await;
        let made = asked(&bed, 0, &ci, "two").await.expect("a branch on b");
        bed.node("a").kill().await;
        let again = asked(&bed, 2, &ci, "two").await.expect("the same");
        assert_eq!((&again.0, &again.1), (&made.0, &made.1));
        // The node that has it dies: another one is not made for as long as its name is kept.
        bed.node("a").program.start(&bed.network).expect("it starts");
        until("a is back", async || bed.node("c").sees("a").await == "draining").await;
        bed.node("b").program.kill().expect("it ends");
        until("b is gone", async || bed.node("c").sees("b").await == "unreachable").await;
        assert_eq!(asked(&bed, 2, &ci, "two").await.expect_err("its node is not there"), "node_unreachable");
        bed.node("b").program.start(&bed.network).expect("it starts");
        until("b is back", async || bed.node("c").sees("b").await == "ready").await;
        until("it is the same", async || {
            asked(&bed, 2, &ci, "two").await.is_ok_and(|again| again.0 == made.0 && again.1 == made.1)
        })
        .await;
        let mut at = bed.node("b").connect().await;
        for node in ["a", "c"] {
            at.drain_node(node, false).await.expect("no more");
        }
        for (name, _) in bed.held().await {
            at.destroy_branch(&name).await.expect("destroyed");
        }
        bed.settled().await;
        end(bed).await;
    });
}

async fn written(bed: &Bed) -> u64 {
    let mut writes = 0;
    for node in &bed.nodes {
        writes += node.view().await.expect("a view").writes;
    }
    writes
}

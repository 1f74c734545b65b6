//! Clocks of nodes that jump: hours forward and back, and over a time in which the machine was suspended.

use crate::bed::{end, until, within, Bed, Made};
use crate::lives::code;
use crate::support::{create, query};
use std::time::Duration;

async fn is_member(bed: &Bed) -> bool {
    bed.node("a").view().await.is_some_and(|view| view.standing == "member")
}

/// FL-2, FL-4: what time of day it is, is nothing to the fleet; and a machine that was suspended for longer than its lease gives no
/// name by it, from its first moment on.
#[test]
fn clocks_that_jump_give_no_name_and_cost_no_branch() {
    within(Made::default(), |bed| async move {
        let (a, b) = (bed.node("a"), bed.node("b"));
        let mut at = a.connect().await;
        for node in ["b", "c"] {
            at.drain_node(node, true).await.expect("so that all is made on a");
        }
        let kept = create(&mut at, "kept").await.expect("a branch");
        for wall_s in [5 * 3600, -5 * 3600, 0] {
            bed.jump(0, wall_s, 0);
            // Longer than a lease.
            tokio::time::sleep(Duration::from_secs(6)).await;
            assert!(is_member(&bed).await, "{wall_s}");
            assert_eq!(b.sees("a").await, "ready", "{wall_s}");
            assert_eq!(at.branch("kept").await.expect("it is there").id, kept.id, "{wall_s}");
            create(&mut at, "new").await.expect("a branch");
            at.destroy_branch("new").await.expect("destroyed");
        }
        // With etcd silent nothing but the clock can tell.
        bed.etcd.members().iter().for_each(|member| member.hold(true));
        bed.jump(0, 0, 3600);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let refused = code(create(&mut at, "new").await);
        assert_eq!(refused, "not_in_fleet", "FL-2: its lease is over since an hour");
        assert!(!is_member(&bed).await);
        query(&mut at, "kept", "SELECT 1").await.expect("FL-4: what is there goes on");
        bed.etcd.members().iter().for_each(|member| member.hold(false));
        until("it is back", async || is_member(&bed).await).await;
        create(&mut at, "new").await.expect("a branch");
        // With etcd there, it is registered anew, and keeps its names.
        bed.jump(0, 600, 7200);
        tokio::time::sleep(Duration::from_millis(50)).await;
        until("it is back again", async || is_member(&bed).await).await;
        until("all see it", async || b.sees("a").await == "ready").await;
        assert_eq!(at.branch("kept").await.expect("it is there").id, kept.id);
        for node in ["b", "c"] {
            at.drain_node(node, false).await.expect("no more");
        }
        bed.settled().await;
        // Leases of an hour are over once both clocks say so, and their names are free.
        bed.jump(0, 2 * 3600, 7200);
        until("they have ended", async || bed.held().await.is_empty()).await;
        bed.settled().await;
        end(bed).await;
    });
}

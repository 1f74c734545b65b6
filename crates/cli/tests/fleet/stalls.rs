//! A create that stops at each of its steps, for longer than its node's lease and the grace, or whose daemon is killed there: its
//! name is given to nobody twice, and nothing leaks (the table in `docs/design/fleet.md`).

use crate::bed::{end, until, within, Bed, Made};
use crate::support::create;
use duramen_client::ClientError;
use rustix::process::Signal;
use std::path::Path;

const PLACES: [&str; 4] = ["before claim", "after claim", "after journal", "before answer"];
const GRACE: &str = "4s";

/// What happens to the daemon at the step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Held,
    Killed,
}

/// Starts the daemon a anew, such that it stops at a step for as long as a file is there.
async fn stalling(bed: &mut Bed, place: &str, file: &Path) {
    bed.nodes[0].kill().await;
    let variables = [("DURAMEN_FLEET_STALL", format!("{place}={}", file.display()))];
    let program = bed.program(0, "a", &bed.nodes[0].home, GRACE, &variables);
    // Replaced, and not dropped before: that would end the servers of its branches.
    let old = std::mem::replace(&mut bed.nodes[0].program, program);
    std::mem::forget(old);
    bed.nodes[0].program.start(&bed.network).expect("it starts");
    bed.nodes[0].connect().await;
    until("it is a member", async || bed.nodes[0].view().await.is_some_and(|view| view.standing == "member"))
        .await;
}

async fn stall(bed: &mut Bed, place: &str, fate: Fate) {
    let name = format!("s-{}-{fate:?}", place.replace(' ', "-")).to_lowercase();
    let file = bed.dir.path().join(format!("{name}.stall"));
    stalling(bed, place, &file).await;
    let (a, b) = (&bed.nodes[0], &bed.nodes[1]);
    let mut at_b = b.connect().await;
    // So that the create stays on a.
    for node in ["b", "c"] {
        at_b.drain_node(node, true).await.expect("it drains");
    }
    std::fs::write(&file, "").expect("the file");
    let mut asked = tokio::spawn({
        let (client, name) = (a.client().with_deadline(std::time::Duration::from_secs(90)), name.clone());
        async move { create(&mut client.connect().await?, &name).await }
    });
    until("it is there", async || {
        if asked.is_finished() {
            panic!("it did not get there: {place}, {fate:?}: {:?}", (&mut asked).await);
        }
        file.with_extension("there").exists()
    })
    .await;
    for node in ["b", "c"] {
        at_b.drain_node(node, false).await.expect("it drains no more");
    }
    match fate {
        Fate::Held => a.signal(Signal::STOP),
        Fate::Killed => a.kill().await,
    }
    // Until the grace is over it is refused; before the claim it is free at once.
    let mut taken = None;
    until("another node gives the name", async || {
        match create(&mut at_b, &name).await {
            Ok(branch) => taken = Some(branch),
            Err(ClientError::Refused { body, .. }) => {
                assert!(["node_unreachable", "node_lost"].contains(&body.code.as_str()), "{place}: {body:?}");
            }
            Err(error) => eprintln!("{place}: {error}"),
        }
        taken.is_some()
    })
    .await;
    let taken = taken.expect("it was given");
    std::fs::remove_file(&file).expect("the file");
    match fate {
        Fate::Held => a.signal(Signal::CONT),
        Fate::Killed => a.program.start(&bed.network).expect("it starts"),
    }
    let answer = asked.await.expect("the task");
    eprintln!(
        "{place}, {fate:?}: {}",
        match &answer {
            Ok(branch) => format!("answered late with {}", branch.id),
            Err(error) => format!("refused: {error}"),
        }
    );
    // Once the branch is confirmed, and only then, the answer is on its way and cannot be taken back. Whoever had not claimed it yet is told of
    // the branch that has the name by now.
    let fits = match &answer {
        Ok(branch) => place == "before answer" || (branch.id == taken.id && branch.existing),
        Err(_) => true,
    };
    assert!(fits, "FL-1: {place}, {fate:?}: {answer:?}");
    a.connect().await;
    until("it is back", async || b.sees("a").await == "ready").await;
    bed.settled().await;
    for node in &bed.nodes {
        let found = node.connect().await.branch(&name).await.expect("it is there");
        assert_eq!(found.id, taken.id, "FL-1: {place}, {fate:?}, at {}", node.name);
    }
    for (name, _) in bed.held().await {
        at_b.destroy_branch(&name).await.expect("destroyed");
    }
    bed.settled().await;
}

#[test]
fn a_create_that_stops_at_any_step_gives_no_name_twice() {
    within(Made { grace: GRACE, hot: 2, ..Made::default() }, |mut bed| async move {
        for place in PLACES {
            for fate in [Fate::Held, Fate::Killed] {
                stall(&mut bed, place, fate).await;
            }
        }
        end(bed).await;
    });
}

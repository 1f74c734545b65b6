//! A source on several nodes: its copies come, are verified, and go on when nodes die (FL-14 to FL-20).

use crate::bed::{end, until, within, Bed, Made};
use crate::lives::code;
use crate::support::{create, entries, query};
use duramen_api::model::{ChangeSettings, Policy};
use duramen_base::clock;
use serde_json::json;
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Duration,
};

const SQL: &str = "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (0, 'first');";

async fn set_replicas(bed: &Bed, node: &str, replicas: u32) {
    let change = ChangeSettings { replicas: Some(replicas), ..ChangeSettings::default() };
    bed.node(node).connect().await.change_settings("app", &change).await.expect("settings");
}

async fn digest(bed: &Bed, node: &str) -> (u32, String) {
    let source = bed.node(node).connect().await.source("app").await.expect("the source");
    (source.generation, source.digest)
}

/// Drains all nodes but one, so that a create is made there; or ends that.
async fn only(bed: &Bed, node: &str, drains: bool) {
    let mut at = bed.node(node).connect().await;
    for other in bed.nodes.iter().filter(|other| other.name != node) {
        at.drain_node(other.name, drains).await.expect("it drains");
    }
}

/// The audit log's entries of an event, of a node.
async fn audited(bed: &Bed, node: &str, event: &str) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    for name in entries(&bed.node(node).root().join("audit")) {
        let text =
            std::fs::read_to_string(bed.node(node).root().join("audit").join(name)).unwrap_or_default();
        let json = |line: &str| serde_json::from_str::<serde_json::Value>(&line[line.find('{')?..]).ok();
        let lines = text.lines().filter_map(json);
        found.extend(lines.filter(|line| line["event"] == event));
    }
    found
}

fn volumes(bed: &Bed, node: &str, kind: &str) -> Vec<String> {
    entries(&bed.node(node).root().join("volumes").join(kind)).into_iter().collect()
}

/// Starts a daemon anew with a variable.
async fn restart(bed: &mut Bed, number: usize, grace: &str, variables: &[(&str, String)]) {
    let name = bed.nodes[number].name;
    bed.nodes[number].kill().await;
    let program = bed.program(number, name, &bed.nodes[number].home, grace, variables);
    // Replaced, and not dropped before: that would end the servers of its branches.
    let old = std::mem::replace(&mut bed.nodes[number].program, program);
    std::mem::forget(old);
    bed.nodes[number].program.start(&bed.network).expect("it starts");
    bed.nodes[number].connect().await;
    until("it is a member", async || {
        bed.nodes[number].view().await.is_some_and(|view| view.standing == "member")
    })
    .await;
}

/// FL-16, FL-17, FL-20: the second copy comes by itself, has the digest of the first, and branches are made of it; new generations and
/// settings reach it; with its first node dead, creates go on; the place of a lost node is given to another.
#[test]
fn a_source_with_two_replicas_outlives_its_node() {
    within(Made { replicas: 2, grace: "8s", ..Made::default() }, |bed| async move {
        let begin = clock::now();
        until("two have it", async || bed.holders("a").await.len() == 2).await;
        eprintln!("a second copy after the bed was ready: {} ms", begin.elapsed().as_millis());
        let holders = bed.holders("a").await;
        let (other, third) = if holders[1] == "b" { ("b", "c") } else { ("c", "b") };
        assert_eq!(digest(&bed, "a").await, digest(&bed, other).await);
        let mut at = bed.node(other).connect().await;
        let verified = at.verify_source("app").await.expect("its files are read");
        assert!(verified.intact, "{verified:?}");
        assert_eq!(code(bed.node(third).connect().await.source("app").await), "unknown_source");
        let listed = bed.node(third).home.run(&["source", "list"]);
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        eprintln!("{text}");
        assert!(text.contains("OF THE FLEET") && text.contains(&format!("a, {other}")), "{text}");
        only(&bed, other, true).await;
        let made = create(&mut at, "on-copy").await.expect("a branch of the copy");
        assert_eq!(made.generation, 1);
        assert!(bed.held().await["on-copy"].0 == other);
        assert_eq!(query(&mut at, "on-copy", "SELECT note FROM t").await.unwrap(), json!([["first"]]));
        only(&bed, other, false).await;

        // What is made of it is made by its keeper.
        assert_eq!(code(at.refresh_source("app", |_, _| {}).await), "source_is_a_copy");
        let more = ChangeSettings { hot: [(Policy::ReadWrite, 2)].into(), ..ChangeSettings::default() };
        assert_eq!(code(at.change_settings("app", &more).await), "source_is_a_copy");
        assert_eq!(code(at.remove_source("app").await), "source_is_a_copy");
        let mut at_a = bed.node("a").connect().await;
        at_a.change_settings("app", &more).await.expect("settings");
        let begin = clock::now();
        at_a.refresh_source("app", |_, _| {}).await.expect("the next generation");
        let refreshed = begin.elapsed();
        until("the copy has the next generation", async || digest(&bed, other).await.0 == 2).await;
        eprintln!(
            "a refresh took {} ms, and the copy had it {} ms after it began",
            refreshed.as_millis(),
            begin.elapsed().as_millis()
        );
        assert_eq!(digest(&bed, "a").await, digest(&bed, other).await);
        until("its pool is of it", async || {
            let source = at.source("app").await.unwrap();
            source.settings.pool.hot == more.hot && source.branches_by_generation.get(&2) == Some(&2)
        })
        .await;

        // FL-20.
        bed.node("a").kill().await;
        let killed = clock::now();
        let mut at_third = bed.node(third).connect().await;
        let (mut made, mut refused, mut last) = (0, Vec::new(), Duration::ZERO);
        while killed.elapsed() < Duration::from_secs(12) {
            match create(&mut at_third, "after").await {
                Ok(branch) => {
                    made += 1;
                    assert_eq!(branch.generation, 2);
                    at_third.destroy_branch("after").await.expect("destroyed");
                }
                Err(error) => {
                    last = killed.elapsed();
                    refused.push(error.to_string());
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        eprintln!(
            "after a node with a source was killed: {made} creates, {} refused, the last {} ms after the kill",
            refused.len(),
            last.as_millis()
        );
        refused.dedup();
        eprintln!("{refused:?}");
        assert!(made > 0 && last < Duration::from_secs(10), "{last:?}");
        // FL-16: after its grace, and not before, one node more has it.
        until("the third has it, too", async || bed.holders(other).await.contains(&third.to_owned())).await;
        eprintln!("one node more had it {} ms after the kill", killed.elapsed().as_millis());
        assert_eq!(digest(&bed, third).await, digest(&bed, other).await);

        // FL-16, FL-19: it comes back with what it has, its place is its own, and what another one had meanwhile is left there.
        bed.node("a").program.start(&bed.network).expect("it starts");
        bed.node("a").connect().await;
        until("it is there", async || bed.node(other).sees("a").await == "ready").await;
        until("what it has is seen", async || {
            bed.source(other).await.is_some_and(|source| {
                source
                    .copies
                    .iter()
                    .any(|copy| copy.node == third && copy.state == "extra" && copy.generation == Some(2))
            })
        })
        .await;
        until("its keeper holds it", async || bed.holders(other).await == ["a", other]).await;
        let source = bed.source(other).await.expect("the source");
        assert_eq!((source.copies.len(), source.keeper.as_str()), (3, "a"), "{source:?}");
        at_third.destroy_branch("on-copy").await.expect("destroyed");
        bed.settled().await;
        // Removed by its keeper it is gone everywhere, and its name is free.
        bed.node("a").connect().await.remove_source("app").await.expect("removed");
        until("nobody has it", async || {
            let mut there = 0;
            for node in &bed.nodes {
                there += node.connect().await.sources().await.unwrap().len();
            }
            there == 0 && bed.source(other).await.is_none()
        })
        .await;
        bed.add(third, SQL, 1, 1).await.expect("another source of that name");
        until("it is there", async || bed.holders(third).await == [third]).await;
        end(bed).await;
    });
}

/// FL-17: whoever dies while a copy comes, nothing half of it is served, and it comes.
#[test]
fn a_copy_comes_whichever_side_is_killed() {
    within(Made { replicas: 1, hot: 1, ..Made::default() }, |mut bed| async move {
        let file = bed.dir.path().join("copy.stall");
        let stalled = [("DURAMEN_FLEET_STALL", format!("while receiving={}", file.display()))];
        // Only b has room, as far as places are concerned.
        bed.node("a").connect().await.drain_node("c", true).await.expect("it drains");
        restart(&mut bed, 1, "10m", &stalled).await;
        std::fs::write(&file, "").expect("the file");
        set_replicas(&bed, "a", 2).await;
        until("b receives", async || {
            file.with_extension("there").exists() && !volumes(&bed, "b", "imports").is_empty()
        })
        .await;
        assert_eq!(volumes(&bed, "b", "snapshots"), Vec::<String>::new());
        assert_eq!(code(bed.node("b").connect().await.source("app").await), "unknown_source");
        assert_eq!(bed.source("a").await.expect("the source").copies[1].state, "wanted");
        // The receiver dies.
        bed.node("b").kill().await;
        std::fs::remove_file(&file).expect("the file");
        std::fs::remove_file(file.with_extension("there")).expect("the other");
        assert!(!volumes(&bed, "b", "imports").is_empty(), "half of a copy is left on the disk");
        bed.node("b").program.start(&bed.network).expect("it starts");
        bed.node("b").connect().await;
        until("b has it", async || bed.holders("a").await == ["a", "b"]).await;
        assert_eq!(digest(&bed, "a").await, digest(&bed, "b").await);
        assert_eq!(volumes(&bed, "b", "imports"), Vec::<String>::new());

        // The sender dies: it is taken from the other one.
        bed.node("a").connect().await.drain_node("c", false).await.expect("it drains no more");
        restart(&mut bed, 2, "10m", &stalled).await;
        std::fs::write(&file, "").expect("the file");
        set_replicas(&bed, "a", 3).await;
        until("c receives", async || {
            file.with_extension("there").exists() && !volumes(&bed, "c", "imports").is_empty()
        })
        .await;
        bed.node("a").kill().await;
        std::fs::remove_file(&file).expect("the file");
        until("c has it", async || bed.holders("b").await.contains(&"c".to_owned())).await;
        assert_eq!(digest(&bed, "c").await, digest(&bed, "b").await);
        let copied = audited(&bed, "c", "copied").await;
        let refused = audited(&bed, "c", "copy_refused").await;
        eprintln!("the sender was killed: {refused:?}, then {copied:?}");
        assert_eq!(copied[0]["from"], "b", "{copied:?}");
        assert_eq!(volumes(&bed, "c", "imports"), Vec::<String>::new());
        create(&mut bed.node("c").connect().await, "x").await.expect("a branch");
        bed.node("c").connect().await.destroy_branch("x").await.expect("destroyed");
        bed.node("a").program.start(&bed.network).expect("it starts");
        bed.node("a").connect().await;
        end(bed).await;
    });
}

/// A file of a table below a snapshot, which is not small.
fn some_file(snapshot: &Path) -> PathBuf {
    let mut files = Vec::new();
    let mut dirs = vec![snapshot.join("base")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a list").flatten() {
            match entry.file_type().expect("a kind").is_dir() {
                true => dirs.push(entry.path()),
                false => files.push((entry.metadata().expect("a length").len(), entry.path())),
            }
        }
    }
    files.into_iter().max().expect("files").1
}

/// Turns one bit of a file over, in its middle.
fn turn_over(path: &Path) {
    let mut file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let place = SeekFrom::Start(file.metadata().expect("a length").len() / 2);
    let mut byte = [0];
    file.seek(place).and_then(|_| file.read_exact(&mut byte)).expect("a byte");
    byte[0] ^= 1;
    file.seek(place).and_then(|_| file.write_all(&byte)).expect("another");
}

/// FL-17: what has another digest is thrown away, and the audit log says so; FL-16: a node without room refuses, and says so.
#[test]
fn what_is_damaged_or_has_no_room_is_refused_and_said() {
    within(Made { nodes: 2, replicas: 0, ..Made::default() }, |mut bed| async move {
        // Plain copies, so that a snapshot can be damaged behind the daemon's back.
        let home = crate::support::Home::new();
        duramen_fleet::authority::certify(&bed.dir.path().join("ca"), "c", &home.path().join("fleet"))
            .expect("a certificate");
        let program = bed.program(0, "c", &home, "10m", &[]).arguments(["--volumes", "copy"]);
        bed.node("a").client().connect().await.unwrap().shutdown().await.expect("it stops");
        until("it has stopped", async || !bed.nodes[0].program.is_running()).await;
        bed.nodes[0] = crate::bed::Node { name: "c", program, home };
        bed.nodes[0].program.start(&bed.network).expect("it starts");
        bed.node("c").connect().await;
        until("it is a member", async || {
            bed.node("c").view().await.is_some_and(|view| view.standing == "member")
        })
        .await;
        let added = bed.add("c", SQL, 1, 1).await.expect("the import");
        let damaged = some_file(&bed.node("c").root().join("volumes/snapshots/app.000001"));
        turn_over(&damaged);
        set_replicas(&bed, "c", 2).await;
        until("it is refused", async || !audited(&bed, "b", "copy_refused").await.is_empty()).await;
        let refused = audited(&bed, "b", "copy_refused").await;
        eprintln!("damaged: {}", refused[0]);
        assert_eq!(refused[0]["code"], "copy_damaged");
        assert_eq!(code(bed.node("b").connect().await.source("app").await), "unknown_source");
        assert_eq!(volumes(&bed, "b", "snapshots"), Vec::<String>::new());
        until("the list says so", async || {
            let source = bed.source("c").await.expect("the source");
            source.copies.iter().any(|copy| {
                copy.node == "b"
                    && copy.state == "wanted"
                    && copy.problem.as_ref().is_some_and(|it| it.contains("digest"))
            })
        })
        .await;

        // No room either: it is not even begun.
        let filler = bed.node("b").root().join("volumes/filler");
        let mut full = File::create(&filler).expect("a file");
        let block = vec![7_u8; 8 << 20];
        while duramen_postgres::volume::free_bytes(filler.parent().unwrap()).unwrap() > 64 << 20 {
            if full.write_all(&block).is_err() {
                break;
            }
        }
        full.sync_all().expect("it is there");
        turn_over(&damaged);
        until("that is said", async || {
            let source = bed.source("c").await.expect("the source");
            let said = source
                .copies
                .iter()
                .filter_map(|copy| copy.problem.as_deref())
                .chain(source.problem.as_deref());
            let said: Vec<&str> = said.collect();
            let is_said = said.iter().any(|it| it.contains("MiB are free"));
            if is_said {
                eprintln!("no room: {said:?}");
            }
            is_said
        })
        .await;
        assert_eq!(volumes(&bed, "b", "imports"), Vec::<String>::new());
        drop(full);
        std::fs::remove_file(&filler).expect("room");
        until("it comes", async || bed.holders("c").await == ["b", "c"]).await;
        assert_eq!(digest(&bed, "b").await, (1, added.digest));
        end(bed).await;
    });
}

/// FL-14: of two sources that are added under one name at the same moment one is the fleet's, and the other is refused and told why. What a
/// home had before is left its own, and serves nobody under a name that the fleet gave to another source (FL-15).
#[test]
fn one_name_is_one_source() {
    within(Made { replicas: 0, ..Made::default() }, |bed| async move {
        let other = "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (0, 'other');";
        for round in 0..3 {
            let (one, two) = tokio::join!(bed.add("a", SQL, 1, 1), bed.add("b", other, 1, 1));
            let (kept, note, refused) = match (one, two) {
                (Ok(_), refused @ Err(_)) => ("a", "first", refused),
                (refused @ Err(_), Ok(_)) => ("b", "other", refused),
                both => panic!("FL-14: {both:?}"),
            };
            if let Err(error) = &refused {
                eprintln!("round {round}: {kept} has it; {error}");
                assert!(error.to_string().contains(&format!("{kept} keeps it")), "{error}");
            }
            assert_eq!(code(refused), "source_exists");
            let lost = if kept == "a" { "b" } else { "a" };
            assert_eq!(code(bed.node(lost).connect().await.source("app").await), "unknown_source");
            let mut at = bed.node("c").connect().await;
            until("all see it", async || bed.holders("c").await == [kept]).await;
            until("a branch is made of it", async || create(&mut at, "x").await.is_ok()).await;
            assert_eq!(query(&mut at, "x", "SELECT note FROM t").await.unwrap(), json!([[note]]));
            at.destroy_branch("x").await.expect("destroyed");
            bed.node(kept).connect().await.remove_source("app").await.expect("removed");
        }

        // FL-19: with etcd emptied, the keeper defines it again, and its copies serve as before.
        bed.add("a", SQL, 1, 2).await.expect("the import");
        until("two have it", async || bed.holders("a").await.len() == 2).await;
        let before = bed.source("a").await.expect("the source");
        bed.etcd.put("/duramen/test/v1/sources/app", None).await.expect("it is gone");
        until("it is defined again", async || {
            bed.source("c")
                .await
                .is_some_and(|now| (now.id, now.digest) == (before.id.clone(), before.digest.clone()))
        })
        .await;
        until("two have it", async || bed.holders("c").await.len() >= 2).await;
        create(&mut bed.node("c").connect().await, "y").await.expect("a branch");
        bed.node("c").connect().await.destroy_branch("y").await.expect("destroyed");
        end(bed).await;
    });
}

/// FL-17: a receiver that is killed at any moment, again and again, never serves half of a copy, and leaves nothing of it.
#[test]
fn a_receiver_that_is_killed_anywhere_serves_all_or_nothing() {
    const ROUNDS: u64 = 8;
    within(Made { nodes: 2, replicas: 1, hot: 1, ..Made::default() }, |bed| async move {
        let whole = digest(&bed, "a").await;
        let b = bed.node("b");
        let mut served = 0;
        for round in 0..ROUNDS {
            set_replicas(&bed, "a", 2).await;
            // From before it has begun to after it has come.
            tokio::time::sleep(Duration::from_millis(150 + round * 250)).await;
            b.kill().await;
            let is_recorded = b.root().join("sources/app/source.json").exists();
            b.program.start(&bed.network).expect("it starts");
            let mut at = b.connect().await;
            if let Ok(source) = at.source("app").await {
                assert!(is_recorded, "what is served was written down");
                assert_eq!((source.generation, source.digest), whole);
                served += 1;
            }
            until("it comes", async || bed.holders("a").await == ["a", "b"]).await;
            let verified = b.connect().await.verify_source("app").await.expect("its files are read");
            assert!(verified.intact, "round {round}: {verified:?}");
            assert_eq!(digest(&bed, "b").await, whole);
            assert_eq!(volumes(&bed, "b", "imports"), Vec::<String>::new(), "round {round}");
            assert_eq!(volumes(&bed, "b", "snapshots"), ["app.000001"]);
            // FL-19: with fewer places nothing is removed, until somebody asks for that there.
            set_replicas(&bed, "a", 1).await;
            until("it is extra", async || {
                let copies = bed.source("b").await.expect("the source").copies;
                copies.iter().any(|copy| copy.node == "b" && copy.state == "extra")
            })
            .await;
            until("it is removed", async || b.connect().await.remove_source("app").await.is_ok()).await;
            until("a sees that", async || bed.source("a").await.expect("the source").copies.len() == 1).await;
        }
        eprintln!("killed {ROUNDS} times while a copy came: {served} times all of it was there");
        end(bed).await;
    });
}

/// FL-15, FL-19: what a home had before it joined stays its own; it serves nobody under a name that is another source's in the fleet; it can
/// be given to the fleet.
#[test]
fn what_a_home_had_before_is_its_own_until_it_is_given() {
    let own = "CREATE TABLE t (id bigint PRIMARY KEY, note text); INSERT INTO t VALUES (0, 'own');";
    within(Made { nodes: 2, replicas: 0, ..Made::default() }, |bed| async move {
        let b = bed.node("b");
        let stopped = async || {
            b.client().connect().await.expect("it answers").shutdown().await.expect("it stops");
            until("it has stopped", async || !b.program.is_running()).await;
        };
        stopped().await;
        {
            let daemon = b.home.serve_within("2G").await;
            let mut connection = crate::support::connect(&daemon).await;
            crate::support::add_script(&b.home, &mut connection, own, 1, 1).await;
            let change = ChangeSettings { replicas: Some(2), ..ChangeSettings::default() };
            assert_eq!(code(connection.change_settings("app", &change).await), "no_fleet");
            connection.shutdown().await.expect("it stops");
            until("it has stopped", async || b.client().connect().await.is_err()).await;
        }
        b.program.start(&bed.network).expect("it starts");
        let mut at_b = b.connect().await;
        let member = async || b.view().await.is_some_and(|view| view.standing == "member");
        until("it is a member", member).await;
        assert_eq!(bed.source("a").await, None, "nothing is told that nobody asked to tell");
        // By its name it is found from anywhere, as before there were definitions.
        let mut at_a = bed.node("a").connect().await;
        until("it is branched", async || create(&mut at_a, "x").await.is_ok()).await;
        assert_eq!(query(&mut at_a, "x", "SELECT note FROM t").await.unwrap(), json!([["own"]]));
        // Two sources of one name are refused, although one is not the fleet's.
        until("b says what it has", async || {
            bed.node("a")
                .view()
                .await
                .is_some_and(|view| view.nodes.iter().any(|node| node.name == "b" && node.sources == ["app"]))
        })
        .await;
        assert_eq!(code(bed.add("a", SQL, 1, 1).await), "source_exists");

        // Given to the fleet it is on both.
        set_replicas(&bed, "b", 2).await;
        until("both have it", async || bed.holders("a").await == ["a", "b"]).await;
        assert_eq!(digest(&bed, "a").await, digest(&bed, "b").await);
        assert_eq!(bed.source("a").await.expect("the source").keeper, "b");
        at_a.destroy_branch("x").await.expect("destroyed");
        at_b.remove_source("app").await.expect("removed");
        until("nobody has it", async || {
            at_a.sources().await.unwrap().is_empty() && at_b.sources().await.unwrap().is_empty()
        })
        .await;

        // The name is given while b is away, with a source of its own that has it.
        stopped().await;
        {
            let daemon = b.home.serve_within("2G").await;
            let mut connection = crate::support::connect(&daemon).await;
            crate::support::add_script(&b.home, &mut connection, own, 1, 1).await;
            create(&mut connection, "kept").await.expect("a branch of it");
            connection.shutdown().await.expect("it stops");
            until("it has stopped", async || b.client().connect().await.is_err()).await;
        }
        until("b is seen to be away", async || bed.node("a").sees("b").await == "unreachable").await;
        bed.add("a", SQL, 2, 1).await.expect("the fleet's");
        b.program.start(&bed.network).expect("it starts");
        let mut at_b = b.connect().await;
        until("it is a member", member).await;
        for name in ["y", "z"] {
            until("a branch is made", async || create(&mut at_b, name).await.is_ok()).await;
            assert_eq!(
                query(&mut at_b, name, "SELECT note FROM t").await.unwrap(),
                json!([["first"]]),
                "FL-15"
            );
        }
        assert_eq!(query(&mut at_b, "kept", "SELECT note FROM t").await.unwrap(), json!([["own"]]), "FL-19");
        let seen = bed.source("b").await.expect("the source");
        assert!(seen.copies.iter().any(|copy| copy.node == "b" && copy.state == "other"), "{seen:?}");
        // With the fleet's away, b makes no branches of its own one in its place.
        bed.node("a").kill().await;
        until("a is seen to be away", async || b.sees("a").await == "unreachable").await;
        assert_eq!(code(create(&mut at_b, "w").await), "source_withheld");
        bed.node("a").program.start(&bed.network).expect("it starts");
        bed.node("a").connect().await;
        end(bed).await;
    });
}

/// FL-10, FL-18, FL-19: what comes to a node on connections for copies that is not a node's question is answered with nothing, and what is
/// asked for without being anybody's to ask is refused.
#[test]
fn hostile_questions_on_connections_for_copies_are_refused() {
    within(Made { nodes: 2, replicas: 2, ..Made::default() }, |bed| async move {
        use crate::attacks::{address, ask_by};
        let (ca, good) = (bed.dir.path().join("ca"), bed.dir.path().join("good"));
        let gone = bed.dir.path().join("gone");
        duramen_fleet::authority::certify(&ca, "b", &good).expect("a certificate");
        duramen_fleet::authority::certify(&ca, "gone", &gone).expect("a certificate");
        let id = bed.source("a").await.expect("the source").id;
        let framed = |text: &str| {
            let mut bytes = u32::try_from(text.len()).expect("a length").to_be_bytes().to_vec();
            bytes.extend(text.as_bytes());
            bytes
        };
        let fetch = |generation: u32, digest: &str| {
            framed(&json!({ "Fetch": { "source": "app", "id": id, "generation": generation, "digest": digest } }).to_string())
        };
        let at_a = address(&bed, 0);
        let asked = async |certificates: &Path, shown: &str, bytes: &[u8]| {
            ask_by(b"duramen-copy/1", (at_a, "a"), (certificates, shown), bytes).await
        };
        let whole = digest(&bed, "a").await.1;
        // A certificate of the authority is not enough (FL-10).
        assert_eq!(asked(&gone, "gone", &fetch(1, &whole)).await, None);
        for (bytes, said) in [
            (fetch(2, &whole), Some("no_such_generation")),
            (fetch(1, "other"), Some("no_such_generation")),
            (
                framed(
                    &json!({ "Fetch": { "source": "../app", "id": id, "generation": 1, "digest": whole } })
                        .to_string(),
                ),
                Some("unknown_source"),
            ),
            // b is not its keeper, and etcd has it still.
            (framed(&json!({ "Drop": { "source": "app", "id": id } }).to_string()), Some("source_is_a_copy")),
            (framed("{}"), None),
            (framed("\u{fffd}"), None),
            (u32::MAX.to_be_bytes().to_vec(), None),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), None),
        ] {
            let answer = asked(&good, "b", &bytes).await;
            let is_so = match (&answer, said) {
                (Some(answer), Some(said)) => answer.contains(said),
                (answer, None) => answer.is_none(),
                (None, Some(_)) => false,
            };
            assert!(is_so, "{:?}: {answer:?}", String::from_utf8_lossy(&bytes));
        }
        // The keeper itself ends no copy of a source that etcd has still (FL-19).
        let keepers = bed.dir.path().join("keeper");
        duramen_fleet::authority::certify(&ca, "a", &keepers).expect("a certificate");
        let drop = framed(&json!({ "Drop": { "source": "app", "id": id } }).to_string());
        let answer = ask_by(b"duramen-copy/1", (address(&bed, 1), "b"), (&keepers, "a"), &drop).await;
        assert!(answer.as_ref().is_some_and(|it| it.contains("source_is_a_copy")), "{answer:?}");
        assert_eq!(bed.holders("a").await, ["a", "b"]);
        end(bed).await;
    });
}

/// FL-16: a source with one replica leaves its machine neither while that is away nor after. FL-19: what is left of a record that cannot be
/// read is not written over by a copy of the source. Once its keeper was forgotten, a source is removed by whoever is left; and the keeper
/// that comes back all the same has what it had.
#[test]
fn a_keeper_keeps_its_place_and_its_record() {
    within(Made { nodes: 2, replicas: 1, hot: 1, grace: "3s" }, |bed| async move {
        let (a, b) = (bed.node("a"), bed.node("b"));
        a.kill().await;
        until("a is lost", async || b.sees("a").await == "lost").await;
        // As long as it takes others to take a place, and more.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let copies = bed.source("b").await.expect("the source").copies;
        assert!(copies.len() == 1 && copies[0].node == "a", "{copies:?}");
        a.program.start(&bed.network).expect("it starts");
        a.connect().await;
        until("a holds it", async || bed.holders("b").await == ["a"]).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(volumes(&bed, "b", "snapshots"), Vec::<String>::new());

        set_replicas(&bed, "a", 2).await;
        until("both have it", async || bed.holders("a").await == ["a", "b"]).await;
        let before = digest(&bed, "a").await;
        a.kill().await;
        let path = a.root().join("sources/app/source.json");
        let record = std::fs::read(&path).expect("the record");
        std::fs::write(&path, "{").expect("damage");
        a.program.start(&bed.network).expect("it starts");
        let mut at_a = a.connect().await;
        until("it is a member", async || b.sees("a").await == "ready").await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(std::fs::read(&path).expect("the record"), b"{", "FL-19");
        assert_eq!(code(at_a.source("app").await), "unknown_source");
        assert_eq!(digest(&bed, "b").await, before);
        a.kill().await;
        std::fs::write(&path, record).expect("it is mended");
        a.program.start(&bed.network).expect("it starts");
        a.connect().await;
        until("both have it", async || bed.holders("b").await == ["a", "b"]).await;
        assert_eq!(digest(&bed, "a").await, before);

        a.kill().await;
        until("a is lost", async || b.sees("a").await == "lost").await;
        let mut at_b = b.connect().await;
        assert_eq!(code(at_b.remove_source("app").await), "source_is_a_copy");
        at_b.forget_node("a").await.expect("it is forgotten");
        until("it is removed", async || at_b.remove_source("app").await.is_ok()).await;
        until("its name is free", async || bed.source("b").await.is_none()).await;
        a.program.start(&bed.network).expect("it starts");
        a.connect().await;
        until("a defines it again", async || bed.holders("b").await.contains(&"a".to_owned())).await;
        assert_eq!(digest(&bed, "a").await, before);

        // An etcd that was put back to before a removal does not bring it back.
        let key = "/duramen/test/v1/sources/app";
        let (_, definition) = bed.etcd.below(key).await.expect("an answer").pop().expect("the definition");
        a.connect().await.remove_source("app").await.expect("it is removed");
        until("nobody has it", async || bed.source("b").await.is_none()).await;
        bed.etcd.put(key, Some(&definition)).await.expect("it is back");
        until("it is ended again", async || bed.etcd.below(key).await.is_ok_and(|all| all.is_empty())).await;
        end(bed).await;
    });
}

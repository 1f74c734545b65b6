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
        // FL-16: after its grace, and not before, its place is taken.
        until("the third has its place", async || bed.holders(other).await.contains(&third.to_owned())).await;
        eprintln!(
            "its place was taken, and the copy there, {} ms after the kill",
            killed.elapsed().as_millis()
        );
        assert_eq!(digest(&bed, third).await, digest(&bed, other).await);

        // FL-19: it comes back with what it has.
        bed.node("a").program.start(&bed.network).expect("it starts");
        bed.node("a").connect().await;
        until("it is there", async || bed.node(other).sees("a").await == "ready").await;
        until("what it has is seen", async || {
            bed.source(other).await.is_some_and(|source| {
                source
                    .copies
                    .iter()
                    .any(|copy| copy.node == "a" && copy.state == "extra" && copy.generation == Some(2))
            })
        })
        .await;
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

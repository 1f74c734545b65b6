//! X3: what is told is one state of the branch, however busy it is.

use crate::world::World;
use duramen_base::entropy;
use duramen_changes::{Part, Row};
use duramen_postgres::volume::Choice;
use std::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    Arc,
};

const SETUP: &str = "
create table accounts (id int primary key, amount bigint not null, filler text);
insert into accounts select i, 1000, repeat('x', 20) from generate_series(1, 20000) i;
create table moves (account int, by bigint);
";
const ROUNDS: u64 = 25;

/// Each transaction leaves the sum of all amounts as it is, and writes down what it moved.
async fn work(world: &World, number: u64, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let client = world.branch.client().await;
    let mut chance = entropy::rng(number);
    while !stop.load(Ordering::Acquire) {
        let (from, to, by) = (chance.u32(1..20_001), chance.u32(1..20_001), chance.u32(1..100));
        let sql = match chance.u32(0..40) {
            0 => "vacuum public.accounts".to_owned(),
            1 => "vacuum public.moves".to_owned(),
            2 => "checkpoint".to_owned(),
            _ if from == to => continue,
            _ => format!(
                "begin; update public.accounts set amount = amount - {by} where id = {}; \
                 update public.accounts set amount = amount + {by} where id = {}; \
                 insert into public.moves values ({from}, -{by}), ({to}, {by}); {}",
                from.min(to),
                from.max(to),
                if chance.u32(0..10) == 0 { "rollback" } else { "commit" }
            ),
        };
        // A vacuum may find its table held.
        if client.batch_execute(&sql).await.is_ok() {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn sum(values: Option<&Vec<Option<String>>>) -> i64 {
    values.map_or(0, |values| values[1].as_deref().unwrap().parse().unwrap())
}

async fn a_busy_branch_is_one_state(choice: Choice) {
    let world = World::new(choice, SETUP).await;
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let compare = async {
        let mut told = 0;
        for round in 0..ROUNDS {
            let (parts, _) = world.compare(&[], 1_000_000).await.unwrap();
            let mut table = String::new();
            let (mut accounts, mut moves, mut moved) = (0, 0, 0);
            for part in &parts {
                match part {
                    Part::Table(found) => table.clone_from(&found.name),
                    Part::Row(Row { old, new }) if table == "accounts" => {
                        accounts += sum(new.as_ref()) - sum(old.as_ref());
                        assert!(old.is_some() && new.is_some(), "round {round}: {old:?} -> {new:?}");
                    }
                    Part::Row(Row { old: None, new }) => {
                        moves += sum(new.as_ref());
                        moved += 1;
                    }
                    Part::Row(row) => panic!("round {round}: {row:?}"),
                    _ => {}
                }
            }
            assert_eq!((accounts, moves), (0, 0), "round {round}: half a transaction is told");
            assert!(moved >= told, "round {round}: what was told is forgotten");
            told = moved;
        }
        stop.store(true, Ordering::Release);
        told
    };
    let works = (0..2).map(|number| work(&world, number, Arc::clone(&stop), Arc::clone(&done)));
    let (told, _) = tokio::join!(compare, futures_util::future::join_all(works));
    assert!(
        told > 100 && done.load(Ordering::Relaxed) > 100,
        "{told} rows were told of a branch that was busy"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_branch_is_one_state_on_btrfs() {
    a_busy_branch_is_one_state(Choice::Btrfs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_branch_is_one_state_on_plain_copies() {
    a_busy_branch_is_one_state(Choice::Copy).await;
}

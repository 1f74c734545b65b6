//! Transactions at random on both sides, against a plain model in Rust: the merge gives the same rows, or the same conflicts.

use crate::support::{run, Server};
use duramen_base::entropy;
use duramen_carry::{Equal, MergeOptions, MergeOutcome, Reason, Strategy};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Client;

const SETUP: &str = "
create table keyed (id int primary key, a text, b text, c text, glued text generated always as (coalesce(a, '') || coalesce(b, '')) stored);
create table parted (id int not null, a text, b text, c text, primary key (id)) partition by range (id);
create table parted_low partition of parted for values from (0) to (2);
create table parted_high partition of parted for values from (2) to (1000);
create table plain (a text, b text);
alter table keyed alter c set storage external;
";
/// Ids of rows: few, so that both sides meet.
const IDS: i32 = 5;
const ROUNDS: usize = 6;
/// More, until there were some with conflicts and some without.
const ROUNDS_MAX: usize = 100;

type Cells = [Option<String>; 3];

/// What one database holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    tables: BTreeMap<(&'static str, i32), Cells>,
    plain: BTreeMap<(Option<String>, Option<String>), i64>,
}

fn literal(value: &Option<String>) -> String {
    value.as_ref().map_or_else(|| "null".to_owned(), |text| format!("'{text}'"))
}

fn value(random: &mut fastrand::Rng) -> Option<String> {
    match random.u8(0..8) {
        0 => None,
        // Beyond what fits into a page, so that it is stored elsewhere.
        1 => Some(format!("{}{}", random.u8(0..2), "long ".repeat(1000))),
        _ => Some(["x", "y", "z"][random.usize(0..3)].to_owned()),
    }
}

/// One statement, and what it does to the model.
fn statement(random: &mut fastrand::Rng, world: &mut World) -> String {
    let table = if random.bool() { "keyed" } else { "parted" };
    let id = random.i32(0..IDS);
    let column = random.usize(0..3);
    match random.u8(0..10) {
        0..=3 => {
            let new = value(random);
            if let Some(cells) = world.tables.get_mut(&(table, id)) {
                cells[column].clone_from(&new);
            }
            format!("update {table} set {} = {} where id = {id}", ["a", "b", "c"][column], literal(&new))
        }
        4 | 5 => {
            let cells: Cells = std::array::from_fn(|_| value(random));
            let values: Vec<String> = cells.iter().map(literal).collect();
            world.tables.entry((table, id)).or_insert(cells);
            format!("insert into {table} values ({id}, {}) on conflict do nothing", values.join(", "))
        }
        6 => {
            world.tables.remove(&(table, id));
            format!("delete from {table} where id = {id}")
        }
        7 => {
            let (a, b) = (value(random), value(random));
            let sql = format!("insert into plain values ({}, {})", literal(&a), literal(&b));
            *world.plain.entry((a, b)).or_default() += 1;
            sql
        }
        _ => {
            let all: Vec<_> = world.plain.keys().cloned().collect();
            let Some((a, b)) = random.choice(all) else { return "select".to_owned() };
            let same =
                format!("a is not distinct from {} and b is not distinct from {}", literal(&a), literal(&b));
            let count = world.plain.get_mut(&(a.clone(), b.clone())).unwrap();
            *count -= 1;
            if *count == 0 {
                world.plain.remove(&(a, b));
            }
            format!("delete from plain where ctid = (select min(ctid) from plain where {same})")
        }
    }
}

async fn read(client: &Client) -> World {
    let mut world = World::default();
    for table in ["keyed", "parted"] {
        for row in client.query(&format!("select id, a, b, c from {table}"), &[]).await.unwrap() {
            world.tables.insert((table, row.get(0)), [row.get(1), row.get(2), row.get(3)]);
        }
    }
    for row in client.query("select a, b, count(*) from plain group by 1, 2", &[]).await.unwrap() {
        world.plain.insert((row.get(0), row.get(1)), row.get(2));
    }
    world
}

/// What identifies a conflict.
type Named = (String, String, String);

/// The plain model: what is merged, and what is in the way.
fn merged(
    base: &World,
    ours: &World,
    theirs: &World,
    strategy: Strategy,
    equal: Equal,
) -> (World, BTreeSet<Named>) {
    let (mut result, mut clashes) = (World::default(), BTreeSet::new());
    let child_wins = strategy == Strategy::Theirs;
    let all: BTreeSet<_> =
        [base, ours, theirs].iter().flat_map(|world| world.tables.keys().copied()).collect();
    for name in all {
        let [b, o, t] = [base, ours, theirs].map(|world| world.tables.get(&name));
        let mut clash = |reason: Reason| {
            let table = match name {
                ("parted", id) if id < 2 => "parted_low",
                ("parted", _) => "parted_high",
                (table, _) => table,
            };
            clashes.insert((format!("{reason:?}"), table.to_owned(), name.1.to_string()));
        };
        let row = if t == b || t == o && (o.is_none() || b.is_none()) {
            o.cloned()
        } else if let (Some(b), Some(o), Some(t)) = (b, o, t) {
            let mut cells = o.clone();
            for i in 0..3 {
                if t[i] != b[i] && o[i] != b[i] {
                    match t[i] == o[i] {
                        true if equal == Equal::Agree => {}
                        true => clash(Reason::SameChange),
                        false => clash(Reason::Changed),
                    }
                }
                if t[i] != b[i] && (o[i] == b[i] || child_wins) {
                    cells[i].clone_from(&t[i]);
                }
            }
            Some(cells)
        } else if o == b {
            t.cloned()
        } else {
            clash(match (b, o, t) {
                (None, ..) => Reason::Inserted,
                (_, None, _) => Reason::DeletedByParent,
                _ => Reason::DeletedByChild,
            });
            if child_wins {
                t.cloned()
            } else {
                o.cloned()
            }
        };
        if let Some(row) = row {
            result.tables.insert(name, row);
        }
    }
    let all: BTreeSet<_> = [base, ours, theirs].iter().flat_map(|world| world.plain.keys()).collect();
    for values in all {
        let [b, o, t] = [base, ours, theirs].map(|world| world.plain.get(values).copied().unwrap_or(0));
        if o + t - b < 0 {
            clashes.insert((format!("{:?}", Reason::TooFew), "plain".to_owned(), format!("{values:?}")));
        }
        if o + t - b > 0 {
            result.plain.insert(values.clone(), o + t - b);
        }
    }
    (result, clashes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m2_what_both_sides_did_at_random_is_merged_as_the_model_says() {
    let seed = std::env::var("DURAMEN_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(entropy::seed);
    println!("DURAMEN_SEED={seed}");
    let mut random = entropy::rng(seed);
    let server = Server::start();
    let (mut clean, mut in_the_way) = (0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && clean > 0 && in_the_way > 0 {
            break;
        }
        let base_name = server.database(SETUP).await;
        let mut base = World::default();
        let client = server.connect(&base_name).await;
        let filling: Vec<String> = (0..80).map(|_| statement(&mut random, &mut base)).collect();
        run(&client, &filling.join(";")).await;
        drop(client);
        let [child_name, parent_name] = [server.copy(&base_name).await, server.copy(&base_name).await];
        let (mut child, mut parent) = (base.clone(), base.clone());
        for (name, world) in [(&child_name, &mut child), (&parent_name, &mut parent)] {
            let client = server.connect(name).await;
            for _ in 0..random.usize(1..1 + 6 * (1 + round % 2)) {
                let mut statements: Vec<String> = Vec::new();
                let mut after = world.clone();
                for _ in 0..random.usize(1..4) {
                    statements.push(statement(&mut random, &mut after));
                }
                let ends = if random.u8(0..5) == 0 { "rollback" } else { "commit" };
                if ends == "commit" {
                    *world = after;
                }
                run(&client, &format!("begin; {}; {ends}", statements.join("; "))).await;
            }
            assert_eq!(read(&client).await, *world, "the model is what the database does");
        }
        let equal = if random.bool() { Equal::Agree } else { Equal::Conflict };
        let set = server.change_set(&base_name, &child_name).await;
        let mut is_in_the_way = false;
        for strategy in [Strategy::Fail, Strategy::Ours, Strategy::Theirs] {
            let target = server.copy(&parent_name).await;
            let mut options = MergeOptions { strategy, equal, ..MergeOptions::default() };
            options.apply.dry_run = true;
            let tried = server.merge(&set, &target, &options).await;
            let tried = tried.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            let client = server.connect(&target).await;
            assert_eq!(
                read(&client).await,
                parent,
                "seed {seed}, round {round}: a dry run changed something"
            );
            options.apply.dry_run = false;
            let told = server.merge(&set, &target, &options).await;
            let told = told.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            assert_eq!(
                (&tried.conflicts, &tried.tables),
                (&told.conflicts, &told.tables),
                "seed {seed}, round {round}"
            );

            let (expected, clashes) = merged(&base, &parent, &child, strategy, equal);
            assert!(!told.more);
            let found: BTreeSet<Named> = told
                .conflicts
                .iter()
                .map(|it| {
                    let name = match it.reason {
                        Reason::TooFew => {
                            let of = |place: usize| it.key[place].1.clone();
                            format!("{:?}", (of(0), of(1)))
                        }
                        _ => it.key[0].1.clone().unwrap_or_default(),
                    };
                    (format!("{:?}", it.reason), it.table.clone(), name)
                })
                .collect();
            // Long values are cut off where they are told.
            let cut = |named: &Named| {
                (named.0.clone(), named.1.clone(), named.2.chars().take(40).collect::<String>())
            };
            assert_eq!(
                found.iter().map(cut).collect::<BTreeSet<_>>(),
                clashes.iter().map(cut).collect::<BTreeSet<_>>(),
                "seed {seed}, round {round}, {strategy:?}, {equal:?}"
            );
            let is_open = strategy == Strategy::Fail && !clashes.is_empty();
            assert_eq!(told.outcome == MergeOutcome::Conflicts, is_open, "seed {seed}, round {round}");
            let (left, what) = if is_open {
                (parent.clone(), "something was written")
            } else {
                (expected, "another result")
            };
            assert_eq!(
                read(&client).await,
                left,
                "seed {seed}, round {round}, {strategy:?}, {equal:?}: {what}"
            );
            is_in_the_way |= !clashes.is_empty();
            drop(client);
            run(&server.connect("postgres").await, &format!("drop database {target} with (force)")).await;
        }
        if is_in_the_way {
            in_the_way += 1;
        } else {
            clean += 1;
        }
        let admin = server.connect("postgres").await;
        for name in [base_name, child_name, parent_name] {
            run(&admin, &format!("drop database {name} with (force)")).await;
        }
    }
    assert!(clean > 0 && in_the_way > 0, "seed {seed}: {clean} without conflicts, {in_the_way} with some");
}

//! What is found by blocks is what a comparison of everything finds.

use crate::world::World;
use duramen_base::entropy;
use duramen_changes::{Compared, Only, Part, Row, Sequence};
use duramen_postgres::volume::Choice;
use futures_util::TryStreamExt;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
};
use tokio_postgres::Client;

const SETUP: &str = "
create type mood as enum ('sad', 'ok', 'happy');
create table keyed (id int primary key, a int, t text, j jsonb, m mood default 'ok', n numeric(12,4));
insert into keyed (id, a, t, j, n) select i, i % 100, 'text ' || i, jsonb_build_object('i', i), i / 7.0
  from generate_series(1, 20000) i;
create index on keyed (lower(t)) where a > 5;
create table plain (a int, t text);
insert into plain select i % 50, case when i % 9 = 0 then null else E'tab\\t \\\\ ' || i % 70 end from generate_series(1, 5000) i;
create table fat (id int primary key, big text);
alter table fat alter column big set storage external;
insert into fat select i, repeat(md5(i::text), 300) from generate_series(1, 300) i;
create table parted (id int not null, v text, primary key (id)) partition by range (id);
create table parted_1 partition of parted for values from (0) to (1000);
create table parted_2 partition of parted for values from (1000) to (100000);
insert into parted select i, 'p' || i from generate_series(1, 3000) i;
create table coded (code text not null unique, v numeric, extra text);
insert into coded select 'c' || i, i, null from generate_series(1, 2000) i;
create unlogged table loose (id int primary key, v int);
insert into loose select i, i from generate_series(1, 1000) i;
create table still (id int primary key, v text);
insert into still select i, 'still' from generate_series(1, 5000) i;
create table counted (id serial primary key, v text);
insert into counted (v) select 'v' from generate_series(1, 500);
create table swap_a (id int primary key, v text);
create table swap_b (id int primary key, v text);
insert into swap_a select i, 'a' from generate_series(1, 100) i;
insert into swap_b select i, 'b' from generate_series(1, 100) i;
create sequence alone;
";

/// What holders do; `{r}` is a number at random, and what fails changes nothing.
const WORK: &[&str] = &[
    "insert into keyed (id, a, t) select 100000 + {r} * 10 + i, i, 'new' from generate_series(1, 7) i on conflict do nothing",
    "update keyed set a = a + 1 where id % 997 = {r} % 997",
    "update keyed set t = t || '!' where id = {r}",
    "update keyed set j = j || '{\"more\": true}', m = 'happy', n = n + 1 where id between {r} and {r} + 3",
    "update keyed set id = id + 500000 where id = {r}",
    "delete from keyed where id between {r} and {r} + 5",
    "with gone as (delete from keyed where id % 501 = {r} % 501 returning *) insert into keyed select * from gone",
    "begin; update keyed set a = -1; rollback",
    "begin; savepoint s; delete from keyed where id < 50; rollback to s; update keyed set a = 7 where id = {r}; commit",
    "update plain set t = 'changed' where a = {r} % 50",
    "delete from plain where ctid in (select ctid from plain limit 3)",
    "insert into plain select a, t from plain where a = {r} % 50 limit 4",
    "update fat set big = big || {r} where id = {r} % 300",
    "update fat set big = null where id = {r} % 300",
    "delete from fat where id = {r} % 300",
    "insert into fat values ({r} + 1000, repeat('x{r}', 4000)) on conflict (id) do update set big = excluded.big",
    "update parted set id = id + 2000 where id = {r} % 1000",
    "update parted set v = v || '.' where id % 100 = {r} % 100",
    "update coded set v = v + 0.50 where code = 'c' || {r} % 2000",
    "update coded set code = code || 'x' where code = 'c' || {r} % 2000",
    "update loose set v = v + 1 where id = {r} % 1000",
    "select setval('alone', {r})",
    "insert into counted (v) values ('more')",
    "vacuum keyed", "vacuum plain", "vacuum fat", "vacuum parted", "analyze", "checkpoint",
    "select count(*) from keyed, fat",
];

/// What is rarer, and what blocks tell nothing of.
const UPHEAVAL: &[&str] = &[
    "vacuum (freeze) keyed",
    "vacuum full fat",
    "vacuum full plain",
    "cluster keyed using keyed_pkey",
    "begin; truncate plain; insert into plain select i, 'again' from generate_series(1, 100) i; commit",
    "truncate parted_1",
    "alter table keyed add column if not exists fresh int default 5",
    "alter table keyed drop column if exists fresh",
    "alter table coded drop column extra, add column extra text default 'x'",
    "alter table coded alter column v type numeric(20,3)",
    "alter type mood rename value 'ok' to 'fine'",
    "alter table swap_a rename to swap_c; alter table swap_b rename to swap_a; alter table swap_c rename to swap_b",
    "drop table if exists added; create table added as select i as id, 'n' as v from generate_series(1, {r} % 40 + 1) i",
    "drop table if exists still",
    "alter table plain set unlogged", "alter table plain set logged",
    "alter table coded drop constraint if exists coded_code_key",
    "create sequence if not exists another start 7",
    "delete from keyed where id > 15000; vacuum (truncate) keyed",
];

type Rows = Vec<Vec<Option<String>>>;

/// Columns and rows of every table, and where sequences stand, read plainly.
#[derive(Default)]
struct Everything {
    columns: BTreeMap<String, Vec<String>>,
    sequences: BTreeMap<String, (i64, bool)>,
}

async fn names(client: &Client) -> Everything {
    let mut all = Everything::default();
    let tables = client
        .query(
            "select c.relname::text, a.attname::text from pg_class c left join pg_attribute a on a.attrelid = c.oid \
             and a.attnum > 0 and not a.attisdropped where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace \
             order by 1, a.attnum",
            &[],
        )
        .await
        .unwrap();
    for row in tables {
        all.columns.entry(row.get(0)).or_default().push(row.get(1));
    }
    let sequences = client
        .query("select relname::text from pg_class where relkind = 'S' and relnamespace = 'public'::regnamespace", &[])
        .await
        .unwrap();
    for row in sequences {
        let name: String = row.get(0);
        let state =
            client.query_one(&format!("select last_value, is_called from public.{name}"), &[]).await.unwrap();
        all.sequences.insert(name, (state.get(0), state.get(1)));
    }
    all
}

async fn rows(client: &Client, table: &str, columns: &[String]) -> Rows {
    let sql = format!("copy public.{table} ({}) to stdout", columns.join(", "));
    let bytes: Vec<bytes::Bytes> = pin!(client.copy_out(&sql).await.unwrap()).try_collect().await.unwrap();
    let text = String::from_utf8(bytes.concat()).unwrap();
    let field = |field: &str| {
        (field != "\\N").then(|| field.replace("\\\\", "\u{1}").replace("\\t", "\t").replace('\u{1}', "\\"))
    };
    text.lines().map(|line| line.split('\t').map(field).collect()).collect()
}

/// Rows that differ, each as often as it does, without a thought for speed.
fn differing(old: Rows, new: Rows, key: &[usize]) -> Vec<Row> {
    let (mut old, mut new) = (old, new);
    old.sort();
    new.sort();
    let without = |all: &Rows, others: &Rows| -> Rows {
        let mut counts: BTreeMap<&Vec<Option<String>>, i64> = BTreeMap::new();
        others.iter().for_each(|row| *counts.entry(row).or_default() += 1);
        all.iter()
            .filter(|row| {
                let count = counts.entry(row).or_default();
                *count -= 1;
                *count < 0
            })
            .cloned()
            .collect()
    };
    let (gone, mut come) = (without(&old, &new), without(&new, &old));
    let mut found = Vec::new();
    for old in gone {
        let same_key =
            |new: &Vec<Option<String>>| !key.is_empty() && key.iter().all(|at| old[*at] == new[*at]);
        let new = come.iter().position(same_key).map(|at| come.remove(at));
        found.push(Row { old: Some(old), new });
    }
    found.extend(come.into_iter().map(|new| Row { old: None, new: Some(new) }));
    found
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (&a.old, &a.new).cmp(&(&b.old, &b.new)));
    rows
}

/// Compares in both ways; how many tables were compared by blocks, and how many in full.
async fn check(world: &World, context: &str) -> (usize, usize) {
    let (parts, summary) =
        world.compare(&[], 1_000_000).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let (new, old) = (world.branch.client().await, world.baseline.client().await);
    for client in [&new, &old] {
        client.batch_execute("set timezone = 'UTC'; set extra_float_digits = 1").await.unwrap();
    }
    let (now, then) = (names(&new).await, names(&old).await);
    let mut tables: BTreeMap<String, (duramen_changes::Table, Vec<Row>)> = BTreeMap::new();
    let mut sequences = BTreeSet::new();
    let mut last = String::new();
    for part in parts {
        match part {
            Part::Table(table) => {
                last.clone_from(&table.name);
                assert!(
                    tables.insert(last.clone(), (table, Vec::new())).is_none(),
                    "{context}: {last} twice"
                );
            }
            Part::Row(row) => tables.get_mut(&last).unwrap().1.push(row),
            Part::Ending(ending) => assert_eq!(ending.total(), tables[&last].1.len() as u64, "{context}"),
            Part::Sequence(Sequence { name, old, new, .. }) => {
                let state =
                    |at: Option<duramen_changes::SequenceState>| at.map(|it| (it.last_value, it.is_called));
                assert_eq!(state(old), then.sequences.get(&name).copied(), "{context}: {name}");
                assert_eq!(state(new), now.sequences.get(&name).copied(), "{context}: {name}");
                sequences.insert(name);
            }
            Part::Summary(found) => assert_eq!(found, summary),
        }
    }
    let all: BTreeSet<&String> = now.columns.keys().chain(then.columns.keys()).collect();
    for name in all {
        let (here, there) = (now.columns.get(name), then.columns.get(name));
        let common: Vec<String> = match (here, there) {
            (Some(here), Some(there)) => here.iter().filter(|it| there.contains(it)).cloned().collect(),
            (Some(one), None) | (None, Some(one)) => one.clone(),
            (None, None) => unreachable!(),
        };
        let after = if here.is_some() { rows(&new, name, &common).await } else { Rows::new() };
        let before = if there.is_some() { rows(&old, name, &common).await } else { Rows::new() };
        let told = tables.get(name);
        let key = told.map_or(Vec::new(), |(table, _)| table.key.clone());
        let expected = sorted(differing(before, after, &key));
        let found = sorted(told.map_or(Vec::new(), |(_, rows)| rows.clone()));
        assert!(
            expected == found,
            "{context}: {name}: {} rows expected, {} found",
            expected.len(),
            found.len()
        );
        let only = match (here, there) {
            (Some(_), None) => Some(Only::Branch),
            (None, Some(_)) => Some(Only::Snapshot),
            _ => None,
        };
        assert_eq!(told.and_then(|(table, _)| table.only_in), only, "{context}: {name}");
        if let Some((table, _)) = told {
            let names: Vec<&String> = table.columns.iter().map(|column| &column.name).collect();
            assert_eq!(names, common.iter().collect::<Vec<_>>(), "{context}: {name}");
        }
    }
    let moved: BTreeSet<String> = now
        .sequences
        .keys()
        .chain(then.sequences.keys())
        .filter(|name| now.sequences.get(*name) != then.sequences.get(*name))
        .cloned()
        .collect();
    assert_eq!(sequences, moved, "{context}");
    let blocks =
        tables.values().filter(|(table, _)| matches!(table.compared, Compared::Blocks { .. })).count();
    (blocks, tables.len() - blocks)
}

async fn run(client: &Client, chance: &mut fastrand::Rng, list: &[&str], done: &mut Vec<String>) {
    let statement = list[chance.usize(..list.len())].replace("{r}", &chance.u32(..20_000).to_string());
    // Statements on tables that are gone by now fail, and that is all.
    let worked = client.batch_execute(&statement).await;
    if worked.is_err() {
        let _ = client.batch_execute("rollback").await;
    }
    done.push(format!("{statement}{}", if worked.is_ok() { "" } else { " (failed)" }));
}

async fn model(choice: Choice, seed: u64, rounds: usize) {
    let world = World::new(choice, SETUP).await;
    let mut chance = entropy::rng(seed);
    assert_eq!(check(&world, "nothing was changed").await, (0, 0));
    let client = world.branch.client().await;
    client.batch_execute("set search_path = public").await.unwrap();
    let (mut by_blocks, mut in_full) = (0, 0);
    let mut done = Vec::new();
    for round in 0..rounds {
        for _ in 0..chance.u32(1..13) {
            run(&client, &mut chance, WORK, &mut done).await;
        }
        // The first rounds without: after it less and less is compared by blocks.
        if round >= rounds / 2 {
            run(&client, &mut chance, UPHEAVAL, &mut done).await;
        }
        let context = format!("{choice:?}, seed {seed}, after\n{}\n", done.join("\n"));
        let (blocks, full) = check(&world, &context).await;
        by_blocks += blocks;
        in_full += full;
    }
    assert!(by_blocks > rounds, "{by_blocks} tables were compared by their blocks");
    assert!(in_full > 0, "no table was compared in full");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_work_is_found_exactly_on_btrfs() {
    model(Choice::Btrfs, 1, 16).await;
    model(Choice::Btrfs, 2, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_work_is_found_exactly_on_reflinks() {
    model(Choice::Reflink, 3, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_work_is_found_exactly_on_plain_copies() {
    model(Choice::Copy, 4, 16).await;
}

/// Only what changed is read.
#[tokio::test(flavor = "multi_thread")]
async fn one_changed_row_is_two_blocks_at_most() {
    let world = World::new(Choice::Btrfs, SETUP).await;
    let client = world.branch.client().await;
    client.batch_execute("update public.keyed set a = -5 where id = 777").await.unwrap();
    let (parts, summary) = world.compare(&[], 10).await.unwrap();
    let Part::Table(table) = &parts[0] else { panic!("{parts:?}") };
    let Compared::Blocks { changed, of } = table.compared else { panic!("{table:?}") };
    assert!((1..=2).contains(&changed) && of > 200, "{changed} of {of}");
    assert_eq!((summary.rows.changed, summary.rows.total()), (1, 1));
    let Part::Row(Row { old: Some(old), new: Some(new) }) = &parts[1] else { panic!("{parts:?}") };
    assert_eq!((old[1].as_deref(), new[1].as_deref()), (Some("77"), Some("-5")));
}

/// A limit cuts what is told, and not what is counted.
#[tokio::test(flavor = "multi_thread")]
async fn rows_beyond_the_limit_are_counted() {
    let world = World::new(Choice::Btrfs, SETUP).await;
    let client = world.branch.client().await;
    client
        .batch_execute("update public.keyed set a = -5 where id <= 50; delete from public.coded where v < 11")
        .await
        .unwrap();
    let (parts, summary) = world.compare(&[], 7).await.unwrap();
    let rows = parts.iter().filter(|part| matches!(part, Part::Row(_))).count();
    assert_eq!((rows, summary.rows.listed, summary.rows.total(), summary.rows.is_cut()), (7, 7, 60, true));
    let (_, of_one) = world.compare(&["public.keyed"], 7).await.unwrap();
    assert_eq!((of_one.tables, of_one.rows.total()), (1, 50));
    let unknown = world.compare(&["public.keye"], 7).await.unwrap_err();
    assert!(unknown.to_string().contains("public.keye"), "{unknown}");
}

/// What is stored stays as it is, block for block, and stands for something else.
#[tokio::test(flavor = "multi_thread")]
async fn what_blocks_do_not_tell_is_read_in_full() {
    let world = World::new(Choice::Btrfs, SETUP).await;
    let client = world.branch.client().await;
    client.batch_execute("set search_path = public").await.unwrap();
    for (work, table, rows, says) in [
        ("alter table coded drop column extra, add column extra text default 'x'", "coded", 2000, "made anew"),
        ("alter type mood rename value 'ok' to 'fine'", "keyed", 20_000, "depends on the catalogue"),
        ("alter table swap_a rename to c; alter table swap_b rename to swap_a; alter table c rename to swap_b", "swap_a", 100, "rewritten"),
        ("update loose set v = -1 where id = 5", "loose", 1, "unlogged"),
        ("vacuum full plain; update plain set t = 'one' where ctid = '(0,1)'", "plain", 2, "rewritten"),
    ] {
        for statement in work.split("; ") {
            client.batch_execute(statement).await.unwrap();
        }
        let (parts, _) = world.compare(&[&format!("public.{table}")], 1_000_000).await.unwrap();
        let Part::Table(found) = &parts[0] else { panic!("{work}: {parts:?}") };
        assert!(matches!(&found.compared, Compared::Full { why } if why.contains(says)), "{work}: {found:?}");
        assert_eq!(parts.iter().filter(|part| matches!(part, Part::Row(_))).count(), rows, "{work}");
    }
    check(&world, "all of these").await;
}

//! Rows of generations, compared: invariants G11 to G14, and X12 of `docs/design/changes.md`.

use crate::{
    origin::{import, OtherServer},
    support::{majors, settle, until, Home},
};
use duramen_api::model::{
    ChangeSettings, CreateBranch, FollowSettings, LabelGeneration, Masking, Policy, PromoteBranch, VolumeKind,
};
use duramen_base::entropy;
use duramen_branches::{DiffPart, Engine, EngineError, WantedDiff, WantedGenerations};
use duramen_changes::{Compared, Only, Row, Summary, Table};
use serde_json::json;
use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};
use tokio_postgres::{Client, SimpleQueryMessage};

const SETUP: &str = "
create table keyed (id int primary key, a int, t text);;
insert into keyed select i, i % 100, 'text ' || i from generate_series(1, 60000) i;;
create table plain (a int, t text);;
insert into plain select i % 50, 'plain ' || i from generate_series(1, 8000) i;;
create table fat (id int primary key, big text);;
alter table fat alter column big set storage external;;
insert into fat select i, repeat(md5(i::text), 300) from generate_series(1, 200) i;;
create table still (id int primary key, v text);;
insert into still select i, 'still' from generate_series(1, 20000) i;;
create table swap_a (id int primary key, v text);;
create table swap_b (id int primary key, v text);;
insert into swap_a select i, 'a' from generate_series(1, 50) i;;
insert into swap_b select i, 'b' from generate_series(1, 50) i;;
create sequence alone;;
vacuum (freeze);;
checkpoint";

/// What an origin does; `{r}` is a number at random, and what fails changes nothing.
const WORK: &[&str] = &[
    "update keyed set a = a + 1 where id = {r}",
    "update keyed set t = t || '!' where id between {r} and {r} + 40",
    "delete from keyed where id between {r} and {r} + 5",
    "insert into keyed select 100000 + {r} + i, i, 'new' from generate_series(1, 9) i on conflict do nothing",
    "begin; update keyed set a = -1 where id > {r}; rollback",
    "begin; savepoint s; delete from keyed where id < {r}; rollback to s; update keyed set a = 7 where id = {r}; commit",
    "with gone as (delete from keyed where id % 5001 = {r} % 5001 returning *) insert into keyed select * from gone",
    "select * from keyed where id = {r} for update",
    "update plain set t = 'changed' where a = {r} % 50",
    "delete from plain where ctid in (select ctid from plain limit 3)",
    "update fat set big = repeat(md5('{r}'), 300) where id = {r} % 200",
    "update fat set big = null where id = {r} % 200",
    "insert into fat values ({r} + 1000, repeat('x{r}', 4000)) on conflict (id) do update set big = excluded.big",
    "vacuum keyed",
    "vacuum (freeze) plain",
    "checkpoint",
    "select setval('alone', {r})",
    "truncate plain",
    "vacuum full fat",
    "alter table swap_a rename to swap_c; alter table swap_b rename to swap_a; alter table swap_c rename to swap_b",
    "alter table keyed add column if not exists fresh int default 5",
    "alter table keyed drop column if exists fresh",
    "drop table if exists added; create table added as select i as id, 'n' as v from generate_series(1, {r} % 40 + 1) i",
];

/// What is told of two generations.
struct Told {
    tables: BTreeMap<String, (Table, Vec<Row>)>,
    summary: Summary,
}

async fn told(
    engine: &Arc<Engine>,
    [from, to]: [&str; 2],
    only: &[&str],
    masked: bool,
) -> Result<Told, EngineError> {
    let (sending, mut hear) = tokio::sync::mpsc::channel(1000);
    let only = only.iter().map(|name| (*name).to_owned()).collect();
    let rows = WantedDiff { rows: 1_000_000, only, ..WantedDiff::default() };
    let wanted = WantedGenerations { from: from.to_owned(), to: to.to_owned(), rows, masked };
    let heard = async {
        let (mut tables, mut summary, mut last) = (BTreeMap::new(), Summary::default(), String::new());
        while let Some(part) = hear.recv().await {
            match part {
                DiffPart::Table(table) => {
                    last = table.name.clone();
                    tables.insert(last.clone(), (table, Vec::new()));
                }
                DiffPart::Row(row) => tables.get_mut(&last).expect("its table").1.push(row),
                DiffPart::Summary(found) => summary = found,
                DiffPart::Ending(_) | DiffPart::Sequence(_) => {}
            }
        }
        Told { tables, summary }
    };
    let compare = async {
        let compared = engine.generation_data_diff(None, "app", wanted, &sending).await;
        drop(sending);
        compared
    };
    let (compared, told) = tokio::join!(compare, heard);
    compared.map(|()| told)
}

type Rows = Vec<Vec<Option<String>>>;

/// All rows of a table of a branch, read plainly.
async fn rows(client: &Client, table: &str, columns: &[String]) -> Rows {
    let sql = format!("select {} from public.{table}", columns.join(", "));
    let found = client.simple_query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let mut rows: Rows = found
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|place| row.get(place).map(str::to_owned)).collect())
            }
            _ => None,
        })
        .collect();
    rows.sort();
    rows
}

/// The columns of every table.
async fn columns(client: &Client) -> BTreeMap<String, Vec<String>> {
    let sql = "select c.relname::text, a.attname::text from pg_class c join pg_attribute a on a.attrelid = c.oid \
        and a.attnum > 0 and not a.attisdropped where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace";
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in client.query(sql, &[]).await.expect("the columns") {
        all.entry(row.get(0)).or_default().push(row.get(1));
    }
    all
}

async fn branch(engine: &Arc<Engine>, name: &str, generation: &str) -> Client {
    let (generation, name) = (Some(generation.to_owned()), Some(name.to_owned()));
    let view = engine.create(CreateBranch { name, generation, ..CreateBranch::default() }).await;
    let url = view.expect("a branch").url;
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("it answers");
    tokio::spawn(connection);
    client
}

/// Holds what is told of two generations against all of their rows. Says how many blocks were read of how many, and how many
/// tables were read in full.
async fn check(engine: &Arc<Engine>, generations: [&str; 2], context: &str) -> (u64, u64, usize) {
    let found =
        told(engine, generations, &[], false).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let (old, new) =
        (branch(engine, "old", generations[0]).await, branch(engine, "new", generations[1]).await);
    let (old_columns, new_columns) = (columns(&old).await, columns(&new).await);
    let names: std::collections::BTreeSet<&String> = old_columns.keys().chain(new_columns.keys()).collect();
    let (mut changed_blocks, mut all_blocks, mut in_full, mut differing) = (0, 0, 0, 0);
    for name in names {
        let table = found.tables.get(name);
        let common: Vec<String> = match (old_columns.get(name), new_columns.get(name)) {
            (Some(old), Some(new)) => new.iter().filter(|it| old.contains(it)).cloned().collect(),
            (one, other) => one.or(other).cloned().unwrap_or_default(),
        };
        let mut before = match old_columns.contains_key(name) {
            true => rows(&old, name, &common).await,
            false => Rows::new(),
        };
        let after = match new_columns.contains_key(name) {
            true => rows(&new, name, &common).await,
            false => Rows::new(),
        };
        let is_one_sided = old_columns.contains_key(name) != new_columns.contains_key(name);
        let Some((table, changes)) = table else {
            assert!(before == after && !is_one_sided, "{context}: {name} differs, and is not told");
            continue;
        };
        assert_eq!(table.only_in.is_some(), is_one_sided, "{context}: {name}");
        let told_columns: Vec<&String> = table.columns.iter().map(|column| &column.name).collect();
        assert_eq!(told_columns, common.iter().collect::<Vec<_>>(), "{context}: {name}");
        match table.compared {
            Compared::Blocks { changed, of } => {
                (changed_blocks, all_blocks) = (changed_blocks + changed, all_blocks + of)
            }
            Compared::Full { .. } => in_full += 1,
        }
        let (mut gone, mut come) = (Rows::new(), Rows::new());
        for Row { old, new } in changes {
            assert_ne!(old, new, "{context}: {name}");
            gone.extend(old.clone());
            come.extend(new.clone());
        }
        differing += usize::from(!changes.is_empty());
        gone.sort();
        come.sort();
        // Nothing is told to have gone that comes again as it was.
        assert!(gone.iter().all(|row| come.binary_search(row).is_err()), "{context}: {name}");
        let mut going = gone.iter().peekable();
        before.retain(|row| going.next_if(|gone| *gone == row).is_none());
        assert_eq!(going.next(), None, "{context}: {name} did not have it");
        before.extend(come);
        before.sort();
        assert!(before == after, "{context}: {name}: what is told does not lead from one to the other");
    }
    assert!(found.summary.differing >= differing as u64, "{context}");
    drop((old, new));
    engine.destroy("old").expect("destroy");
    engine.destroy("new").expect("destroy");
    (changed_blocks, all_blocks, in_full)
}

async fn work(
    client: &Client,
    chance: &mut impl FnMut(usize) -> usize,
    list: &[&str],
    done: &mut Vec<String>,
) {
    let statement = list[chance(list.len())].replace("{r}", &chance(60_000).to_string());
    for part in statement.split("; ") {
        if client.batch_execute(part).await.is_err() {
            let _ = client.batch_execute("rollback").await;
        }
    }
    done.push(statement);
}

/// Has the current generation stay, also where the file system has little room.
async fn keep(engine: &Arc<Engine>, generation: u32) {
    let (label, generation) = (format!("g{generation}"), generation.to_string());
    let request = LabelGeneration { generation, label, remove: false };
    engine.label_generation("app", request).await.expect("a label");
}

/// Imports the next generation, or has the standby cut it.
async fn refresh(engine: &Arc<Engine>) -> u32 {
    let number = engine.refresh_source("app", |_, _| {}).await.expect("a generation").generation;
    keep(engine, number).await;
    number
}

/// How many generations are kept while these run.
fn settings(follow: bool) -> ChangeSettings {
    let follow = follow.then(|| FollowSettings { enabled: true, ..FollowSettings::default() });
    ChangeSettings { follow, keep: Some("20 last".parse().expect("a rule")), ..ChangeSettings::default() }
}

/// G11, G12: the generations of one standby share what was not written, and what was under way when the first was cut and was
/// committed later is told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_origin_wrote_between_two_generations_is_found_exactly() {
    let home = Home::new();
    let engine = home.open().await;
    let major = *majors().last().expect("a server");
    let origin = OtherServer::start_with(&home, major, "").await;
    origin.run("shop", SETUP).await;
    import(&engine, "app", origin.running(), &[Policy::ReadWrite]).await.expect("the import");
    engine.change_settings("app", settings(true)).await.expect("it follows");
    let mut last = refresh(&engine).await;
    let client = origin.client("boss", "shop").await;
    let open = origin.client("boss", "shop").await;
    let seed = entropy::seed();
    let mut random = entropy::rng(seed);
    let mut chance = |below: usize| random.usize(..below);
    let mut done = Vec::new();
    let (mut changed, mut of, mut full) = (0, 0, 0);
    for round in 0..7 {
        for _ in 0..=chance(8) {
            // Upheavals stand last, and come later.
            let list = if round < 4 { &WORK[..WORK.len() - 6] } else { WORK };
            work(&client, &mut chance, list, &mut done).await;
        }
        // Neither this nor what it deletes may be in both generations, nor in none.
        let under_way = format!(
            "begin; update keyed set t = 'open {round}' where id = {0}; delete from plain where a = {round}; \
             insert into keyed values ({1}, 1, 'open') on conflict do nothing",
            5000 + round * 700,
            200_000 + round
        );
        open.batch_execute(&under_way).await.expect("it is under way");
        client.batch_execute("checkpoint").await.expect("its blocks are written");
        let next = refresh(&engine).await;
        let end = ["commit", "rollback"][chance(2)];
        done.push(format!("{under_way}; generation {next}; {end}"));
        open.batch_execute(end).await.expect("it ends");
        let context = format!("seed {seed}: {last} to {next}, after\n{}\n", done.join("\n"));
        let counts = check(&engine, [&last.to_string(), &next.to_string()], &context).await;
        (changed, of, full) = (changed + counts.0, of + counts.1, full + counts.2);
        if round == 5 {
            check(&engine, ["2", &next.to_string()], &context).await;
            check(&engine, [&next.to_string(), "2"], &context).await;
        }
        last = next;
    }
    assert!(of > 0 || engine.status().volumes == VolumeKind::Copy, "{changed} of {of}, {full} in full");
    // Most of what one transaction does not write is shared, and not read.
    // Where less than one page in fifty has dead rows, a vacuum leaves these there, and the page is not frozen, unless it is
    // told to clean the indexes.
    client.batch_execute("vacuum (freeze, index_cleanup on) keyed").await.expect("it is frozen");
    // What the standby replayed and has not written, every copy of it writes for itself.
    client.batch_execute("checkpoint").await.expect("the standby may write");
    let before = refresh(&engine).await.to_string();
    client
        .batch_execute("update keyed set a = -7 where id = (select max(id) from keyed)")
        .await
        .expect("a row");
    let after = refresh(&engine).await.to_string();
    let found = told(&engine, [&before, &after], &["public.keyed"], false).await.expect("a comparison");
    assert_eq!((found.summary.rows.changed, found.summary.rows.total()), (1, 1));
    let (table, _) = &found.tables["keyed"];
    match table.compared {
        Compared::Blocks { changed, of } => {
            assert!(changed <= 4 && of > 300, "seed {seed}: {changed} of {of}")
        }
        Compared::Full { .. } => assert_eq!(engine.status().volumes, VolumeKind::Copy, "{table:?}"),
    }
    settle(&engine).await;
    engine.close().await.expect("close");
}

/// A source that is imported anew each time, out of a script.
async fn scripted(home: &Home, engine: &Arc<Engine>, scripts: &[&str], masking: Option<serde_json::Value>) {
    let mut settings = crate::support::pool(&[(Policy::ReadWrite, 1)]);
    settings.keep = "20 last".parse().expect("a rule");
    home.add_script(engine, scripts[0], settings).await;
    keep(engine, 1).await;
    let masking: Option<Masking> = masking.map(|rules| serde_json::from_value(rules).expect("rules"));
    if masking.is_some() {
        let change = ChangeSettings { masking, ..ChangeSettings::default() };
        engine.change_settings("app", change).await.expect("rules");
        refresh(engine).await;
    }
    for script in &scripts[1..] {
        fs::write(home.beside("app.sql"), script).expect("the script");
        refresh(engine).await;
    }
}

/// G11: nothing of two imports is taken to be the same for lying in the same place, or having the same bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_that_were_imported_anew_are_compared_in_full() {
    let home = Home::new();
    let engine = home.open().await;
    // The two differ in what lies out of line alone: same ids, same lengths, same places.
    let fat = "create table fat (id int primary key, big text); alter table fat alter column big set storage external; \
        insert into fat select i, repeat(md5('SEED' || i), 200) from generate_series(1, 300) i;";
    let one = format!(
        "create table same (id int primary key, v text); insert into same select i, 'v' || i from generate_series(1, 3000) i;
         create table turned (a int primary key, b text, c int); insert into turned select i, 'b' || i, i from generate_series(1, 500) i;
         create table gone (x int); insert into gone values (1), (1), (2);
         create table \"Od\"\"d.name; drop table same\" (\"a,b\" int primary key, \"--\" text); insert into \"Od\"\"d.name; drop table same\" values (1, E'\\\\N\\t\\n');
         create table typed (id int primary key, v int); insert into typed select i, i from generate_series(1, 100) i; {}",
        fat.replace("SEED", "a")
    );
    let two = format!(
        "create table same (id int primary key, v text); insert into same select i, 'v' || i from generate_series(1, 3000) i;
         create table turned (c int, b text, a int primary key); insert into turned select i, 'b' || i, i from generate_series(1, 500) i;
         update turned set c = -1 where a = 7;
         create table come (y text); insert into come values ('new'), (null);
         create table \"Od\"\"d.name; drop table same\" (\"a,b\" int primary key, \"--\" text); insert into \"Od\"\"d.name; drop table same\" values (1, E'\\\\N\\t');
         create table typed (id int primary key, v text, w int); insert into typed select i, i from generate_series(1, 101) i; {}",
        fat.replace("SEED", "b")
    );
    scripted(&home, &engine, &[&one, &two], None).await;
    let found = told(&engine, ["1", "2"], &[], false).await.expect("a comparison");
    let of = |name: &str| found.tables.get(name).map(|(table, rows)| (table, rows.len()));
    assert!(of("same").is_none(), "it is the same");
    assert_eq!(of("fat").expect("it differs").1, 300);
    assert_eq!(of("turned").expect("it differs").1, 1);
    assert_eq!(of("gone").map(|(table, rows)| (table.only_in, rows)), Some((Some(Only::Snapshot), 3)));
    assert_eq!(of("come").map(|(table, rows)| (table.only_in, rows)), Some((Some(Only::Branch), 2)));
    assert_eq!(of("Od\"d.name; drop table same").expect("it differs").1, 1);
    assert_eq!(of("typed").expect("it differs").1, 1);
    assert!(found.tables.values().all(|(table, _)| matches!(table.compared, Compared::Full { .. })));
    let back = told(&engine, ["2", "1"], &["public.turned"], false).await.expect("a comparison");
    assert_eq!((back.tables.len(), back.summary.rows.changed), (1, 1));
    let same = told(&engine, ["2", "2"], &[], false).await.expect("a comparison");
    assert!(same.tables.is_empty() && same.summary.is_empty(), "{:?}", same.summary);
    // G13: asked for masked rows alone, there are none.
    let error = told(&engine, ["1", "2"], &[], true).await.err().expect("it is not masked");
    assert_eq!(error.code, "not_masked", "{error}");
    let codes = [
        (["1", "9"], "", "unknown_generation"),
        (["x", "1"], "", "unknown_generation"),
        (["1", "2"], "public.none", "unknown_table"),
    ];
    for (generations, table, code) in codes {
        let only: &[&str] = if table.is_empty() { &[] } else { &[table] };
        assert_eq!(told(&engine, generations, only, false).await.err().expect("refused").code, code);
    }
    engine.close().await.expect("close");
}

/// G11: a promoted branch and the next import share what neither wrote, and what they wrote at the same place with the same
/// numbers is not the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_that_went_apart_are_compared_exactly() {
    let home = Home::new();
    let engine = home.open().await;
    let major = *majors().last().expect("a server");
    let origin = OtherServer::start_with(&home, major, "").await;
    origin.run("shop", SETUP).await;
    import(&engine, "app", origin.running(), &[Policy::Ddl]).await.expect("the import");
    engine.change_settings("app", settings(true)).await.expect("it follows");
    assert_eq!(refresh(&engine).await, 2);
    // As many transactions, rows and values out of line on both sides.
    let write = |word: &str| {
        format!(
            "insert into fat select i, repeat(md5('{word}' || i), 300) from generate_series(1001, 1100) i;;
             update fat set big = repeat(md5('{word}' || id), 300) where id between 5 and 9;;
             update keyed set t = '{word}' where id between 100 and 120"
        )
    };
    let request =
        CreateBranch { name: Some("try".to_owned()), policy: Some(Policy::Ddl), ..CreateBranch::default() };
    engine.create(request).await.expect("a branch");
    for statement in write("ours").split(";;") {
        crate::support::query(&engine, "try", statement).await.expect("it is written");
    }
    engine.promote("try", PromoteBranch::default(), |_, _| {}).await.expect("generation 3");
    keep(&engine, 3).await;
    origin.run("shop", &write("them")).await;
    assert_eq!(refresh(&engine).await, 4);
    for pair in [["3", "4"], ["2", "3"], ["2", "4"], ["4", "3"]] {
        let (changed, of, _) = check(&engine, pair, &format!("{pair:?}")).await;
        if engine.status().volumes != VolumeKind::Copy {
            assert!(changed < of / 2, "{pair:?}: {changed} of {of}");
        }
    }
    let found =
        told(&engine, ["3", "4"], &["public.fat", "public.keyed"], false).await.expect("a comparison");
    assert_eq!((found.tables["fat"].1.len(), found.tables["keyed"].1.len()), (105, 21));
    engine.close().await.expect("close");
}

/// G13: values are those of the generation, and one that is not masked is not read for who may see masked ones only. G14: a
/// comparison that is given up leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_masked_stays_masked_and_nothing_is_left() {
    let home = Home::new();
    let engine = home.open().await;
    let script = |n: u32| {
        format!(
            "create table t (id int primary key, mail text, n int); \
             insert into t select i, 'secret' || i || '@x', {n} from generate_series(1, 2000) i;"
        )
    };
    let rules = json!({ "columns": { "public.t": { "mail": { "constant": "hidden" } } } });
    scripted(&home, &engine, &[&script(1), &script(2), &script(3)], Some(rules)).await;
    let found = told(&engine, ["2", "3"], &[], true).await.expect("both are masked");
    assert_eq!((found.summary.rows.changed, found.summary.rows.total()), (2000, 2000));
    let text = format!("{:?}", found.tables);
    assert!(text.contains("hidden") && !text.contains("secret"));
    // The first is not, and was made under other rules.
    for masked in [true, false] {
        assert_eq!(
            told(&engine, ["1", "3"], &[], masked).await.err().expect("refused").code,
            "rules_changed"
        );
    }
    settle(&engine).await;
    let volumes = || fs::read_dir(home.path().join("volumes/branches")).expect("volumes").count();
    let usual = volumes();
    for pause in [0, 10, 60, 150, 400] {
        let begun = told(&engine, ["2", "3"], &[], true);
        let _ = tokio::time::timeout(Duration::from_millis(pause), begun).await;
    }
    until("nothing is left", async || {
        engine.status().settled && volumes() == usual && engine.branches().is_empty()
    })
    .await;
    engine.close().await.expect("close");
}

//! Files that were damaged, and files that somebody made with care: they are refused before anything of them is used.

use crate::support::{differences, run, text, write, Server};
use duramen_carry::{ChangeSet, Ddl, SetError};
use duramen_changes::{Column, Compared, Ending, LeftOut, Only, Part, Row, Summary, Table};
use duramen_pack::{
    container::{Kind, PackWriter, SectionOptions},
    PackError,
};
use serde_json::{json, Value};
use std::{fs, path::Path};

fn table(columns: &[&str], key: &[usize]) -> Table {
    let column = |name: &&str| Column {
        name: (*name).to_owned(),
        type_name: "integer".to_owned(),
        is_always_generated: false,
    };
    Table {
        schema: "public".to_owned(),
        name: "t".to_owned(),
        columns: columns.iter().map(column).collect(),
        key: key.to_vec(),
        left_out: Vec::new(),
        only_in: None,
        compared: Compared::Blocks { changed: 1, of: 1 },
    }
}

fn row(old: Option<&[Option<&str>]>, new: Option<&[Option<&str>]>) -> Part {
    let side = |values: &[Option<&str>]| values.iter().map(|value| value.map(str::to_owned)).collect();
    Part::Row(Row { old: old.map(side), new: new.map(side) })
}

fn small(path: &Path) {
    let ending = Ending { added: 1, removed: 1, changed: 1, listed: 3 };
    let parts = [
        Part::Table(table(&["id", "v"], &[0])),
        row(Some(&[Some("1"), None]), None),
        row(Some(&[Some("2"), Some("x")]), Some(&[Some("2"), None])),
        row(None, Some(&[Some("3"), Some("")])),
        Part::Ending(ending),
        Part::Summary(Summary { tables: 1, differing: 1, rows: ending, sequences: 0 }),
    ];
    let ddl = [Ddl { sql: "create table u (a int)".to_owned(), in_transaction: true }];
    write(path, &ddl, &parts);
}

#[test]
fn c1_a_byte_that_is_not_what_was_written_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("set.dpack");
    small(&path);
    let sound = fs::read(&path).unwrap();
    let set = ChangeSet::open(&path).unwrap();
    let mut told = Vec::new();
    set.parts(10, &mut |part| told.push(part.clone())).unwrap();
    assert_eq!(told.len(), 6);
    assert_eq!((set.head().rows.total(), set.head().statements, set.digest().len()), (3, 1, 64));
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        assert!(ChangeSet::open(&path).is_err(), "byte {at} of {}", sound.len());
    }
    for length in (0..sound.len()).step_by(7) {
        fs::write(&path, &sound[..length]).unwrap();
        assert!(ChangeSet::open(&path).is_err(), "cut at {length}");
    }
    fs::write(&path, [&sound[..], b"more"].concat()).unwrap();
    assert!(matches!(ChangeSet::open(&path), Err(SetError::Pack(PackError::TrailingBytes { .. }))));
}

#[test]
fn c1_packs_of_another_kind_are_no_change_sets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.dpack");
    for kind in [Kind::Branch, Kind::Graph] {
        PackWriter::create(&path, kind).unwrap().finish(b"{}").unwrap();
        let error = ChangeSet::open(&path).unwrap_err();
        assert!(matches!(error, SetError::Pack(PackError::WrongKind { wanted: "changes", .. })), "{error}");
    }
    PackWriter::create(&path, Kind::Changes).unwrap().finish(b"{\"format\": 2, \"news\": 1}").unwrap();
    assert!(matches!(ChangeSet::open(&path), Err(SetError::Newer { found: 2, .. })));
    PackWriter::create(&path, Kind::Changes).unwrap().finish(b"{\"format\": 1}").unwrap();
    assert!(matches!(ChangeSet::open(&path), Err(SetError::Malformed { .. })));
}

/// What somebody writes with the digests that belong to it.
struct Forged {
    statements: Vec<Value>,
    tables: Vec<Value>,
    rows: Vec<([u8; 12], u32, Vec<u8>)>,
    head: Value,
}

impl Forged {
    fn sound() -> Forged {
        let ending = json!({ "added": 1, "removed": 0, "changed": 0, "listed": 1 });
        Forged {
            statements: Vec::new(),
            tables: vec![json!({ "table": table(&["id", "v"], &[0]), "rows": ending })],
            rows: vec![([0; 12], 1, vec![2, 2, b'1', 0])],
            head: json!({ "format": 1, "made_at": "2026-01-01T00:00:00Z", "origin": { "branch": "b", "branch_id": "i",
                "source": "s", "generation": 1, "snapshot_digest": null, "compared_with": "s", "data": "full" },
                "diff_digest": "", "warnings": [], "statements": 0, "tables": 1, "rows": ending, "sequences": 0 }),
        }
    }

    fn open(&self, path: &Path) -> Result<ChangeSet, SetError> {
        let mut pack = PackWriter::create(path, Kind::Changes).unwrap();
        let lines = |pack: &mut PackWriter, name: &str, all: &[Value]| {
            pack.begin_section(name, SectionOptions::default()).unwrap();
            let text: String = all.iter().map(|line| format!("{line}\n")).collect();
            if !all.is_empty() {
                pack.block(&0_u32.to_be_bytes(), all.len() as u32, text.as_bytes()).unwrap();
            }
        };
        lines(&mut pack, "statements", &self.statements);
        pack.begin_section("rows", SectionOptions::default()).unwrap();
        for (key, count, bytes) in &self.rows {
            pack.block(key, *count, bytes).unwrap();
        }
        lines(&mut pack, "tables", &self.tables);
        lines(&mut pack, "sequences", &[]);
        pack.finish(self.head.to_string().as_bytes()).unwrap();
        ChangeSet::open(path)
    }
}

#[test]
fn c1_what_makes_no_sense_is_refused_although_its_digests_are_right() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forged.dpack");
    Forged::sound().open(&path).unwrap();
    type Change = fn(&mut Forged);
    let changes: &[(&str, Change)] = &[
        ("a value is missing", |it| it.rows[0].2 = vec![2, 2, b'1']),
        ("a value too many", |it| it.rows[0].2 = vec![2, 2, b'1', 0, 0]),
        ("a length beyond the end", |it| it.rows[0].2 = vec![2, 0xff, 0xff, 0x7f, b'1', 0]),
        ("no text", |it| it.rows[0].2 = vec![2, 2, 0xff, 0]),
        ("no key", |it| it.rows[0].2 = vec![2, 0, 0]),
        ("no side", |it| it.rows[0].2 = vec![0]),
        ("another kind of change than it says", |it| it.rows[0].2 = vec![1, 2, b'1', 0]),
        ("rows of no table", |it| it.rows[0].0 = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]),
        ("rows in the middle", |it| it.rows[0].0 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ("rows without a table", |it| (it.tables, it.head["tables"]) = (Vec::new(), json!(0))),
        ("more rows in all", |it| it.head["rows"]["added"] = json!(2)),
        ("more tables than there are", |it| it.head["tables"] = json!(2)),
        ("as many tables as fill memory", |it| it.head["tables"] = json!(u64::MAX)),
        ("a key elsewhere", |it| it.tables[0]["table"]["key"] = json!([2])),
        ("a key twice", |it| it.tables[0]["table"]["key"] = json!([0, 0])),
        ("a column twice", |it| it.tables[0]["table"]["columns"][1]["name"] = json!("id")),
        ("the system's table", |it| it.tables[0]["table"]["schema"] = json!("pg_catalog")),
        ("the table of applied sets", |it| {
            (it.tables[0]["table"]["schema"], it.tables[0]["table"]["name"]) =
                (json!("duramen"), json!("applied_changes"));
        }),
        ("a name that is none", |it| it.tables[0]["table"]["name"] = json!("a\0b")),
        ("an empty name", |it| it.tables[0]["table"]["columns"][0]["name"] = json!("")),
        ("a statement that ends it", |it| {
            (it.statements, it.head["statements"]) =
                (vec![json!({ "sql": "commit", "in_transaction": true })], json!(1));
        }),
        ("a new table with old rows", |it| {
            it.tables[0]["table"]["only_in"] = json!(Only::Snapshot);
        }),
        ("a key that is a new column", |it| {
            let column = LeftOut { name: "id".to_owned(), only_in: Some(Only::Branch), why: String::new() };
            it.tables[0]["table"]["left_out"] = json!([column]);
        }),
    ];
    for (what, change) in changes {
        let mut forged = Forged::sound();
        change(&mut forged);
        let error = forged.open(&path).expect_err(what);
        assert!(matches!(error, SetError::Malformed { .. }), "{what}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_values_and_names_are_nothing_but_values_and_names() {
    let server = Server::start();
    let script = r#"
        create schema "s"".""x";
        create type "s"".""x"."t y" as enum ('a''b', '"', '\');
        create table "s"".""x"."t; drop table victim; --" ("a""b" int primary key, "c.c1" "s"".""x"."t y", "n" text, "g" text, "c0" bytea);
        create table victim (id int);
        insert into "s"".""x"."t; drop table victim; --" select i, 'a''b', 'n', null, null from generate_series(1, 3) i;
        create sequence "s"".""x"."q'); drop table victim; --";"#;
    let work = &[r#"
        update "s"".""x"."t; drop table victim; --" set n = E'\\.\n\t\r\\N''"$$; drop table victim; --', g = E'\\N', c0 = '\x005c' where "a""b" = 1;
        update "s"".""x"."t; drop table victim; --" set "c.c1" = '\', n = repeat(U&'\00fc\+01f600', 100000) where "a""b" = 2;
        insert into "s"".""x"."t; drop table victim; --" values (9, '"', '', '', '');
        select nextval('"s"".""x"."q''); drop table victim; --"')"#];
    let [source, branch, target] = server.three(script, work).await;
    let set = server.change_set(&source, &branch).await;
    server.apply(&set, &target).await.unwrap();
    assert_eq!(differences(&server, &branch, &target).await, Vec::<String>::new());
    // And back again.
    let back = server.change_set(&branch, &source).await;
    server.apply(&back, &target).await.unwrap();
    let left = differences(&server, &source, &target).await;
    assert!(left.iter().all(|it| it.contains("Sequence")), "{left:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_a_statement_that_is_more_than_one_changes_nothing() {
    let server = Server::start();
    let target = server.database("create table t (id int primary key, v int)").await;
    let path = server.files.path().join("several.dpack");
    for sql in [
        "create table u (a int); commit; drop table t",
        "create function f() returns void language plpgsql as $$ begin commit; end $$; select f()",
        "alter table t add column w int; insert into t values (1)",
    ] {
        let ddl = [Ddl { sql: sql.to_owned(), in_transaction: true }];
        write(&path, &ddl, &[Part::Summary(Summary::default())]);
        let set = ChangeSet::open(&path).unwrap();
        assert!(server.apply(&set, &target).await.is_err(), "{sql}");
        let client = server.connect(&target).await;
        let left = "select count(*)::text from pg_class where relnamespace in (select oid from pg_namespace where nspname in ('public', 'duramen'))";
        assert_eq!(text(&client, left).await, "2", "{sql}");
    }
    run(&server.connect(&target).await, "insert into t values (1, 1)").await;
}

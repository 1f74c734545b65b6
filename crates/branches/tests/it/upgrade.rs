//! A generation of a source that is taken to a later major version by `pg_upgrade`. Invariants V1 to V5 of docs/design/branches.md.

use crate::{
    dumps::lease_of,
    logical::SHOP,
    origin::{import, OtherServer},
    support::{majors, pool, query, rows, settle, until, Home},
};
use duramen_api::model::{AddSource, ChangeSettings, CreateBranch, Masking, Origin, Policy, SourceView};
use duramen_branches::{users_of, Engine, EngineError};
use duramen_postgres::{processes_below, quote_identifier};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

/// What has to be the same in a branch of either version.
const SAME: [&str; 7] = [
    "select * from sales.item order by id",
    "select last_value, is_called from sales.item_id_seq",
    "select tableoid::regclass::text, * from log.entry order by at",
    "select * from log.days order by at",
    "select convert_from(lo_get(4242), 'UTF8'), obj_description('sales.item'::regclass)",
    "select grantee::text, table_name::text, privilege_type::text from information_schema.role_table_grants \
     where table_schema in ('sales', 'log') and privilege_type <> 'MAINTAIN' order by 1, 2, 3",
    "select rolname::text, rolcanlogin, rolsuper, rolpassword::text from pg_roles where rolname !~ '^pg_' order by 1",
];

fn upgrade(of: &str, pg: Option<u32>) -> Origin {
    Origin::Upgrade { of: of.to_owned(), pg }
}

async fn add(engine: &Arc<Engine>, name: &str, origin: Origin) -> Result<SourceView, EngineError> {
    import(engine, name, origin, &[Policy::ReadWrite]).await
}

/// Nothing is left of what was refused or given up.
fn nothing_is_left(home: &Home, users: usize) {
    let imports = home.path().join("volumes/imports");
    let left: Vec<_> = fs::read_dir(&imports).into_iter().flatten().collect();
    assert!(left.is_empty() && processes_below(&imports).is_empty(), "{left:?}");
    assert_eq!(users_of(home.path()).len(), users);
}

/// V1, V3: into every later version that is here, and again after the source was refreshed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_holds_in_a_later_version_what_it_held() {
    let home = Home::new();
    let engine = home.open().await;
    let majors = majors();
    let oldest = majors[majors.len() - 1];
    let origin = OtherServer::start(&home, oldest).await;
    origin.run("shop", SHOP).await;
    let parent = add(&engine, "app", origin.running()).await.expect("the source");
    lease_of(&engine, "app", "before").await;
    for pg in majors.iter().copied().filter(|major| *major > oldest) {
        let name = format!("to-{pg}");
        let view = add(&engine, &name, upgrade("app", Some(pg))).await.expect("the upgrade");
        assert!(view.server_version.starts_with(&format!("{pg}.")), "{}", view.server_version);
        assert_eq!((view.origin.as_str(), view.database.as_str()), ("upgrade", "shop"));
        let upgraded = view.upgraded.expect("it is one");
        assert_eq!(
            (upgraded.source.as_str(), upgraded.generation, upgraded.from_version),
            ("app", 1, parent.server_version.clone())
        );
        assert!(upgraded.output.iter().any(|line| line == "Upgrade Complete"), "{:#?}", upgraded.output);
        settle(&engine).await;
        lease_of(&engine, &name, "after").await;
        for sql in SAME {
            assert_eq!(rows(&engine, "after", sql).await, rows(&engine, "before", sql).await, "{pg}: {sql}");
        }
        query(&engine, "after", "insert into sales.item (name) values ('written')")
            .await
            .expect("it is writable");
        let denied =
            query(&engine, "after", "create table public.t ()").await.expect_err("it may change rows only");
        assert!(denied.message.contains("permission denied"), "{denied}");
        engine.destroy("after").expect("destroyed");
        // V3: what is taken from everybody is taken by the names of the later version.
        let request = CreateBranch {
            name: Some("reader".to_owned()),
            source: Some(name.clone()),
            policy: Some(Policy::ReadOnly),
            ..CreateBranch::default()
        };
        engine.create(request).await.expect("a branch that is read");
        for sql in [
            "select lo_create(0)",
            "select pg_logical_emit_message(true, 'a', 'b')",
            "select pg_read_file('PG_VERSION')",
        ] {
            let denied = query(&engine, "reader", sql).await.expect_err(sql);
            assert_eq!(denied.sqlstate.as_deref(), Some("42501"), "{sql}: {denied}");
        }
        engine.destroy("reader").expect("destroyed");
        // V1: the generation it was made of is as it was.
        assert!(engine.verify_source("app").await.expect("read").intact);
        assert!(engine.verify_source(&name).await.expect("read").intact);
    }
    let newest = majors[0];
    origin.run("shop", "delete from sales.item where id > 10").await;
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    let name = format!("to-{newest}");
    let view = engine.refresh_source(&name, |_, _| {}).await.expect("a refresh");
    assert_eq!((view.generation, view.upgraded.expect("it is one").generation), (2, 2));
    settle(&engine).await;
    lease_of(&engine, &name, "again").await;
    assert_eq!(
        rows(&engine, "again", "select count(*)::int from sales.item").await,
        serde_json::json!([[10]])
    );
    // It stands by itself.
    engine.destroy("before").expect("destroyed");
    engine.remove_source("app").await.expect("removed");
    assert_eq!(
        engine.refresh_source(&name, |_, _| {}).await.expect_err("its source is gone").code,
        "unknown_source"
    );
    engine.destroy("again").expect("destroyed");
    engine.close().await.expect("close");
}

/// V4: what `pg_upgrade` says is told, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_upgraded_is_told_by_name() {
    let home = Home::new();
    let engine = home.open().await;
    let majors = majors();
    let (newest, oldest) = (majors[0], majors[majors.len() - 1]);
    let origin = OtherServer::start(&home, oldest).await;
    let setup = "create table rights (of aclitem);; create table fine (x int)";
    origin.run("shop", setup).await;
    add(&engine, "app", origin.running()).await.expect("the source");
    let refused = async |origin: Origin, code: &str, said: &[&str]| {
        let error = add(&engine, "new", origin).await.map(drop).expect_err(code);
        assert_eq!(error.code, code, "{error}");
        for word in said {
            assert!(error.message.contains(word), "{word}: {error}");
        }
        nothing_is_left(&home, 1);
    };
    // The type has another form since 16.
    if oldest < 16 && newest >= 16 {
        refused(upgrade("app", None), "upgrade_refused", &["aclitem", "public.rights.of", "nothing is left"])
            .await;
    }
    refused(upgrade("app", Some(oldest)), "wrong_major", &["later", "--pg"]).await;
    refused(upgrade("app", Some(99)), "no_server", &["99"]).await;
    refused(upgrade("nothing", None), "unknown_source", &["nothing"]).await;
    origin
        .run("postgres", "set allow_in_place_tablespaces = on;; create tablespace inside location ''")
        .await;
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    refused(upgrade("app", None), "has_tablespaces", &["--logical"]).await;
    origin.run("postgres", "drop tablespace inside").await;
    // A database that nobody may connect to.
    origin.run("shop", "drop table rights").await;
    origin.run("postgres", "create database closed;; alter database closed allow_connections false").await;
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    refused(upgrade("app", None), "upgrade_refused", &["allow connections"]).await;
    origin.run("postgres", "alter database closed allow_connections true;; drop database closed").await;
    // The name of the first superuser is text from outside: a line of it would be a statement of its own.
    origin.run("postgres", "create role second superuser login").await;
    let second = origin.client("second", "postgres").await;
    let rename = async |from: &str, to: &str| {
        let sql = format!("alter role {} rename to {}", quote_identifier(from), quote_identifier(to));
        second.batch_execute(&sql).await.expect("another name");
        let url = origin.url().replace("boss@", "second@");
        let source = import(&engine, &format!("of-{}", to.len()), Origin::Server { url }, &[]).await;
        source.expect("a source").name
    };
    let mut from = "boss";
    for to in ["boss\nalter role duramen_read superuser;", "bo'ss $(touch /tmp/never)"] {
        let source = rename(from, to).await;
        let error = add(&engine, "new", upgrade(&source, None)).await.map(drop).expect_err("no such name");
        assert!(error.code == "upgrade_refused" && error.message.contains("RENAME TO"), "{error}");
        engine.remove_source(&source).await.expect("removed");
        from = to;
    }
    let odd = "bo ss; touch /tmp/never & --x";
    let source = rename(from, odd).await;
    let view = add(&engine, "odd", upgrade(&source, None)).await.expect("any other name is a name");
    assert!(view.sanitised.iter().any(|it| it.kind == "role" && it.object == odd), "{:#?}", view.sanitised);
    assert!(!Path::new("/tmp/never").exists());
    second
        .batch_execute(&format!("alter role {} rename to boss", quote_identifier(odd)))
        .await
        .expect("boss");
    for name in [&source, "odd"] {
        engine.remove_source(name).await.expect("removed");
    }

    // Somebody who leaves in the middle.
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    let imports = home.path().join("volumes/imports");
    let works = async || {
        processes_below(&imports).iter().any(|pid| {
            let program = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("comm"));
            program.is_ok_and(|name| name.trim() == "pg_upgrade")
        })
    };
    let running = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { add(&engine, "new", upgrade("app", None)).await.map(drop) }
    });
    until("pg_upgrade runs", works).await;
    running.abort();
    assert!(running.await.is_err_and(|error| error.is_cancelled()));
    until("nothing is left of it", async || {
        let entries = fs::read_dir(&imports).into_iter().flatten().count();
        entries == 0 && processes_below(&imports).is_empty() && users_of(home.path()).len() == 1
    })
    .await;
    assert!(engine.verify_source("app").await.expect("read").intact);
    add(&engine, "new", upgrade("app", None)).await.expect("it goes on");
    engine.close().await.expect("close");
}

/// V2: a copy of what is masked is masked as that was, and by no other rules.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_of_a_masked_source_is_masked() {
    let home = Home::new();
    let engine = home.open().await;
    let majors = majors();
    let origin = OtherServer::start(&home, majors[majors.len() - 1]).await;
    origin.run("shop", "create table people (id int primary key, email text);; insert into people values (1, 'ann@example.org')").await;
    let rules = |columns: &str| -> Masking {
        serde_json::from_str(&format!(r#"{{"columns": {{"public.people": {columns}}}}}"#)).expect("rules")
    };
    let (first, second) = (rules(r#"{"email": "hash"}"#), rules(r#"{"email": "null"}"#));
    let request = |name: &str, origin: Origin, masking: Option<Masking>| {
        let mut settings = pool(&[]);
        settings.masking = masking;
        AddSource { name: name.to_owned(), origin, database: Some("shop".to_owned()), settings }
    };
    engine
        .add_source(request("app", origin.running(), Some(first.clone())), |_, _| {})
        .await
        .expect("masked");
    let other =
        engine.add_source(request("new", upgrade("app", None), Some(second.clone())), |_, _| {}).await;
    assert_eq!(other.map(drop).expect_err("other rules").code, "bad_rules");
    let view =
        engine.add_source(request("new", upgrade("app", None), None), |_, _| {}).await.expect("the upgrade");
    assert_eq!((view.data.as_str(), view.masked_columns, view.settings.masking), ("masked", 1, Some(first)));
    for (name, source) in [("old", "app"), ("later", "new")] {
        let request = CreateBranch {
            name: Some(name.to_owned()),
            source: Some(source.to_owned()),
            ..CreateBranch::default()
        };
        engine.create(request).await.expect("a branch");
    }
    let sql = "select id, email from people";
    let masked = rows(&engine, "later", sql).await;
    assert_eq!(masked, rows(&engine, "old", sql).await);
    assert!(!masked.to_string().contains("ann@"), "{masked}");
    let change = || ChangeSettings { masking: Some(second.clone()), ..ChangeSettings::default() };
    assert_eq!(
        engine.change_settings("new", change()).await.map(drop).expect_err("not its own").code,
        "bad_rules"
    );
    // Where the rules of its source have changed, it is refreshed after that.
    engine.change_settings("app", change()).await.expect("new rules");
    let early = engine
        .refresh_source("new", |_, _| {})
        .await
        .map(drop)
        .expect_err("its source is not masked by them");
    assert_eq!(early.code, "rules_changed");
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    engine.refresh_source("new", |_, _| {}).await.expect("a refresh");
    let request = CreateBranch {
        name: Some("last".to_owned()),
        source: Some("new".to_owned()),
        ..CreateBranch::default()
    };
    engine.create(request).await.expect("a branch");
    assert_eq!(rows(&engine, "last", sql).await, serde_json::json!([[1, null]]));
    engine.close().await.expect("close");
}

/// V4: `pg_restore` runs what an index of the source computes: as the table's owner, in the cage, and before the copy is made harmless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_of_the_source_that_runs_meanwhile_gains_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    let majors = majors();
    let oldest = majors[majors.len() - 1];
    let origin = OtherServer::start(&home, oldest).await;
    let outside = home.beside("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).expect("its mode");
    let outside = outside.join("was-here").display().to_string();
    // Only in the later version, and whatever fails of it.
    let trap = format!(
        "create function public.act() returns void volatile language plpgsql as $f$ begin
           begin create role intruder superuser login password 'x'; exception when others then null; end;
           begin copy (select 1) to program 'touch {outside}; ln -s /etc/passwd link; ln -s / global/link; echo local all all trust > pg_hba.conf';
             exception when others then null; end;
           execute format('comment on table public.acted is %L', current_user);
         end $f$;;
         create function public.spring(int) returns int immutable language plpgsql as $f$ begin
           if current_setting('server_version_num')::int / 10000 > {oldest} then perform public.act(); end if; return $1; end $f$;;
         create table acted (x int);; create table trap (x int);; insert into trap values (1);; create index sprung on trap ((x + public.spring(1)))"
    );
    origin.run("shop", &trap).await;
    add(&engine, "app", origin.running()).await.expect("the source");
    add(&engine, "new", upgrade("app", None)).await.expect("the upgrade");
    settle(&engine).await;
    lease_of(&engine, "new", "after").await;
    let acted = rows(&engine, "after", "select obj_description('public.acted'::regclass)").await;
    assert_eq!(acted, serde_json::json!([["duramen_owner"]]), "the trap was sprung");
    let roles =
        "select rolname::text from pg_roles where (rolsuper or rolcanlogin) and rolname !~ '^(pg|duramen)_'";
    assert_eq!(rows(&engine, "after", roles).await, serde_json::json!([["boss"]]), "who cannot log in");
    let intruders =
        rows(&engine, "after", "select count(*)::int from pg_roles where rolname = 'intruder'").await;
    assert_eq!(intruders, serde_json::json!([[0]]));
    assert!(!Path::new(&outside).exists());
    for entry in walkdir::WalkDir::new(home.path().join("volumes")) {
        let entry = entry.expect("it is read");
        assert!(!entry.path_is_symlink(), "{}", entry.path().display());
    }
    engine.close().await.expect("close");
}

//! A pair of a source is two clones of one generation that nobody else enters, and nothing of it outlives whoever asked for it.

use crate::support::{lease, majors, pool, rows, signal_all_below, until, Home};
use duramen_api::model::{ChangeSettings, MakePair, Mask, Masking, PairView, Policy, SourceSettings};
use duramen_base::clock;
use duramen_branches::{Engine, EngineError, LentPair};
use duramen_postgres::processes_below;
use rustix::process::Signal;
use serde_json::json;
use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Client, Config, NoTls};

/// Written where a source's owner can: each would be run by a session that did not keep it out, as a superuser.
const SOURCE: &str = "
    create table t (id int primary key, v text);
    insert into t select g, repeat('x', 100) from generate_series(1, 5000) g;
    create table ran (what text);
    create function trap() returns event_trigger language plpgsql as $$ begin insert into public.ran values (tg_tag); end $$;
    create event trigger on_ddl on ddl_command_end execute function trap();
";
const SPACE: u64 = 512 << 20;

fn wanted() -> MakePair {
    MakePair { source: Some("app".to_owned()), generation: None, space_bytes: SPACE }
}

async fn make(engine: &Arc<Engine>) -> Result<LentPair, EngineError> {
    engine.make_pair(wanted(), |_| {}).await
}

async fn enter(
    sockets: &str,
    role: &str,
    secret: &str,
    database: &str,
) -> Result<Client, tokio_postgres::Error> {
    let mut config = Config::new();
    config.host_path(sockets).port(5432).user(role).password(secret).dbname(database);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn admin(view: &PairView, sockets: &str) -> Client {
    enter(sockets, &view.role, &view.secret, &view.database).await.expect("the pair's own secret")
}

/// What there is of pairs in a home.
fn traces(home: &Path) -> Vec<String> {
    let of_pairs = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("p-")).map(|name| format!("{}/{name}", dir.display())).collect()
    };
    let branches = home.join("volumes/branches");
    let mut found = [of_pairs(&branches), of_pairs(&home.join("logs"))].concat();
    for pid in processes_below(&branches) {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        if cwd.strip_prefix(&branches).is_ok_and(|rest| rest.to_string_lossy().starts_with("p-")) {
            found.push(format!("process {pid} in {}", cwd.display()));
        }
    }
    // Other tests have pairs at the same time: those of this home's servers lie in its own group.
    let root = std::fs::canonicalize(home).expect("the home");
    let own = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned();
    let groups = walkdir::WalkDir::new("/sys/fs/cgroup").max_depth(8).into_iter().flatten();
    let groups = groups.filter(|entry| entry.file_name().to_string_lossy().starts_with("p-"));
    let paths = groups.map(|entry| entry.path().display().to_string());
    found.extend(paths.filter(|path| path.contains(&own)));
    found
}

/// RS1, RS3: one generation, in seconds, with nobody else in it, of each major version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_would_not_be_what_the_source_is_or_be_open_to_holders_of_its_branches() {
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        home.add_cluster(&engine, major, SOURCE, pool(&[(Policy::Ddl, 1)])).await;
        lease(&engine, "try", Policy::Ddl).await;
        let digest = engine.source("app").unwrap().digest;
        let pair = make(&engine).await.expect("a pair");
        let view = pair.view().clone();
        println!("PostgreSQL {major}: {:?}", view.took);
        // Plain copies take as long as there is to copy.
        let shares = std::env::var("DURAMEN_TEST_VOLUMES").as_deref() != Ok("copy");
        assert!(!shares || view.took.total_ms < 5_000.0, "{:?}", view.took);
        assert_eq!((view.generation, &*view.data), (1, "full"));

        // It is one cluster, with what the source holds, and what is written arrives.
        let (primary, standby) = (admin(&view, &view.primary).await, admin(&view, &view.standby).await);
        let count = "select count(*), (select system_identifier from pg_control_system()) from public.t";
        let (on_primary, on_standby) =
            (primary.query_one(count, &[]).await.unwrap(), standby.query_one(count, &[]).await.unwrap());
        assert_eq!(on_primary.get::<_, i64>(0), 5000);
        assert_eq!(
            (on_primary.get::<_, i64>(0), on_primary.get::<_, i64>(1)),
            (on_standby.get(0), on_standby.get(1))
        );
        let state =
            "select pg_is_in_recovery(), current_setting('wal_level'), current_setting('listen_addresses'), \
                     current_setting('max_worker_processes'), current_setting('fsync')";
        for (client, recovers) in [(&primary, false), (&standby, true)] {
            let row = client.query_one(state, &[]).await.unwrap();
            let texts: Vec<&str> = (1..5).map(|at| row.get(at)).collect();
            assert_eq!((row.get::<_, bool>(0), &*texts), (recovers, &["logical", "", "0", "on"][..]));
        }
        primary
            .batch_execute("set synchronous_commit = remote_apply; insert into public.t values (0, 'new')")
            .await
            .unwrap();
        assert_eq!(standby.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 5001);
        // ALTER SYSTEM has an effect on what it was made with.
        primary.batch_execute("alter system set max_wal_size = '1GB'").await.unwrap();
        let sql = "select setting from pg_file_settings where name = 'max_wal_size' and applied";
        assert_eq!(primary.query_one(sql, &[]).await.unwrap().get::<_, &str>(0), "1GB");

        // Who holds a branch of the same source, or is its administrator, is not let in; nor does the pair's secret open the branch.
        let url: Config = engine.branch("try").unwrap().url.parse().unwrap();
        let of_admin: Config = engine.administrator_url("try").await.unwrap().url.parse().unwrap();
        let secret = |config: &Config| String::from_utf8(config.get_password().unwrap().to_vec()).unwrap();
        for sockets in [&view.primary, &view.standby] {
            for (role, secret) in [
                ("duramen_ddl", secret(&url)),
                ("duramen_ddl", view.secret.clone()),
                ("duramen_admin", secret(&url)),
                ("duramen_admin", secret(&of_admin)),
                ("postgres", view.secret.clone()),
            ] {
                assert!(
                    enter(sockets, role, &secret, &view.database).await.is_err(),
                    "{role} with another secret"
                );
            }
            let found = std::fs::metadata(sockets).unwrap();
            assert_eq!(found.permissions().mode() & 0o7777, 0o700, "{sockets}");
            let volume = home.path().join(format!("volumes/branches/{}-primary", view.id));
            assert_eq!(found.uid(), std::fs::metadata(volume).unwrap().uid());
        }
        let [tokio_postgres::config::Host::Unix(branch)] = url.get_hosts() else { panic!("a socket") };
        let branch = branch.display().to_string();
        for sockets in [branch.clone(), format!("{branch}/admin")] {
            assert!(enter(&sockets, &view.role, &view.secret, &view.database).await.is_err(), "{sockets}");
        }
        assert!(!format!("{pair:?}").contains(&view.secret), "a secret in a log");

        // One at a time.
        assert_eq!(make(&engine).await.unwrap_err().code, "pair_lent");
        let begin = clock::now();
        pair.end().await.expect("it ends");
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        assert_eq!(traces(home.path()), Vec::<String>::new());
        assert!(!Path::new(&view.primary).exists() && !Path::new(&view.standby).exists());
        assert!(primary.query_one("select 1", &[]).await.is_err());

        // Neither the generation nor the branch noticed.
        assert!(engine.verify_source("app").await.unwrap().intact);
        assert_eq!(engine.source("app").unwrap().digest, digest);
        assert_eq!(rows(&engine, "try", "select count(*) from t").await, json!([[5000]]));
        assert_eq!(rows(&engine, "try", "select count(*) from ran").await, json!([[0]]));
        engine.close().await.expect("it closes");
    }
}

/// RS2: dropped, closed, given up in the making, its source removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_would_stay_when_nobody_reads_of_it_any_more() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, SOURCE, SourceSettings::default()).await;
    drop(make(&engine).await.expect("a pair"));
    until("what was dropped is gone", async || traces(home.path()).is_empty()).await;

    // Given up at every moment of the making.
    until("the place is free", async || make(&engine).await.is_ok()).await;
    for delay in (0..=240).step_by(30) {
        until("the place is free", async || {
            let making = tokio::time::timeout(Duration::from_millis(delay), make(&engine));
            !matches!(making.await, Ok(Err(error)) if error.code == "pair_lent")
        })
        .await;
        until("what was given up is gone", async || traces(home.path()).is_empty()).await;
    }
    // A server that ends is noticed.
    let mut lent = None;
    until("the place is free", async || {
        lent = make(&engine).await.ok();
        lent.is_some()
    })
    .await;
    let pair = lent.unwrap();
    assert!(pair.left().is_ok());
    let dir = home.path().join(format!("volumes/branches/{}-standby", pair.view().id));
    signal_all_below(&dir, Signal::KILL);
    until("it is noticed", async || pair.left().is_err_and(|error| error.code == "pair_ended")).await;
    pair.end().await.unwrap();

    // A pair goes on without its source, and its system user goes with it.
    let pair = make(&engine).await.expect("a pair");
    engine.remove_source("app").await.expect("no branch of it is leased");
    let view = pair.view().clone();
    let sql = "select count(*) from public.t";
    assert_eq!(admin(&view, &view.primary).await.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 5000);
    pair.end().await.unwrap();
    until("the user is gone", async || duramen_branches::users_of(home.path()).is_empty()).await;

    // The engine does not close over one.
    home.add_script(&engine, SOURCE, SourceSettings::default()).await;
    let pair = make(&engine).await.expect("a pair");
    engine.close().await.expect("it closes");
    assert_eq!(pair.left().unwrap_err().code, "stopping");
    assert!(!Path::new(&pair.view().primary).exists());
    assert_eq!(make(&engine).await.unwrap_err().code, "stopping");
    drop(pair);
    let engine = home.open().await;
    assert_eq!(traces(home.path()), Vec::<String>::new());
    engine.close().await.expect("it closes");
}

/// What cannot be had is refused before anything is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_would_fill_the_store_or_be_of_something_else_than_was_asked_for() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    home.add_script(&engine, SOURCE, SourceSettings::default()).await;
    for (change, code) in [
        (MakePair { space_bytes: 1 << 20, ..wanted() }, "pair_too_small"),
        (MakePair { space_bytes: 1 << 40, ..wanted() }, "no_space"),
        (MakePair { space_bytes: u64::MAX, ..wanted() }, "no_space"),
        (MakePair { source: Some("other".to_owned()), ..wanted() }, "unknown_source"),
        (MakePair { source: Some("../app".to_owned()), ..wanted() }, "unknown_source"),
        (MakePair { generation: Some("7".to_owned()), ..wanted() }, "unknown_generation"),
        (MakePair { generation: Some("none".to_owned()), ..wanted() }, "unknown_generation"),
    ] {
        let refused = engine.make_pair(change.clone(), |_| {}).await.unwrap_err();
        assert_eq!(refused.code, code, "{change:?}: {refused}");
        assert_eq!(traces(home.path()), Vec::<String>::new(), "{change:?}");
    }
    // What it may write ends at its quota, and neither a branch nor the store suffers.
    let pair = make(&engine).await.expect("a pair");
    let primary = admin(pair.view(), &pair.view().primary).await;
    let fill = "set synchronous_commit = local; create table full_ as select repeat('x', 900) from generate_series(1, 2000000)";
    assert!(primary.batch_execute(fill).await.is_err(), "no quota holds");
    lease(&engine, "other", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "other", "insert into t values (-1) returning id").await, json!([[-1]]));
    pair.end().await.unwrap();
    assert_eq!(traces(home.path()), Vec::<String>::new());
    engine.close().await.expect("it closes");
}

/// A masked source is measured as its branches hold it, and under its rules of today.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pair_would_hold_what_a_masked_source_does_not() {
    let home = Home::new();
    let engine = home.open().await;
    let rules = |column: &str| {
        let columns = [(column.to_owned(), Mask::Hash)].into();
        Masking { columns: [("public.t".to_owned(), columns)].into(), ..Masking::default() }
    };
    let settings = SourceSettings { masking: Some(rules("v")), ..SourceSettings::default() };
    home.add_script(&engine, SOURCE, settings).await;
    let pair = make(&engine).await.expect("a pair");
    let view = pair.view().clone();
    assert_eq!(view.data, "masked");
    for sockets in [&view.primary, &view.standby] {
        let sql = "select count(*), count(*) filter (where v = repeat('x', 100)) from public.t";
        let row = admin(&view, sockets).await.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5000, 0));
    }
    pair.end().await.unwrap();
    let other = Masking { rows: [("public.t".to_owned(), "id > 1".to_owned())].into(), ..rules("v") };
    let change = ChangeSettings { masking: Some(other), ..ChangeSettings::default() };
    engine.change_settings("app", change).await.expect("other rules");
    assert_eq!(make(&engine).await.unwrap_err().code, "rules_changed");
    assert_eq!(traces(home.path()), Vec::<String>::new());
    engine.close().await.expect("it closes");
}

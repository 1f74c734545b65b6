//! What a branch holds, taken along: X1 to X6 of docs/design/export.md.

use crate::support::{self, connect, create, entries, query, settle, text, until, Home};
use duramen_api::model::{AddSource, CreateBranch, Origin, Policy, PoolSize, SourceSettings};
use duramen_client::Connection;
use duramen_postgres::processes_below;
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SCRIPT: &str = "create table t (id int primary key, x text); insert into t select n, 'source ' || n from generate_series(1, 1000) n; \
                      create table other (y int); create unlogged table u (z int); create view v as select count(*) from t;";

/// What lies beside the home, but the test's own files.
fn beside(home: &Home) -> BTreeSet<String> {
    let mut found = entries(home.beside("x").parent().unwrap());
    found.retain(|name| name.starts_with(".try") || name.starts_with("try"));
    found
}

/// Volumes of copies that somebody still has, and programs that read them.
async fn nothing_is_left(home: &Home, connection: &mut Connection, usual: usize) {
    settle(connection).await;
    until("no copy is left", async || entries(&home.path().join("volumes/branches")).len() == usual).await;
    until("no program is left", async || dumping(home).is_empty()).await;
}

/// The programs that dump a branch of this home.
fn dumping(home: &Home) -> Vec<u32> {
    let is_it = |pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command)
            .split('\0')
            .next()
            .is_some_and(|program| program.ends_with("pg_dump"))
    };
    processes_below(&home.path()).into_iter().filter(is_it).collect()
}

async fn add(connection: &mut Connection, name: &str, origin: Origin) {
    let request = AddSource {
        name: name.to_owned(),
        origin,
        database: Some("app".to_owned()),
        settings: SourceSettings {
            pool: PoolSize { hot: [(Policy::ReadWrite, 1)].into(), cold: 0 },
            ..SourceSettings::default()
        },
    };
    connection.add_source(&request, |_, _| {}).await.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// What a source holds that was made of an export.
async fn holds(connection: &mut Connection, source: &str, unlogged: i64) {
    let request = CreateBranch {
        source: Some(source.to_owned()),
        name: Some(format!("of-{source}")),
        policy: Some(Policy::Ddl),
        ..CreateBranch::default()
    };
    connection.create_branch(&request).await.unwrap_or_else(|error| panic!("{source}: {error}"));
    let all = "select (select count(*) from t), (select x from t where id = 5000), (select count from v), (select count(*) from u)";
    let found = query(connection, &format!("of-{source}"), all).await.unwrap();
    assert_eq!(found, json!([[1001, "branch", 1001, unlogged]]), "{source}");
    connection.destroy_branch(&format!("of-{source}")).await.unwrap();
}

fn path(home: &Home, name: &str) -> String {
    home.beside(name).display().to_string()
}

/// X1, X2, X3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_exported_is_what_the_branch_held() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, SCRIPT, 1, 0).await;
    create(&mut connection, "try").await.unwrap();
    for sql in ["insert into t values (5000, 'branch') returning id", "insert into u values (1) returning z"]
    {
        query(&mut connection, "try", sql).await.unwrap();
    }
    settle(&mut connection).await;
    let usual = entries(&home.path().join("volumes/branches")).len();
    for (name, format, more) in [
        ("try.sql", "plain", &["--quiesce"][..]),
        ("try.dump", "custom", &[]),
        ("try.d", "directory", &["--jobs", "2"]),
        ("try.data", "basebackup", &["--quiesce"]),
    ] {
        let out = path(&home, name);
        let done = home
            .run(&[&["branch", "export", "try", "--out", &out, "--format", format, "--json"], more].concat());
        assert!(done.status.success(), "{format}: {}", text(&done.stderr));
        let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!((&told["out"], &told["format"]), (&json!(out), &json!(format)));
        assert!(told["bytes"].as_u64().expect("bytes") > 1000, "{told}");
    }
    assert_eq!(beside(&home), ["try.d", "try.data", "try.dump", "try.sql"].map(str::to_owned).into());
    assert_eq!(fs::metadata(home.beside("try.sql")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(home.beside("try.data")).unwrap().permissions().mode() & 0o777, 0o700);
    let dump = fs::read_to_string(home.beside("try.sql")).unwrap();
    assert!(!dump.contains("OWNER TO") && !dump.contains("duramen_"), "without owners and grants");
    assert!(home.beside("try.d/toc.dat").exists());

    // A data directory that was stopped in order, without anything of a server that ran, and without secrets.
    let data = entries(&home.beside("try.data"));
    for gone in
        ["postmaster.pid", "postmaster.opts", "backup_label", "pg_hba.read-write.conf", "duramen_export"]
    {
        assert!(!data.contains(gone), "{gone}");
    }
    let rules = fs::read_to_string(home.beside("try.data/pg_hba.conf")).unwrap();
    let active: Vec<&str> = rules.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(active, ["local all all peer"]);
    let settings = fs::read_to_string(home.beside("try.data/postgresql.conf")).unwrap();
    assert!(!settings.contains("fsync"), "{settings}");
    let secrets = Command::new("grep")
        .args(["--recursive", "--binary-files=text", "--files-with-matches", "SCRAM-SHA-256"])
        .arg(home.beside("try.data"))
        .output()
        .unwrap();
    assert_eq!(text(&secrets.stdout), "", "these hold secrets");

    nothing_is_left(&home, &mut connection, usual).await;
    add(&mut connection, "plain", Origin::Script { path: path(&home, "try.sql") }).await;
    add(&mut connection, "custom", Origin::Script { path: path(&home, "try.dump") }).await;
    add(&mut connection, "data", Origin::DataDirectory { path: path(&home, "try.data") }).await;
    holds(&mut connection, "plain", 1).await;
    holds(&mut connection, "custom", 0).await;
    holds(&mut connection, "data", 1).await;
    // The branch goes on.
    query(&mut connection, "try", "insert into t values (5001, 'after') returning id").await.unwrap();
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

fn export(home: &Home, out: &Path, more: &[&str]) -> std::process::Output {
    let out = out.display().to_string();
    home.run(&[&["branch", "export", "try", "--out", &out], more].concat())
}

/// X5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_is_not_written_over() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, SCRIPT, 1, 0).await;
    create(&mut connection, "try").await.unwrap();
    let (file, dir) = (home.beside("try.sql"), home.beside("try.d"));
    fs::write(&file, "mine").unwrap();
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("mine"), "mine").unwrap();
    for (out, more) in [
        (&file, &["--format", "plain"][..]),
        (&dir, &["--format", "directory"]),
        (&dir, &["--format", "directory", "--force"]),
        (&dir, &["--format", "plain", "--force"]),
        (&file, &["--format", "directory", "--force"]),
    ] {
        let refused = export(&home, out, more);
        assert_eq!(refused.status.code(), Some(1), "{more:?}");
        assert!(text(&refused.stderr).contains("exists"), "{more:?}: {}", text(&refused.stderr));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(entries(&dir), ["mine".to_owned()].into());
    let done = export(&home, &file, &["--format", "plain", "--force"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(fs::read_to_string(&file).unwrap().contains("CREATE TABLE"));
    // What cannot be written, or asked for, leaves nothing either.
    for (out, more, said) in [
        (home.beside("nowhere/try"), &["--format", "plain"][..], "cannot write"),
        (home.beside("try.none"), &["--format", "zip"], "not a format"),
        (home.beside("try.none"), &["--jobs", "0"], "jobs"),
    ] {
        let refused = export(&home, &out, more);
        assert!(
            !refused.status.success() && text(&refused.stderr).contains(said),
            "{more:?}: {}",
            text(&refused.stderr)
        );
    }
    let unknown = home.run(&["branch", "export", "tyr", "--out", &path(&home, "try.none")]);
    assert!(text(&unknown.stderr).contains("try"), "{}", text(&unknown.stderr));
    assert_eq!(beside(&home), ["try.d", "try.sql"].map(str::to_owned).into());
    daemon.stop().await.unwrap();
}

/// X4, X6: its client ends, its program is killed, its daemon is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_breaks_off_leaves_nothing() {
    let home = Home::new();
    let mut daemon = Some(home.serve().await);
    let mut connection = connect(daemon.as_ref().unwrap()).await;
    support::add_script(&home, &mut connection, SCRIPT, 1, 0).await;
    create(&mut connection, "try").await.unwrap();
    let fill = "insert into t select n, repeat(md5(n::text), 30) from generate_series(10000, 250000) n";
    support::wire(&connection.branch("try").await.unwrap().url).await.batch_execute(fill).await.unwrap();
    settle(&mut connection).await;
    let usual = entries(&home.path().join("volumes/branches")).len();
    for (format, ender) in [
        ("plain", "client"),
        ("custom", "client"),
        ("directory", "client"),
        ("plain", "program"),
        ("directory", "program"),
        ("plain", "daemon"),
    ] {
        let out = path(&home, "try.out");
        let mut command = home.command(&["branch", "export", "try", "--out", &out, "--format", format]);
        let said = fs::File::create(home.beside("said")).unwrap();
        let mut exporting = command.stdout(Stdio::null()).stderr(said).spawn().unwrap();
        until("it is under way", async || {
            !dumping(&home).is_empty()
                && (format == "directory" || part_of(&home).is_some_and(|size| size > 1 << 20))
        })
        .await;
        let kill =
            |signal: &str, pid: u32| Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
        match ender {
            "client" => drop(kill("-INT", exporting.id())),
            "program" => drop(kill("-KILL", dumping(&home)[0])),
            _ => daemon.take().unwrap().kill(),
        }
        let status = exporting.wait().unwrap();
        let text = fs::read_to_string(home.beside("said")).unwrap();
        assert_eq!(status.code(), Some(1), "{format}, {ender}: {text}");
        assert_eq!(beside(&home), BTreeSet::new(), "{format}, {ender}: {text}");
        if ender == "daemon" {
            connection = connect(daemon.insert(home.serve().await)).await;
        }
        nothing_is_left(&home, &mut connection, usual).await;
    }
    let found = query(&mut connection, "try", "select count(*) from t").await.unwrap();
    assert_eq!(found, json!([[241_001]]));
    daemon.unwrap().stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// The size of the part that is being written.
fn part_of(home: &Home) -> Option<u64> {
    let name = beside(home).into_iter().find(|name| name.ends_with(".part"))?;
    let path: PathBuf = home.beside(&name);
    fs::metadata(path).ok().map(|found| found.len())
}

/// X2: nobody exports what he may not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_role_may_not_read_is_not_exported() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    let script = format!("create role app login; {SCRIPT} grant select on t to app;");
    support::add_script(&home, &mut connection, &script, 1, 0).await;
    for (policy, name) in [("role:app", "as-app"), ("read-only", "reader")] {
        let policy = Some(policy.parse().unwrap());
        let request = CreateBranch { name: Some(name.to_owned()), policy, ..CreateBranch::default() };
        connection.create_branch(&request).await.unwrap();
    }
    let refused =
        home.run(&["branch", "export", "as-app", "--out", &path(&home, "try.app"), "--format", "plain"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("permission denied for table"), "{}", text(&refused.stderr));
    let done =
        home.run(&["branch", "export", "reader", "--out", &path(&home, "try.reader"), "--format", "plain"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(beside(&home), ["try.reader".to_owned()].into());
    daemon.stop().await.unwrap();
}

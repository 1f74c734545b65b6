//! Workloads of users, on real servers of each major version.

use super::user::{folder, majors};
use duramen_measure::evidence::Evidence;
use duramen_postgres::connection::Target;
use duramen_postgres::processes_below;
use duramen_replication::pair::{Pair, DATABASE};
use duramen_replication::scenario::Node;
use duramen_replication::workload::Order;
use duramen_replication::{Level, Options};
use duramen_reports::suite::run;
use duramen_workload::{compute, Block, Crew, Place, Source, Sources, Workload};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn order(dir: &Path, files: &[(&str, &str)], named: &[&str]) -> Order {
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let named: Vec<String> = named.iter().map(|name| dir.join(name).display().to_string()).collect();
    Order::read(&named, None, None, Some(4)).unwrap()
}

const SHOP: &str = r#"
setup = "schema.sql"
scale = 2

[[transaction]]
name = "order"
weight = 4
sql = ["INSERT INTO orders VALUES (:id, :customer)", "UPDATE customers SET orders = orders + 1 WHERE id = :customer"]
check = "SELECT count(*) = 1 FROM orders WHERE id = :id"
parameters = { id = { sequence = 1 }, customer = { zipf = [1, "100 * :scale"], exponent = 1.3 } }

[[transaction]]
name = "hot"
isolation = "serializable"
sql = ["UPDATE customers SET orders = orders + 1 WHERE id = 1"]

[[transaction]]
name = "plain"
script = "plain.sql"
"#;
const SCHEMA: &str = "CREATE TABLE customers (id int PRIMARY KEY, orders int);
INSERT INTO customers SELECT id, 0 FROM generate_series(1, 100 * :scale) id;
CREATE TABLE orders (id int8 PRIMARY KEY, customer int REFERENCES customers);
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN n * 2; END $$;
VACUUM ANALYZE customers;";
const PLAIN: &str = "\\set id random(1, 100 * :scale)
SELECT orders AS had FROM customers WHERE id = :id \\gset
\\if :had % 2 = 0
UPDATE customers SET orders = :had + twice(1) WHERE id = :id;
\\else
BEGIN;
UPDATE customers SET orders = orders + 1 WHERE id = :id;
END;
\\endif
";

fn number(evidence: &Evidence, kind: &str, level: &str, name: &str) -> u64 {
    let counts = evidence.config["workload"]["counts"].as_array().unwrap();
    let entry = counts.iter().find(|entry| entry["kind"] == kind && entry["level"] == level).expect(kind);
    entry[name].as_u64().unwrap()
}

/// W5, W6, W7, W9: and what is committed at remote_apply is there to be read.
#[test]
fn a_workload_would_not_be_measured_at_its_level_or_leave_something() {
    let (dir, files) = (folder(), folder());
    let order = order(
        files.path(),
        &[("shop.toml", SHOP), ("schema.sql", SCHEMA), ("plain.sql", PLAIN)],
        &["shop.toml"],
    );
    let options = Options {
        quick: true,
        levels: Some(vec![Level::RemoteWrite, Level::RemoteApply]),
        workload: Some(Arc::new(order)),
        // Its receiver hangs, whatever is committed.
        scenarios: vec![22],
        ..Options::new(dir.path(), "duramen")
    };
    let evidence = run(&options, &|_| {}).unwrap();
    // The hot row may be so hot that ten tries do not suffice.
    for check in evidence.checks.iter().filter(|check| check.name != "workload/hot") {
        assert!(check.passed, "{check:?}");
    }
    assert_eq!(evidence.config["workload_in"], serde_json::json!(["S22"]));
    let named = |name: &str| evidence.checks.iter().any(|check| check.name == name);
    assert!(
        named("workload/ran")
            && named("workload/hot")
            && named("read_your_writes/order")
            && named("mechanism/S22"),
        "{:?}",
        evidence.checks
    );
    for level in ["local", "remote_write", "remote_apply"] {
        for kind in ["order", "hot", "plain"] {
            assert!(number(&evidence, kind, level, "committed") > 0, "{kind} at {level}");
            for figure in ["latency_ms", "commit_ms", "work_ms", "throughput_per_s"] {
                let name = format!("{figure}/W/{kind}/{level}");
                assert!(evidence.measurement(&name).is_some_and(|figure| figure.count > 0), "{name}");
            }
        }
        // Serialization failures of the hot row are tried again, and counted.
        assert!(number(&evidence, "hot", level, "retried") > 0, "{level}");
    }
    // What waits for the replay waits longer than what waits for nobody.
    let wait = |level: &str| evidence.median(&format!("wait_ms/W/order/{level}")).expect(level);
    assert!(wait("remote_apply") > 0.0, "{}", wait("remote_apply"));
    assert_eq!(evidence.median("stale_percent/W/order/remote_apply"), Some(0.0));
    assert!(evidence.measurement("stale_percent/W/order/local").is_some());
    let table = duramen_reports::suite::Suite::table(&duramen_replication::Replication, &evidence);
    assert!(table.contains("Read your writes") && table.contains("40001"), "{table}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left in the folder");
    assert_eq!(processes_below(&dir.path().canonicalize().unwrap()), [0_u32; 0], "something still runs");
}

async fn pair(major: u32) -> (tempfile::TempDir, Pair) {
    let dir = folder();
    let options = Options { major: Some(major), quick: true, ..Options::new(dir.path(), "duramen") };
    let pair = Pair::open(&options, &|_| {}).await.unwrap();
    (dir, pair)
}

fn sources(text: &str) -> Sources {
    let file = Source { name: "script.sql".to_owned(), text: text.to_owned(), weight: 1, beside: Vec::new() };
    Sources { files: vec![file], schema: None, scale: None }
}

async fn crew(place: &Place, pair: &Pair, text: &str, clients: u32) -> Crew {
    let workload = Arc::new(Workload::parse(&sources(text)).unwrap());
    let target = |node: Node| place.target(pair.target(node));
    Crew::open(workload, &target(Node::Primary), &target(Node::Standby), clients, 1).await.unwrap()
}

/// What a script may try that means harm, and the code by which the server refuses it.
const HOSTILE: &[(&str, &[&str])] = &[
    ("COPY (SELECT 1) TO PROGRAM 'touch /tmp/duramen_was_here'", &["42501"]),
    ("CREATE TABLE c (t text); COPY c FROM PROGRAM 'id'", &["42501"]),
    ("COPY (SELECT 1) TO '/tmp/duramen_was_here'", &["42501"]),
    ("SELECT pg_read_file('/etc/passwd')", &["42501"]),
    ("SELECT lo_import('/etc/passwd')", &["42501"]),
    ("SELECT pg_ls_dir('/')", &["42501"]),
    ("DO $$ BEGIN EXECUTE 'COPY (SELECT 1) TO PROGRAM ''id'''; END $$", &["42501"]),
    ("CREATE ROLE evil SUPERUSER", &["42501"]),
    ("ALTER ROLE CURRENT_USER SUPERUSER", &["42501"]),
    ("ALTER ROLE CURRENT_USER CONNECTION LIMIT -1", &["42501"]),
    ("SET SESSION AUTHORIZATION postgres", &["42501"]),
    ("SET ROLE postgres", &["42501"]),
    ("RESET ROLE; RESET SESSION AUTHORIZATION; ALTER SYSTEM SET work_mem = '1MB'", &["42501"]),
    ("ALTER SYSTEM SET archive_command = 'id'", &["42501"]),
    ("ALTER DATABASE duramen_lab SET work_mem = '1MB'", &["42501"]),
    ("DROP DATABASE postgres", &["42501"]),
    ("CREATE DATABASE evil", &["42501"]),
    ("CREATE SCHEMA evil", &["42501"]),
    ("CREATE TABLE public.evil ()", &["42501"]),
    ("SELECT * FROM public.theirs", &["42501"]),
    ("CREATE EXTENSION pg_trgm", &["42501"]),
    ("CREATE FUNCTION f() RETURNS int LANGUAGE c AS '/lib/x86_64-linux-gnu/libc.so.6', 'system'", &["42501"]),
    ("CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION evil()", &["42501", "42883"]),
    ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres'", &["42501"]),
    ("SELECT pg_create_logical_replication_slot('evil', 'pgoutput')", &["42501"]),
    ("CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p", &["42501"]),
    ("CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw", &["42501", "42704"]),
    ("SET temp_file_limit = -1", &["42501"]),
    ("SET session_preload_libraries = 'x'", &["42501"]),
    ("LOAD '/tmp/evil.so'", &["42501"]),
    ("SELECT rolpassword FROM pg_authid", &["42501"]),
    ("BEGIN; LOCK TABLE pg_class IN ACCESS EXCLUSIVE MODE", &["42501"]),
    ("CREATE TABLESPACE t LOCATION '/tmp'", &["42501"]),
    ("CHECKPOINT", &["42501"]),
    ("SELECT pg_switch_wal()", &["42501"]),
    ("SELECT pg_promote()", &["42501"]),
];

/// W1, W2: nothing outside of its own schema can be read, changed or stopped by it.
#[tokio::test]
async fn a_hostile_script_would_reach_what_is_not_its_own() {
    for major in majors() {
        let (dir, pair) = pair(major).await;
        let admin = pair.connect(Node::Primary).await.unwrap();
        admin
            .batch_execute("SET synchronous_commit = local; CREATE TABLE theirs AS SELECT 1 AS id")
            .await
            .unwrap();
        let place = Place::new(major);
        place.make(&admin, DATABASE, 4).await.unwrap();
        for (sql, codes) in HOSTILE {
            let crew = crew(&place, &pair, &format!("{sql};"), 1).await;
            let block = Block { level: "local".to_owned(), lasts_ms: 1, rate_per_s: None };
            let tally = crew.run(&block).await.unwrap();
            let found: Vec<&String> = tally.kinds[0].errors.keys().collect();
            assert_eq!(tally.committed(), 0, "{major}: {sql} was done");
            assert!(
                found.iter().all(|code| codes.contains(&code.as_str())),
                "{major}: {sql}: {:?}",
                tally.kinds[0].errors
            );
        }
        // Another database of the cluster is not left to be entered by mistake, and nobody else enters this one.
        let row = admin
            .query_one(
                "SELECT has_database_privilege('public', 'duramen_lab', 'CONNECT'), has_schema_privilege($1, 'public', 'USAGE'),
                        (SELECT count(*) FROM pg_auth_members WHERE member = (SELECT oid FROM pg_roles WHERE rolname = $1))",
                &[&place.role()],
            )
            .await
            .unwrap();
        assert_eq!((row.get::<_, bool>(0), row.get::<_, bool>(1), row.get::<_, i64>(2)), (false, false, 0));
        // What it leaves behind goes with it: large objects, sessions of other names, default privileges, a setting of its own.
        let mess = "SELECT lo_create(0); CREATE TABLE IF NOT EXISTS t (); ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
                    ALTER ROLE CURRENT_USER SET work_mem = '1MB'; SET application_name = 'somebody else'; BEGIN; SELECT 1; END;";
        let messy = crew(&place, &pair, mess, 4).await;
        let tally =
            messy.run(&Block { level: "local".to_owned(), lasts_ms: 50, rate_per_s: None }).await.unwrap();
        assert!(tally.committed() > 0, "{tally:?}");
        place.remove(&admin).await.unwrap();
        let row = admin
            .query_one(
                "SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'duramen_load%'),
                        (SELECT count(*) FROM pg_namespace WHERE nspname = 'duramen_workload'),
                        (SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM theirs)",
                &[],
            )
            .await
            .unwrap();
        assert_eq!([0, 1, 2, 3].map(|at| row.get::<_, i64>(at)), [0, 0, 0, 1]);
        assert!(!Path::new("/tmp/duramen_was_here").exists());
        drop(messy);
        pair.close().await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// W4, W8: errors are counted by their code, retries are bounded, an open transaction is no commit, and a level that a
/// workload has changed by a way around the reader is told.
#[tokio::test]
async fn failures_would_be_counted_as_commits_or_tried_for_ever() {
    let (_dir, pair) = pair(majors()[0]).await;
    let admin = pair.connect(Node::Primary).await.unwrap();
    let place = Place::new(7);
    place.make(&admin, DATABASE, 4).await.unwrap();
    let one = async |text: &str, clients: u32, lasts_ms: u64| {
        let crew = crew(&place, &pair, text, clients).await;
        crew.run(&Block { level: "local".to_owned(), lasts_ms, rate_per_s: None }).await.unwrap()
    };
    for (text, code) in [
        ("SELECT 1 / 0;", "22012"),
        ("\\set x 1 / 0\nSELECT :x;", "client"),
        ("BEGIN;\n\\set x 1 / 0\nSELECT :x;\nEND;", "client"),
        ("SELECT 1 AS a WHERE false \\gset\nSELECT 1;", "client"),
        ("BEGIN; SELECT 1;", "open"),
        ("DO $$ BEGIN RAISE 'mine' USING ERRCODE = 'ZZ001'; END $$;", "ZZ001"),
        ("SELECT pg_terminate_backend(pg_backend_pid());", "57P01"),
    ] {
        let tally = one(text, 1, 30).await;
        let errors = &tally.kinds[0].errors;
        assert!(tally.committed() == 0 && errors.contains_key(code), "{text}: {errors:?}");
        assert!(errors.len() == 1 || code == "57P01", "{text}: {errors:?}");
    }
    let always = one("DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$;", 1, 1).await;
    let kind = &always.kinds[0];
    assert_eq!((kind.retries["40001"], kind.errors["40001"].count, kind.retried), (9, 1, 1));
    let hidden = "SELECT set_config('synchronous' || '_commit', 'off', false);";
    assert_eq!(one(hidden, 2, 30).await.strayed, 2);
    // A row that is large, or many of them, are not kept.
    let large = one("SELECT repeat('x', 1000) FROM generate_series(1, 20000);", 1, 1).await;
    assert_eq!(large.failed(), 0);
    place.remove(&admin).await.unwrap();
    pair.close().await.unwrap();
}

/// What pgbench computes is what is computed here; it says so itself, on a server of ours.
#[tokio::test]
async fn expressions_would_not_be_what_pgbench_makes_of_them() {
    let major = majors()[1];
    let programs = duramen_postgres::Installation::discover(&duramen_base::home::usual()).unwrap();
    let program =
        programs.iter().map(|installation| installation.program("pgbench")).find(|program| program.exists());
    let program = program.expect("a pgbench of some major version");
    let (_dir, pair) = pair(major).await;
    let expressions = [
        "1 + 2 * 3 - 4 / 3 % 2",
        "7 / -2",
        "-7 % 3",
        "2.5 * 2",
        "1 << 4 | 3 # 1 & 7",
        "~7",
        "hash(42, 7)",
        "hash_fnv1a(42, 7)",
        "hash_murmur2(-3, 99)",
        "case when 1 > 2 then 1 when null then 2 else 3 end",
        "1 is not null and not false",
        "greatest(1, 2.5, 2)",
        "least(3, 2, 9)",
        "int(2.5)",
        "int(3.5)",
        "int(-2.5)",
        "abs(-3)",
        "power(2, 3)",
        "sqrt(16.0)",
        "mod(-7, 3)",
        "pi() > 3",
        "1 + null is null",
        "null or true",
        "1 <> 2 and 2 >= 2",
        "not 1 = 2",
        "5 - 3 - 1",
        "-2 * -3",
        "1 - -1",
        "random(3, 3)",
        "2 > 1",
        "case when false then 1 end is null",
        "double(3) / 2",
        "1 | 2 + 4",
        "3 & 1 = 1",
        "1 < 2 is true",
        "not true or true",
        "-9223372036854775807 - 1",
    ];
    let script: String = expressions
        .iter()
        .map(|text| format!("\\set x debug({text})\n"))
        .chain(["SELECT 1;\n".to_owned()])
        .collect();
    let file = folder();
    std::fs::write(file.path().join("script.sql"), script).unwrap();
    let target: &Target = pair.target(Node::Primary);
    let said = Command::new(program)
        .args(["-n", "-t", "1", "-f"])
        .arg(file.path().join("script.sql"))
        .args(["-h", &target.host(), "-p", &target.port().to_string(), "-U", "postgres", "postgres"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    let found: Vec<&str> =
        text.lines().filter_map(|line| line.split("debug(").nth(1)?.split("): ").nth(1)).collect();
    assert_eq!(found.len(), expressions.len(), "{text}");
    for (expression, found) in expressions.iter().zip(found) {
        let ours = compute(expression, 1).unwrap();
        let (kind, theirs) = found.split_once(' ').unwrap_or((found, "NULL"));
        let alike = match kind {
            "double" => (ours.parse::<f64>().unwrap() - theirs.parse::<f64>().unwrap()).abs() < 1e-9,
            "boolean" => ours == theirs || ours.starts_with(theirs),
            "null" => ours == "NULL",
            _ => ours == theirs,
        };
        assert!(alike, "{expression}: {ours}, and pgbench says {found}");
    }
    pair.close().await.unwrap();
}

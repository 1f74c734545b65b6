//! `duramen branch rehearse`: what a migration does to who works with the data meanwhile is told, and nothing is left. The invariants R1 to
//! R10 are in `docs/design/rehearse.md`.

mod examples;
mod recorded;
mod upgrades;

use crate::{
    http_door::Site,
    support::{add_script, connect, settle, text, until, Home},
};
use duramen_api::token::Role;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Output, Stdio},
};

/// Names that would be markup if they were not text.
const HOSTILE: &str = "\"<img src=x onerror=alert(1)>|`@all`\"";

const SCRIPT: &str = "
  create table orders (id int primary key, customer int not null, state text not null, total int not null);
  insert into orders select i, i % 5000, 'new', i from generate_series(1, 100000) i;
  create table \"<img src=x onerror=alert(1)>|`@all`\" (id int);
  analyze;";

const READS: &str = "\\set id random(1, 100000)\nselect total from orders where id = :id;\n";

struct Rehearsal<'a> {
    home: &'a Home,
}

impl Rehearsal<'_> {
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.home.beside(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// A migration that psql runs.
    fn psql(&self, name: &str, sql: &str) -> String {
        format!("psql -X -q -v ON_ERROR_STOP=1 -f '{}'", self.file(name, sql))
    }

    /// Its report, its exit status, and what it printed.
    fn run(&self, migrate: &str, options: &[&str]) -> (Value, Option<i32>, Output) {
        self.upgrade(&[&["--migrate", migrate], options].concat())
    }

    /// The same, of an upgrade.
    fn upgrade(&self, options: &[&str]) -> (Value, Option<i32>, Output) {
        let json = self.home.beside("report.json");
        let _ = fs::remove_file(&json);
        let path = json.display().to_string();
        let words = [&["branch", "rehearse", "--json", &path], options].concat();
        let output = self.home.run(&words);
        let report = fs::read(&json).ok().and_then(|text| serde_json::from_slice(&text).ok());
        (report.unwrap_or_default(), output.status.code(), output)
    }
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let all = list.as_array().expect("a list");
    all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

fn is_near(found: &Value, expected_ms: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - expected_ms).abs() <= 200.0)
}

fn findings(report: &Value) -> Vec<String> {
    let all = report["findings"].as_array().expect("findings").iter();
    all.map(|it| format!("{}: {}", it["rule"].as_str().unwrap(), it["text"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_migration_does_to_others_is_told_and_nothing_is_left() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SCRIPT, 1, 1).await;
    settle(&mut connection).await;
    let rehearsal = Rehearsal { home: &home };

    who_waits_is_told_with_lengths(&rehearsal);
    who_queues_behind_a_waiting_migration_is_told(&rehearsal);
    what_is_rewritten_is_told(&rehearsal);
    an_index_made_concurrently_keeps_nobody_out_and_changes_plans(&rehearsal);
    a_migration_that_fails_is_told_with_what_it_left(&rehearsal);
    assert!(connection.branches().await.unwrap().is_empty(), "R2");
    a_migration_that_hangs_is_ended(&rehearsal);
    assert!(connection.branches().await.unwrap().is_empty(), "R2");
    names_stay_text(&rehearsal);

    // R2, R3: an interrupt ends all of it.
    let begun = home.beside("begun");
    let migrate = format!("echo $$ > '{0}.new'; mv '{0}.new' '{0}'; sleep 300; echo never", begun.display());
    let mut command = home.command(&["branch", "rehearse", "--migrate", &migrate]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the migration runs", async || begun.exists()).await;
    let shell: i32 = fs::read_to_string(&begun).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(143), ""), "{output:?}");
    assert!(connection.branches().await.unwrap().is_empty(), "R2");
    until("the migration is gone", async || !PathBuf::from(format!("/proc/{shell}")).exists()).await;

    // R1, and what is kept is kept.
    let (report, code, output) = rehearsal.run("exit 0", &["--keep"]);
    assert_eq!(code, Some(0), "{output:?}");
    let name = report["branch"].as_str().unwrap().to_owned();
    assert!(report["fate"]["kept"].is_string(), "{report:#}");
    let evidence = connection.evidence(&name, None).await.unwrap();
    assert_eq!(evidence.snapshot_digest, evidence.snapshot_digest_now, "R1");
    connection.destroy_branch(&name).await.unwrap();

    bad_usage_makes_no_branch(&rehearsal);
    assert!(connection.branches().await.unwrap().is_empty());
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

fn who_waits_is_told_with_lengths(rehearsal: &Rehearsal<'_>) {
    let load = rehearsal.file("reads.sql", READS);
    // How long it had the lock, by itself.
    let sql = "begin; alter table orders add column note text;\nselect clock_timestamp() as held \\gset\n\
               select pg_sleep(1.5);\ncommit;\n\
               select extract(epoch from clock_timestamp() - :'held') * 1000 as ms \\gset\n\\echo held :ms\n";
    let migrate = rehearsal.psql("locks.sql", sql);
    let options = ["--load", &load, "--load-rate", "40", "--before", "1s", "--after", "1s"];
    let (report, code, output) = rehearsal.run(&migrate, &options);
    assert_eq!((code, &report["outcome"]), (Some(0), &Value::from("succeeded")), "{output:?}");
    let printed = report["migration"]["output"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let truth =
        printed.filter_map(|line| line.strip_prefix("held ")).next().expect("it tells").parse().unwrap();
    let table = named(&report["locks"], "public.orders");
    let mode = &table["modes"][0];
    assert_eq!(
        (&mode["mode"], &mode["keeps_out"]),
        (&Value::from("ACCESS EXCLUSIVE"), &Value::from("everybody")),
        "{table:#}"
    );
    assert!(is_near(&mode["longest_ms"], truth), "{truth}: {table:#}");
    assert!(is_near(&table["longest_wait_ms"], truth), "{truth}: {table:#}");
    assert!(table["waiters"].as_u64() >= Some(4), "{table:#}");
    assert!(table["waiter"].as_str().unwrap().starts_with("select total from orders"), "{table:#}");
    // The load saw the same at its end, by another clock: its first statement that waited, and the ones that were due meanwhile.
    let [before, during, after] = [0, 1, 2].map(|phase| &report["load"]["transactions"][phase]);
    assert!(is_near(&during["max_ms"], truth), "{truth}: {during:#}");
    assert!(before["count"].as_u64() >= Some(20) && after["count"].as_u64() >= Some(20), "{report:#}");
    assert!(before["p50_ms"].as_f64() < Some(200.0), "{before:#}");
    assert!(during["p50_ms"].as_f64() > Some(300.0), "an open loop: {during:#}");
    assert_eq!((&during["failed"], &report["load"]["unfinished"]), (&Value::from(0), &Value::from(0)));
    let statements = report["migration"]["statements"].as_array().unwrap();
    let slept =
        statements.iter().find(|it| it["text"].as_str().unwrap().contains("pg_sleep")).expect("it was seen");
    assert!(is_near(&slept["took_ms"], 1500.0), "{slept:#}");
    let changes = report["definitions"]["changes"].as_array().unwrap();
    assert!(changes.iter().any(|it| it["name"] == "public.orders.note"), "{changes:#?}");
    let said = text(&output.stdout);
    assert!(said.starts_with("SUCCEEDED: The migration succeeded after "), "{said}");
    assert!(said.contains("public.orders") && said.contains("ACCESS EXCLUSIVE"), "{said}");

    let (report, code, _) = rehearsal.run(&migrate, &[&options[..], &["--max-lock-wait", "500"]].concat());
    assert_eq!((code, &report["gate"]["passed"]), (Some(6), &Value::from(false)), "{report:#}");
    // Without a load the lock itself is held against the limit.
    let (report, code, _) = rehearsal.run(&migrate, &["--max-lock-wait", "500"]);
    assert_eq!(code, Some(6), "{report:#}");
    assert!(is_near(&report["gate"]["measured_ms"], 1500.0), "{report:#}");
    let (_, code, output) = rehearsal.run(&migrate, &["--max-lock-wait", "5000"]);
    assert_eq!(code, Some(0), "{output:?}");
}

fn who_queues_behind_a_waiting_migration_is_told(rehearsal: &Rehearsal<'_>) {
    let reads = rehearsal.file("reads.sql", READS);
    let long = "begin; select count(*) from orders where id < 10;\\sleep 1200 ms\ncommit;";
    let long = format!("{}@1", rehearsal.file("long.sql", long));
    let migrate = rehearsal.psql("waits.sql", "alter table orders add column more text;");
    let options = [
        "--load",
        &reads,
        "--load",
        &long,
        "--load-rate",
        "10",
        "--load-clients",
        "8",
        "--before",
        "2s",
        "--after",
        "2s",
    ];
    let (report, code, output) = rehearsal.run(&migrate, &options);
    assert_eq!(code, Some(0), "{output:?}");
    let wait = &report["migration"]["waits"][0];
    assert_eq!(wait["what"], "public.orders", "{report:#}");
    assert!(wait["waited_ms"].as_f64() > Some(200.0), "{wait:#}");
    assert!(wait["blockers"].to_string().contains("idle in transaction"), "{wait:#}");
    let table = named(&report["locks"], "public.orders");
    assert!(table["waiters"].as_u64() >= Some(1), "who came later stood behind it: {report:#}");
    assert!(findings(&report).iter().any(|it| it.starts_with("migration_waited")), "{report:#}");
}

fn what_is_rewritten_is_told(rehearsal: &Rehearsal<'_>) {
    let sql = "alter table orders alter total type bigint; update orders set state = 'old' where id <= 10;";
    let migrate = rehearsal.psql("rewrites.sql", sql);
    let (report, code, output) = rehearsal.run(&migrate, &[]);
    assert_eq!(code, Some(0), "{output:?}");
    let table = named(&report["relations"], "public.orders");
    assert_eq!(
        (&table["what"], &table["updated"]),
        (&Value::from("rewritten"), &Value::from(10)),
        "{table:#}"
    );
    assert!(table["bytes_before"].as_u64() > Some(4 << 20), "{table:#}");
    assert!(table["bytes_after"].as_u64() > Some(4 << 20), "{table:#}");
    assert_eq!(named(&report["relations"], "public.orders_pkey")["what"], "rewritten");
    assert!(report["wal"]["unlogged_bytes"].as_u64() >= table["bytes_after"].as_u64(), "{report:#}");
    let found = findings(&report);
    assert!(found.iter().any(|it| it.starts_with("rewritten: public.orders")), "{found:?}");
    assert!(found.iter().any(|it| it.starts_with("definition:") && it.contains("rewrite")), "{found:?}");
}

fn an_index_made_concurrently_keeps_nobody_out_and_changes_plans(rehearsal: &Rehearsal<'_>) {
    let reads = rehearsal
        .file("writes.sql", "\\set id random(1, 100000)\nupdate orders set state = 'x' where id = :id;");
    let queries = rehearsal.file(
        "queries.sql",
        "select count(*) from orders where customer = 7; -- by customer\nselect nothing from nowhere;\nselect pg_sleep(2)",
    );
    let migrate = rehearsal.psql("index.sql", "create index concurrently by_customer on orders (customer);");
    let options = [
        "--load",
        &reads,
        "--before",
        "1s",
        "--after",
        "500ms",
        "--queries",
        &queries,
        "--query-timeout",
        "500ms",
        "--max-lock-wait",
        "500",
    ];
    let (report, code, output) = rehearsal.run(&migrate, &options);
    assert_eq!(code, Some(0), "{output:?}");
    let table = named(&report["locks"], "public.orders");
    let modes = table["modes"].as_array().unwrap();
    assert!(modes.iter().all(|mode| mode["keeps_out"] == "nobody"), "{table:#}");
    assert_eq!(modes[0]["mode"], "SHARE UPDATE EXCLUSIVE", "{table:#}");
    let index = named(&report["relations"], "public.by_customer");
    assert_eq!(
        (&index["what"], &index["is_valid"], &index["table"]),
        (&"created".into(), &true.into(), &"public.orders".into())
    );
    let [query, bad, slow] = [0, 1, 2].map(|at| &report["queries"][at]);
    assert_eq!(query["is_changed"], true, "{query:#}");
    assert!(query["before"]["shape"].to_string().contains("Seq Scan on orders"), "{query:#}");
    assert!(query["after"]["shape"].to_string().contains("by_customer"), "{query:#}");
    assert!(query["before"]["execution_ms"].is_f64() && query["after"]["rows"] == 1.0, "{query:#}");
    assert!(bad["before"]["error"].as_str().unwrap().contains("nowhere"), "{bad:#}");
    // What takes too long has a plan, and no time.
    assert!(slow["after"]["error"].as_str().unwrap().contains("timeout"), "{slow:#}");
    assert_eq!(
        (&slow["after"]["shape"][0], &slow["after"]["execution_ms"]),
        (&"Result".into(), &Value::Null),
        "{slow:#}"
    );
}

fn a_migration_that_fails_is_told_with_what_it_left(rehearsal: &Rehearsal<'_>) {
    let migrate = rehearsal.psql("fails.sql", "create unique index concurrently twice on orders (customer);");
    let migrate = format!("echo \"$DATABASE_URL\"; {migrate}");
    let (report, code, output) = rehearsal.run(&migrate, &[]);
    assert_eq!((code, &report["outcome"]), (Some(4), &Value::from("migration-failed")), "{output:?}");
    assert_ne!(report["migration"]["ending"]["exit"], 0);
    let printed = report["migration"]["output"].to_string();
    assert!(printed.contains("could not create unique index"), "{printed}");
    assert!(printed.contains("password=[secret]"), "R6: {printed}");
    assert_eq!(named(&report["relations"], "public.twice")["is_valid"], false);
    assert!(
        findings(&report).iter().any(|it| it.starts_with("invalid_index: the index public.twice")),
        "{report:#}"
    );
    let (report, code, _) = rehearsal.run("kill -KILL $$", &[]);
    assert_eq!((code, &report["migration"]["ending"]["signal"]), (Some(4), &Value::from(9)));
}

fn a_migration_that_hangs_is_ended(rehearsal: &Rehearsal<'_>) {
    let load = rehearsal.file("reads.sql", READS);
    let sql = "begin; lock table orders in access exclusive mode; select pg_sleep(600);";
    // A shell that does not listen, and a child of it.
    let migrate = format!("trap '' TERM; {}", rehearsal.psql("hangs.sql", sql));
    let options = ["--timeout", "1500ms", "--load", &load, "--before", "500ms", "--after", "1s"];
    let (report, code, output) = rehearsal.run(&migrate, &options);
    assert_eq!((code, &report["outcome"]), (Some(5), &Value::from("deadline")), "{output:?}");
    assert_eq!(report["migration"]["ending"], "deadline");
    let after = &report["load"]["transactions"][2];
    assert!(after["count"].as_u64() > Some(10), "the load went on when it was ended: {report:#}");
    assert_eq!(report["load"]["unfinished"], 0);
}

/// R7
fn names_stay_text(rehearsal: &Rehearsal<'_>) {
    let sql = format!(
        "begin; lock table {HOSTILE} in access exclusive mode; select pg_sleep(0.2); commit;\n\
         \\echo '</code><script>alert(2)</script> ```'\ninsert into {HOSTILE} values (1);"
    );
    let migrate = rehearsal.psql("hostile.sql", &sql);
    let (html, markdown) = (rehearsal.file("page.html", ""), rehearsal.file("comment.md", ""));
    let (report, code, output) = rehearsal.run(&migrate, &["--html", &html, "--markdown", &markdown]);
    assert_eq!(code, Some(0), "{output:?}");
    let name = format!("public.{HOSTILE}");
    assert_eq!(named(&report["relations"], &name)["inserted"], 1);
    let (html, markdown) = (fs::read_to_string(html).unwrap(), fs::read_to_string(markdown).unwrap());
    assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;"), "{html}");
    assert!(!html.contains("<img") && !html.contains("<script"), "{html}");
    assert!(markdown.starts_with("## SUCCEEDED: "), "{markdown}");
    let outside = outside_of_code(&markdown);
    assert!(
        !outside.contains("<img") && !outside.contains("<script") && !outside.contains("@all"),
        "{markdown}"
    );
}

/// Markdown without its code, where everything is text.
fn outside_of_code(markdown: &str) -> String {
    let (mut outside, mut rest) = (String::new(), markdown);
    while let Some(at) = rest.find('`') {
        outside.push_str(&rest[..at]);
        if outside.ends_with('\\') {
            // That is text.
            rest = &rest[at + 1..];
            continue;
        }
        let fence = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let inside = &rest[at + fence..];
        let mut from = 0;
        let end = loop {
            let next = inside[from..].find('`').map(|found| from + found).expect("code ends");
            let length = inside[next..].len() - inside[next..].trim_start_matches('`').len();
            if length == fence {
                break next + length;
            }
            from = next + length;
        };
        rest = &inside[end..];
    }
    outside + rest
}

fn bad_usage_makes_no_branch(rehearsal: &Rehearsal<'_>) {
    let bad = rehearsal.file("bad.sql", "select 1;\n\\shell rm\n");
    for options in [
        &["--load", "/no/such/file"][..],
        &["--load", &bad],
        &["--load-rate", "5"],
        &["--load", &bad, "--load-clients", "13"],
    ] {
        let (_, code, output) = rehearsal.run("exit 0", options);
        assert_eq!(code, Some(2), "{options:?}: {output:?}");
    }
    let (_, _, output) = rehearsal.run("exit 0", &["--load", &bad]);
    assert!(text(&output.stderr).contains("bad.sql, line 2: "), "{output:?}");
    let (_, code, _) = rehearsal.run("exit 0", &["--source", "none"]);
    assert_eq!(code, Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_tokens_rehearse_with_their_rights() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let who = site.token("ci", Role::User, &["app"]).await;
    let rehearsal = Rehearsal { home: &site.home };
    let load = rehearsal.file("reads.sql", "select sum(x) from t");
    let lock = "begin; lock table t; select pg_sleep(1); commit; alter table t add y int";
    let migrate = format!("echo \"$DATABASE_URL $PGPASSWORD\"; {}", rehearsal.psql("locks.sql", lock));
    let (json, md, html) =
        (rehearsal.file("r.json", ""), rehearsal.file("r.md", ""), rehearsal.file("r.html", ""));
    let mut command = std::process::Command::new(crate::support::EXE);
    command.args([
        "branch",
        "rehearse",
        "--migrate",
        &migrate,
        "--load",
        &load,
        "--before",
        "500ms",
        "--after",
        "500ms",
    ]);
    command.args(["--json", &json, "--markdown", &md, "--html", &html]).env_remove("DURAMEN_HOME");
    command.env("DURAMEN_URL", format!("https://localhost:{}", site.door.port()));
    command.env("DURAMEN_TOKEN", format!("ci:{}", who.secret));
    command.env("DURAMEN_CA", site.home.path().join("doors/certificate.pem"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let written = [json, md, html].map(|path| fs::read_to_string(path).unwrap());
    let report: Value = serde_json::from_str(&written[0]).unwrap();
    let table = named(&report["locks"], "public.t");
    assert!(table["longest_wait_ms"].as_f64() > Some(700.0), "{report:#}");
    assert!(report["definitions"]["changes"].to_string().contains("public.t.y"), "{report:#}");
    // R6: the token outlives the branch.
    assert!(report["migration"]["output"].to_string().contains("[secret]"), "{report:#}");
    let printed = text(&output.stdout);
    assert!(written.iter().chain([&printed]).all(|text| !text.contains(&who.secret)), "R6");
    assert!(site.connection.branches().await.unwrap().is_empty(), "R2");
    // What a token may not, a rehearsal may not.
    let reader = duramen_api::token::CreateToken {
        name: "reader".to_owned(),
        role: Role::User,
        policies: vec![duramen_api::model::Policy::ReadOnly],
        ..Default::default()
    };
    let reader = site.make(reader).await;
    command.env("DURAMEN_TOKEN", format!("reader:{}", reader.secret));
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    site.daemon.stop().await.unwrap();
}

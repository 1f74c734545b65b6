//! `duramen branch rehearse --pg`: what an upgrade by `pg_upgrade` would do, and nothing is left. The invariants R1, R2 and U1 are in
//! `docs/design/rehearse.md`.

use super::{findings, Rehearsal};
use crate::{
    running_origin::RunningOrigin,
    support::{connect, text, until, Home},
};
use duramen_api::model::{AddSource, Origin, SourceSettings};
use duramen_client::Connection;
use duramen_postgres::{processes_below, Installation};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::{fs, process::Stdio};

const SCHEMA: &str = "
  create table orders (id int primary key, customer int not null, state text not null, total int not null);
  insert into orders select i, i % 5000, 'new', i from generate_series(1, 50000) i;
  create index orders_customer on orders (customer);
  create view totals as select customer, sum(total) from orders group by customer;";
const QUERIES: &str = "select * from orders where customer = 42;\nselect count(*) from totals;\n";

/// That there is no source but `app`, and no branch.
async fn nothing_is_left(home: &Home, connection: &mut Connection) {
    until("the copy is gone", async || {
        let sources = connection.sources().await.expect("sources");
        let branches = connection.branches().await.expect("branches");
        let imports = home.path().join("volumes/imports");
        let entries = fs::read_dir(&imports).into_iter().flatten().count();
        sources.len() == 1 && branches.is_empty() && entries == 0 && processes_below(&imports).is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_upgrade_does_is_told_and_nothing_is_left() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    let installed = Installation::discover(&home.path()).expect("servers");
    let majors: Vec<u32> = installed.iter().map(|it| it.version.major).collect();
    let (oldest, newest) = (*majors.iter().min().expect("a server"), *majors.iter().max().expect("a server"));
    assert!(oldest < newest, "two versions are installed: {majors:?}");
    let origin = RunningOrigin::of_version(&home, Some(oldest));
    let client = origin.client().await;
    client.batch_execute(SCHEMA).await.expect("a schema");
    let request = AddSource {
        name: "app".to_owned(),
        origin: Origin::Server {
            url: format!("postgresql://boss@/postgres?host={}&port=5432", origin.socket.display()),
        },
        database: None,
        settings: SourceSettings::default(),
    };
    connection.add_source(&request, |_, _| {}).await.expect("the source");
    let rehearsal = Rehearsal { home: &home };
    let queries = rehearsal.file("slow.sql", QUERIES);
    let page = home.beside("page.html").display().to_string();
    let pg = newest.to_string();

    let options = ["--pg", &pg, "--source", "app", "--queries", &queries, "--html", &page];
    let (report, code, output) = rehearsal.upgrade(&options);
    assert_eq!((code, &report["outcome"]), (Some(0), &Value::from("succeeded")), "{output:?}");
    let [from, to] = ["from", "to"].map(|side| report["upgrade"][side].as_str().unwrap().to_owned());
    assert!(from.starts_with(&format!("{oldest}.")) && to.starts_with(&format!("{newest}.")), "{from} {to}");
    let took = report["migration"]["duration_ms"].as_f64().unwrap();
    assert!((100.0..60_000.0).contains(&took), "{took}");
    assert!(report["migration"]["output"].to_string().contains("Upgrade Complete"), "{report:#}");
    let plans = report["queries"].as_array().unwrap();
    assert_eq!(plans.len(), 2, "{report:#}");
    for plan in plans {
        assert!(plan["before"]["rows"].as_f64() == plan["after"]["rows"].as_f64(), "{plan:#}");
        assert!(plan["after"]["execution_ms"].is_number(), "{plan:#}");
    }
    let relations = report["relations"].as_array().unwrap();
    assert!(relations.iter().all(|it| it["what"] == "written"), "linked files are the same: {relations:#?}");
    assert!(report["server"]["server_version"].as_str().unwrap().starts_with(&to), "{report:#}");
    let said = text(&output.stdout);
    assert!(said.starts_with(&format!("SUCCEEDED: The upgrade from PostgreSQL {from} to ")), "{said}");
    assert!(!said.contains("no load was given") && !said.contains("looked at locks"), "{said}");
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("Rehearsal of an upgrade of app"), "{page}");
    nothing_is_left(&home, &mut connection).await;
    assert!(connection.verify_source("app").await.unwrap().intact, "R1");

    // What is kept is a branch of the later version.
    let (report, code, output) = rehearsal.upgrade(&["--pg", &pg, "--keep"]);
    assert_eq!(code, Some(0), "{output:?}");
    assert!(report["fate"]["kept"].is_string(), "{report:#}");
    let branches = connection.branches().await.unwrap();
    assert_eq!((branches.len(), branches[0].name.as_str()), (1, report["branch"].as_str().unwrap()));
    let source = branches[0].source.clone();
    assert!(source.starts_with(&format!("app-on-{newest}-")), "{source}");
    connection.destroy_branch(&branches[0].name).await.unwrap();
    connection.remove_source(&source).await.unwrap();

    // What is refused: the type has another form since 16.
    client.batch_execute("create table rights (of aclitem)").await.expect("a table");
    connection.refresh_source("app", |_, _| {}).await.expect("a refresh");
    if oldest < 16 {
        let (report, code, output) = rehearsal.upgrade(&["--pg", &pg]);
        assert_eq!((code, &report["outcome"]), (Some(4), &Value::from("migration-failed")), "{output:?}");
        assert!(report["migration"]["output"].to_string().contains("public.rights.of"), "{report:#}");
        let said = text(&output.stdout);
        assert!(said.contains("is refused") && said.contains("public.rights.of"), "{said}");
        nothing_is_left(&home, &mut connection).await;
    }
    client.batch_execute("drop table rights").await.expect("it is gone");
    connection.refresh_source("app", |_, _| {}).await.expect("a refresh");

    // U1: at its deadline, and by a signal.
    let (report, code, output) = rehearsal.upgrade(&["--pg", &pg, "--timeout", "100ms"]);
    assert_eq!((code, &report["outcome"]), (Some(5), &Value::from("deadline")), "{output:?}");
    assert!(findings(&report).is_empty(), "{report:#}");
    nothing_is_left(&home, &mut connection).await;
    let mut command = home.command(&["branch", "rehearse", "--pg", &pg]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let imports = home.path().join("volumes/imports");
    until("pg_upgrade runs", async || {
        processes_below(&imports).iter().any(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "pg_upgrade")
        })
    })
    .await;
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(143), ""), "{output:?}");
    nothing_is_left(&home, &mut connection).await;

    for (options, said) in [
        (&["--pg", &pg, "--migrate", "exit 0"][..], "--migrate"),
        (&["--pg", &pg, "--load", &queries], "--load"),
        (&[], "--migrate"),
    ] {
        let output = home.run(&[&["branch", "rehearse"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
    let old = oldest.to_string();
    let output = home.run(&["branch", "rehearse", "--pg", &old]);
    assert!(output.status.code() == Some(1) && text(&output.stderr).contains("later"), "{output:?}");
    nothing_is_left(&home, &mut connection).await;
    drop(client);
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

//! Directories of measurements that are attached: who sees what is in them, and what a request cannot name.

use super::client::{Site, Who};
use duramen_api::{
    attachments::{AddAttachment, AttachmentKind},
    token::Role,
};
use serde_json::{json, Value};
use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Where documents of real runs lie, and the log of a real series of tries.
const RUNS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../reports/tests/fixtures");
const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiments/c1z3-read/experiments.jsonl");

/// A directory with all of it, and a link that leads out of it.
fn measured(site: &Site) -> PathBuf {
    let folder = site.home.beside("measured");
    fs::create_dir_all(folder.join("series")).expect("the folder");
    for entry in fs::read_dir(RUNS).expect("documents").flatten() {
        fs::copy(entry.path(), folder.join(entry.file_name())).expect("a document");
    }
    fs::copy(LOG, folder.join("series/experiments.jsonl")).expect("the log");
    fs::copy(Path::new(RUNS).join("store.json"), site.home.beside("secret.json")).expect("a document");
    symlink("..", folder.join("out")).expect("a link");
    folder
}

async fn attach(site: &mut Site, name: &str, kind: AttachmentKind, at: &Path) {
    let at = at.to_str().expect("UTF-8").to_owned();
    site.connection
        .add_attachment(&AddAttachment { name: name.to_owned(), kind, at })
        .await
        .expect("attached");
}

fn id(runs: &Value, suite: &str) -> String {
    let runs = runs["runs"].as_array().expect("runs");
    let run = runs.iter().find(|run| run["suite"] == suite).expect("a run");
    run["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_all_sources_see_what_was_measured_and_others_do_not() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let folder = measured(&site);
    attach(&mut site, "lab", AttachmentKind::Lab, &folder).await;
    attach(&mut site, "notes", AttachmentKind::Store, &folder).await;
    let user = site.token("user", Role::User, &[]).await;
    let admin = site.token("admin", Role::Admin, &[]).await;
    let viewer = site.token("viewer", Role::Viewer, &[]).await;
    let bound = site.token("bound", Role::Admin, &["app"]).await;

    let runs = user.get("/v1/attachments/lab/runs").json();
    let listed = runs["runs"].as_array().unwrap();
    assert_eq!((listed.len(), &runs["logs"], &runs["damaged_count"]), (5, &json!(1), &json!(0)));
    assert!(listed.iter().all(|run| !run["file"].as_str().unwrap().contains("secret")));
    let (store, packs) = (id(&runs, "store"), id(&runs, "packs"));
    let earlier = listed.iter().rfind(|run| run["suite"] == "packs").unwrap()["id"].as_str().unwrap();
    let paths = [
        "runs".to_owned(),
        "runs?suite=packs".to_owned(),
        format!("run?id={store}"),
        "series?suite=packs".to_owned(),
        "series?suite=packs&measurement=write_ms/1000".to_owned(),
        format!("comparison?a={earlier}&b={packs}"),
        "experiments".to_owned(),
    ];
    for path in &paths {
        let path = format!("/v1/attachments/lab/{path}");
        for who in [&user, &admin] {
            let answer = who.get(&path);
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let tag = answer.header("etag").expect("a tag").to_owned();
            assert_eq!(who.ask("GET", &path, &format!("if-none-match: {tag}\r\n"), "").status, 304, "{path}");
        }
        for who in [&viewer, &bound] {
            let refused = who.get(&path);
            assert_eq!((refused.status, refused.code().as_str()), (403, "not_allowed"), "{path}");
        }
        let other = user.get(&path.replace("/lab/", "/notes/"));
        assert_eq!((other.status, other.code().as_str()), (400, "other_kind"), "{path}");
        let none = user.get(&path.replace("/lab/", "/none/"));
        assert_eq!((none.status, none.code().as_str()), (404, "unknown_attachment"), "{path}");
    }

    // The suites of the program say which targets figures have, and how figures stand to them.
    let report = user.get(&format!("/v1/attachments/lab/run?id={store}")).json();
    assert_eq!(report["measurements"].as_array().unwrap().len(), 71);
    let targets = report["targets"].as_array().unwrap();
    assert!(targets.iter().any(|target| target["what"] == "put, memory, p50"), "{targets:?}");
    assert!(!report["tiles"].as_array().unwrap().is_empty() && report["about"].is_string());
    // The client reads what the daemon writes.
    let told = site.connection.lab_experiments("lab").await.unwrap();
    assert_eq!(told.experiments[0].file, "series/experiments.jsonl");
    let compared = site.connection.lab_comparison("lab", &[earlier], &[&packs]).await.unwrap();
    assert_eq!((compared.suite.as_str(), compared.figures.len()), ("packs", 55));
    let history = site.connection.lab_series("lab", "packs", Some("write_ms/1000")).await.unwrap();
    assert_eq!(history.series[0].figures[0].values.len(), 2);
    assert_eq!(site.connection.lab_runs("lab", Some("store")).await.unwrap().runs.len(), 1);
    assert_eq!(site.connection.lab_run("lab", &store).await.unwrap().run.id, store);
    // Nothing of it is an operation that the audit log has.
    assert_eq!(site.audited("attachment_added").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_request_names_leads_nowhere() {
    let mut site = Site::open().await;
    let folder = measured(&site);
    attach(&mut site, "lab", AttachmentKind::Lab, &folder).await;
    let user = site.token("user", Role::User, &[]).await;
    let runs = user.get("/v1/attachments/lab/runs").json();
    let store = id(&runs, "store");
    let packs = id(&runs, "packs");
    let long = "a".repeat(4_000);
    for (path, status, code) in [
        ("run".to_owned(), 400, "bad_request"),
        ("run?id=%ff".to_owned(), 400, "bad_request"),
        ("run?id=".to_owned(), 404, "unknown_run"),
        ("run?id=../secret.json".to_owned(), 404, "unknown_run"),
        ("run?id=out%2Fsecret.json".to_owned(), 404, "unknown_run"),
        ("run?id=store.json".to_owned(), 404, "unknown_run"),
        ("run?id=%00".to_owned(), 404, "unknown_run"),
        (format!("run?id={long}"), 404, "unknown_run"),
        ("series".to_owned(), 400, "bad_request"),
        ("comparison".to_owned(), 400, "bad_request"),
        (format!("comparison?a={store}&b="), 400, "not_comparable"),
        (format!("comparison?a={store}&b=..%2Fsecret.json"), 404, "unknown_run"),
        (format!("comparison?a={store}&b={packs}"), 400, "not_comparable"),
    ] {
        let refused = user.get(&format!("/v1/attachments/lab/{path}"));
        assert_eq!((refused.status, refused.code().as_str()), (status, code), "{path}: {refused:?}");
    }
    let nothing = user.get("/v1/attachments/lab/series?suite=..%2F..").json();
    assert_eq!(nothing["series"], json!([]));
    // Nothing is written there, and what is damaged or gone is said.
    fs::write(folder.join("store.json"), "{\"schema\": \"duramen.evidence/1\"").expect("damage");
    let runs = user.get("/v1/attachments/lab/runs").json();
    assert_eq!(runs["damaged"][0]["file"], "store.json");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    let all = [
        "branches.json",
        "out",
        "packs.json",
        "packs_later.json",
        "replication.json",
        "series",
        "store.json",
    ];
    assert_eq!(names, all);
    fs::remove_dir_all(&folder).expect("it goes");
    let gone = user.get("/v1/attachments/lab/runs");
    assert_eq!((gone.status, gone.code().as_str()), (500, "unreadable"), "{gone:?}");
}

/// R5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_measured_stays_on_its_machine_unless_the_daemon_was_told_otherwise() {
    // Nothing is sent: it only says by which address the machine would go elsewhere.
    let outward = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Ok(outward) = outward.map(|address| address.ip()) else {
        eprintln!("this machine has no address but loopback, so nobody can come from elsewhere");
        return;
    };
    for (more, expected) in [(&["--insecure"][..], 403), (&["--insecure", "--unmasked-ok"][..], 200)] {
        let mut site = Site::listening("0.0.0.0:0", more).await;
        let folder = measured(&site);
        attach(&mut site, "lab", AttachmentKind::Lab, &folder).await;
        let admin = site.token("admin", Role::Admin, &[]).await;
        let here = Who { door: SocketAddr::from(([127, 0, 0, 1], site.door.port())), ..admin };
        let runs = here.get("/v1/attachments/lab/runs").json();
        let (store, packs) = (id(&runs, "store"), id(&runs, "packs"));
        let there = Who { door: SocketAddr::from((outward, site.door.port())), ..here };
        for path in [
            "runs".to_owned(),
            format!("run?id={store}"),
            "series?suite=packs".to_owned(),
            format!("comparison?a={packs}&b={packs}"),
            "experiments".to_owned(),
        ] {
            let answer = there.get(&format!("/v1/attachments/lab/{path}"));
            assert_eq!(answer.status, expected, "{path}: {answer:?}");
            if expected == 403 {
                assert_eq!(answer.code(), "not_masked", "{path}");
            }
        }
        // That it is attached is told all the same.
        assert_eq!(there.get("/v1/attachments").status, 200);
    }
}

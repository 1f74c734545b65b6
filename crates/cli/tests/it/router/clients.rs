//! Clients of others, each with nothing but a URL. Of a tier of its own, because it fetches them: `make test-clients`. The list
//! in docs/branches.md is the list here.

use super::Site;
use crate::support::{text, Home};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Clients, and the packages that they come in.
const PYTHON: &[(&str, &[&str])] = &[
    ("psycopg", &["psycopg[binary]==3.3.9"]),
    ("psycopg-async", &["psycopg[binary]==3.3.9"]),
    ("asyncpg", &["asyncpg"]),
    ("pg8000", &["pg8000"]),
    ("sqlalchemy", &["sqlalchemy>=2", "psycopg[binary]==3.3.9"]),
];
const NODE: &[&str] = &["pg", "postgres", "knex"];

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_others_need_nothing_but_a_url() {
    if std::env::var_os("DURAMEN_TEST_CLIENTS").is_none() {
        eprintln!("skipped: DURAMEN_TEST_CLIENTS is not set");
        return;
    }
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let ci = site.user("ci").await;
    let url = site.url(&ci, "");
    let base = url.trim_end_matches('/');

    let folder = tempfile::tempdir().expect("a folder");
    let venv = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let packages = PYTHON.iter().flat_map(|(_, packages)| *packages);
    run(Command::new(venv.join("bin/pip")).args(["install", "-q"]).args(packages));
    for (client, _) in PYTHON {
        let said =
            run(Command::new(venv.join("bin/python")).arg(program("python.py")).args([client, base, "app"]));
        assert_eq!(said, format!("{client}: ok\n"));
    }

    let node = folder.path().join("node");
    std::fs::create_dir(&node).expect("a folder");
    run(Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund"])
        .args(NODE)
        .current_dir(&node));
    for client in NODE {
        let said =
            run(Command::new("node").arg(program("node.mjs")).args([client, base, "app"]).current_dir(&node));
        assert_eq!(said, format!("{client}: ok\n"));
    }
    site.stop().await;
}

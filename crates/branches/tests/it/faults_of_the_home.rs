//! Homes that servers cannot use: refused with the command that fixes it, or served from another place.

use crate::support::{lease, pool, query, rows, Home};
use duramen_api::model::Policy;
use duramen_branches::Engine;
use duramen_postgres::{processes_below, volume::Choice};
use serde_json::json;
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::PathBuf};

/// A home behind a directory that the server user cannot enter: the directory and the remedy are named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_the_server_user_cannot_traverse_is_refused() {
    // Only root starts servers as another user; for others the home is theirs anyway.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut home = Home::new();
    let closed = home.beside("closed");
    fs::create_dir(&closed).expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("its mode");
    home.options.home = closed.join("home");
    let error = Engine::open(home.options.clone()).await.expect_err("it is refused");
    assert_eq!(error.code, "home_not_traversable", "{error}");
    for part in [format!("chmod o+x {}", closed.display()), "0700".to_owned(), "--home".to_owned()] {
        assert!(error.message.contains(&part), "{part:?} is missing in: {error}");
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).expect("its mode");
    let engine = home.open().await;
    engine.close().await.expect("close");
}

fn socket_roots() -> BTreeSet<PathBuf> {
    let listed = fs::read_dir(std::env::temp_dir()).expect("the temporary directory").flatten();
    let ours = listed.filter(|entry| entry.file_name().to_string_lossy().starts_with("duramen-"));
    ours.map(|entry| entry.path()).collect()
}

/// The socket directory of a branch, out of its URL.
fn socket_dir(url: &str) -> PathBuf {
    let host = url.split("host=").nth(1).and_then(|rest| rest.split('&').next()).expect("a host");
    assert!(!host.contains('%'), "{host}");
    host.into()
}

/// A home whose path is too long for socket addresses: its sockets lie elsewhere, branches work under the
/// same URL after a restart, and nothing is left there once the last branch is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_with_a_long_path_keeps_its_sockets_elsewhere() {
    let mut home = Home::with_volumes(Choice::Copy);
    let before = socket_roots();
    home.options.home = home.beside(&"long-".repeat(30)).join("home");
    fs::create_dir_all(home.path()).expect("the home");
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    let url = lease(&engine, "b", Policy::ReadWrite).await.url;
    let dir = socket_dir(&url);
    assert!(!dir.starts_with(home.path()) && dir.join(".s.PGSQL.5432").exists(), "{url}");
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(engine.branch("b").expect("the branch").url, url);
    assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]));
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the wire");
    let connection = tokio::spawn(connection);
    client.query_one("select x from t", &[]).await.expect("a row on the wire");
    drop(client);
    let _ = connection.await;
    engine.destroy("b").expect("destroy");
    engine.close().await.expect("close");
    assert!(processes_below(home.path()).is_empty());
    let left: Vec<PathBuf> = socket_roots().difference(&before).cloned().collect();
    let root = dir.parent().expect("a parent").to_owned();
    let is_left = left.contains(&root);
    let _ = fs::remove_dir_all(&root);
    assert!(!is_left, "{} is left", root.display());
}

/// A key was made silently in the place of one that is lost, and whatever was imported or leased under the lost one
/// could not be entered any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_key_is_asked_for_and_not_made_anew() {
    let home = Home::with_volumes(Choice::Copy);
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    let url = lease(&engine, "b", Policy::ReadWrite).await.url;
    engine.close().await.expect("close");
    let (key, kept) = (home.path().join("key"), home.beside("key"));
    fs::rename(&key, &kept).expect("the key");
    let journal = home.path().join("leases.jsonl");
    let leases = fs::read(&journal).expect("the journal");
    for (left, named) in [(leases.as_slice(), "leases.jsonl"), (b"", "000001.json")] {
        fs::write(&journal, left).expect("the journal");
        let error = Engine::open(home.options.clone()).await.expect_err("it is refused");
        assert_eq!(error.code, "missing_key", "{error}");
        for part in [key.display().to_string().as_str(), named, "backup", "duramen purge"] {
            assert!(error.message.contains(part), "{part:?} is missing in: {error}");
        }
        assert!(!key.exists());
    }
    fs::write(&journal, leases).expect("the journal");
    fs::rename(&kept, &key).expect("the key");
    let engine = home.open().await;
    assert_eq!(engine.branch("b").expect("the branch").url, url);
    assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]));
    engine.close().await.expect("close");
}

/// One leased branch whose manifest could not be read kept the daemon from serving all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_manifest_fails_its_branch_and_no_other() {
    let home = Home::with_volumes(Choice::Copy);
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "old", Policy::ReadWrite).await;
    query(&engine, "old", "update t set x = 2").await.expect("a write");
    engine.refresh_source("app", |_, _| {}).await.expect("the second generation");
    lease(&engine, "new", Policy::ReadWrite).await;
    engine.close().await.expect("close");
    let manifest = home.path().join("sources/app/000001.json");
    let text = fs::read(&manifest).expect("the manifest");
    fs::write(&manifest, &text[..text.len() / 2]).expect("half a manifest");

    let engine = home.open().await;
    assert_eq!(rows(&engine, "new", "select x from t").await, json!([[1]]));
    assert_eq!(engine.branch("old").expect("it is named").state, "failed");
    let warnings = engine.status().warnings;
    let names = |warning: &String| warning.contains("branch old") && warning.contains("000001.json");
    assert!(warnings.iter().any(names), "{warnings:?}");
    let error = query(&engine, "old", "select x from t").await.expect_err("it is closed");
    assert!(error.code == "branch_failed" && error.message.contains("000001.json"), "{error}");
    let error = engine.reset("old").await.expect_err("it is made of what nobody can read");
    assert_eq!(error.code, "damaged_record", "{error}");
    engine.close().await.expect("close");

    // What was put back counts again, with all that the branch holds.
    fs::write(&manifest, &text).expect("the manifest");
    let engine = home.open().await;
    assert_eq!(rows(&engine, "old", "select x from t").await, json!([[2]]));
    assert!(engine.status().warnings.is_empty());
    engine.close().await.expect("close");

    // If it is missing, the snapshot that the branch is made from is kept until somebody puts it back.
    fs::remove_file(&manifest).expect("the manifest");
    home.open().await.close().await.expect("close");
    fs::write(&manifest, &text).expect("the manifest");
    let engine = home.open().await;
    engine.reset("old").await.expect("a reset");
    assert_eq!(rows(&engine, "old", "select x from t").await, json!([[1]]));
    engine.close().await.expect("close");

    // And without it the branch can still be given back.
    fs::remove_file(&manifest).expect("the manifest");
    let engine = home.open().await;
    engine.destroy("old").expect("destroyed");
    assert!(engine.status().warnings.is_empty());
    engine.close().await.expect("close");
}

/// A daemon that was killed while it replaced a file of its own leaves a draft, which may hold the URL of an origin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_daemon_had_half_written_is_removed() {
    let home = Home::with_volumes(Choice::Copy);
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[])).await;
    engine.close().await.expect("close");
    let source = home.path().join("sources/app");
    let drafts = [source.join(".source.json.k3j9x2ab"), home.path().join(".leases.jsonl.q2w3e4r5")];
    let others = [source.join(".notes"), home.path().join(".env.K3J9X2AB"), home.path().join(".a.short")];
    for file in drafts.iter().chain(&others) {
        fs::write(file, "half").expect("a file");
    }
    let engine = home.open().await;
    for draft in drafts {
        assert!(!draft.exists(), "{}", draft.display());
    }
    for other in others {
        assert!(other.exists(), "{}", other.display());
    }
    lease(&engine, "b", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]));
    engine.close().await.expect("close");
}

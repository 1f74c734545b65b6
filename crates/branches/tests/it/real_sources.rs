//! What databases of the real world hold: nothing of it stops an import, and what a copy cannot have is said.

use crate::{
    origin::{import, OtherServer},
    support::{lease, majors, majors_with, query, rows, settle, Home},
};
use duramen_api::model::{BranchView, Origin, Policy, SourceView};
use duramen_branches::Engine;
use duramen_postgres::Installation;
use serde_json::json;
use std::{
    os::unix::fs::{symlink, PermissionsExt},
    path::Path,
    process::Command,
    sync::Arc,
};

/// A file of this machine that no branch may read.
const HOST_FILE: &str = "HOST-FILE";

const FOREIGN: &str = "
create extension file_fdw;; create server files foreign data wrapper file_fdw;;
create extension postgres_fdw;; create server away foreign data wrapper postgres_fdw options (host '/nonexistent');;
create user mapping for public server away options (user 'x', password 'y');;
create role app;; grant app to current_user;;
create table parted (id int, what text) partition by range (id);;
create table near partition of parted for values from (0) to (10);; insert into parted values (1, 'near'), (2, 'near');;
create foreign table far partition of parted for values from (10) to (20) server files options (filename 'HOST-FILE', format 'csv');;
create table sent (id int) partition by range (id);; create table sent_here partition of sent for values from (0) to (10);;
insert into sent values (3);; create foreign table sent_away partition of sent for values from (10) to (20) server away;;
create foreign table host_file (line text) server files options (filename 'HOST-FILE');;
grant select on host_file, far, parted to app, public;;
create view through as select * from host_file;; alter view through owner to app;; grant select on through to public";

const AWKWARD: &str = "
create unlogged table fleeting (id int generated always as identity, x int);; insert into fleeting (x) select generate_series(1, 7);;
create unlogged table empty (x int);;
create table plain (id int primary key, x text);; insert into plain select n, 'x' from generate_series(1, 100) n;;
select lo_from_bytea(4242, 'large one');; select lo_from_bytea(4243, 'large two');; grant select on large object 4243 to public;;
create function refuse() returns event_trigger language plpgsql as $$ begin raise exception 'no DDL here'; end $$;;
create event trigger refuse on ddl_command_start execute function refuse()";

const VIRTUAL: &str = "
create table raising (x int, y int generated always as (1 / (x - 1)) virtual);; insert into raising (x) values (1), (2)";

fn said(source: &SourceView, kind: &str, object: &str, action: &str) -> bool {
    source
        .sanitised
        .iter()
        .any(|entry| entry.kind == kind && entry.object.contains(object) && entry.action.contains(action))
}

/// A dump of a branch, restored into a database of its origin.
async fn dumped(home: &Home, origin: &OtherServer, branch: &BranchView, installation: &Installation) {
    let file = home.beside("dump");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(installation.program(program)).args(arguments).output().expect(program);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}, {}: {program}: {errors}", origin.major, branch.policy);
    };
    let path = file.display().to_string();
    run("pg_dump", &["--format=custom", "--no-owner", "--no-privileges", "--file", &path, &branch.url]);
    origin.run("postgres", "drop database if exists restored;; create database restored").await;
    let target = origin.url().replace("/shop?", "/restored?");
    run("pg_restore", &["--exit-on-error", "--no-owner", "--dbname", &target, &path]);
    let client = origin.client("boss", "restored").await;
    let sql = "select (select count(*) from plain), (select count(*) from pg_largeobject_metadata), \
               convert_from(lo_get(4242), 'UTF8')";
    let row = client.query_one(sql, &[]).await.expect("what was restored");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, &str>(2)), (100, 2, "large one"));
}

async fn import_awkward(home: &Home, engine: &Arc<Engine>, major: u32) {
    let origin = OtherServer::start(home, major).await;
    let file = home.beside("host-file.csv");
    std::fs::write(&file, "11,not yours\n").expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("its mode");
    origin.run("shop", &FOREIGN.replace(HOST_FILE, &file.display().to_string())).await;
    if major >= 18 {
        origin.run("shop", VIRTUAL).await;
    }
    origin.run("shop", AWKWARD).await;
    let name = format!("awkward-{major}");
    let source = import(engine, &name, origin.running(), &Policy::ALL).await.expect("the import");
    assert!(said(&source, "unlogged table", "public.fleeting", "7 rows"), "{major}: {:#?}", source.sanitised);
    assert!(!said(&source, "unlogged table", "public.empty", ""), "{major}: {:#?}", source.sanitised);
    assert!(said(&source, "warm-up", "parted", "left out"), "{major}: {:#?}", source.sanitised);
    assert_eq!(
        said(&source, "warm-up", "raising", "left out"),
        major >= 18,
        "{major}: {:#?}",
        source.sanitised
    );
    settle(engine).await;

    let installation = Installation::choose(home.path(), Some(major)).expect("a server");
    for policy in Policy::ALL {
        let leased = format!("{policy}-{major}");
        let branch = lease_of(engine, &name, &leased, policy).await;
        let reads =
            "select (select count(*) from parted where id < 10), (select count(*) from sent where id < 10), \
                     (select count(*) from fleeting), convert_from(lo_get(4242), 'UTF8')";
        assert_eq!(rows(engine, &leased, reads).await, json!([[2, 1, 0, "large one"]]), "{major}, {policy}");
        for sql in [
            "select * from parted",
            "select * from sent",
            "select * from far",
            "select * from host_file",
            "select * from through",
            "set local role app; select * from host_file",
            "set local role app; select * from parted",
            "do $$ begin set local role app; perform * from host_file; end $$",
            "copy (select * from parted) to stdout",
            "analyze parted",
            "analyze host_file",
            "insert into parted values (11, 'x')",
        ] {
            let request = duramen_api::model::QueryRequest {
                statements: sql
                    .split("; ")
                    .map(|sql| duramen_api::model::QueryStatement { sql: sql.to_owned(), params: vec![] })
                    .collect(),
                ..Default::default()
            };
            // ANALYZE only warns of what it may not do.
            let answer = engine.query(&leased, request).await;
            let may_pass = sql.starts_with("analyze");
            assert!(answer.is_err() || may_pass, "{major}, {policy}: {sql} was done");
        }
        let pages = "select string_agg(most_common_vals::text || histogram_bounds::text, '') from pg_stats where tablename in ('parted', 'far', 'host_file')";
        assert!(!rows(engine, &leased, pages).await.to_string().contains("not yours"));
        if policy == Policy::Ddl {
            let error = query(engine, &leased, "create table t (x int)").await.expect_err("it refuses DDL");
            assert!(error.message.contains("no DDL here"), "{major}: as in the source: {error}");
        }
        dumped(home, &origin, &branch, &installation).await;
        engine.destroy(&leased).expect("destroy");
    }
    settle(engine).await;
    engine.remove_source(&name).await.expect("the source is forgotten");
}

async fn lease_of(engine: &Arc<Engine>, source: &str, name: &str, policy: Policy) -> BranchView {
    let request = duramen_api::model::CreateBranch {
        name: Some(name.to_owned()),
        source: Some(source.to_owned()),
        policy: Some(policy),
        ..Default::default()
    };
    engine.create(request).await.expect("a lease")
}

/// B50: event triggers that refuse DDL, foreign partitions, unlogged tables, large objects and generated columns that raise
/// stop no import; a branch can be dumped under every policy, and reads no file of this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_source_holds_does_not_stop_its_import() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors_with("file_fdw") {
        import_awkward(&home, &engine, major).await;
    }
    engine.close().await.expect("close");
}

/// B50: text that is in no encoding is imported, compared and read as bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_text_are_kept() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = OtherServer::start(&home, major).await;
        origin
            .run(
                "postgres",
                "drop database shop;; create database shop encoding 'SQL_ASCII' template template0 lc_collate 'C' lc_ctype 'C'",
            )
            .await;
        origin
            .run(
                "shop",
                r"create table t (x int primary key, word text);; insert into t values (1, E'caf\xe9'), (2, 'plain');;
                  do $$ begin execute E'create function said() returns text language sql as ''select ''''caf\xe9''''::text''';
                  execute E'comment on table t is ''caf\xe9'''; end $$",
            )
            .await;
        let name = format!("bytes-{major}");
        import(&engine, &name, origin.running(), &[Policy::ReadWrite]).await.expect("the import");
        settle(&engine).await;
        lease(&engine, "one", Policy::ReadWrite).await;
        let found = rows(&engine, "one", "select x, encode(word::bytea, 'hex') from t order by x").await;
        assert_eq!(found, json!([[1, "636166e9"], [2, "706c61696e"]]), "{major}");
        let error = query(&engine, "one", "select word from t").await.expect_err("no text");
        assert_eq!(error.sqlstate.as_deref(), Some("22021"), "{major}: {error}");
        let evidence = engine.evidence_with("one", Some("public.t")).await.expect("evidence");
        assert!(evidence.source.unchanged, "{major}: {:?}", evidence.source);
        assert_eq!(evidence.table.expect("the table").branch_differs, Some(false));
        origin.run("shop", r"update t set word = E'caf\xea' where x = 1").await;
        let evidence = engine.evidence_with("one", Some("public.t")).await.expect("evidence");
        assert_eq!(evidence.table.expect("the table").source_unchanged, Some(false), "{major}");
        engine.destroy("one").expect("destroy");
        settle(&engine).await;
        engine.remove_source(&name).await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}

/// B51: tablespaces become part of the volume, of running servers and of data directories; nothing leads out of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tablespaces_come_into_the_volume() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let mut origin = OtherServer::start(&home, major).await;
        let place = home.beside(&format!("a = space {major}"));
        origin.cluster.prepare_dir(&place).expect("a directory");
        origin.run("postgres", &format!("create tablespace elsewhere location '{}'", place.display())).await;
        origin
            .run(
                "shop",
                "create table t (x int primary key, y text) tablespace elsewhere;; insert into t select n, repeat('y', 100) from generate_series(1, 5000) n;;
                 create index on t (y) tablespace elsewhere;; create database other tablespace elsewhere;; grant create on tablespace elsewhere to public",
            )
            .await;
        let running = origin.running();
        for (kind, from) in [("server", running), ("directory", origin.directory())] {
            if kind == "directory" {
                origin.stop();
            }
            let name = format!("{kind}-{major}");
            import(&engine, &name, from, &[Policy::Ddl])
                .await
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            settle(&engine).await;
            lease(&engine, "one", Policy::Ddl).await;
            lease(&engine, "two", Policy::Ddl).await;
            let volumes = home.path().join("volumes");
            for entry in walkdir(&volumes) {
                assert!(!entry.is_symlink(), "{name}: {} leads out", entry.display());
            }
            assert_eq!(
                rows(&engine, "one", "delete from t where x > 10 returning 1").await.as_array().map(Vec::len),
                Some(1000)
            );
            assert_eq!(rows(&engine, "one", "select count(*) from t").await, json!([[10]]));
            assert_eq!(
                rows(&engine, "two", "select count(*), max(y) = repeat('y', 100) from t").await,
                json!([[5000, true]]),
                "{name}"
            );
            query(&engine, "one", "create table made (x int) tablespace elsewhere").await.expect("DDL");
            engine.reset("one").await.expect("a reset");
            assert_eq!(rows(&engine, "one", "select count(*) from t").await, json!([[5000]]));
            // A server that was killed recovers with its tablespaces.
            query(&engine, "two", "insert into t values (-1, 'kept')").await.expect("a write");
            let pid = rows(&engine, "two", "select pg_backend_pid()").await;
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid[0][0])).expect("the backend");
            let postmaster = status
                .rsplit(')')
                .next()
                .and_then(|rest| rest.split_whitespace().nth(1))
                .expect("its parent");
            assert!(Command::new("kill").args(["-9", postmaster]).status().expect("kill").success());
            let mut found = None;
            for _ in 0..100 {
                // Until its backends have noticed, and the next query starts it again.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                found = query(&engine, "two", "select count(*) from t").await.ok();
                if found.is_some() && !std::path::Path::new(&format!("/proc/{}", pid[0][0])).exists() {
                    break;
                }
            }
            assert_eq!(
                found.expect("it recovers").results[0].rows.get(),
                "[[5001]]",
                "{name}: after recovery"
            );
            assert!(engine.verify_source(&name).await.expect("verify").intact, "{name}");
            engine.destroy("one").expect("destroy");
            engine.destroy("two").expect("destroy");
            settle(&engine).await;
            engine.remove_source(&name).await.expect("the source is forgotten");
        }
        // What is no tablespace is not taken for one.
        let tblspc = origin.cluster.data_dir().join("pg_tblspc");
        symlink("/etc", tblspc.join("99999")).expect("a link");
        import(&engine, "linked", origin.directory(), &[]).await.expect("it holds nothing of this version");
        assert!(!home.path().join("volumes/snapshots/linked.000001/pg_tblspc/99999").exists());
        settle(&engine).await;
        engine.remove_source("linked").await.expect("the source is forgotten");
        let odd = place.join(format!("PG_{major}_1"));
        std::fs::create_dir(&odd).expect("a directory");
        symlink("/etc/passwd", odd.join("file")).expect("a link");
        let error =
            import(&engine, "linked", origin.directory(), &[]).await.map(|_| ()).expect_err("a link in it");
        assert_eq!(error.code, "symbolic_link", "{error}");
    }
    engine.close().await.expect("close");
}

fn walkdir(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let kind = entry.file_type().expect("a type");
            found.push(entry.path());
            if kind.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    found
}

/// B52: of several hosts the one that answers, and is what the URL asks for, is read and copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_hosts_are_tried_in_their_order() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let origin = OtherServer::start(&home, major).await;
        origin.run("shop", "create table t as select 1 as x").await;
        let socket = origin.socket().display().to_string();
        let dead = home.beside("nobody").display().to_string();
        let name = format!("hosts-{major}");
        for (index, url) in [
            format!("postgresql://boss@/shop?host={dead},{socket}&port=5432&target_session_attrs=read-write"),
            format!("host={dead},{socket} port=5432,5432 user=boss dbname=shop"),
            format!("postgresql://boss@/shop?host={socket},{dead}&port=5432"),
        ]
        .into_iter()
        .enumerate()
        {
            let name = format!("{name}-{index}");
            import(&engine, &name, Origin::Server { url }, &[Policy::ReadOnly]).await.expect("the import");
            settle(&engine).await;
            engine.remove_source(&name).await.expect("the source is forgotten");
        }
        let url =
            format!("postgresql://boss@/shop?host={dead},{socket}&port=5432&target_session_attrs=read-only");
        let error =
            import(&engine, &name, Origin::Server { url }, &[]).await.map(|_| ()).expect_err("a primary");
        assert_eq!(error.code, "source_unreachable", "{error}");
        assert!(!error.message.contains(&socket), "{error}");
    }
    engine.close().await.expect("close");
}

/// B52: a server that lets in nobody without TLS is read and copied, and one that is not who it should be is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_demands_tls_is_imported() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let installation = Installation::choose(home.path(), Some(major)).expect("a server");
        if !installation.features().tls {
            // Without TLS it cannot be such a server. What is said where only the copying program lacks it is below.
            println!("PostgreSQL {major} here has no TLS");
            continue;
        }
        let mut origin = OtherServer::start_with(&home, major, "").await;
        origin.stop();
        // Servers of tests have one port; on this machine every address that begins with 127 is its own.
        let [_, _, a, b] = std::process::id().to_be_bytes();
        let at = format!("127.77.{a}.{b}");
        let authority = certificates(&home, &origin);
        let write = |name: &str, text: &str| origin.cluster.write_file(name, text).expect(name);
        write(
            "pg_hba.conf",
            "local all boss trust\nhostssl all,replication copier 127.0.0.0/8 scram-sha-256\n",
        );
        let settings = "ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'\n";
        write("postgresql.auto.conf", &format!("fsync = off\nlisten_addresses = '{at}'\n{settings}"));
        origin.run_server();
        origin.run("shop", "create role copier login replication superuser password 'it''s';; create table t as select 1 as x").await;
        let url = |more: &str| Origin::Server {
            url: format!("postgresql://copier:it%27s@localhost/shop?hostaddr={at}{more}"),
        };
        let name = format!("tls-{major}");
        let trusted = format!("&sslrootcert={}", authority.display());
        for mode in [
            "",
            "&sslmode=require",
            &format!("&sslmode=verify-ca{trusted}"),
            &format!("&sslmode=verify-full{trusted}"),
        ] {
            import(&engine, &name, url(mode), &[Policy::ReadOnly])
                .await
                .unwrap_or_else(|error| panic!("{mode}: {error}"));
            settle(&engine).await;
            assert!(engine.fingerprint_source(&name).await.is_ok());
            engine.remove_source(&name).await.expect("the source is forgotten");
        }
        // A dump goes the same way, into branches of a version whose own programs may have no TLS.
        let dumped = |mode: &str| {
            let Origin::Server { url } = url(mode) else { panic!("a server") };
            Origin::Logical { url, pg: None, without_extensions: Vec::new() }
        };
        for mode in ["&sslmode=require", &format!("&sslmode=verify-full{trusted}")] {
            let source = import(&engine, &name, dumped(mode), &[]).await;
            let source = source.unwrap_or_else(|error| panic!("{mode}: {error}"));
            assert!(
                source.server_version.starts_with(&format!("{}.", majors()[0])),
                "{}",
                source.server_version
            );
            settle(&engine).await;
            engine.remove_source(&name).await.expect("the source is forgotten");
        }
        let stranger = home.beside("stranger.crt");
        let elsewhere = |mode: &str| Origin::Server {
            url: format!("postgresql://copier:it%27s@{at}/shop?sslmode={mode}{trusted}"),
        };
        import(&engine, &name, elsewhere("verify-ca"), &[]).await.expect("any name will do");
        settle(&engine).await;
        engine.remove_source(&name).await.expect("the source is forgotten");
        for origin in [
            url("&sslmode=disable"),
            url(&format!("&sslmode=verify-ca&sslrootcert={}", stranger.display())),
            url("&sslmode=verify-full&sslrootcert=/nonexistent"),
            url("&sslmode=verify-full"),
            elsewhere("verify-full"),
            dumped("&sslmode=verify-full"),
        ] {
            let shown = format!("{origin:?}");
            let error = import(&engine, &name, origin, &[]).await.map(|_| ()).expect_err(&shown);
            assert_eq!(error.code, "source_unreachable", "{shown}: {error}");
            assert!(!error.message.contains("it's"), "{error}");
        }
    }
    engine.close().await.expect("close");
}

/// An authority, a certificate of it for `localhost` in the server's directory, and one of nobody; gives the authority's.
fn certificates(home: &Home, origin: &OtherServer) -> std::path::PathBuf {
    let dir = home.beside("authority");
    std::fs::create_dir_all(&dir).expect("a directory");
    let script = format!(
        "cd {0} && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=authority \
         && openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost \
         && printf 'subjectAltName=DNS:localhost\\nbasicConstraints=CA:FALSE\\n' > ext \
         && openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.crt \
         && openssl req -x509 -newkey rsa:2048 -nodes -keyout other.key -out ../stranger.crt -days 2 -subj /CN=stranger",
        dir.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().expect("openssl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for name in ["server.crt", "server.key"] {
        let text = std::fs::read_to_string(dir.join(name)).expect("what was made");
        origin.cluster.write_file(name, &text).expect(name);
    }
    dir.join("ca.crt")
}

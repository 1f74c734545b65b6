//! Until a copy has been made harmless its code may do what its author could: what runs it is shut in.

use crate::{
    origin::{import, OtherServer},
    support::{lease, majors, pool, rows, Home},
};
use duramen_api::model::{Origin, Policy};
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

/// A script that uses the programs of the server's host, as a superuser's may, and those of psql's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_sees_no_network_no_other_data_and_changes_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("its address").port();
    // Open to everybody, so that only the walls can be what keeps it.
    let open = home.beside("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("its mode");
    fs::write(open.join("file"), "of somebody else").expect("a file");
    let key = home.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a key that is open by mistake");

    let (open, root) = (open.display().to_string(), home.path().display().to_string());
    let tries = [
        ("run at all", "true".to_owned()),
        ("network", format!("exec 3<>/dev/tcp/127.0.0.1/{port}")),
        ("write", format!("echo changed > {open}/file")),
        ("read a key", format!("test -s {root}/key")),
        ("list sources", format!("ls {root}/sources")),
        ("list other snapshots", format!("ls {root}/volumes/snapshots")),
        ("gain rights", "grep -q 'NoNewPrivs:.*0' /proc/self/status".to_owned()),
    ];
    let mut sql = "create table seen (what text);\n".to_owned();
    for (what, program) in &tries {
        let program =
            format!("bash -c \"{program}\" 2>/dev/null && echo server: {what}; true").replace('\'', "''");
        sql.push_str(&format!("copy seen from program '{program}';\n"));
    }
    // psql's own way out; what it prints goes nowhere, so it writes where the server can read it.
    sql.push_str(&format!(
        "\\! bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo changed > {open}/file\n"
    ));
    sql.push_str(&format!("\\! cat {root}/key > {open}/key\n"));
    home.add_script(&engine, &sql, pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    let reached = rows(&engine, "b", "select what from seen").await;
    assert_eq!(reached, serde_json::json!([["server: run at all"]]), "what the script reached");
    assert_eq!(fs::read_to_string(format!("{open}/file")).expect("the file"), "of somebody else");
    assert!(!fs::exists(format!("{open}/key")).expect("a look"), "the key was carried out");
    listener.set_nonblocking(true).expect("a listener that does not wait");
    assert!(listener.accept().is_err(), "somebody came through");
    engine.close().await.expect("close");
}

/// B28: what indexes of a server that is dumped compute is computed here with the rights of the table's owner; and what
/// belongs to a superuser there does not leave the cage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_in_indexes_of_a_dumped_server_are_shut_in() {
    let home = Home::new();
    let engine = home.open().await;
    let open = home.beside("open");
    fs::create_dir(&open).expect("a directory");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("its mode");
    let key = home.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a key that is open by mistake");
    let origin = OtherServer::start(&home, majors()[0]).await;
    // On the origin it does nothing; whatever runs it elsewhere is noted.
    let trap = "
        create role app;; create table ran (who text, super bool, what text);; alter table ran owner to app;;
        create function act() returns void volatile language plpgsql as $$ begin
          insert into public.ran select r.rolname, r.rolsuper, 'index' from pg_catalog.pg_roles r where r.rolname = current_user;
          begin copy (select 1) to program 'echo changed > OPEN/file';
            insert into public.ran values (current_user, true, 'write');
          exception when others then null; end;
          begin insert into public.ran select current_user, true, 'key' where length(pg_catalog.pg_read_file('KEY')) > 0;
          exception when others then null; end;
          end $$;;
        create function trap(x int) returns int immutable language plpgsql as $$ begin
          if exists (select from pg_catalog.pg_roles where rolname = 'postgres') then perform public.act(); end if;
          return x; end $$;;
        grant create on schema public to app;;
        create table low (x int);; insert into low values (1);; create index on low (trap(x));; alter table low owner to app;;
        create table high (x int);; insert into high values (1);; create index on high (trap(x))";
    let trap = trap.replace("OPEN", &open.display().to_string()).replace("KEY", &key.display().to_string());
    origin.run("shop", &trap).await;
    let dumped = Origin::Logical { url: origin.url(), pg: None, without_extensions: Vec::new() };
    import(&engine, "app", dumped, &[Policy::ReadWrite]).await.expect("the import");
    lease(&engine, "b", Policy::ReadWrite).await;
    let ran =
        rows(&engine, "b", "select distinct who, super from ran where what = 'index' and who = 'app'").await;
    assert_eq!(ran, serde_json::json!([["app", false]]), "as the owner of its table");
    let reached = "select what from ran where what = 'key' or (what = 'write' and who = 'app')";
    assert_eq!(rows(&engine, "b", reached).await, serde_json::json!([]), "what it reached");
    assert!(!fs::exists(open.join("file")).expect("a look"), "it wrote outside");
    engine.close().await.expect("close");
}

//! R14: strangers take no descriptors that the daemon needs.

use super::Site;
use crate::support::{self, connect, create, query, settle, Home, EXE};
use duramen_base::clock;
use duramen_server::process::Daemon;
use std::{io::Write, net::TcpStream, time::Duration};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_leave_the_daemon_its_descriptors() {
    let home = Home::new();
    let program = home.beside("duramen");
    support::install(&program, &format!("#!/bin/sh\nulimit -n 256\nexec {EXE} \"$@\"\n"));
    let args = ["--volume-size", "3G", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    let args = args.map(str::to_owned);
    let daemon =
        Daemon::spawn(&program, &home.path(), &args, &home.beside("log")).await.expect("the daemon serves");
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t as select 1 as x;", 2, 0).await;
    settle(&mut connection).await;
    let doors = connection.doors().await.expect("the doors");
    let (router, http) = (doors.postgres.expect("a router"), doors.http.expect("a door"));
    let mut site = Site { daemon, connection, router };
    let ci = site.user("ci").await;
    let mut sessions = vec![site.enter(&ci, "app@first").await.expect("a branch")];
    // Three times as many as it has descriptors, and nobody of them says anything more.
    let mut strangers = Vec::new();
    for number in 0..768 {
        let mut stream = TcpStream::connect(if number % 2 == 0 { site.router.address } else { http.address })
            .expect("a connection");
        // It may have been turned away already.
        let _ = stream.write_all(&[0, 0]);
        strangers.push(stream);
    }
    let began = clock::now();
    for number in 0..5 {
        // A client whose connection is made is served; the socket answers; servers start, and files are opened.
        sessions.push(site.enter(&ci, "first").await.expect("a session"));
        let name = format!("b{number}");
        create(&mut site.connection, &name).await.expect("a branch");
        query(&mut site.connection, &name, "select x from t").await.expect("rows");
        connect(&site.daemon).await.status().await.expect("a new connection to the socket");
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    for session in &sessions {
        assert_eq!(super::one::<i32>(session, "select 1").await, 1);
    }
    drop(strangers);
    assert!(site.connection.verify_audit().await.expect("the audit log").intact);
    site.stop().await;
}

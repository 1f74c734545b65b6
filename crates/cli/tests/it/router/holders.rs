//! R1 and R2: what a holder may, and what it learns of others.

use super::{named, one, Site};
use crate::support::{self, Home};
use duramen_api::model::{ChangeSettings, Limits, Policy};
use duramen_api::token::{CreateToken, NewToken, Role};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_reach_what_is_theirs_and_learn_nothing_of_the_rest() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let alice = site.user("alice").await;
    let bob = site.user("bob").await;
    let admin = site.token(CreateToken { role: Role::Admin, ..named("ops") }).await;
    let viewer = site.token(CreateToken { role: Role::Viewer, ..named("eye") }).await;
    let _mine = site.enter(&alice, "app@hers").await.expect("alice's branch");
    support::create(&mut site.connection, "root").await.expect("a branch of the machine's own");

    // Another's branch is as one that is not there.
    let words = |name: &str, (code, message, hint): (_, String, String)| {
        (code, message.replace(name, "X"), hint.replace(name, "X"))
    };
    let nothing = words("nothing", site.refused(&bob, "nothing").await);
    assert_eq!(nothing.0.code(), "3D000");
    for name in ["hers", "root"] {
        assert_eq!(words(name, site.refused(&bob, name).await), nothing, "{name}");
        let taken = site.refused(&bob, &format!("app@{name}")).await;
        assert!(taken.1.contains("somebody else's"), "{taken:?}");
        let client = site.enter(&admin, name).await.expect("an administrator reaches all");
        assert_eq!(one::<i64>(&client, "select count(*) from t").await, 100);
    }
    // Nor is it entered by way of its database.
    for trick in [
        "hers.app",
        "root.postgres",
        "../hers",
        "hers/..",
        "hers%00",
        "'; drop table t; --",
        "app@",
        "@",
        "a@b@c",
    ] {
        let error = site.enter(&bob, &trick.replace('%', "%25")).await.map(drop).expect_err(trick);
        assert!(error.as_db_error().is_some(), "{trick}: a proper error, and not {error}");
    }
    let (code, ..) = site.refused(&viewer, "hers").await;
    assert_eq!(code.code(), "42501");
    let (code, ..) = site.refused(&viewer, "app@new").await;
    assert_eq!(code.code(), "42501");

    // R1: a wrong secret, and a name that nobody has, are told the same.
    let wrong = |token: &NewToken, name: &str| {
        let mut token = NewToken { token: token.token.clone(), secret: "x".repeat(26) };
        token.token.name = name.to_owned();
        token
    };
    let known = words("alice", site.refused(&wrong(&alice, "alice"), "hers").await);
    assert_eq!(known.0.code(), "28P01");
    assert_eq!(words("nobody", site.refused(&wrong(&alice, "nobody"), "hers").await), known);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_may_no_more_than_it_says() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let few = CreateToken {
        sources: vec!["app".to_owned()],
        policies: vec![Policy::ReadWrite],
        max_branches: Some(2),
        max_connections: Some(3),
        max_ttl_s: Some(600),
        ..named("few")
    };
    let few = site.token(few).await;
    let wrong = CreateToken { sources: vec!["ap".to_owned()], ..named("wrong") };
    site.connection.create_token(&wrong).await.expect_err("there is no such source");
    let code = async |site: &Site, database: &str| site.refused(&few, database).await.0.code().to_owned();

    assert_eq!(code(&site, "other@x").await, "42501");
    assert_eq!(code(&site, "app@x?options=-c%20duramen.policy%3Dddl").await, "42501");
    assert_eq!(code(&site, "app@x?options=-c%20duramen.ttl%3D1h").await, "42501");
    assert_eq!(code(&site, "app@x?options=-c%20duramen.ttl%3Dsoon").await, "22023");
    assert_eq!(code(&site, "app@x?options=-c%20duramen.role%3Dpostgres").await, "42501");
    let held = [site.enter(&few, "app@a").await.unwrap(), site.enter(&few, "app@b").await.unwrap()];
    let branches = site.connection.branches().await.unwrap();
    let longest = duramen_base::clock::utc_now() + jiff::SignedDuration::from_secs(600);
    assert!(branches.iter().all(|branch| branch.expires_at <= longest), "the longest lease is the usual one");
    assert_eq!(code(&site, "app@c").await, "53400", "two branches");
    let third = site.enter(&few, "a").await.unwrap();
    assert_eq!(code(&site, "a").await, "53300", "three connections");
    drop(third);
    support::until("the place of a session that ended is free", async || site.enter(&few, "a").await.is_ok())
        .await;
    assert_eq!(one::<i32>(&held[0], "select 1").await, 1);
    site.connection.destroy_branch("b").await.expect("it is destroyed");
    support::until("the sessions of a branch end with it", async || held[1].is_closed()).await;
    site.enter(&few, "app@c").await.expect("its place is free");
    // A name that is given again is another holder's.
    site.connection.revoke_token("few").await.unwrap();
    let again = site.user("few").await;
    assert_eq!(site.refused(&again, "a").await.0.code(), "3D000");
    site.stop().await;
}

/// H6, over both doors: wrong secrets are counted by address, and do not keep the right one out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_secrets_are_counted_by_address_over_both_doors() {
    let home = Home::new();
    let mut site = Site::open(&home, &["--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]).await;
    let ci = site.user("ci").await;
    let wrong = NewToken { token: ci.token.clone(), secret: "x".repeat(26) };
    // At once, because each is answered late.
    let tries = futures_util::future::join_all((0..40).map(|_| site.refused(&wrong, "app@try"))).await;
    let count = |code: &str| tries.iter().filter(|(found, ..)| found.code() == code).count();
    assert!((20..=25).contains(&count("28P01")), "{tries:?}");
    assert_eq!(count("28P01") + count("53400"), 40, "{tries:?}");
    site.enter(&ci, "app@try").await.expect("the right one is let in");
    let http = site.connection.doors().await.unwrap().http.expect("a door").address;
    let ask = |secret: &str| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", &format!("ci:{secret}")]);
        support::text(&curl.arg(format!("http://{http}/v1/branches")).output().expect("curl runs").stdout)
    };
    assert_eq!(ask("wrong"), "429", "they count there too");
    assert_eq!(ask(&ci.secret), "200");
    site.stop().await;
}

/// R13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_has_no_more_connections_than_its_source_says() {
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let limits = Limits { connections: Some(2), ..Limits::default() };
    let change = ChangeSettings { limits, ..ChangeSettings::default() };
    site.connection.change_settings("app", &change).await.expect("the change");
    let (one_, other) =
        (site.user("one").await, site.token(CreateToken { role: Role::Admin, ..named("ops") }).await);
    let first = site.enter(&one_, "app@a").await.expect("one of two");
    // It counts whoever they are of, and those that are in the middle of a statement when their client leaves.
    first.batch_execute("set client_connection_check_interval = 0").await.expect("a setting");
    let running = tokio::spawn(async move { first.batch_execute("select pg_sleep(3)").await });
    let _second = site.enter(&other, "a").await.expect("two of two");
    let refused = site.refused(&other, "a").await;
    assert!(refused.0.code() == "53300" && refused.1.contains("branch"), "{refused:?}");
    running.abort();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert_eq!(site.refused(&one_, "a").await.0.code(), "53300", "its statement goes on");
    site.enter(&one_, "app@b").await.expect("another branch has its own");
    support::until("the place is free", async || site.enter(&one_, "a").await.is_ok()).await;
    site.stop().await;
}

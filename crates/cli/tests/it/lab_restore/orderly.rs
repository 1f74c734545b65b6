//! Runs that come to an end by themselves, well or not.

use super::{assert_restored, begun, exe, guardians, has_database, user::majors, user::User};
use duramen_postgres::connection::Target;
use duramen_postgres::Settings;
use duramen_replication::{
    pair::{Pair, APPLICATION_NAME, DATABASE},
    scenario::Node,
};
use duramen_reports::suite::SuiteError;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn a_run_that_ends_leaves_a_pair_as_it_was() {
    for major in majors() {
        let user = User::new(major).await;
        let before = user.state().await;
        let pair = begun(&user).await;
        assert_ne!(user.state().await, before);
        assert!(!pair.is_own() && pair.ready_after().is_none() && pair.has_logical_decoding());

        // What a run changes stands in a file that nobody else can read, and somebody watches over it.
        let file = pair.restore_file().await.expect("it is not our own");
        assert_eq!(user.restore_files(), std::slice::from_ref(&file));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        for word in ["hot_standby_feedback", "recovery_min_apply_delay", "duramen_lab_slot", "17s", "0.8"] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        assert_eq!(guardians(&user.home()).len(), 1);

        // One setting goes back at once.
        pair.set(Node::Primary, "checkpoint_completion_target", None).await.unwrap();
        let primary = user.client(Node::Primary).await;
        let row = primary.query_one("SHOW checkpoint_completion_target", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "0.8");

        // Only our sessions are ended, and not those that only have the same name.
        let namesake = Target::parse(&user.dsn(Node::Primary)).unwrap().application_name(APPLICATION_NAME);
        let namesake = namesake.connect().await.unwrap();
        let ours = pair.connect(Node::Primary).await.unwrap();
        let standby = user.client(Node::Standby).await;
        let (all, detail) = pair.close().await.unwrap();
        assert!(all, "{detail}");
        assert!(detail.contains("as they were found"), "{detail}");
        assert!(ours.batch_execute("SELECT 1").await.is_err());
        namesake.batch_execute("SELECT 1").await.unwrap();
        primary.batch_execute("SELECT 1").await.unwrap();
        standby.batch_execute("SELECT 1").await.unwrap();
        assert_restored(&user, &before).await;
        assert_eq!(guardians(&user.home()), [0_u32; 0]);
    }
}

#[tokio::test]
async fn a_pair_that_is_dropped_is_as_it_was() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    drop(begun(&user).await);
    assert_restored(&user, &before).await;
    assert_eq!(guardians(&user.home()), [0_u32; 0]);
}

#[tokio::test]
async fn a_run_that_cannot_begin_leaves_a_pair_as_it_was() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    // A session in the template keeps databases from being made, after the settings have been changed.
    let primary = user.client(Node::Primary).await;
    primary.batch_execute("ALTER DATABASE template0 ALLOW_CONNECTIONS true").await.unwrap();
    let target = Target::parse(&user.dsn(Node::Primary)).unwrap();
    let template = target.database("template0").connect().await.unwrap();
    let error = Pair::open(&user.options(exe()), &|_| {}).await.err().expect("it cannot begin");
    assert!(matches!(error, SuiteError::Refused { .. }), "{error}");
    assert_restored(&user, &before).await;
    drop(template);
}

#[tokio::test]
async fn what_somebody_else_set_meanwhile_is_left_and_told() {
    let user = User::new(majors()[0]).await;
    let pair = begun(&user).await;
    let standby = user.client(Node::Standby).await;
    standby.batch_execute("ALTER SYSTEM SET hot_standby_feedback = 'false'").await.unwrap();
    standby.batch_execute("ALTER SYSTEM SET work_mem = '6MB'").await.unwrap();
    user.reload(Node::Standby).await;
    let (all, detail) = pair.close().await.unwrap();
    assert!(!all, "{detail}");
    assert!(detail.contains("hot_standby_feedback") && detail.contains("work_mem"), "{detail}");
    assert!(!detail.contains("recovery_min_apply_delay"), "{detail}");
    // What the run has not set may be a secret.
    assert!(detail.contains("work_mem has changed") && !detail.contains("6MB"), "{detail}");
    let row = standby.query_one("SHOW work_mem", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "6MB");
    let row = standby.query_one("SHOW hot_standby_feedback", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "off");
    assert!(!has_database(&user).await);
    assert!(user.restore_files().is_empty());
}

#[tokio::test]
async fn what_somebody_else_set_is_not_set_again_in_the_run_either() {
    let user = User::new(majors()[0]).await;
    let pair = begun(&user).await;
    let standby = user.client(Node::Standby).await;
    let primary = user.client(Node::Primary).await;
    // One that was there before is taken out, one that was not gets a value of theirs.
    primary.batch_execute("ALTER SYSTEM RESET checkpoint_completion_target").await.unwrap();
    standby.batch_execute("ALTER SYSTEM SET recovery_min_apply_delay = '3ms'").await.unwrap();
    for node in [Node::Primary, Node::Standby] {
        user.reload(node).await;
    }
    for (node, name) in
        [(Node::Primary, "checkpoint_completion_target"), (Node::Standby, "recovery_min_apply_delay")]
    {
        let before = user.state().await;
        let refused = pair.set(node, name, Some("0.4")).await.expect_err("it is theirs now");
        assert!(matches!(refused, SuiteError::Theirs(_)), "{refused}");
        assert!(refused.to_string().contains(name), "{refused}");
        pair.set(node, name, None).await.expect("there is nothing to put back");
        assert_eq!(user.state().await, before, "{name}");
    }
    // What nobody else has touched goes on.
    pair.set(Node::Standby, "hot_standby_feedback", Some("off")).await.unwrap();
    let (all, detail) = pair.close().await.unwrap();
    assert!(!all, "{detail}");
    for line in [
        "primary: checkpoint_completion_target was set by somebody else meanwhile",
        "standby: recovery_min_apply_delay was set by somebody else meanwhile",
    ] {
        assert!(detail.contains(line), "{line} is not in {detail}");
    }
    let row = standby.query_one("SHOW recovery_min_apply_delay", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "3ms");
    let row = primary.query_one("SHOW checkpoint_completion_target", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "0.9");
}

#[tokio::test]
async fn a_database_of_the_same_name_that_somebody_else_made_meanwhile_is_left() {
    let user = User::new(majors()[0]).await;
    let pair = Pair::open(&user.options(exe()), &|_| {}).await.unwrap();
    let primary = user.client(Node::Primary).await;
    primary.batch_execute(&format!("DROP DATABASE {DATABASE} WITH (FORCE)")).await.unwrap();
    primary.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await.unwrap();
    let target = Target::parse(&user.dsn(Node::Primary)).unwrap().application_name("somebody else");
    let theirs = target.database(DATABASE).connect().await.unwrap();
    let (all, detail) = pair.close().await.unwrap();
    assert!(all, "{detail}");
    theirs.batch_execute("SELECT 1").await.unwrap();
    assert!(has_database(&user).await);
    assert!(user.restore_files().is_empty());
}

#[tokio::test]
async fn settings_that_cannot_be_changed_are_refused_before() {
    let user = User::new(majors()[0]).await;
    let pair = Pair::open(&user.options(exe()), &|_| {}).await.unwrap();
    let mut arguments = Settings::new();
    arguments.set("log_min_duration_statement", "3000");
    user.stop(Node::Standby);
    user.start_with(Node::Standby, &arguments);
    user.synchronous().await;
    let during = user.state().await;
    let refused = pair.set(Node::Standby, "log_min_duration_statement", Some("5000")).await;
    let refused = refused.expect_err("it is an argument").to_string();
    assert!(refused.contains("is an argument that the server was started with"), "{refused}");
    for (name, value) in [("max_connections", "300"), ("no_such_setting", "1"), ("work_mem", "much")] {
        assert!(pair.set(Node::Primary, name, Some(value)).await.is_err(), "{name}");
    }
    for refused in [pair.stop_standby().await, pair.start_standby().await] {
        assert!(matches!(refused, Err(SuiteError::Options(_))), "{refused:?}");
    }
    assert_eq!(user.state().await, during);
    pair.close().await.unwrap();
}

//! What is refused says what, where, and what to do next.

use super::{
    common::{self, one},
    shell::{said, text, Shell},
};
use duramen_functions::schema::SCHEMA_VERSION;
use std::net::TcpListener;

#[test]
fn without_a_database_nothing_is_tried() {
    let shell = Shell::nowhere();
    for arguments in [
        &["install"][..],
        &["worker"],
        &["adopt", "--external=skip"],
        &["start", "SELECT 1"],
        &["status", "1a2b3c4d"],
        &["list"],
        &["show", "1a2b3c4d"],
        &["top"],
    ] {
        let error = shell.fails(2, arguments);
        assert!(error.contains("--url") && error.contains("DURAMEN_FN_URL"), "{arguments:?}: {error}");
    }
    let error = Shell::new("mysql://nobody:secret@nowhere/x").fails(2, &["list"]);
    assert!(error.contains("is not a PostgreSQL connection string") && !error.contains("secret"), "{error}");
}

#[test]
fn bad_usage_exits_with_2() {
    let shell = Shell::new("postgres://nobody@localhost:1/nothing");
    let bad: [&[&str]; 17] = [
        &[],
        &["start"],
        &["start", "SELECT 1", "--timeout", "5s"],
        &["start", "SELECT 1", "--input", "{"],
        &["start", "SELECT 1", "--wait", "--timeout", "soon"],
        &["worker", "--connections", "0"],
        &["worker", "--connections", "many"],
        &["worker", "--metrics", "localhost"],
        &["worker", "--metrics", "70000"],
        &["adopt"],
        &["adopt", "--external=maybe"],
        &["list", "--status", "done"],
        &["list", "--limit", "0"],
        &["list", "--limit", "5", "--all"],
        &["signal", "1a2b3c4d"],
        &["top", "--count", "0"],
        &["await"],
    ];
    for arguments in bad {
        let output = shell.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let shell = Shell::new(&format!("postgres://nobody:secret@127.0.0.1:{port}/nothing"));
    for arguments in [&["list"][..], &["install"], &["worker"], &["await", "1a2b3c4d"]] {
        let error = shell.fails(1, arguments);
        assert!(
            error.contains(&format!("cannot connect to 127.0.0.1:{port}/nothing")),
            "{arguments:?}: {error}"
        );
        assert!(!error.contains("secret"), "{arguments:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_schema_is_told_to_install_it() {
    let server = common::server().await;
    let name = server.empty_database().await;
    let url = server.url(common::OWNER, &name);
    let shell = Shell::new(&url);
    for arguments in [
        &["worker"][..],
        &["start", "SELECT 1"],
        &["start", "SELECT 1", "--wait"],
        &["start", "df.sleep(1)"],
        &["status", "1a2b3c4d"],
        &["list"],
        &["show", "1a2b3c4d"],
        &["result", "1a2b3c4d"],
        &["await", "1a2b3c4d"],
        &["cancel", "1a2b3c4d"],
        &["signal", "1a2b3c4d", "go"],
        &["pause", "1a2b3c4d"],
        &["delete", "1a2b3c4d"],
        &["explain", "SELECT 1"],
        &["top", "--count", "1"],
    ] {
        let error = shell.fails(1, arguments);
        assert!(error.contains(&name) && error.contains("duramen fn install"), "{arguments:?}: {error}");
    }
    // The URL stands where it is read best.
    let nowhere = Shell::nowhere();
    let printed = nowhere.ok(&["install", &url]);
    assert!(printed.contains(&format!("{name} has version {SCHEMA_VERSION} of the schema df")), "{printed}");
    assert!(printed.contains("the operators are in pg_catalog"), "{printed}");
    let again = nowhere.json(&["upgrade", "--url", &url]);
    let version = serde_json::json!(SCHEMA_VERSION);
    assert_eq!((&again["from"], &again["to"]), (&version, &version));
    assert_eq!(again["operators_in"], "pg_catalog");
    assert_eq!(
        nowhere.ok(&["--url", &url, "list"]),
        "no such instances; start one with `duramen fn start`\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_and_a_newer_schema_are_refused() {
    let database = common::database().await;
    let owner = database.owner().await;
    for (version, advice) in [("version + 1", "use a newer duramen"), ("0", "duramen fn install URL")] {
        let version = version.replace("version", "schema_version");
        owner.batch_execute(&format!("UPDATE df._meta SET schema_version = {version}")).await.unwrap();
        let found = one(&owner, "SELECT schema_version FROM df._meta").await.unwrap();
        let error = Shell::new(&database.url()).fails(1, &["worker"]);
        assert!(error.contains(&format!("has version {found} of the schema")), "{error}");
        assert!(error.contains(advice) && error.contains(database.name()), "{error}");
    }
    // What is newer is not touched, either.
    owner.batch_execute("UPDATE df._meta SET schema_version = 1000").await.unwrap();
    let error = Shell::new(&database.url()).fails(1, &["install"]);
    assert!(error.contains("has version 1000"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_without_rights_are_told_who_can_help() {
    let database = common::database().await;
    let stranger = database.stranger("stranger").await;
    let shell = Shell::new(&database.url_as(&stranger));
    for arguments in
        [&["start", "SELECT 1"][..], &["list"], &["status", "1a2b3c4d"], &["top", "--count", "1"]]
    {
        let error = shell.fails(1, arguments);
        assert!(error.contains("permission denied for schema df"), "{arguments:?}: {error}");
        assert!(error.contains(&format!("df.grant_usage('{stranger}')")), "{arguments:?}: {error}");
    }
    let error = shell.fails(1, &["worker"]);
    assert!(error.contains(&format!("role {stranger} may not")), "{error}");
    assert!(error.contains("connect as the role that installed it"), "{error}");
    // Who may start functions may still not run everybody's.
    let alice = database.role("alice").await;
    let error = Shell::new(&database.url_as(&alice)).fails(1, &["worker"]);
    assert!(error.contains(&format!("role {alice} may not work on the schema df")), "{error}");
    let empty = database.server().empty_database().await;
    let error = Shell::new(&database.server().url(&stranger, &empty)).fails(1, &["install"]);
    assert!(error.contains(&stranger) && error.contains("GRANT CREATE ON DATABASE"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_function_is_said_at_its_start() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let shell = Shell::new(&database.url_as(&alice));
    let error = shell.fails(1, &["start", "{\"node_type\":\"NONSENSE\"}"]);
    assert!(error.contains("Unknown node_type 'NONSENSE'"), "{error}");
    let error = shell.fails(1, &["start", "df.sleep(-1)"]);
    assert!(error.contains("the expression cannot be evaluated"), "{error}");
    let error = shell.fails(1, &["start", "'a' ~> 'b'; DROP TABLE t"]);
    assert!(error.contains("the expression cannot be evaluated"), "{error}");
    let error = shell.fails(1, &["start", "SELECT 1", "--database", "no_such_database"]);
    assert!(error.contains("no_such_database"), "{error}");
    // Superusers are held back until the operator says otherwise.
    let error = Shell::new(&database.url()).fails(1, &["start", "SELECT 1"]);
    assert!(error.contains("df.enable_superuser_instances"), "{error}");
    assert_eq!(shell.json(&["list"])["instances"], serde_json::json!([]), "something was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_instances_are_told_apart_from_nothing() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let bob = database.role("bob").await;
    let hers = Shell::new(&database.url_as(&alice)).start("SELECT 1");
    let shell = Shell::new(&database.url_as(&bob));
    for id in [hers.as_str(), "00000000", "nonsense"] {
        for arguments in [
            &["status", id][..],
            &["show", id],
            &["result", id],
            &["await", id],
            &["cancel", id],
            &["signal", id, "go"],
            &["pause", id],
            &["resume", id],
            &["delete", id],
        ] {
            let error = shell.fails(1, arguments);
            let wanted = format!("Instance not found or access denied: {id}");
            assert!(error.contains(&wanted), "{arguments:?}: {error}");
            assert!(error.contains("list"), "{arguments:?}: {error}");
        }
    }
}

#[test]
fn help_says_where_the_database_comes_from() {
    let help = text(&Shell::nowhere().run(&["start", "--help"]).stdout);
    assert!(help.contains("--url <URL>") && help.contains("DURAMEN_FN_URL"), "{help}");
    assert!(help.contains("--json"), "{help}");
}

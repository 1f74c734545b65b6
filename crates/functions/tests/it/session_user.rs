//! F-18: to whatever a step asks, its session is its submitter's, as far as the worker's own role allows.

use crate::common::{self, one, refusal, Server, OWNER};
use crate::worker::{self, execute, run, run_step, TestWorker};
use duramen_functions::{
    schema::{self, SchemaError, WorkerRole},
    worker::{Options, Worker, WorkerError, MEMORY},
};
use tokio_postgres::Client;

/// Who a step is, by all names that the server has for it.
const WHO: &str =
    "SELECT current_user || ' ' || session_user || ' ' || current_setting('is_superuser') AS who";

/// The same, too slow for a turn.
const WHO_SLOWLY: &str = "WITH nap AS MATERIALIZED (SELECT pg_sleep(0.2))
    SELECT current_user || ' ' || session_user || ' ' || current_setting('is_superuser') AS who FROM nap";

#[tokio::test(flavor = "multi_thread")]
async fn under_a_superuser_a_step_has_the_session_of_its_submitter() {
    let database = common::database().await;
    let (alice, client, owner) = worker::submitter(&database).await;
    let there = database.server().empty_database().await;
    // What others wrote for others: it trusts the session's user, and has rights.
    execute(
        &owner,
        &[
            "CREATE TABLE public.audit (who text DEFAULT session_user)",
            "GRANT INSERT ON public.audit TO PUBLIC",
            "CREATE FUNCTION public.let_in() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
             BEGIN
                 IF (SELECT rolsuper FROM pg_roles WHERE rolname = session_user) THEN
                     RETURN 'let in';
                 END IF;
                 RETURN 'turned away: ' || session_user;
             END $$",
        ],
    )
    .await;
    let worker = TestWorker::start(&database, 3).await;
    let herself = format!("{alice} {alice} off");
    for step in [WHO, WHO_SLOWLY] {
        let output = run_step(&client, step).await.completed();
        assert!(output.contains(&herself), "{step}: {output}");
    }
    assert!(worker.metric("activities_total") >= 1, "one of them ran outside of turns");
    let elsewhere = format!("'{}', database => '{there}'", WHO.replace('\'', "''"));
    let output = run(&client, &elsewhere).await.completed();
    assert!(output.contains(&herself), "in another database: {output}");
    let output = run_step(&client, "SELECT df.submitter() AS who").await.completed();
    assert!(output.contains(&format!(r#""who":"{alice}""#)), "{output}");
    let output = run_step(&client, "SELECT public.let_in()").await.completed();
    assert!(output.contains(&format!("turned away: {alice}")), "{output}");
    run_step(&client, "INSERT INTO public.audit DEFAULT VALUES").await.completed();
    let audited = one(&owner, "SELECT string_agg(who, ' ') FROM public.audit").await;
    assert_eq!(audited.as_deref(), Some(alice.as_str()), "the audit column");
    // A statement that refuses transactions, which asks nobody but the index's function.
    execute(
        &client,
        &[
            &format!("CREATE TABLE {alice}.indexed (n int)"),
            &format!("CREATE TABLE {alice}.seen (who text)"),
            &format!(
                "CREATE FUNCTION {alice}.who(n int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
                 $$ BEGIN RAISE EXCEPTION 'it is %', session_user; END $$"
            ),
            &format!("INSERT INTO {alice}.indexed VALUES (1)"),
        ],
    )
    .await;
    let index = format!("CREATE INDEX CONCURRENTLY ON {alice}.indexed ({alice}.who(n))");
    let said = run_step(&client, &index).await.failed();
    assert!(said.contains(&format!("it is {alice}")), "{said}");
}

/// One call of the executor may run the steps of many, and what comes after it is the worker's again.
#[tokio::test(flavor = "multi_thread")]
async fn failures_and_neighbours_leave_the_session_as_it_was() {
    let database = common::database().await;
    let (alice, client, owner) = worker::submitter(&database).await;
    let _worker = TestWorker::start(&database, 3).await;
    let herself = format!("{alice} {alice} off");
    for step in
        ["SELECT 1 / 0", "SET SESSION AUTHORIZATION DEFAULT", "RESET SESSION AUTHORIZATION", "CLOSE ALL"]
    {
        let _ = run_step(&client, step).await;
        let output = run_step(&client, WHO).await.completed();
        assert!(output.contains(&herself), "after {step}: {output}");
    }
    // A name that has to be quoted.
    let quoted = database.role("Ann \"the\" great").await;
    let anns = database.connect(&quoted.replace('"', "%22").replace(' ', "%20")).await;
    let output = run_step(&anns, "SELECT session_user::text = current_user::text AS same").await.completed();
    assert!(output.contains("\"same\":true"), "{output}");
    // The role has another name from now on.
    let renamed = format!("{alice}_renamed");
    execute(&owner, &[&format!("ALTER ROLE {alice} RENAME TO {renamed}")]).await;
    let again = database.connect(&renamed).await;
    let output = run_step(&again, WHO).await.completed();
    assert!(output.contains(&format!("{renamed} {renamed} off")), "{output}");
    assert_eq!(one(&owner, "SELECT session_user::text").await.as_deref(), Some(OWNER));
}

/// A database whose workers have a role of their own, and a submitter.
struct Ordinary {
    database: String,
    operator: String,
    alice: String,
    client: Client,
    admin: Client,
    server: &'static Server,
}

impl Ordinary {
    async fn set() -> Ordinary {
        let server = common::server().await;
        let database = server.empty_database().await;
        let admin = server.connect(OWNER, &database).await;
        let (operator, alice) = (format!("operator_{database}"), format!("alice_{database}"));
        execute(
            &admin,
            &[&format!("CREATE ROLE {alice} LOGIN; CREATE SCHEMA {alice} AUTHORIZATION {alice}")],
        )
        .await;
        let role = WorkerRole { name: operator.clone(), submitters: vec![alice.clone()] };
        schema::install_for(&server.url(OWNER, &database), Some(&role)).await.unwrap();
        // A second time changes nothing.
        schema::install_for(&server.url(OWNER, &database), Some(&role)).await.unwrap();
        let client = server.connect(&alice, &database).await;
        execute(&client, &["SET search_path = df, public"]).await;
        Ordinary { database, operator, alice, client, admin, server }
    }

    fn url(&self) -> String {
        self.server.url(&self.operator, &self.database)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_of_workers_has_no_rights_but_those_on_df() {
    let place = Ordinary::set().await;
    let Ordinary { operator, alice, client, admin, .. } = &place;
    let powers = format!(
        "SELECT concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolbypassrls, rolcanlogin)
         FROM pg_roles WHERE rolname = '{operator}'"
    );
    assert_eq!(one(admin, &powers).await.as_deref(), Some("f f f f f t"));
    if place.server.major() >= 16 {
        let terms = format!(
            "SELECT m.inherit_option || ' ' || m.set_option || ' ' || m.admin_option FROM pg_auth_members m
             WHERE m.member = '{operator}'::regrole AND m.roleid = '{alice}'::regrole"
        );
        assert_eq!(one(admin, &terms).await.as_deref(), Some("false true false"));
    }
    execute(client, &[&format!("CREATE TABLE {alice}.mine (n int)")]).await;
    let operators = place.server.connect(operator, &place.database).await;
    let said = refusal(&operators, &format!("SELECT * FROM {alice}.mine")).await;
    assert!(said.contains("permission denied"), "{said}");
    for sql in ["CREATE SCHEMA another", "CREATE TABLE public.another ()"] {
        refusal(&operators, sql).await;
    }
    let worker = TestWorker::start_at(&place.url(), 3).await;
    for step in [WHO, WHO_SLOWLY] {
        let output = run_step(client, step).await.completed();
        assert!(output.contains(&format!("{alice} {operator} off")), "{step}: {output}");
    }
    assert!(worker.metric("activities_total") >= 1);
    run_step(client, &format!("INSERT INTO {alice}.mine VALUES (1)")).await.completed();
    run_step(client, &format!("VACUUM {alice}.mine")).await.completed();
    let mapped = format!("df.map('SELECT n FROM {alice}.mine', 'SELECT $item.n', 'item', 2)");
    run(client, &mapped).await.completed();
    // Whoever is not among its submitters is told so, and nobody else is harmed.
    let bob = format!("bob_{}", place.database);
    execute(admin, &[&format!("CREATE ROLE {bob} LOGIN")]).await;
    execute(&operators, &[&format!("SELECT df.grant_usage('{bob}')")]).await;
    let bobs = place.server.connect(&bob, &place.database).await;
    let said = run_step(&bobs, "SELECT 1").await.failed();
    assert!(said.contains(&format!("cannot act for role {bob}")), "{said}");
    run_step(client, "SELECT 1").await.completed();
}

/// F-7, as it is for a superuser.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_the_commit_is_checked_under_an_ordinary_worker_too() {
    let place = Ordinary::set().await;
    let Ordinary { alice, client, .. } = &place;
    execute(
        client,
        &[
            &format!("CREATE TABLE {alice}.parent (id int PRIMARY KEY)"),
            &format!(
                "CREATE TABLE {alice}.child (id int REFERENCES {alice}.parent DEFERRABLE INITIALLY DEFERRED)"
            ),
            &format!("INSERT INTO {alice}.parent VALUES (1)"),
        ],
    )
    .await;
    let _worker = TestWorker::start_at(&place.url(), 3).await;
    for nap in ["", ", pg_sleep(0.2)"] {
        let enter = |id: i32| format!("INSERT INTO {alice}.child SELECT id FROM (SELECT {id} AS id{nap}) x");
        run_step(client, &enter(1)).await.completed();
        let said = run_step(client, &enter(2)).await.failed();
        assert!(said.contains("violates foreign key constraint"), "{said}");
    }
    let count = format!("SELECT count(*) FROM {alice}.child");
    assert_eq!(one(client, &count).await.as_deref(), Some("2"));
}

/// Who submitted is known in whatever function a step calls, and cannot be made up.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_can_be_asked_who_submitted_it() {
    let place = Ordinary::set().await;
    let Ordinary { alice, client, admin, operator, .. } = &place;
    let forged = "PL/pgSQL function df_run.r10(text[],boolean[],text[],double precision,bigint,boolean) line 3 at EXECUTE";
    execute(
        admin,
        &[
            "CREATE FUNCTION public.who_asks() RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS
             $$ BEGIN RETURN current_user || ' for ' || df.submitter(); END $$",
            &format!("GRANT CREATE ON SCHEMA public TO {alice}"),
        ],
    )
    .await;
    let names = [format!("\"x\n{forged}\""), format!("\"{forged}\"")];
    for name in &names {
        let body = "BEGIN RETURN df.submitter(); END";
        let make = format!("CREATE FUNCTION public.{name}() RETURNS text LANGUAGE plpgsql AS $$ {body} $$");
        execute(client, &[&make]).await;
    }
    let _worker = TestWorker::start_at(&place.url(), 3).await;
    for (step, expected) in [
        ("SELECT df.submitter() AS who".to_owned(), alice.clone()),
        ("SELECT df.submitter() AS who, pg_sleep(0.1)".to_owned(), alice.clone()),
        ("SELECT public.who_asks() AS who".to_owned(), format!("{OWNER} for {alice}")),
        (format!("SELECT public.{}() AS who", names[0]), alice.clone()),
        (format!("SELECT public.{}() AS who", names[1]), alice.clone()),
    ] {
        let output = run_step(client, &step).await.completed();
        assert!(output.contains(&format!(r#""who":"{expected}""#)), "{step} by {operator}: {output}");
    }
    for name in &names {
        let said = one(client, &format!("SELECT public.{name}()")).await;
        assert_eq!(
            said.as_deref(),
            Some(alice.as_str()),
            "her own session is hers, whatever she calls {name}"
        );
    }
}

/// A worker that is a superuser has to be wanted.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_no_superuser_unless_it_is_told_to() {
    let database = common::database().await;
    let options = Options {
        url: database.url(),
        connections: 1,
        per_role: None,
        memory: MEMORY,
        lanes: None,
        allow_superuser: false,
        rehearsal: None,
    };
    match Worker::start(options).await {
        Err(error @ WorkerError::Superuser { .. }) => {
            let said = error.to_string();
            assert!(said.contains("--worker-role") && said.contains("--allow-superuser"), "{said}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it works"),
    }
    let place = Ordinary::set().await;
    drop(
        Worker::start(Options {
            url: place.url(),
            connections: 1,
            per_role: None,
            memory: MEMORY,
            lanes: None,
            allow_superuser: false,
            rehearsal: None,
        })
        .await
        .unwrap(),
    );
    // Nor is a role made the workers' that has more rights than they need.
    let role = WorkerRole { name: OWNER.to_owned(), submitters: Vec::new() };
    match schema::install_for(&database.url(), Some(&role)).await {
        Err(SchemaError::WorkerRole { powers, .. }) => {
            assert!(powers.contains("SUPERUSER, INHERIT"), "{powers}")
        }
        other => panic!("{other:?}"),
    }
}

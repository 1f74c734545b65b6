//! Code of a submitter's that the server runs at unusual moments: while it parses, when it resolves names for the
//! worker,
//! at the commit, in statements outside of transactions, in other databases. F-5 holds there as well.

use super::{common::one, execute, run_step, Scene};
use crate::worker::run;

/// A literal of an array of a domain runs the domain's check while the statement is parsed, and the worker asks for
/// the description of statements.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_runs_at_parsing_runs_as_the_submitter() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    let check = format!(
        "CREATE FUNCTION {alice}.checked(int) RETURNS boolean LANGUAGE sql VOLATILE AS
         $$ SELECT {alice}.steal() IS NOT NULL $$"
    );
    let domain = format!("CREATE DOMAIN {alice}.trap AS int CHECK ({alice}.checked(value))");
    execute(&scene.client, &[&check, &domain]).await;
    let output = run_step(&scene.client, &format!("SELECT '{{1,2}}'::{alice}.trap[] AS a")).await.completed();
    assert_eq!(output, r#"{"rows":[{"a":[1,2]}],"row_count":1}"#);
    run_step(&scene.client, &format!("SELECT '{{1}}'::{alice}.trap[], pg_sleep(0.1)")).await.completed();
    scene.ran_as_herself("a domain's check").await;
    scene.nothing_stolen("a domain's check").await;
}

/// What the role has set for its own logins must not decide which functions the worker's own statements call.
#[tokio::test(flavor = "multi_thread")]
async fn the_search_path_of_a_role_does_not_lead_the_worker_astray() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    let mut traps = vec![format!("ALTER ROLE {alice} SET search_path = {alice}, pg_catalog")];
    // Better matches than the server's own, or found first.
    for (name, arguments, result, body) in [
        ("cardinality", "bigint[]", "int", "pg_catalog.cardinality($1)"),
        ("clock_timestamp", "", "timestamptz", "pg_catalog.clock_timestamp()"),
        ("now", "", "timestamptz", "pg_catalog.now()"),
        ("pg_my_temp_schema", "", "oid", "pg_catalog.pg_my_temp_schema()"),
        ("currval", "text", "bigint", "pg_catalog.currval($1::regclass)"),
        ("pg_notify", "text, text", "void", "pg_catalog.pg_notify($1, $2)"),
        ("unnest", "bigint[]", "SETOF bigint", "x FROM pg_catalog.unnest($1) x"),
        ("octet_length", "text", "int", "pg_catalog.octet_length($1)"),
    ] {
        let setof = if result.starts_with("SETOF") { "ROWS 10" } else { "" };
        traps.push(format!(
            "CREATE FUNCTION {alice}.{name}({arguments}) RETURNS {result} LANGUAGE sql VOLATILE {setof} AS
             $$ SELECT {alice}.steal(); SELECT {body} $$"
        ));
    }
    for statement in &traps {
        execute(&scene.client, &[statement]).await;
    }
    let output = run(&scene.client, "'SELECT 1 AS a' ~> 'SELECT pg_sleep(0.1)' ~> 'SELECT 2 AS b'").await;
    assert!(output.completed().contains(r#""b":2"#));
    let path = run_step(&scene.client, "SELECT current_setting('search_path') AS path").await.completed();
    assert!(path.contains(alice.as_str()), "a step has the role's own setting: {path}");
    scene.ran_as_herself("functions that shadow the server's").await;
    scene.nothing_stolen("functions that shadow the server's").await;
}

/// The housekeeping behind a step runs while the step's role could still shadow names: a cursor that is declared then
/// and held over the commit would run as the worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_is_held_over_the_commit_runs_nothing_as_the_worker() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    let declare = format!("DECLARE held CURSOR WITH HOLD FOR SELECT {alice}.steal()");
    for (left, right) in
        [("numeric", "int"), ("numeric", "integer[]"), ("text", "\"char\""), ("\"char\"", "text")]
    {
        let function = format!(
            "CREATE FUNCTION {alice}.times({left}, {right}) RETURNS numeric LANGUAGE plpgsql AS $$
             BEGIN
                 BEGIN EXECUTE '{declare}'; EXCEPTION WHEN OTHERS THEN NULL; END;
                 RETURN 1;
             END $$"
        );
        let operator = format!(
            "CREATE OPERATOR {alice}.* (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = {alice}.times)"
        );
        execute(&scene.client, &[&function, &operator]).await;
    }
    run_step(&scene.client, "SELECT 1").await.completed();
    run_step(&scene.client, &declare).await.completed();
    run_step(&scene.client, &format!("SELECT 1 FROM {alice}.steal()")).await.completed();
    let slow = format!("DO $$ BEGIN PERFORM pg_sleep(0.2); EXECUTE '{declare}'; END $$");
    run_step(&scene.client, &slow).await.completed();
    scene.ran_as_herself("a held cursor").await;
    scene.nothing_stolen("a held cursor").await;
}

/// Statements outside of transactions run under SET ROLE, which is not a wall: none may run code of the submitter's.
#[tokio::test(flavor = "multi_thread")]
async fn statements_outside_of_transactions_run_no_code_of_the_submitters() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    execute(
        &scene.client,
        &[
            &format!("CREATE DOMAIN {alice}.partition AS int"),
            &format!(
                "CREATE FUNCTION {alice}.concurrently() RETURNS int
                LANGUAGE sql VOLATILE AS $$ SELECT {alice}.steal() $$"
            ),
            &format!(
                "CREATE FUNCTION {alice}.checked(int) RETURNS boolean
                LANGUAGE sql VOLATILE AS $$ SELECT {alice}.steal() IS NOT NULL $$"
            ),
            &format!("CREATE DOMAIN {alice}.trap AS int CHECK ({alice}.checked(value))"),
            &format!(
                "CREATE FUNCTION {alice}.sly(int) RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT $1 $$"
            ),
            &format!("CREATE TABLE {alice}.things (x int)"),
            &format!("INSERT INTO {alice}.things SELECT generate_series(1, 10)"),
        ],
    )
    .await;
    let replace = format!(
        "CREATE OR REPLACE FUNCTION {alice}.sly(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
         $$ DECLARE stolen int; BEGIN EXECUTE 'SELECT {alice}.steal()' INTO stolen; RETURN $1; END $$"
    );
    execute(&scene.client, &[&replace]).await;
    for step in [
        format!("ALTER TABLE {alice}.things ADD COLUMN detach partition DEFAULT concurrently()"),
        format!(
            "ALTER TABLE {alice}.things ADD COLUMN detach {alice}.partition DEFAULT {alice}.concurrently()"
        ),
        format!("CREATE INDEX CONCURRENTLY ON {alice}.things (x) WHERE ('{{1}}'::{alice}.trap[])[1] = 1"),
        format!("CREATE INDEX CONCURRENTLY ON {alice}.things (x) WHERE ($a${{1}}$a$::{alice}.trap[])[1] = 1"),
        format!("CREATE INDEX CONCURRENTLY ON {alice}.things ({alice}.sly(x))"),
        format!("VACUUM ANALYZE {alice}.things"),
        format!("REINDEX TABLE CONCURRENTLY {alice}.things"),
    ] {
        // Refused or done, but not with the worker's rights.
        run_step(&scene.client, &step).await;
        scene.nothing_stolen(&step).await;
    }
    let who = one(&scene.owner, &format!("SELECT string_agg(DISTINCT who, ',') FROM {alice}.ran")).await;
    assert!(who.is_none() || who.as_deref() == Some(alice.as_str()), "ran as {who:?}");
}

/// A schema df_run that is already in another database may be anybody's.
#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_schema_in_another_database_is_not_trusted() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let other = scene.database.server().empty_database().await;
    execute(&scene.owner, &[&format!("ALTER DATABASE {other} OWNER TO {alice}")]).await;
    let there = scene.database.server().connect(alice, &other).await;
    let theft = format!("EXECUTE 'ALTER ROLE {alice} CREATEROLE CREATEDB';");
    execute(
        &there,
        &[
            "CREATE SCHEMA df_run",
            "CREATE TABLE df_run.marker (installation uuid, activity bigint,
                outcome json, at timestamptz DEFAULT now())",
            &format!("CREATE FUNCTION df_run.ensure_executor(oid) RETURNS boolean
                LANGUAGE plpgsql AS $$ BEGIN {theft} RETURN true; END $$"),
            &format!("CREATE FUNCTION df_run.stolen() RETURNS trigger
                LANGUAGE plpgsql AS $$ BEGIN {theft} RETURN NEW; END $$"),
            "CREATE TRIGGER stolen BEFORE INSERT ON df_run.marker FOR EACH ROW EXECUTE FUNCTION df_run.stolen()",
        ],
    )
    .await;
    let said = run(&scene.client, &format!("'SELECT 1', database => '{other}'")).await;
    scene.nothing_stolen("a prepared schema df_run").await;
    let said = said.failed();
    assert!(said.contains("df_run"), "it says what is in the way: {said}");
}

/// The owner of another database chooses the search path of sessions there; not for what the worker does itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_search_path_of_another_database_does_not_lead_the_worker_astray() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let other = scene.database.server().empty_database().await;
    execute(
        &scene.owner,
        &[
            &format!("ALTER DATABASE {other} OWNER TO {alice}"),
            &format!("ALTER DATABASE {other} SET search_path = trap, pg_catalog"),
        ],
    )
    .await;
    let there = scene.database.server().connect(alice, &other).await;
    let theft = format!(
        "BEGIN EXECUTE 'ALTER ROLE {alice} CREATEROLE CREATEDB'; EXCEPTION WHEN OTHERS THEN NULL; END;"
    );
    let mut traps = vec!["CREATE SCHEMA trap".to_owned()];
    for (name, arguments, result, body) in [
        ("to_regclass", "text", "regclass", "pg_catalog.to_regclass($1)"),
        ("hashtext", "text", "int", "pg_catalog.hashtext($1)"),
        ("clock_timestamp", "", "timestamptz", "pg_catalog.clock_timestamp()"),
        ("format", "text, text", "text", "pg_catalog.format($1, $2)"),
        ("replace", "text, text, text", "text", "pg_catalog.replace($1, $2, $3)"),
        ("has_database_privilege", "oid, text, text", "boolean", "true"),
    ] {
        traps.push(format!(
            "CREATE FUNCTION trap.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql VOLATILE AS
             $$ BEGIN {theft} RETURN {body}; END $$"
        ));
    }
    traps.push("GRANT USAGE ON SCHEMA trap TO PUBLIC".to_owned());
    for statement in &traps {
        execute(&there, &[statement]).await;
    }
    let step = "SELECT current_database()::text = current_catalog AS there";
    let output = run(&scene.client, &format!("'{step}', database => '{other}'")).await;
    scene.nothing_stolen("the search path of another database").await;
    output.completed();
}

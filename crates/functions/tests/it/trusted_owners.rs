//! Who may submit, and whose objects a session with rights uses: F-5 (the submitter's rights and no way to others'), F-14
//! (any role may submit) and F-15 (nothing of somebody else's is run). A worker and an installation act with all the rights
//! that their role has, so each test is about somebody who would like to have them.

use crate::common;
use crate::common::{one, rows, Database, Server, OWNER};
use crate::worker::{ended, execute, run_step, start_step, TestWorker, SOON};
use duramen_functions::{
    schema::{self, SchemaError},
    worker::{Options, Worker, WorkerError, MEMORY},
};
use tokio_postgres::Client;

/// A database without the schema, and somebody in it who may create schemas there and nothing else.
struct Place {
    server: &'static Server,
    name: String,
    mallory: String,
    mallorys: Client,
    admin: Client,
}

impl Place {
    async fn set() -> Place {
        let server = common::server().await;
        let name = server.empty_database().await;
        let admin = server.connect(OWNER, &name).await;
        let mallory = format!("mallory_{name}");
        execute(
            &admin,
            &[
                &format!("CREATE ROLE {mallory} LOGIN"),
                &format!("GRANT CREATE ON DATABASE {name} TO {mallory}"),
            ],
        )
        .await;
        let mallorys = server.connect(&mallory, &name).await;
        Place { server, name, mallory, mallorys, admin }
    }

    fn url(&self, role: &str) -> String {
        self.server.url(role, &self.name)
    }

    /// A body that takes all rights, if it has the rights to.
    fn theft(&self) -> String {
        format!("EXECUTE 'ALTER ROLE {} SUPERUSER';", self.mallory)
    }

    /// The installation by a superuser, which is refused and names what is in the way.
    async fn is_not_installed(&self, named: &str) {
        match schema::install(&self.url(OWNER)).await {
            Err(SchemaError::Foreign { what, .. }) => {
                assert!(what.contains(named), "{what} instead of {named}");
            }
            other => panic!("{named}: {other:?}"),
        }
        self.nothing_stolen(named).await;
    }

    async fn is_not_worked_on(&self, named: &str) {
        match Worker::start(Options {
            url: self.url(OWNER),
            connections: 1,
            per_role: None,
            memory: MEMORY,
            lanes: None,
            allow_superuser: true,
            rehearsal: None,
        })
        .await
        {
            Err(WorkerError::Schema(SchemaError::Foreign { what, .. })) => {
                assert!(what.contains(named), "{what} instead of {named}");
            }
            Err(error) => panic!("{named}: {error}"),
            Ok(_) => panic!("{named}: a worker works there"),
        }
        self.nothing_stolen(named).await;
    }

    async fn nothing_stolen(&self, attempt: &str) {
        let powers = format!("SELECT rolsuper FROM pg_roles WHERE rolname = '{}'", self.mallory);
        assert_eq!(one(&self.admin, &powers).await.as_deref(), Some("f"), "{attempt}");
    }
}

/// An ordinary role that owns the schema, works, and submits, too.
struct Ordinary {
    database: String,
    own: String,
    alice: String,
    server: &'static Server,
}

impl Ordinary {
    async fn set() -> Ordinary {
        let server = common::server().await;
        let database = server.empty_database().await;
        let admin = server.connect(OWNER, &database).await;
        let (own, alice) = (format!("own_{database}"), format!("alice_{database}"));
        execute(
            &admin,
            &[
                &format!("CREATE ROLE {own} LOGIN; CREATE ROLE {alice} LOGIN; GRANT {alice} TO {own}"),
                &format!("GRANT CREATE ON DATABASE {database} TO {own}"),
                &format!("ALTER DATABASE {database} SET df.enable_superuser_instances = 'on'"),
            ],
        )
        .await;
        schema::install(&server.url(&own, &database)).await.unwrap();
        let owner = server.connect(&own, &database).await;
        execute(&owner, &[&format!("SELECT df.grant_usage('{alice}')")]).await;
        Ordinary { database, own, alice, server }
    }

    async fn connect(&self, role: &str) -> Client {
        self.server.connect(role, &self.database).await
    }

    fn url(&self) -> String {
        self.server.url(&self.own, &self.database)
    }
}

/// F-14: the clean-up after the owner's first step took away the owner's own rights, and with them everybody's instances.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_may_submit_and_others_go_on() {
    let place = Ordinary::set().await;
    let _worker = TestWorker::start_at(&place.url(), 2).await;
    let alices = place.connect(&place.alice).await;
    let owners = place.connect(&place.own).await;
    run_step(&alices, "SELECT 1").await.completed();
    let output = run_step(&owners, "SELECT current_user::text AS me").await.completed();
    assert!(output.contains(&place.own), "{output}");
    run_step(&alices, "SELECT 2").await.completed();
    run_step(&owners, "SELECT pg_sleep(0.1)").await.completed();
    // The worker is not a member of this one: its instance says so, and is the only one that fails.
    let superusers = place.connect(OWNER).await;
    let said = run_step(&superusers, "SELECT 1").await.failed();
    assert!(said.contains("cannot act for role"), "{said}");
    run_step(&alices, "SELECT 3").await.completed();
    // With the membership it is a submitter like any other.
    execute(&superusers, &[&format!("GRANT {OWNER} TO {}", place.own)]).await;
    let another = TestWorker::start_at(&place.url(), 2).await;
    drop(_worker);
    let output = run_step(&superusers, "SELECT current_user::text AS me").await.completed();
    assert!(output.contains(OWNER), "{output}");
    run_step(&alices, "SELECT 4").await.completed();
    drop(another);
    schema::install(&place.url()).await.unwrap();
    // Nobody but the owner can enter.
    let entered = format!(
        "SELECT has_schema_privilege('{}', 'df_run', 'USAGE'), has_schema_privilege('{}', 'df_run', 'CREATE')",
        place.alice, place.own
    );
    let found = rows(&superusers, &entered).await;
    assert_eq!(found, [[Some("f".to_owned()), Some("t".to_owned())]]);
}

/// F-14: what version 0.1 has broken so is fixed by a worker's start, and by an installation.
#[tokio::test(flavor = "multi_thread")]
async fn rights_that_the_owner_has_lost_come_back() {
    let place = Ordinary::set().await;
    let alices = place.connect(&place.alice).await;
    let owners = place.connect(&place.own).await;
    let damage = format!("REVOKE USAGE, CREATE ON SCHEMA df_run FROM {}", place.own);
    execute(&owners, &[&damage]).await;
    let worker = TestWorker::start_at(&place.url(), 2).await;
    run_step(&alices, "SELECT 1").await.completed();
    drop(worker);
    execute(&owners, &[&damage]).await;
    schema::install(&place.url()).await.unwrap();
    let id = start_step(&alices, "SELECT 2").await;
    let _worker = TestWorker::start_at(&place.url(), 2).await;
    ended(&alices, &id, SOON).await.completed();
}

/// F-15: schemas that somebody else made beforehand, empty or with something in them that would run.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_that_somebody_else_made_are_not_installed_into() {
    for schema in ["df", "df_run"] {
        let place = Place::set().await;
        execute(&place.mallorys, &[&format!("CREATE SCHEMA {schema}")]).await;
        place.is_not_installed(&format!("schema {schema}")).await;
    }
    // What is read first.
    let place = Place::set().await;
    let steal = format!(
        "CREATE FUNCTION df.steal() RETURNS int LANGUAGE plpgsql AS $$ BEGIN {} RETURN 1; END $$",
        place.theft()
    );
    execute(
        &place.mallorys,
        &["CREATE SCHEMA df", &steal, "CREATE VIEW df._meta AS SELECT df.steal() AS schema_version"],
    )
    .await;
    place.is_not_installed("df").await;
    place.is_not_worked_on("df").await;
    // Handed to a role that every owner of a database is a member of, and that the server was born with.
    let place = Place::set().await;
    execute(&place.admin, &[&format!("ALTER DATABASE {} OWNER TO {}", place.name, place.mallory)]).await;
    execute(&place.mallorys, &["CREATE SCHEMA df", "ALTER SCHEMA df OWNER TO pg_database_owner"]).await;
    place.is_not_installed("schema df").await;
}

/// F-15: an installation that somebody else has made is not worked on by a superuser, nor one in which a part is his.
#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_somebody_else_is_not_worked_on() {
    let place = Place::set().await;
    schema::install(&place.url(&place.mallory)).await.unwrap();
    place.is_not_worked_on("df").await;
    place.is_not_installed("df").await;
    drop(
        Worker::start(Options {
            url: place.url(&place.mallory),
            connections: 1,
            per_role: None,
            memory: MEMORY,
            lanes: None,
            allow_superuser: true,
            rehearsal: None,
        })
        .await
        .unwrap(),
    );
    // Whom a member works for, it says.
    let member = format!("member_{}", place.name);
    execute(&place.admin, &[&format!("CREATE ROLE {member} LOGIN; GRANT {} TO {member}", place.mallory)])
        .await;
    let url = place.url(&member);
    let refused = Worker::start(Options {
        url: url.clone(),
        connections: 1,
        per_role: None,
        memory: MEMORY,
        lanes: None,
        allow_superuser: true,
        rehearsal: None,
    })
    .await
    .err()
    .unwrap();
    assert!(refused.to_string().contains("options=-c%20role%3D"), "{refused}");
    let url = format!("{url}&options=-c%20role%3D{}", place.mallory);
    let _worker = TestWorker::start_at(&url, 2).await;
    run_step(&place.mallorys, "SELECT 1").await.completed();

    for (give, named) in [
        ("ALTER FUNCTION df._claim(int, oid, bigint, int, bigint, boolean) OWNER TO $", "_claim"),
        ("ALTER FUNCTION df_run.ensure_executor(oid) OWNER TO $", "ensure_executor"),
        ("ALTER TABLE df._work OWNER TO $", "_work"),
        ("ALTER SEQUENCE df._asleep OWNER TO $", "_asleep"),
        ("ALTER VIEW df.instances OWNER TO $", "instances"),
        ("CREATE TYPE df.late AS ENUM (); ALTER TYPE df.late OWNER TO $", "late"),
        ("CREATE OPERATOR df.=== (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int); ALTER OPERATOR df.=== (int, int) OWNER TO $", "==="),
        ("ALTER SCHEMA df_run OWNER TO $", "schema df_run"),
        ("GRANT CREATE ON SCHEMA df TO $", "right to create in schema df"),
        ("GRANT CREATE ON SCHEMA df_run TO PUBLIC", "right to create in schema df_run"),
    ] {
        let place = Place::set().await;
        schema::install(&place.url(OWNER)).await.unwrap();
        // The new owner of a function must be able to create in its schema, for a moment.
        let both = "GRANT CREATE ON SCHEMA df, df_run TO $; {}; REVOKE CREATE ON SCHEMA df, df_run FROM $";
        let give = if give.starts_with("GRANT") { give.to_owned() } else { both.replace("{}", give) };
        execute(&place.admin, &[&give.replace('$', &place.mallory)]).await;
        place.is_not_worked_on(named).await;
        place.is_not_installed(named).await;
    }
}

/// Functions and operators that say so when they are called, for those that the schema's functions name.
async fn make_hostile(client: &Client) {
    execute(client, &["CREATE SCHEMA hostile; GRANT USAGE ON SCHEMA hostile TO PUBLIC"]).await;
    for (name, arguments, result) in [
        ("ascii", "text", "int"),
        ("octet_length", "text", "int"),
        ("current_setting", "text, boolean", "text"),
        ("current_setting", "text", "text"),
        ("set_config", "text, text, boolean", "text"),
        ("currval", "regclass", "bigint"),
        ("lpad", "text, int, text", "text"),
        ("to_hex", "bigint", "text"),
        ("pg_sequence_last_value", "regclass", "bigint"),
        ("btrim", "text", "text"),
        ("ltrim", "text, text", "text"),
        ("quote_ident", "text", "text"),
        ("clock_timestamp", "", "timestamptz"),
        ("json_array_length", "json", "int"),
        ("to_json", "text", "json"),
        ("pg_advisory_xact_lock", "int, int", "void"),
        ("row_security_active", "regclass", "boolean"),
        ("has_schema_privilege", "text, text", "boolean"),
        ("aclexplode", "aclitem[]", "SETOF record"),
        ("pg_get_userbyid", "oid", "name"),
        ("jsonb_typeof", "jsonb", "text"),
    ] {
        let make = format!(
            "CREATE FUNCTION hostile.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'hostile.{name} has run'; END $$"
        );
        execute(client, &[&make]).await;
    }
    for (name, left, right, result) in [
        ("=", "text", "text", "boolean"),
        ("=", "text", "name", "boolean"),
        ("=", "name", "text", "boolean"),
        ("=", "name", "name", "boolean"),
        ("=", "bigint", "bigint", "boolean"),
        ("=", "oid", "oid", "boolean"),
        ("=", "\"char\"", "\"char\"", "boolean"),
        ("<>", "int", "int", "boolean"),
        ("<=", "int", "int", "boolean"),
        ("<=", "bigint", "bigint", "boolean"),
        ("||", "text", "text", "text"),
        ("&", "bigint", "bigint", "bigint"),
        ("*", "bigint", "bigint", "bigint"),
        ("~", "text", "text", "boolean"),
        ("!~", "text", "text", "boolean"),
        ("->>", "json", "text", "text"),
    ] {
        let function = format!("hostile.{}", duramen_base::entropy::token(12));
        let make = format!(
            "CREATE FUNCTION {function}({left}, {right}) RETURNS {result} LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'hostile operator {name} has run'; END $$;
             CREATE OPERATOR hostile.{name} (FUNCTION = {function}, LEFTARG = {left}, RIGHTARG = {right})"
        );
        execute(client, &[&make]).await;
    }
}

/// F-15: the owner of a database chooses the search path of sessions in it. Neither the installation follows it, nor does
/// anything that is called there, whoever calls it.
#[tokio::test(flavor = "multi_thread")]
async fn the_search_path_of_a_database_leads_nobody_astray() {
    let place = Place::set().await;
    execute(&place.admin, &[&format!("ALTER DATABASE {} OWNER TO {}", place.name, place.mallory)]).await;
    make_hostile(&place.mallorys).await;
    let path = format!("ALTER DATABASE {} SET search_path = hostile, pg_catalog", place.name);
    execute(&place.mallorys, &[&path]).await;
    schema::install(&place.url(OWNER)).await.unwrap();
    schema::install(&place.url(OWNER)).await.unwrap();
    let admin = place.server.connect(OWNER, &place.name).await;
    execute(
        &admin,
        &[&format!("SELECT df.grant_usage('{}')", place.mallory), "SET df.enable_superuser_instances = 'on'"],
    )
    .await;
    let mallorys = place.server.connect(&place.mallory, &place.name).await;
    let _worker = TestWorker::start_at(&place.url(OWNER), 2).await;
    for client in [&admin, &mallorys] {
        // The second start of a session goes the short way.
        for _ in 0..2 {
            let id = one(client, "SELECT df.start('VALUES (1)', 'nightly')").await.unwrap();
            for call in [
                format!("SELECT df.await_instance('{id}')"),
                format!("SELECT df.status('{id}')"),
                format!("SELECT df.result('{id}')"),
                format!("SELECT df.explain('{id}')"),
                format!("SELECT df.cancel('{id}')"),
                "SELECT df.explain('SELECT 1')".to_owned(),
                "SELECT df.explain('df.sleep(1)')".to_owned(),
                "SELECT df.start_many('{VALUES (1),VALUES (2)}') LIMIT 1".to_owned(),
                "SELECT df.start(df.seq(df.sleep(0.1), 'VALUES (1)'))".to_owned(),
                "SELECT instance_id FROM df.list_instances() LIMIT 1".to_owned(),
                "SELECT id FROM df.instances LIMIT 1".to_owned(),
                "SELECT query FROM df.nodes LIMIT 1".to_owned(),
                "SELECT df.setvar('a', 'b')".to_owned(),
                "SELECT df.clearvars()".to_owned(),
            ] {
                one(client, &call).await;
            }
        }
    }
    execute(&admin, &["SELECT df.grant_usage('pg_monitor')", "SELECT df.revoke_usage('pg_monitor')"]).await;
}

/// F-15: no function is left whose names mean what its caller's search path says, but for those that name everything in
/// full.
#[tokio::test]
async fn every_function_has_a_fixed_search_path() {
    let database: Database<'_> = common::database().await;
    let loose = rows(
        &database.owner().await,
        "SELECT p.proname::text FROM pg_proc p
         WHERE p.pronamespace IN ('df'::regnamespace, 'df_run'::regnamespace) AND p.prosqlbody IS NULL
           AND NOT EXISTS (SELECT FROM unnest(p.proconfig) AS c WHERE c = 'search_path=pg_catalog, pg_temp')
         ORDER BY 1",
    )
    .await;
    let loose: Vec<&str> = loose.iter().map(|row| row[0].as_deref().unwrap()).collect();
    assert_eq!(
        loose,
        [
            "_is_cancelled",
            "_is_listed_as_cancelled",
            "_known",
            "_wake",
            "explain",
            "result",
            "start",
            "status"
        ]
    );
}

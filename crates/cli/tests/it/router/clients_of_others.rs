//! Clients of others do real work, each with nothing but a URL: each is a test, and the table in docs/branches.md has the same
//! ones. Most are of a tier of their own, because they are fetched: `make test-clients`, where one that lacks something fails and
//! says what.

mod language;

use super::Site;
use crate::support::{text, Home};
use duramen_postgres::Installation;
use language::Language::{self, Go, Java, Node, Python, Rust, Shell};
use std::{env, fs, path::Path, time::Duration};

/// How long a client may take for its work.
const WORK: Duration = Duration::from_secs(120);

/// Those that the ordinary tests have, too: where psycopg cannot be fetched it is skipped, but not in continuous integration.
const ORDINARY: [&str; 2] = ["psql", "psycopg"];

/// A client, how the documentation calls it, what runs it, and the packages that it comes in if each client has its own.
struct Client {
    test: &'static str,
    name: &'static str,
    language: Language,
    packages: &'static [&'static str],
}

macro_rules! clients {
    ($($test:ident $name:literal $language:ident [$($package:literal),*];)+) => {
        const CLIENTS: &[Client] = &[$(Client {
            test: stringify!($test), name: $name, language: $language, packages: &[$($package),*],
        }),+];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                works(stringify!($test)).await;
            }
        )+
    };
}

clients! {
    psql "psql" Shell [];
    pg_dump "pg_dump" Shell [];
    pgbench "pgbench" Shell [];
    psycopg "psycopg" Python ["psycopg[binary,pool]==3.3.9"];
    psycopg_async "psycopg (async)" Python ["psycopg[binary]==3.3.9"];
    asyncpg "asyncpg" Python ["asyncpg"];
    pg8000 "pg8000" Python ["pg8000"];
    sqlalchemy "SQLAlchemy" Python ["sqlalchemy>=2", "psycopg[binary]==3.3.9"];
    django "Django" Python ["django>=5.2", "psycopg[binary]==3.3.9"];
    pg "pg" Node ["pg"];
    postgres "postgres.js" Node ["postgres"];
    knex "Knex" Node ["knex", "pg"];
    pgx "pgx" Go [];
    pgxpool "pgxpool" Go [];
    database_sql "database/sql" Go [];
    pgjdbc "pgjdbc" Java [];
    hikari "HikariCP" Java [];
    flyway "Flyway" Java [];
    tokio_postgres "tokio-postgres" Rust [];
    sqlx "sqlx" Rust [];
}

/// Runs the program of a client, which fails if anything is not as it should be.
async fn works(test: &str) {
    let all = env::var_os("DURAMEN_TEST_CLIENTS").is_some();
    if !all && !ORDINARY.contains(&test) {
        eprintln!("skipped: DURAMEN_TEST_CLIENTS is not set");
        return;
    }
    let client = CLIENTS.iter().find(|client| client.test == test).expect("a client of the list");
    let mut program = match client.program().await {
        Ok(program) => program,
        Err(missing) if !all && env::var_os("CI").is_none() => {
            eprintln!("skipped: {missing}");
            return;
        }
        Err(missing) => panic!("{missing}"),
    };
    let home = Home::new();
    let mut site = Site::open(&home, &[]).await;
    let token = site.user("ci").await;
    let url = site.url(&token, "");
    program.args([test, url.trim_end_matches('/'), "app"]);
    program.arg(home.path().join("doors/certificate.pem"));
    let installation = Installation::choose(&home.path(), None).expect("the server's programs");
    program.env("PG_BIN", installation.program("pg_dump").parent().expect("a folder"));
    let output =
        tokio::time::timeout(WORK, program.output()).await.expect("it ends in time").expect("it runs");
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}: {said}{complained}", client.name);
    assert_eq!(said, format!("{test}: ok\n"));
    site.stop().await;
}

#[test]
fn the_documentation_has_the_clients_that_are_tested() {
    let mut rows = Vec::<(Language, Vec<&str>)>::new();
    for client in CLIENTS {
        match rows.last_mut().filter(|(language, _)| *language == client.language) {
            Some((_, names)) => names.push(client.name),
            None => rows.push((client.language, vec![client.name])),
        }
    }
    let rows: Vec<String> = rows
        .into_iter()
        .map(|(language, names)| format!("  | {language:?} | {} |", names.join(", ")))
        .collect();
    let documentation = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/branches.md");
    let documentation = fs::read_to_string(documentation).expect("the documentation");
    let written: Vec<&str> = documentation
        .lines()
        .skip_while(|line| !line.starts_with("  | run by | tried with |"))
        .skip(2)
        .take_while(|line| line.starts_with("  |"))
        .collect();
    assert_eq!(written, rows, "docs/branches.md");
}

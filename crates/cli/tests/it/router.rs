//! Clients that have nothing but a URL with a token: what they can do, and what others cannot.

mod clients_of_others;
mod descriptors;
mod holders;
mod reach;
mod sessions;
mod sleep;
mod spares;
mod statements;
mod strangers;
mod walls;

use crate::support::{add_script, connect, settle, Home};
use duramen_api::doors::RouterView;
use duramen_api::token::{CreateToken, NewToken};
use duramen_client::Connection;
use duramen_server::process::Daemon;
use std::process::{Command, Output};
use tokio_postgres::{error::SqlState, Client, NoTls};

const TABLE: &str = "create table t (x int primary key, y text); \
                     insert into t select i, 'row ' || i from generate_series(1, 100) i; create sequence s;";

/// A home with a source, and a router.
struct Site {
    daemon: Daemon,
    connection: Connection,
    router: RouterView,
}

impl Site {
    async fn open(home: &Home, options: &[&str]) -> Site {
        let options = if options.is_empty() { &["--pg-listen", "127.0.0.1:0"] } else { options };
        let daemon = home.serve_with(options).await;
        let mut connection = connect(&daemon).await;
        add_script(home, &mut connection, TABLE, 2, 0).await;
        settle(&mut connection).await;
        let router = connection.doors().await.expect("the doors").postgres.expect("a router");
        Site { daemon, connection, router }
    }

    /// A daemon on a home that was served before.
    async fn again(home: &Home, options: &[&str]) -> Site {
        let daemon = home.serve_with(options).await;
        let mut connection = connect(&daemon).await;
        let router = connection.doors().await.expect("the doors").postgres.expect("a router");
        Site { daemon, connection, router }
    }

    async fn token(&mut self, wanted: CreateToken) -> NewToken {
        self.connection.create_token(&wanted).await.expect("a token")
    }

    async fn user(&mut self, name: &str) -> NewToken {
        self.token(named(name)).await
    }

    fn url(&self, token: &NewToken, database: &str) -> String {
        let (name, port) = (&token.token.name, self.router.address.port());
        format!("postgresql://{name}:{}@localhost:{port}/{database}", token.secret)
    }

    async fn enter(&self, token: &NewToken, database: &str) -> Result<Client, tokio_postgres::Error> {
        enter(&self.url(token, database)).await
    }

    /// Why somebody is not let in: SQLSTATE, message and hint.
    async fn refused(&self, token: &NewToken, database: &str) -> (SqlState, String, String) {
        let error = self.enter(token, database).await.map(drop).expect_err("it is refused");
        let error = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
        (error.code().clone(), error.message().to_owned(), error.hint().unwrap_or_default().to_owned())
    }

    async fn names(&mut self) -> Vec<String> {
        let branches = self.connection.branches().await.expect("the branches");
        branches.into_iter().map(|branch| branch.name).collect()
    }

    async fn stop(self) {
        let Site { daemon, connection, .. } = self;
        drop(connection);
        daemon.stop().await.expect("it stops in order");
    }
}

fn named(name: &str) -> CreateToken {
    CreateToken { name: name.to_owned(), ..CreateToken::default() }
}

async fn enter(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &Client, sql: &str) -> T {
    client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
}

fn psql(url: &str, arguments: &[&str]) -> Output {
    Command::new("psql").args(["-X", "-A", "-t", url]).args(arguments).output().expect("psql runs")
}

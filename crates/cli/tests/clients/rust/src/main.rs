//! The PostgreSQL clients of Rust do real work with nothing but a URL, through the router.
//!
//! Usage: clients CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE CERTIFICATE

mod sqlx_pool;
mod tokio_postgres_client;

use std::{env, error::Error, time::Duration};

type Done = Result<(), Box<dyn Error>>;

/// Where a client works: a branch of its own, which it creates by connecting.
struct Place {
    base: String,
    source: String,
    branch: String,
    certificate: String,
}

impl Place {
    /// The URL that creates the branch; `more` says what it is like.
    fn create(&self, more: &str) -> String {
        format!("{}/{}@{}?sslmode=disable{more}", self.base, self.source, self.branch)
    }

    /// The URL that enters it.
    fn enter(&self, parameters: &str) -> String {
        format!("{}/{}?{parameters}", self.base, self.branch)
    }
}

#[tokio::main]
async fn main() -> Done {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [client, base, source, certificate] = &arguments[..] else { return Err("four arguments".into()) };
    let place = Place {
        base: base.clone(),
        source: source.clone(),
        branch: format!("rust-{client}"),
        certificate: certificate.clone(),
    };
    let work = async {
        match client.as_str() {
            "tokio_postgres" => tokio_postgres_client::works(&place).await,
            "sqlx" => sqlx_pool::works(&place).await,
            _ => Err(format!("no client {client}").into()),
        }
    };
    tokio::time::timeout(Duration::from_secs(60), work).await??;
    println!("{client}: ok");
    Ok(())
}

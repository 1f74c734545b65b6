//! The example projects of `examples/migrations` are rehearsed as their README says: with a token, because Flyway speaks TCP alone. What
//! is fetched is of the tier of `make test-clients`.

use super::Site;
use crate::support::{text, EXE};
use duramen_api::{
    model::{AddSource, Origin, Policy, PoolSize, SourceSettings},
    token::Role,
};
use serde_json::Value;
use std::{env, fs, path::Path, process::Command};

const SHOP: &str = "create table orders (id int primary key, state text not null);
    insert into orders select i, 'new' from generate_series(1, 1000) i;";

/// A folder, what its tool needs first, and the command of the README.
const TOOLS: &[(&str, &str, &str)] = &[
    ("sql", "", "./up.sh"),
    ("knex", "npm install --silent --no-audit --no-fund --no-save knex@3 pg@8", "npx knex migrate:latest"),
    (
        "alembic",
        "python3 -m venv venv && venv/bin/pip install -q 'alembic>=1.16' 'psycopg[binary]==3.3.9'",
        "alembic upgrade head",
    ),
    (
        "django",
        "python3 -m venv venv && venv/bin/pip install -q 'django>=5.0' 'psycopg[binary]==3.3.9'",
        "python3 manage.py migrate --fake-initial",
    ),
    ("flyway", "", "mvn -q -B flyway:migrate"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_are_rehearsed_as_they_say() {
    let all = env::var_os("DURAMEN_TEST_CLIENTS").is_some();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(repository.join("examples/migrations/README.md")).expect("the README");
    let mut site = Site::open().await;
    let script = site.home.beside("app.sql");
    fs::write(&script, SHOP).expect("the script");
    let request = AddSource {
        name: "app".to_owned(),
        origin: Origin::Script { path: script.display().to_string() },
        database: None,
        settings: SourceSettings {
            pool: PoolSize { hot: [(Policy::Ddl, 1)].into(), cold: 0 },
            ..SourceSettings::default()
        },
    };
    site.connection.add_source(&request, |_, _| {}).await.expect("the import");
    let who = site.token("ci", Role::User, &["app"]).await;
    let folder = site.home.beside("examples");
    let copied =
        Command::new("cp").arg("-r").arg(repository.join("examples/migrations")).arg(&folder).status();
    assert!(copied.expect("cp").success());
    for (name, prepare, migrate) in TOOLS.iter().filter(|(name, ..)| all || *name == "sql") {
        assert!(readme.contains(&format!("`{migrate}`")), "the README says {migrate}");
        let folder = folder.join(name);
        let path = format!(
            "{}:{}:{}",
            folder.join("venv/bin").display(),
            env::var("PATH").expect("a path"),
            repository.join("out/clients/bin").display()
        );
        let prepared =
            Command::new("sh").args(["-c", prepare]).current_dir(&folder).env("PATH", &path).output();
        let prepared = prepared.expect("sh");
        assert!(prepared.status.success(), "{name}: {}{}", text(&prepared.stdout), text(&prepared.stderr));
        let json = site.home.beside("report.json");
        let output = Command::new(EXE)
            .args(["branch", "rehearse", "--source", "app", "--migrate", migrate])
            .args(["--load", "../shop.sql", "--before", "1s", "--after", "1s", "--json"])
            .arg(&json)
            .current_dir(&folder)
            .env("PATH", &path)
            .env_remove("DURAMEN_HOME")
            .env("DURAMEN_URL", format!("https://localhost:{}", site.door.port()))
            .env("DURAMEN_TOKEN", format!("ci:{}", who.secret))
            .env("DURAMEN_CA", site.home.path().join("doors/certificate.pem"))
            .output()
            .expect("the program");
        let said = format!("{name}: {}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{said}");
        let report: Value = serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
        let changes = report["definitions"]["changes"].to_string();
        assert!(changes.contains("public.orders.note") && changes.contains("orders_state"), "{report:#}");
    }
    site.daemon.stop().await.expect("it stops");
}

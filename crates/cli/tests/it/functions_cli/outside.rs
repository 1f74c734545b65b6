//! Steps that are done by a program in Python: the example of the documentation, killed again and again.

use super::{
    common::{self, one},
    shell::Shell,
};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

const INVOICES: u32 = 60;
/// After so many kills the programs are let alone.
const KILLS: usize = 25;

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A Python with psycopg, in a folder of its own.
fn python(folder: &Path) -> PathBuf {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder));
    run(Command::new(folder.join("bin/pip")).args(["install", "-q", "psycopg[binary]==3.3.9"]));
    folder.join("bin/python")
}

fn program(python: &Path, url: &str) -> Child {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/task_worker.py");
    Command::new(python).arg(example).arg(url).stderr(Stdio::inherit()).spawn().expect("it starts")
}

/// Invariant F-25.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_killed_writes_each_invoice_once() {
    // Of a tier of its own, because it fetches a package: `make test-clients`.
    if std::env::var_os("DURAMEN_TEST_CLIENTS").is_none() {
        eprintln!("skipped: DURAMEN_TEST_CLIENTS is not set");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let python = python(folder.path());
    let database = common::database().await;
    let alice = database.role("alice").await;
    let owner = database.owner().await;
    let table = "CREATE TABLE public.invoices (id bigint GENERATED ALWAYS AS IDENTITY, order_id int)";
    owner.batch_execute(&format!("{table}; ALTER TABLE invoices OWNER TO {alice}")).await.unwrap();
    let _worker = Shell::new(&database.url()).worker(&[]);
    let client = database.connect(&alice).await;
    let start = format!(
        "SELECT count(df.start(df.task('invoice', '{{\"order\": ' || g || '}}'), label => 'order'))
         FROM generate_series(1, {INVOICES}) g"
    );
    one(&client, &start).await.unwrap();
    let url = database.url_as(&alice);
    let mut programs: Vec<Child> = (0..3).map(|_| program(&python, &url)).collect();
    for kill in 0..KILLS {
        // At another moment of what they do each time.
        tokio::time::sleep(Duration::from_millis(150 + (kill as u64 * 37) % 100)).await;
        let mut killed = programs.remove(0);
        killed.kill().unwrap();
        killed.wait().unwrap();
        programs.push(program(&python, &url));
    }
    let mut done = String::new();
    for _ in 0..600 {
        done = one(&client, "SELECT count(*) FROM df.instances WHERE status = 'completed'").await.unwrap();
        if done == INVOICES.to_string() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for mut program in programs {
        program.kill().unwrap();
        program.wait().unwrap();
    }
    assert_eq!(done, INVOICES.to_string());
    let written = "SELECT count(*) || ' of ' || count(DISTINCT order_id) FROM invoices";
    assert_eq!(one(&client, written).await.unwrap(), format!("{INVOICES} of {INVOICES}"));
}

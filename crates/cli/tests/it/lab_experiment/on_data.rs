//! X14: each run has a fresh branch of one and the same data, and a run that skips work there is rejected.

use super::project::Project;
use crate::support::{add_script, connect, settle, Home};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

const SETUP: &str = "create table orders (id int primary key, state text not null);
insert into orders select i, 'new' from generate_series(1, 500) i;";

/// What is measured: it says that it takes as long as `program/time` has it, and pays as many orders as `program/rows` has it.
/// It fails where another run has been before it.
const BENCH: &str = r#"
test "$(psql -qAtXc "select count(*) from orders where state = 'paid'")" = 0 || { echo 'not fresh' >&2; exit 4; }
psql -qX "$DATABASE_URL" -c "update orders set state = 'paid' where id <= $(cat program/rows)" || exit 5
sh program/extra
count=$(cat .count 2>/dev/null || echo 0)
count=$((count + 1))
echo $count > .count
exec awk -v count="$count" '{ printf "METRIC time_ms=%.6f\n", $1 * (1 + (count * 7 % 11 - 5) / 2000) }' program/time
"#;

const SPEC: &str = r#"name = "paying"

[measure]
command = "sh bench.sh"
database = "source:app"
quads = 3
warmups = 0
scratch = [".count"]
fixed_time = true
timeout_s = 60

[primary]
metric = "time_ms"
direction = "lower"

[scope]
allow = ["program/**"]

[budget]
tries = 3
"#;

fn samples(project: &Project) -> Vec<Value> {
    let log = fs::read_to_string(project.log()).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["type"] == "sample").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_begin_with_the_same_data_and_the_sides_must_change_as_much() {
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add_script(&home, &mut connection, SETUP, 2, 0).await;
    settle(&mut connection).await;
    let project = Project::at(&home.path());
    project.write("bench.sh", BENCH);
    project.write("program/rows", "200\n");
    project.write("program/extra", "true\n");
    project.expect(0, &["init", "paying", "--command", "sh bench.sh", "--metric", "time_ms"]);
    project.write("experiment/experiment.toml", SPEC);
    project.commit("an experiment");
    // As after a refresh of a source that follows its origin: the digest is taken when somebody needs it.
    let digest = connection.source("app").await.unwrap().digest;
    let manifest = home.path().join("sources/app/000001.json");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains(&digest));
    fs::write(&manifest, text.replace(&digest, "")).unwrap();
    assert_eq!(connection.source("app").await.unwrap().digest, "");
    project.expect(0, &["baseline"]);

    let taken = samples(&project);
    assert_eq!(taken.len(), 12, "4 runs a quad");
    let digests: BTreeSet<&str> = taken.iter().map(|it| it["data"]["digest"].as_str().unwrap()).collect();
    assert_eq!(digests, BTreeSet::from([digest.as_str()]));
    for sample in &taken {
        assert_eq!(sample["data"]["rows"], serde_json::json!({ "public.orders": [0, 200, 0] }), "{sample}");
        assert!(sample["data"]["lease_s"].as_f64().unwrap() > 0.0, "{sample}");
    }
    assert!(connection.branches().await.unwrap().is_empty(), "branches are gone when their run is over");

    // Faster with all of the work: kept. Faster with less of it: not.
    project.write("program/time", "80\n");
    assert!(project.attempt(0, "a fifth less").contains("keep"));
    project.write("program/time", "40\n");
    project.write("program/rows", "199\n");
    let invalid = project.go_on(3, "half the time");
    assert!(invalid.contains("updated 199 rows of public.orders, and the base 200"), "{invalid}");

    // Who would destroy its branch, so that nobody could tell what it did there, does not reach the daemon.
    project.write("program/rows", "200\n");
    let duramen = format!("{} --home {}", env!("CARGO_BIN_EXE_duramen"), home.path().display());
    let names = format!("{duramen} branch list --json | sed -n 's/.*\"name\": \"\\([^\"]*\\)\".*/\\1/p'");
    project.write("program/extra", &format!("{duramen} branch destroy $({names}) >&2\n"));
    assert!(project.go_on(0, "nothing to be seen").contains("keep"));
    assert!(connection.branches().await.unwrap().is_empty());
    project.write("program/extra", "true\n");

    // Other data: nothing is compared with what was before.
    fs::write(home.beside("app.sql"), format!("{SETUP} insert into orders values (501, 'new');")).unwrap();
    connection.refresh_source("app", |_, _| {}).await.unwrap();
    settle(&mut connection).await;
    let refused = project.expect(1, &["replay"]);
    assert!(refused.contains("has other data") && refused.contains("run `baseline`"), "{refused}");
    assert!(connection.branches().await.unwrap().is_empty(), "what was refused is given back");
    project.write("program/rows", "200\n");
    project.commit("as it is now");
    project.expect(0, &["baseline"]);

    daemon.stop().await.unwrap();
    project.write("program/time", "30\n");
    let refused = project.attempt(1, "a quarter less");
    assert!(refused.contains("no daemon serves"), "{refused}");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

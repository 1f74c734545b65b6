//! The catalogue of scenarios: that each is whole, and that servers understand it.

use std::collections::BTreeSet;

use duramen_base::clock;
use duramen_postgres::Installation;
use duramen_replication::{
    pair::Pair,
    scenario::{catalog, find, Action, Expect, Holds, Kind, Need, Node, Scenario, Wait},
    Level, Options,
};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tokio_postgres::{types::Type, Client};

/// What set-ups of quick runs may take here: ten times what they take on an idle machine with two cores.
const SETUP: Duration = Duration::from_secs(10);

#[test]
fn all_scenarios_are_there_under_names_of_their_own() {
    let numbers: Vec<u32> = catalog().iter().map(|scenario| scenario.number).collect();
    assert_eq!(numbers, (1..=33).collect::<Vec<u32>>());
    let names: BTreeSet<&str> = catalog().iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), catalog().len());
    for scenario in catalog() {
        assert!(scenario.text.len() > 80 && scenario.text.ends_with('.'), "S{}: text", scenario.number);
        assert!(scenario.advice.len() > 80 && scenario.advice.ends_with('.'), "S{}: advice", scenario.number);
    }
}

#[test]
fn scenarios_are_found_by_number_and_by_name() {
    for scenario in catalog() {
        let number = scenario.number;
        let texts = [
            number.to_string(),
            format!("S{number}"),
            format!("s{number}"),
            scenario.name.to_owned(),
            scenario.name.to_uppercase(),
        ];
        for text in texts {
            assert_eq!(find(&text).map(|found| found.number), Ok(number), "{text}");
        }
    }
    for text in ["", "S0", "S99", "SS1", "vacuum"] {
        let said = find(text).map(|found| found.number).expect_err(text);
        assert!(said.contains(&format!("{text:?}")) && said.contains("S20 (cancelled wait)"), "{said}");
    }
}

/// All SQL of a scenario, with what it belongs to.
fn sql(scenario: &Scenario) -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    all.extend(scenario.setup.iter().map(|sql| ("setup", *sql)));
    all.extend(scenario.reset.iter().map(|sql| ("reset", *sql)));
    for action in scenario.actions {
        match *action {
            Action::Run(sql) | Action::Start(sql) => all.extend(sql.iter().map(|sql| ("action", *sql))),
            Action::RunTogether { sql, .. } => all.extend(sql.iter().map(|sql| ("together", *sql))),
            Action::Hold { sql, .. } => all.extend(sql.iter().map(|sql| ("hold", *sql))),
            _ => {}
        }
    }
    all.extend(scenario.probe.statements.iter().map(|(_, sql)| ("probe", *sql)));
    all.extend(scenario.teardown.iter().map(|sql| ("teardown", *sql)));
    all
}

/// As the suite replaces names by numbers.
fn fill(scenario: &Scenario, sql: &str, quick: bool) -> String {
    scenario.sizes.iter().fold(sql.to_owned(), |sql, (name, default, small)| {
        let size = if quick { small } else { default };
        sql.replace(&format!("{{{name}}}"), &size.to_string())
    })
}

fn number(scenario: &Scenario, text: &str) -> i64 {
    fill(scenario, &format!("{{{text}}}"), true)
        .parse()
        .or_else(|_| text.parse())
        .unwrap_or_else(|_| panic!("S{}: {text:?} is not a number", scenario.number))
}

#[test]
fn every_name_in_sql_stands_for_a_size_and_every_size_is_used() {
    for scenario in catalog() {
        let id = format!("S{}", scenario.number);
        for (what, text) in sql(scenario) {
            let mut filled = fill(scenario, text, true);
            if what == "together" {
                filled = filled.replace("{session}", "0");
            }
            assert!(!filled.contains(['{', '}']), "{id}, {what}: {filled}");
        }
        for (name, default, quick) in scenario.sizes {
            let used = sql(scenario).iter().any(|(_, text)| text.contains(&format!("{{{name}}}")));
            assert!(used, "{id}: {name} is not used");
            assert!(*quick > 0 && quick <= default, "{id}: {name}");
        }
        for (first, last) in scenario.probe.draws {
            assert!(number(scenario, first) <= number(scenario, last), "{id}: {first} to {last}");
        }
        assert!(scenario.probe.statements.iter().all(|(weight, _)| *weight > 0), "{id}");
        assert!(scenario.probe.clients > 0 && scenario.probe.rate_per_s > 0.0, "{id}");
    }
}

/// What the startup process is expected to wait for.
fn wait(scenario: &Scenario) -> Option<Wait> {
    scenario.expect.iter().find_map(|expect| match expect {
        Expect::Startup(wait) | Expect::StartupSince(_, wait) => Some(*wait),
        _ => None,
    })
}

#[test]
fn every_stall_has_a_cause_with_an_end_and_says_what_must_be_seen() {
    for scenario in catalog().iter().filter(|scenario| scenario.kind == Kind::Stall) {
        let id = format!("S{}", scenario.number);
        let at = |is: fn(&Action) -> bool| scenario.actions.iter().position(is);
        let awaits = at(|action| matches!(action, Action::AwaitStartup(_)));
        let wait = wait(scenario).unwrap_or_else(|| panic!("{id} expects no wait"));
        if at(|action| matches!(action, Action::StopStandby)).is_some() {
            assert_eq!(wait, Wait::Absent, "{id}");
            assert!(scenario.needs.contains(&Need::OwnPair), "{id}");
        } else if scenario.breaks().is_some() {
            assert!(scenario.needs.contains(&Need::OwnPair), "{id}");
            let lasts = |quick| scenario.broken_for(quick, Level::RemoteApply, false).expect(&id);
            assert!(lasts(true) >= Duration::from_secs(2) && lasts(true) <= lasts(false), "{id}");
        } else {
            let hold = at(|action| matches!(action, Action::Hold { .. })).expect(&id);
            let awaits = awaits.unwrap_or_else(|| panic!("{id} does not await the wait"));
            assert!(hold < awaits, "{id}");
            assert_eq!(at(|action| matches!(action, Action::Release)), Some(awaits + 1), "{id}");
            assert!(
                matches!(scenario.actions[awaits], Action::AwaitStartup([seen]) if *seen == wait),
                "{id}"
            );
            let feedback = |expect: &Expect| matches!(expect, Expect::FeedbackHelps(_));
            assert!(scenario.expect.iter().any(feedback), "{id} does not say whether feedback helps");
        }
        assert!(matches!(scenario.actions[0], Action::AwaitCommits(_)), "{id} begins before the load does");
        let from = |expect: &Expect| matches!(expect, Expect::StallsFrom(_));
        assert!(scenario.expect.iter().any(from), "{id} does not say who stalls");
    }
}

#[test]
fn every_other_scenario_says_what_must_be_seen_too() {
    for scenario in catalog() {
        assert!(!scenario.expect.is_empty(), "S{}", scenario.number);
    }
}

/// The newest major version that is there, and the oldest.
fn majors() -> BTreeSet<u32> {
    let found = Installation::discover(&duramen_base::home::usual()).expect("servers can be looked for");
    let majors: Vec<u32> =
        found.iter().map(|installation| installation.version.major).filter(|major| *major >= 15).collect();
    assert!(!majors.is_empty(), "there is no server");
    majors.iter().min().into_iter().chain(majors.iter().max()).copied().collect()
}

async fn run(client: &Client, scenario: &Scenario, what: &str, sql: &str) {
    let sql = fill(scenario, sql, true);
    if let Err(error) = client.batch_execute(&sql).await {
        panic!("S{}, {what}: {sql}: {error:?}", scenario.number);
    }
}

/// How many relations and replication slots of ours there are.
async fn left(client: &Client) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM pg_class WHERE oid >= 16384)
                   + (SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'logical')";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Prepares the statements of the load, and runs each with the first and with the last numbers.
async fn probe(client: &Client, scenario: &Scenario) {
    let id = format!("S{}", scenario.number);
    for (_, sql) in scenario.probe.statements {
        let sql = fill(scenario, sql, true);
        let statement = client.prepare(&sql).await.unwrap_or_else(|error| panic!("{id}: {sql}: {error:?}"));
        let types = statement.params();
        assert!(types.iter().all(|kind| *kind == Type::INT8), "{id}: {types:?} in {sql}");
        assert!(types.len() <= scenario.probe.draws.len(), "{id}: {sql}");
        let draws = &scenario.probe.draws[..types.len()];
        let first: Vec<i64> = draws.iter().map(|(first, _)| number(scenario, first)).collect();
        let last: Vec<i64> = draws.iter().map(|(_, last)| number(scenario, last)).collect();
        for numbers in if draws.is_empty() { vec![first] } else { vec![first, last] } {
            let parameters: Vec<_> = numbers.iter().map(|number| number as _).collect();
            let done = client.execute(&statement, &parameters).await;
            let rows = done.unwrap_or_else(|error| panic!("{id}: {sql}: {error:?}"));
            // A load that changes nothing writes no WAL, and waits for nothing.
            assert!(rows > 0 || scenario.kind == Kind::Statement, "{id}: no row is changed by {sql}");
        }
    }
}

/// The actions, without what only the suite can do.
async fn act(pair: &Pair, scenario: &Scenario) {
    let primary = pair.connect(Node::Primary).await.unwrap();
    for action in scenario.actions {
        match *action {
            Action::Run(sql) | Action::Start(sql) => {
                for sql in sql {
                    run(&primary, scenario, "action", sql).await;
                }
            }
            Action::RunTogether { sessions, sql } => {
                for session in 0..sessions {
                    for sql in sql {
                        let sql = sql.replace("{session}", &session.to_string());
                        run(&primary, scenario, "action", &sql).await;
                    }
                }
            }
            Action::Hold { sql, holds } => {
                pair.caught_up(SETUP).await.unwrap();
                let standby = pair.connect(Node::Standby).await.unwrap();
                // Before the transaction: a portal that was bound in it would keep a snapshot.
                let pid: i32 = standby.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
                for sql in sql {
                    run(&standby, scenario, "hold", sql).await;
                }
                let watch = pair.connect(Node::Standby).await.unwrap();
                let row = watch
                    .query_one(
                        "SELECT backend_xmin IS NOT NULL, state = 'idle in transaction',
                           ARRAY(SELECT relation::regclass::text FROM pg_locks WHERE pid = $1 AND relation IS NOT NULL)
                         FROM pg_stat_activity WHERE pid = $1",
                        &[&pid],
                    )
                    .await
                    .unwrap();
                assert!(row.get::<_, bool>(1), "S{}", scenario.number);
                match holds {
                    Holds::Snapshot => assert!(row.get::<_, bool>(0), "S{}", scenario.number),
                    Holds::Lock(table) => {
                        let locked: Vec<String> = row.get(2);
                        assert!(locked.iter().any(|locked| locked == table), "{locked:?}");
                        assert!(!row.get::<_, bool>(0), "S{}: a snapshot in the way", scenario.number);
                    }
                    Holds::Nothing => {}
                }
                standby.batch_execute("COMMIT").await.unwrap();
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn servers_understand_every_scenario_and_nothing_of_it_stays() {
    for major in majors() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options { major: Some(major), quick: true, ..Options::new(dir.path(), "duramen") };
        let pair = Pair::open(&options, &|_| {}).await.unwrap();
        let client = pair.connect(Node::Primary).await.unwrap();
        client.batch_execute("SET synchronous_commit TO local").await.unwrap();
        for scenario in catalog() {
            for extension in scenario.extensions {
                client.batch_execute(&format!("CREATE EXTENSION IF NOT EXISTS {extension}")).await.unwrap();
            }
            let before = left(&client).await;
            // A second time over what the first has made, as after a run that was killed.
            for _ in 0..2 {
                let begin = clock::now();
                for sql in scenario.setup {
                    run(&client, scenario, "setup", sql).await;
                }
                assert!(begin.elapsed() < SETUP, "S{}: {:?}", scenario.number, begin.elapsed());
            }
            for sql in scenario.reset {
                run(&client, scenario, "reset", sql).await;
            }
            act(&pair, scenario).await;
            probe(&client, scenario).await;
            assert!(left(&client).await >= before, "S{}", scenario.number);
            for sql in scenario.teardown {
                run(&client, scenario, "teardown", sql).await;
            }
            assert_eq!(left(&client).await, before, "S{}: something stays on {major}", scenario.number);
        }
        pair.close().await.unwrap();
    }
}

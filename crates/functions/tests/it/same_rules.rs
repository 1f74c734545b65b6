//! Rules that stand twice: SQL refuses a mistake in the transaction that makes it, and the worker, which cannot trust what a
//! submitter may write by hand, reads with Rust. What one takes, the other must take, and mean the same by it. Here both judge
//! ten thousand generated texts.

use crate::common::{self, rows};
use duramen_base::entropy::{rng, seed};
use duramen_functions::{graph::Graph, schedule::Schedule};
use fastrand::Rng;
use serde_json::{json, Map, Value};
use tokio_postgres::Client;

const CASES: usize = 10_000;
/// How many are judged by one statement.
const TOGETHER: usize = 500;

/// What SQL makes of each text: a text, or `None` for one that it refuses.
async fn judged(client: &Client, statement: &str, texts: &[String]) -> Vec<Option<String>> {
    let mut verdicts = Vec::new();
    for some in texts.chunks(TOGETHER) {
        let found = client.query(statement, &[&some]).await.expect("a verdict");
        verdicts.extend(found.iter().map(|row| row.get::<_, Option<String>>(0)));
    }
    assert_eq!(verdicts.len(), texts.len());
    verdicts
}

/// A mistake in one of so many places.
fn slips(rng: &mut Rng) -> bool {
    rng.u8(..30) == 0
}

// Cron ---------------------------------------------------------------------------------------------------------------

const MONTHS: [&str; 12] =
    ["jan", "FEB", "Mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "MON", "Tue", "wed", "thu", "fri", "sat"];

/// A value of a field, mostly one that there is.
fn cron_value(rng: &mut Rng, low: u8, high: u8, names: &[&str]) -> String {
    const ODD: [&str; 12] = ["", "L", "?", "-1", "+1", "007", "1.5", "5#2", "monday", "100", " ", "\u{663}"];
    if slips(rng) {
        return ODD[rng.usize(..ODD.len())].to_owned();
    }
    if !names.is_empty() && rng.u8(..3) == 0 {
        return names[rng.usize(..names.len())].to_owned();
    }
    let (below, above) = (u8::from(slips(rng)), u8::from(slips(rng)));
    let number = rng.u8(low.saturating_sub(below)..=high + above);
    if slips(rng) {
        format!("{number:02}")
    } else {
        number.to_string()
    }
}

fn cron_item(rng: &mut Rng, low: u8, high: u8, names: &[&str]) -> String {
    let range = match rng.u8(..6) {
        0..=2 => "*".to_owned(),
        3 | 4 => cron_value(rng, low, high, names),
        _ => format!("{}-{}", cron_value(rng, low, high, names), cron_value(rng, low, high, names)),
    };
    match rng.u8(..4) {
        0 => format!("{range}/{}", if slips(rng) { rng.u8(..) } else { rng.u8(1..=high) }),
        _ => range,
    }
}

fn cron(rng: &mut Rng) -> String {
    if slips(rng) {
        // A day that not every month has.
        return format!("0 0 {} {} *", rng.u8(29..=31), MONTHS[rng.usize(..12)]);
    }
    let limits: [(u8, u8, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, &MONTHS), (0, 7, &WEEKDAYS)];
    let count = if slips(rng) { rng.usize(3..7) } else { 5 };
    let fields: Vec<String> = (0..count)
        .map(|index| {
            let (low, high, names) = limits[index % 5];
            let items: Vec<String> =
                (0..1 + rng.usize(..3) / 2).map(|_| cron_item(rng, low, high, names)).collect();
            items.join(",")
        })
        .collect();
    let gap = ["\t", "  ", " \n ", "\u{b}", "\u{a0}"][rng.usize(..5)];
    fields.join(if slips(rng) { gap } else { " " })
}

#[tokio::test]
async fn a_cron_expression_that_starts_is_one_that_the_worker_can_read() {
    let database = common::database().await;
    let client = database.owner().await;
    let seed = seed();
    let mut rng = rng(seed);
    let crons: Vec<String> = (0..CASES).map(|_| cron(&mut rng)).collect();
    let statement =
        "SELECT df._cron_problem(c) FROM unnest($1::text[]) WITH ORDINALITY AS u(c, place) ORDER BY place";
    let (mut taken, mut never) = (0, 0);
    for (cron, problem) in crons.iter().zip(judged(&client, statement, &crons).await) {
        match (Schedule::parse(cron, "UTC"), problem) {
            (Ok(_), None) => taken += 1,
            (Err(error), Some(problem)) => {
                let both = [error.to_string(), problem].map(|text| text.contains("would never come"));
                assert_eq!(both[0], both[1], "{cron:?}: two reasons, seed {seed}");
                never += usize::from(both[0]);
            }
            (Ok(_), Some(problem)) => panic!("{cron:?}: only SQL refuses it: {problem}, seed {seed}"),
            (Err(error), None) => panic!("{cron:?}: only the worker refuses it: {error}, seed {seed}"),
        }
    }
    // Neither side says the same to all.
    assert!((CASES / 4..CASES * 9 / 10).contains(&taken), "{taken} of {CASES} are taken, seed {seed}");
    assert!(never > 0, "no impossible day, seed {seed}");
}

// Graphs -------------------------------------------------------------------------------------------------------------

const LEAVES: [&str; 7] = ["SQL", "SLEEP", "WAIT_SCHEDULE", "HTTP", "SIGNAL", "TASK", "BREAK"];
const PAIRS: [&str; 5] = ["THEN", "JOIN", "RACE", "CATCH", "STEP"];
const WRAPS: [&str; 6] = ["LOOP", "RETRY", "TIMEOUT", "CALL", "MAP", "IF"];

/// The query of a node: settings that are mostly good.
fn query(rng: &mut Rng, kind: &str) -> Option<String> {
    let number = |rng: &mut Rng| match rng.u8(..40) {
        0 => json!(-1),
        1 => json!("7"),
        2 => json!(0),
        3 => json!(1.5),
        4 => json!(1e30),
        5 => Value::Null,
        _ => json!(rng.u16(1..100)),
    };
    let text = |rng: &mut Rng, good: &str| match rng.u8(..40) {
        0 => json!(7),
        1 => json!(""),
        2 => Value::Null,
        _ => json!(good),
    };
    let settings = match kind {
        "SQL" => return Some(if slips(rng) { " " } else { "SELECT 1" }.to_owned()),
        "SLEEP" => return Some(if slips(rng) { "-1" } else { "0.5" }.to_owned()),
        "WAIT_SCHEDULE" => {
            json!({ "cron": if slips(rng) { "61 * * * *" } else { "*/5 * * * *" }, "time_zone": "UTC" })
        }
        "HTTP" => {
            json!({ "url": text(rng, "https://example.org/"), "method": "GET", "timeout_seconds": number(rng) })
        }
        "SIGNAL" => json!({ "signal_name": text(rng, "go"), "timeout_seconds": number(rng) }),
        "TASK" => json!({ "task": text(rng, "work"), "max_attempts": number(rng) }),
        "RETRY" => {
            json!({ "max_attempts": number(rng), "jitter": if slips(rng) { 2.0 } else { 0.5 }, "multiplier": number(rng) })
        }
        "TIMEOUT" => json!({ "seconds": number(rng) }),
        "MAP" => json!({ "item": text(rng, "row"), "parallelism": number(rng) }),
        "CALL" => json!({ "label": text(rng, "child"), "await": !slips(rng) }),
        "LOOP" => json!({ "continue_on_failure": rng.bool() }),
        _ => return None,
    };
    Some(settings.to_string())
}

/// An envelope as the functions of the schema put it together, with mistakes.
fn envelope(rng: &mut Rng, depth: u8) -> Value {
    let kind = match rng.u8(..10) {
        _ if depth == 0 => LEAVES[rng.usize(..LEAVES.len())],
        0..=4 => LEAVES[rng.usize(..LEAVES.len())],
        5..=7 => PAIRS[rng.usize(..PAIRS.len())],
        _ => WRAPS[rng.usize(..WRAPS.len())],
    };
    let mut node = Map::new();
    node.insert("node_type".to_owned(), json!(if slips(rng) && depth == 3 { "NOTHING" } else { kind }));
    if let Some(query) = query(rng, kind) {
        node.insert("query".to_owned(), json!(query));
    }
    let mut below = |node: &mut Map<String, Value>, name: &str, wanted: bool| {
        if wanted != slips(rng) && depth > 0 {
            node.insert(name.to_owned(), envelope(rng, depth - 1));
        }
    };
    let is_pair = PAIRS.contains(&kind) || kind == "IF";
    below(&mut node, "condition_node", ["IF", "MAP"].contains(&kind));
    below(&mut node, "left_node", is_pair || WRAPS.contains(&kind));
    below(&mut node, "right_node", is_pair);
    if kind == "JOIN" && rng.bool() && depth > 0 {
        node.insert("extra_nodes".to_owned(), json!([envelope(rng, depth - 1)]));
    }
    if rng.u8(..4) == 0 {
        node.insert("result_name".to_owned(), json!("result"));
    }
    if slips(rng) {
        node.insert("params".to_owned(), json!([1]));
    }
    Value::Object(node)
}

/// The flat graph of an envelope, by nobody's rules: what somebody would write by hand.
fn flat(node: &Value, nodes: &mut Vec<Value>) -> usize {
    let at = nodes.len();
    nodes.push(Value::Null);
    let mut out = Map::new();
    out.insert("type".to_owned(), node["node_type"].clone());
    for (from, to) in [("query", "query"), ("params", "params"), ("result_name", "name")] {
        if let Some(value) = node.get(from) {
            out.insert(to.to_owned(), value.clone());
        }
    }
    for (from, to) in [("condition_node", "condition"), ("left_node", "left"), ("right_node", "right")] {
        if let Some(child) = node.get(from) {
            out.insert(to.to_owned(), json!(flat(child, nodes)));
        }
    }
    if let Some(extra) = node.get("extra_nodes").and_then(Value::as_array) {
        let extra: Vec<usize> = extra.iter().map(|child| flat(child, nodes)).collect();
        out.insert("extra".to_owned(), json!(extra));
    }
    nodes[at] = Value::Object(out);
    at
}

/// What SQL refuses and the worker would run: limits of taste, such as how large a number may be, and texts that say nothing.
/// None of these is about which nodes there are, or how they hang together.
const ONLY_SQL: [&str; 11] = [
    "must be a number",
    "must be a whole number",
    "is not empty",
    "a SQL step is empty",
    "must be a text of 1 to 200",
    "is not a valid identifier",
    "cannot be used",
    "must be a text",
    "must be the name",
    "has no query",
    "IF has either",
];

#[tokio::test]
async fn a_graph_that_starts_is_one_that_the_worker_can_run() {
    let database = common::database().await;
    let client = database.owner().await;
    client
        .batch_execute(
            "CREATE FUNCTION pg_temp.judge(fut text) RETURNS text LANGUAGE plpgsql AS $$
             BEGIN
                 RETURN df._flatten_envelope(fut)::text;
             EXCEPTION WHEN OTHERS THEN
                 RETURN 'refused: ' || SQLERRM;
             END $$",
        )
        .await
        .expect("a judge");
    let seed = seed();
    let mut rng = rng(seed);
    let trees: Vec<Value> = (0..CASES).map(|_| envelope(&mut rng, 3)).collect();
    let texts: Vec<String> = trees.iter().map(Value::to_string).collect();
    let statement =
        "SELECT pg_temp.judge(f) FROM unnest($1::text[]) WITH ORDINALITY AS u(f, place) ORDER BY place";
    let (mut taken, mut refused) = (0, 0);
    for (tree, verdict) in trees.iter().zip(judged(&client, statement, &texts).await) {
        let verdict = verdict.expect("a text");
        let mut nodes = Vec::new();
        flat(tree, &mut nodes);
        let by_hand = Graph::parse(&Value::Array(nodes).to_string());
        match (verdict.strip_prefix("refused: "), by_hand) {
            (None, by_hand) => {
                let kept = Graph::parse(&verdict).unwrap_or_else(|error| {
                    panic!("{tree}: only the worker refuses it: {error}, seed {seed}")
                });
                let by_hand = by_hand.unwrap_or_else(|error| {
                    panic!("{tree}: the worker takes only {verdict}: {error}, seed {seed}")
                });
                let shape = |graph: &Graph| format!("{graph:?}").matches("Node {").count();
                assert_eq!(
                    (kept.len(), shape(&kept)),
                    (by_hand.len(), shape(&by_hand)),
                    "{tree}, seed {seed}"
                );
                taken += 1;
            }
            (Some(_), Err(_)) => refused += 1,
            (Some(reason), Ok(_)) => {
                let is_known = ONLY_SQL.iter().any(|known| reason.contains(known));
                assert!(is_known, "{tree}: only SQL refuses it: {reason}, seed {seed}");
            }
        }
    }
    assert!(taken > CASES / 5 && refused > CASES / 20, "{taken} taken and {refused} refused, seed {seed}");
    // The judge is what df.start asks.
    let flattened = rows(&client, "SELECT df._flatten(df.sleep(1))::text, pg_temp.judge(df.sleep(1))").await;
    assert_eq!(flattened[0][0], flattened[0][1]);
}

//! Graphs from people who may have written them by hand.

use super::build::*;
use super::chance::Chance;
use super::world::*;
use crate::graph::{Graph, GraphError, MAX_DEPTH, MAX_NODES};
use crate::interpret::State;

fn refusal(json: &str) -> String {
    match Graph::parse(json) {
        Err(error) => error.to_string(),
        Ok(graph) => panic!("accepted: {graph:?}"),
    }
}

#[test]
fn what_is_no_tree_in_pre_order_is_refused() {
    let sql = r#"{"type":"SQL","query":"x"}"#;
    let then = |left: u32, right: u32| format!(r#"{{"type":"THEN","left":{left},"right":{right}}}"#);
    for (graph, reason) in [
        (String::new(), "not a JSON array"),
        ("{}".to_owned(), "not a JSON array"),
        ("[]".to_owned(), "no nodes"),
        ("[null]".to_owned(), "not a JSON array"),
        (format!("[{}]", then(1, 2)), "child 1 does not exist"),
        (format!("[{},{sql}]", then(1, 4_294_967_295)), "child 4294967295 does not exist"),
        (format!("[{},{sql}]", then(0, 1)), "child 0 does not come after it"),
        (format!("[{},{sql}]", then(1, 1)), "child 1 belongs to node 0 already"),
        (format!("[{sql},{sql}]"), "it is the child of no node"),
        (format!("[{},{sql},{sql},{sql}]", then(1, 2)), "it is the child of no node"),
        (format!("[{},{},{sql},{sql}]", then(1, 2), then(2, 3)), "child 2 belongs to node 0 already"),
        // The left THEN's children lie behind the right SQL.
        (format!("[{},{},{sql},{sql},{sql}]", then(1, 2), then(3, 4)), "do not follow it without a gap"),
        (r#"[{"type":"SQL","query":"x","left":-1}]"#.to_owned(), "not a JSON array"),
    ] {
        assert!(refusal(&graph).contains(reason), "{graph}: {}", refusal(&graph));
    }
}

#[test]
fn nodes_that_lack_something_are_refused() {
    for (graph, reason) in [
        (r#"[{"type":"NOPE","query":"x"}]"#, "\"NOPE\" is unknown"),
        (r#"[{"type":"SQL"}]"#, "SQL needs a query"),
        (r#"[{"type":"THEN","left":1},{"type":"SQL","query":"x"}]"#, "THEN needs a right node"),
        (r#"[{"type":"SQL","query":"x","left":1},{"type":"SQL","query":"x"}]"#, "SQL takes no left node"),
        (
            r#"[{"type":"RACE","left":1,"right":2,"extra":[3]},{"type":"SQL","query":"x"},{"type":"SQL","query":"x"},
            {"type":"SQL","query":"x"}]"#,
            "RACE takes no extra node",
        ),
        (
            r#"[{"type":"IF","left":1,"right":2},{"type":"SQL","query":"x"},{"type":"SQL","query":"x"}]"#,
            "IF needs a query",
        ),
        (
            r#"[{"type":"IF","query":"{\"condition_type\":\"x\",\"result_name\":\"y\"}","left":1,"right":2},
            {"type":"SQL","query":"x"},{"type":"SQL","query":"x"}]"#,
            "condition_type \"x\"",
        ),
        (r#"[{"type":"SLEEP","query":"-1"}]"#, "not a number of seconds"),
        (r#"[{"type":"SLEEP","query":"inf"}]"#, "not a number of seconds"),
        (r#"[{"type":"SLEEP","query":"NaN"}]"#, "not a number of seconds"),
        (r#"[{"type":"SLEEP","query":"1e300"}]"#, "not a number of seconds"),
        (r#"[{"type":"SLEEP","query":"a while"}]"#, "not a number of seconds"),
        (r#"[{"type":"SIGNAL","query":"{}"}]"#, "the query of SIGNAL is not as expected"),
        (r#"[{"type":"SIGNAL","query":"{\"signal_name\":\"s\",\"timeout_seconds\":0}"}]"#, "above 0"),
        (r#"[{"type":"WAIT_SCHEDULE","query":"* * * * *"}]"#, "the query of WAIT_SCHEDULE"),
        (r#"[{"type":"HTTP","query":"{}"}]"#, "the query of HTTP"),
        (r#"[{"type":"HTTP","query":"{\"url\":\"u\",\"parts\":[]}"}]"#, "HTTP has no parts"),
        (r#"[{"type":"HTTP_MULTIPART","query":"{\"url\":\"u\"}"}]"#, "HTTP_MULTIPART has parts"),
        (
            r#"[{"type":"RETRY","query":"{\"max_attempts\":0}","left":1},{"type":"SQL","query":"x"}]"#,
            "max_attempts",
        ),
        (
            r#"[{"type":"RETRY","query":"{\"multiplier\":-1}","left":1},{"type":"SQL","query":"x"}]"#,
            "0 or more",
        ),
        (r#"[{"type":"RETRY","query":"{\"jitter\":2}","left":1},{"type":"SQL","query":"x"}]"#, "jitter"),
        (r#"[{"type":"TIMEOUT","query":"{\"seconds\":0}","left":1},{"type":"SQL","query":"x"}]"#, "above 0"),
        (r#"[{"type":"TIMEOUT","left":1},{"type":"SQL","query":"x"}]"#, "TIMEOUT needs a query"),
        (r#"[{"type":"MAP","left":1},{"type":"SQL","query":"x"}]"#, "MAP needs a condition"),
        (
            r#"[{"type":"MAP","query":"{\"parallelism\":0}","condition":1,"left":2},{"type":"SQL","query":"x"},
            {"type":"SQL","query":"x"}]"#,
            "at least 1",
        ),
        (r#"[{"type":"CALL"}]"#, "CALL needs a left node"),
        (r#"[{"type":"SLEEP","query":"1","params":[]}]"#, "SLEEP takes no params"),
    ] {
        assert!(refusal(graph).contains(reason), "{graph}: {}", refusal(graph));
    }
}

#[test]
fn size_and_depth_are_limited() {
    let chain = |length: usize| {
        let mut node = sql("x");
        for _ in 0..length {
            node = timeout(node, "1");
        }
        node.json()
    };
    assert!(Graph::parse(&chain(MAX_DEPTH as usize)).is_ok());
    assert!(refusal(&chain(MAX_DEPTH as usize + 1)).contains("maximum nesting depth of 256"));
    let flat = |nodes: usize| join(vec![sql("x"); nodes - 1]).json();
    assert_eq!(Graph::parse(&flat(MAX_NODES)).unwrap().len(), MAX_NODES);
    assert!(matches!(Graph::parse(&flat(MAX_NODES + 1)), Err(GraphError::TooManyNodes { nodes: 10_001 })));
}

#[test]
fn graphs_of_noise_are_refused_or_run_to_an_end() {
    // Without the checks, one of these would panic or hang.
    let seed = duramen_base::entropy::seed();
    println!("DURAMEN_SEED={seed:#x}");
    let mut chance = Chance::new(seed);
    let types =
        ["SQL", "THEN", "IF", "LOOP", "BREAK", "JOIN", "RACE", "SLEEP", "CATCH", "TIMEOUT", "MAP", "RETRY"];
    let mut accepted = 0;
    for _ in 0..20_000 {
        let length = chance.between(1, 5);
        let mut nodes = Vec::new();
        for index in 0..length {
            let kind = chance.pick(&types);
            let query = if kind == "TIMEOUT" { r#"{\"seconds\":1}"# } else { "1" };
            let mut node = format!(r#"{{"type":"{kind}""#);
            if !matches!(kind, "LOOP" | "RETRY" | "MAP" | "THEN" | "JOIN") {
                node += &format!(r#","query":"{query}""#);
            }
            let wants = match kind {
                "THEN" | "JOIN" | "RACE" | "CATCH" => &["left", "right"][..],
                "IF" => &["condition", "left", "right"],
                "LOOP" | "RETRY" | "TIMEOUT" => &["left"],
                "MAP" => &["condition", "left"],
                _ => &[],
            };
            for (next, key) in (index + 1..).zip(wants) {
                let child = if chance.one_in(8) { chance.below(6) } else { next };
                node += &format!(r#","{key}":{child}"#);
            }
            nodes.push(node + "}");
        }
        let text = format!("[{}]", nodes.join(","));
        let Ok(graph) = Graph::parse(&text) else { continue };
        accepted += 1;
        let mut world = World::new(&sql("x"));
        world.graph = graph;
        world.advance();
        for _ in 0..20 {
            if let Some(request) = world.pending.first().cloned() {
                world.pending.remove(0);
                world.reply_to_cell(request.cell(), Ok(one("1")));
            }
            world.after(1.0);
        }
    }
    assert!(accepted > 500, "only {accepted} of the graphs were graphs");
}

#[test]
fn a_state_that_does_not_fit_its_graph_fails_the_instance() {
    let mut world = World::new(&then(sql("a"), sql("b")));
    world.advance();
    world.ok("a", "1");
    let text = world.state.to_json();
    for (graph, text) in [
        (sql("a"), text.clone()),
        (map(sql("a"), sql("b"), 1), text.clone()),
        (join(vec![sql("a"), sql("b")]), text.clone()),
        (then(sql("a"), sleep("5")), text.clone()),
        (then(sql("a"), sql("b")), text.replace(r#""2":"#, r#""2@5":"#)),
        (then(sql("a"), sql("b")), text.replace(r#""names":{"0":{}}"#, r#""names":{}"#)),
    ] {
        let mut world = World::new(&graph);
        world.state = State::from_json(&text).unwrap();
        world.checks = false;
        let progress = world.with(|state, cx| state.advance(cx));
        assert!(failed(&progress).contains("does not fit its graph"), "I-17: {text}");
    }
    let mut world = World::new(&sql("a"));
    world.graph = Graph::default();
    world.checks = false;
    assert!(failed(&world.advance()).contains("does not fit its graph"), "I-17");
}

//! Graphs, written as the constructors of `df` would write them.

use crate::json::quoted;

/// A node with the nodes below it.
#[derive(Clone, Debug, Default)]
pub(super) struct N {
    pub(super) kind: &'static str,
    pub(super) query: Option<String>,
    pub(super) params: Option<String>,
    pub(super) name: Option<String>,
    pub(super) condition: Option<Box<N>>,
    pub(super) left: Option<Box<N>>,
    pub(super) right: Option<Box<N>>,
    pub(super) extra: Vec<N>,
}

impl N {
    pub(super) fn leaf(kind: &'static str, query: &str) -> N {
        N { kind, query: Some(query.to_owned()), ..N::default() }
    }

    pub(super) fn named(mut self, name: &str) -> N {
        self.name = Some(name.to_owned());
        self
    }

    /// The flattened graph.
    pub(super) fn json(&self) -> String {
        let mut nodes = Vec::new();
        self.flatten(&mut nodes);
        format!("[{}]", nodes.join(","))
    }

    fn flatten(&self, nodes: &mut Vec<String>) -> usize {
        let index = nodes.len();
        nodes.push(String::new());
        let condition = self.condition.as_ref().map(|node| node.flatten(nodes));
        let left = self.left.as_ref().map(|node| node.flatten(nodes));
        let right = self.right.as_ref().map(|node| node.flatten(nodes));
        let extra: Vec<String> = self.extra.iter().map(|node| node.flatten(nodes).to_string()).collect();
        let mut text = format!(r#"{{"type":"{}""#, self.kind);
        if let Some(query) = &self.query {
            text += &format!(r#","query":{}"#, quoted(query));
        }
        if let Some(params) = &self.params {
            text += &format!(r#","params":{params}"#);
        }
        if let Some(name) = &self.name {
            text += &format!(r#","name":{}"#, quoted(name));
        }
        for (key, child) in [("left", left), ("right", right), ("condition", condition)] {
            if let Some(child) = child {
                text += &format!(r#","{key}":{child}"#);
            }
        }
        if !extra.is_empty() {
            text += &format!(r#","extra":[{}]"#, extra.join(","));
        }
        nodes[index] = text + "}";
        index
    }
}

fn some(node: N) -> Option<Box<N>> {
    Some(Box::new(node))
}

pub(super) fn sql(text: &str) -> N {
    N::leaf("SQL", text)
}

pub(super) fn then(left: N, right: N) -> N {
    N { kind: "THEN", left: some(left), right: some(right), ..N::default() }
}

/// A chain of THENs, nested evenly.
pub(super) fn seq(nodes: Vec<N>) -> N {
    let mut nodes = nodes;
    if nodes.len() == 1 {
        return nodes.remove(0);
    }
    let right = nodes.split_off(nodes.len() / 2);
    then(seq(nodes), seq(right))
}

pub(super) fn when(condition: N, then: N, otherwise: N) -> N {
    N { kind: "IF", condition: some(condition), left: some(then), right: some(otherwise), ..N::default() }
}

pub(super) fn when_rows(name: &str, then: N, otherwise: N) -> N {
    let query = format!(r#"{{"condition_type":"result_has_rows","result_name":"{name}"}}"#);
    N { kind: "IF", query: Some(query), left: some(then), right: some(otherwise), ..N::default() }
}

pub(super) fn forever(body: N) -> N {
    N { kind: "LOOP", left: some(body), ..N::default() }
}

pub(super) fn repeat(body: N, condition: N) -> N {
    N { kind: "LOOP", left: some(body), condition: some(condition), ..N::default() }
}

pub(super) fn lenient(mut loop_node: N) -> N {
    loop_node.query = Some(r#"{"continue_on_failure":true}"#.to_owned());
    loop_node
}

pub(super) fn leave() -> N {
    N { kind: "BREAK", ..N::default() }
}

pub(super) fn leave_with(value: &str) -> N {
    N::leaf("BREAK", value)
}

pub(super) fn join(nodes: Vec<N>) -> N {
    let mut nodes = nodes.into_iter();
    let (left, right) = (nodes.next().unwrap(), nodes.next().unwrap());
    N { kind: "JOIN", left: some(left), right: some(right), extra: nodes.collect(), ..N::default() }
}

pub(super) fn race(left: N, right: N) -> N {
    N { kind: "RACE", left: some(left), right: some(right), ..N::default() }
}

pub(super) fn sleep(seconds: &str) -> N {
    N::leaf("SLEEP", seconds)
}

pub(super) fn signal(name: &str, timeout: Option<&str>) -> N {
    let timeout = timeout.map(|seconds| format!(r#","timeout_seconds":{seconds}"#)).unwrap_or_default();
    N::leaf("SIGNAL", &format!(r#"{{"signal_name":"{name}"{timeout}}}"#))
}

pub(super) fn retry(body: N, policy: &str) -> N {
    N { kind: "RETRY", query: Some(policy.to_owned()), left: some(body), ..N::default() }
}

pub(super) fn catch(body: N, handler: N) -> N {
    N { kind: "CATCH", left: some(body), right: some(handler), ..N::default() }
}

pub(super) fn step(body: N, undo: N) -> N {
    N { kind: "STEP", left: some(body), right: some(undo), ..N::default() }
}

pub(super) fn timeout(body: N, seconds: &str) -> N {
    N {
        kind: "TIMEOUT",
        query: Some(format!(r#"{{"seconds":{seconds}}}"#)),
        left: some(body),
        ..N::default()
    }
}

pub(super) fn map(items: N, body: N, parallelism: u32) -> N {
    let query = format!(r#"{{"item":"item","parallelism":{parallelism}}}"#);
    N { kind: "MAP", query: Some(query), condition: some(items), left: some(body), ..N::default() }
}

pub(super) fn call(root: N, query: &str) -> N {
    N { kind: "CALL", query: Some(query.to_owned()), left: some(root), ..N::default() }
}

//! From a node to a request: every reference in its texts is replaced.

use crate::graph::{HttpSettings, Waiting};
use crate::http::{HttpCall, Part};
use crate::interpret::state::{Control, Key};
use crate::json::{quoted, Json};
use crate::nontransactional::refuses_transactions;
use crate::substitute::{self, Environment, SubstituteError};

use super::turn::Turn;
use super::types::{Cell, Failure, Request};

impl Turn<'_, '_> {
    pub(super) fn ask_sql(&mut self, key: &Key, text: &str, params: Option<&Json>) {
        let cell = self.next_cell(key);
        let text = if params.is_none() && !refers(text) {
            Ok(text.to_owned())
        } else {
            self.environment(key, |environment| substitute::sql(text, params, environment)).map_err(failure)
        };
        self.ask(
            key,
            text.map(|text| {
                if refuses_transactions(&text) {
                    Request::NonTransactional { cell, text }
                } else {
                    Request::Sql { cell, text }
                }
            }),
        );
    }

    pub(super) fn ask_http(&mut self, key: &Key, settings: &HttpSettings) {
        let cell = self.next_cell(key);
        let request = self.environment(key, |environment| http_call(settings, environment));
        self.ask(key, request.map(|request| Request::Http { cell, request }));
    }

    pub(super) fn ask_task(&mut self, key: &Key, name: &str, input: &str, max_attempts: u32) {
        let cell = self.next_cell(key);
        let name = name.to_owned();
        let input =
            self.environment(key, |environment| substitute::value(input, environment)).map_err(failure);
        self.ask(key, input.map(|input| Request::Task { cell, name, input, max_attempts }));
    }

    pub(super) fn ask_child(
        &mut self,
        key: &Key,
        root: u32,
        label: Option<&str>,
        queue: Option<&Waiting>,
        awaited: bool,
    ) {
        let environment = self.names_for_child(key, root, None);
        self.ask_for_child(key, root, label, queue, environment, awaited);
    }

    /// Asks for a child that sees these names.
    pub(super) fn ask_for_child(
        &mut self,
        key: &Key,
        root: u32,
        label: Option<&str>,
        queue: Option<&Waiting>,
        environment: Json,
        awaited: bool,
    ) {
        let cell = self.next_cell(key);
        let (graph, label, queue) = (self.graph.part(root), label.map(str::to_owned), queue.cloned());
        self.ask(key, Ok(Request::Child { cell, graph, label, queue, environment, awaited }));
    }

    /// The names that a child with this root mentions, as this cell sees them, with one that only the child knows.
    pub(super) fn names_for_child(&mut self, key: &Key, root: u32, own: Option<(&str, &Json)>) -> Json {
        let graph = self.graph.part(root);
        self.environment(key, |environment| match own {
            None => handed_down(&graph, environment),
            Some((name, result)) => {
                let mut environment = environment.clone();
                environment.results.insert(name.to_owned(), result.clone());
                handed_down(&graph, &environment)
            }
        })
    }

    /// The value of a BREAK.
    pub(super) fn break_value(&mut self, key: &Key, text: &str) -> Result<Json, Failure> {
        self.environment(key, |environment| substitute::value(text, environment)).map_err(failure)
    }

    /// Whether a named result has rows.
    pub(super) fn has_rows(&mut self, key: &Key, name: &str) -> Result<bool, Failure> {
        let result = self.environment(key, |environment| environment.results.get(name).cloned());
        let Some(result) = result else {
            let text = format!("df.if_rows: no result is named {name:?} here: name one with |=> before");
            return Err(Failure::new(text));
        };
        // What is not a result set has no rows.
        let count = result.field("row_count");
        Ok(count.is_some_and(|count| count.text().parse::<i64>().is_ok_and(|count| count > 0)))
    }

    /// The cell for a request of this activation, which no earlier request had.
    fn next_cell(&self, key: &Key) -> Cell {
        Cell::asked(key, self.state.dropped)
    }

    fn ask(&mut self, key: &Key, request: Result<Request, Failure>) {
        let request = match request {
            Ok(request) => request,
            Err(failure) => return self.fail_cell(key, failure),
        };
        let token = self.state.dropped;
        let Some(frame) = self.running(key) else { return };
        frame.control = match &request {
            Request::Child { awaited, .. } => Control::Child { token, awaited: *awaited, instance_id: None },
            _ => Control::Asked { token },
        };
        let out = &mut self.state.memory.out;
        out.bytes += weight(&request);
        out.places.insert(key.clone(), out.requests.len());
        out.requests.push(Some(request));
    }
}

/// The bytes of a request's texts.
fn weight(request: &Request) -> usize {
    match request {
        Request::Sql { text, .. } | Request::NonTransactional { text, .. } => text.len(),
        Request::Task { name, input, .. } => name.len() + input.text().len(),
        Request::Child { graph, environment, .. } => graph.len() + environment.text().len(),
        Request::Http { request, .. } => {
            let parts = request.parts.iter().flatten().map(|part| part.data_b64.len()).sum::<usize>();
            request.url.len() + request.body.as_ref().map_or(0, String::len) + parts
        }
    }
}

/// Whether a text can hold a reference at all.
fn refers(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, b'$' | b'{'))
}

fn failure(error: SubstituteError) -> Failure {
    Failure::new(error.to_string())
}

fn http_call(settings: &HttpSettings, environment: &Environment) -> Result<HttpCall, Failure> {
    let fill = |text: &str| {
        if refers(text) {
            substitute::plain(text, environment).map_err(failure)
        } else {
            Ok(text.to_owned())
        }
    };
    let fill_some = |text: &Option<String>| text.as_deref().map(fill).transpose();
    let part = |part: &Part| {
        if refers(&part.data_b64) && !is_whole_reference(&part.data_b64) {
            let text = format!(
                "df.http_multipart: data_b64 of the part {:?} must be base64 or a whole-value reference such as \
                 $file.data: a reference within other text is not replaced",
                part.name
            );
            return Err(Failure::new(text));
        }
        let data_b64 = fill(&part.data_b64)?;
        if refers(&data_b64) {
            let text = format!(
                "df.http_multipart: data_b64 of the part {:?} is the whole-value reference {}, which nothing is \
                 known as here",
                part.name, part.data_b64
            );
            return Err(Failure::new(text));
        }
        Ok(Part {
            name: fill(&part.name)?,
            data_b64,
            filename: fill_some(&part.filename)?,
            content_type: fill_some(&part.content_type)?,
        })
    };
    let parts =
        settings.parts.as_ref().map(|parts| parts.iter().map(part).collect::<Result<Vec<Part>, Failure>>());
    let headers = settings.headers.iter().map(|(name, value)| Ok((name.clone(), fill(value)?)));
    Ok(HttpCall {
        url: fill(&settings.url)?,
        method: settings.method.clone(),
        body: fill_some(&settings.body)?,
        parts: parts.transpose()?,
        headers: headers.collect::<Result<_, Failure>>()?,
        timeout_s: settings.timeout_s,
    })
}

/// Whether a text is one reference and nothing else: `$name`, `$name.col`, either with `?`, or `{name}`.
fn is_whole_reference(text: &str) -> bool {
    let word = |text: &str| {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    if let Some(name) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return word(name);
    }
    let Some(path) = text.strip_prefix('$') else { return false };
    let path = path.strip_suffix('?').unwrap_or(path);
    match path.split_once('.') {
        Some((name, column)) => word(name) && word(column),
        None => word(path),
    }
}

/// The named results for a child: those that its graph, or a variable that it may insert, can mention.
fn handed_down(graph: &str, environment: &Environment) -> Json {
    let mentioned = |name: &str| {
        graph.contains(name)
            || environment.vars.values().any(|value| value.contains('$') && value.contains(name))
    };
    let results = environment.results.iter().filter(|(name, _)| mentioned(name));
    let members: Vec<String> =
        results.map(|(name, result)| format!("{}:{}", quoted(name), result.text())).collect();
    Json::from_valid(format!("{{{}}}", members.join(",")))
}

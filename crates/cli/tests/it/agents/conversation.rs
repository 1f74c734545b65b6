//! A conversation with `duramen mcp`, as an agent leads it: a JSON value a line.

use serde_json::{json, Value};
use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// An agent and the program that it started.
pub(crate) struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    next: u64,
}

impl Agent {
    /// Starts a command and says hello.
    pub(crate) fn start(command: &mut Command) -> Agent {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("an output")).lines();
        let mut agent = Agent { child, input, output, next: 0 };
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
        let answer = agent.ask("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "duramen", "{answer}");
        agent.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    pub(crate) fn write(&mut self, message: &Value) {
        writeln!(self.input.as_mut().expect("it is open"), "{message}").expect("it reads");
    }

    /// Sends a request, and gives its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        self.write(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next
    }

    /// The answer to a request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let line = self.output.next().expect("it answers").expect("text");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == id {
                return answer;
            }
        }
    }

    /// What a tool gives: its text, or what it says against it.
    pub(crate) fn tool(&mut self, name: &str, arguments: Value) -> Result<String, String> {
        said(&self.ask("tools/call", json!({ "name": name, "arguments": arguments })))
    }

    /// The same, read as JSON.
    pub(crate) fn value(&mut self, name: &str, arguments: Value) -> Value {
        let text = self.tool(name, arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Ends the conversation, and gives the program's exit status.
    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the answer to a call of a tool says: a text, or an error of the tool. Errors of the protocol begin with `protocol`.
pub(crate) fn said(answer: &Value) -> Result<String, String> {
    if let Some(error) = answer.get("error") {
        return Err(format!("protocol: {error}"));
    }
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    if result["isError"] == json!(true) {
        Err(text)
    } else {
        Ok(text)
    }
}

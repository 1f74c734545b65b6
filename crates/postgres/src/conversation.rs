//! A program that answers lines by lines, and goes on until it is dropped.

use crate::cluster::ClusterError;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

/// The longest line that is read, in bytes.
const LINE_MAX: u64 = 64 << 10;
/// How much of its complaints is told, in bytes.
const COMPLAINT_MAX: u64 = 4 << 10;

/// A running program with its input and output. It is ended when this is dropped.
#[derive(Debug)]
pub struct Conversation {
    program: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Conversation {
    pub(crate) fn with(program: &str, mut child: Child) -> Conversation {
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = mpsc::channel();
        if let Some(output) = output {
            // It ends with the program, or when nobody listens.
            thread::spawn(move || {
                let mut output = BufReader::new(output);
                loop {
                    let mut line = String::new();
                    match output.by_ref().take(LINE_MAX).read_line(&mut line) {
                        Ok(read) if read > 0 && sender.send(line.trim_end().to_owned()).is_ok() => {}
                        _ => return,
                    }
                }
            });
        }
        Conversation { program: program.to_owned(), child, input, lines }
    }

    /// Says a line, and waits for the next line of the program. Nothing if none comes in time. Blocks.
    ///
    /// # Errors
    /// The program's complaints, if it ended.
    pub fn ask(&mut self, line: &str, limit: Duration) -> Result<Option<String>, ClusterError> {
        if let Some(input) = &mut self.input {
            // A program that ended closes its input, and is told below.
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
        self.answer(limit)
    }

    /// Waits for the next line of the program. Nothing if none comes in time. Blocks.
    ///
    /// # Errors
    /// As for [`Conversation::ask`].
    pub fn answer(&mut self, limit: Duration) -> Result<Option<String>, ClusterError> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    fn ended(&mut self) -> ClusterError {
        self.input = None;
        // It has closed its output; if it goes on all the same, it is not waited for.
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let mut output = String::new();
        if let Some(errors) = &mut self.child.stderr {
            let _ = errors.take(COMPLAINT_MAX).read_to_string(&mut output);
        }
        ClusterError::Failed { program: self.program.clone(), status, output: output.trim().to_owned() }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A `psql` that is held open: statements go in by its input, answers end with a marker.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::branches::client::Failure;
use crate::branches::program::{end, said, start};

/// The line that ends an answer.
const MARKER: &str = "-- end of the answer --";
/// It ends within this once its input has ended.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// The process.
pub(super) struct Held {
    child: Child,
    input: Option<ChildStdin>,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Held {
    /// Starts it. It connects by itself, before its first answer.
    pub(super) async fn open(mut command: Command) -> io::Result<Held> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, _) = start(command).await?;
        let input = child.stdin.take();
        let lines = child.stdout.take().map(|printed| BufReader::new(printed).lines());
        Ok(Held { child, input, lines })
    }

    /// Has it run one statement, and returns what it printed. The caller has the deadline.
    pub(super) async fn ask(&mut self, step: &'static str, sql: &str) -> Result<String, Failure> {
        let broken = |error: &dyn std::fmt::Display| Failure::wrong(step, format!("psql: {error}"));
        let (Some(input), Some(lines)) = (&mut self.input, &mut self.lines) else {
            return Err(broken(&"it has no input or no output"));
        };
        let text = format!("{sql};\n\\echo '{MARKER}'\n");
        input.write_all(text.as_bytes()).await.map_err(|error| broken(&error))?;
        let mut answer: Vec<String> = Vec::new();
        while let Some(line) = lines.next_line().await.map_err(|error| broken(&error))? {
            if line == MARKER {
                return Ok(answer.join("\n"));
            }
            answer.push(line);
        }
        Err(broken(&"it ended before it had answered"))
    }

    /// Ends it, and returns what it had to say against its work.
    pub(super) async fn close(mut self) -> String {
        drop(self.input.take());
        drop(self.lines.take());
        let mut errors = Vec::new();
        let pipe = self.child.stderr.take();
        let closing = async {
            if let Some(mut pipe) = pipe {
                // What cannot be read any more is not worth a failure of its own.
                let _ = pipe.read_to_end(&mut errors).await;
            }
            self.child.wait().await
        };
        if timeout(CLOSE_LIMIT, closing).await.is_err() {
            end(&mut self.child).await;
        }
        said(&errors)
    }
}

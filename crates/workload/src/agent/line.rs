//! The lab's end of the line to an agent.

use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_hosts::{quoted, Address, Ssh};
use duramen_postgres::connection::Target;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

use super::{unix_ns, Answer, Begin, Said, Told, BEAT, LONGEST_LINE, PROTOCOL, SILENT};
use crate::crew::{Block, Following, DRAIN};
use crate::error::WorkloadError;
use crate::tally::{Freshness, Tally};
use crate::workload::Sources;

/// From the command to an agent that answers.
const HELLO: Duration = Duration::from_secs(30);
/// It has opened its sessions within this.
const READY: Duration = Duration::from_secs(120);
/// It ends within this when it is told.
const END: Duration = Duration::from_secs(10);
/// A login may say so many lines before.
const CHATTER: usize = 200;
/// So many times the clocks are compared.
const COMPARED: u64 = 21;
/// What ssh says of itself is kept to this length.
const SAID: u64 = 4_000;

/// An agent on another machine.
#[derive(Debug)]
pub struct Agent {
    name: String,
    version: String,
    run: String,
    to: Option<mpsc::UnboundedSender<Told>>,
    from: mpsc::UnboundedReceiver<Said>,
    child: Child,
}

/// How far two wall clocks are apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Clocks {
    /// The agent's, less that of this machine, in milliseconds.
    pub offset_ms: f64,
    /// It may be off by so much: half of the fastest way there and back.
    pub uncertainty_ms: f64,
}

impl Agent {
    /// Starts an agent on a host, and tells it its run.
    ///
    /// # Errors
    /// When it is not reached, is of another version, or cannot reach the primary.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is one thing that a run needs, and there is one caller"
    )]
    pub async fn open(
        ssh: &Ssh,
        address: &Address,
        program: &str,
        sources: &Sources,
        primary: &Target,
        standby: &Target,
        clients: u32,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let name = address.to_string();
        let failed =
            |said: String| WorkloadError::Server { doing: format!("start an agent on {name}"), said };
        let line = format!("exec {} lab agent --stdio", quoted(program));
        let mut command = ssh.command(address, &line);
        let mut child = command.spawn().map_err(|error| failed(format!("ssh cannot be started: {error}")))?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed("ssh has no pipes".to_owned()));
        };
        let errors = tokio::spawn(async move {
            let mut text = Vec::new();
            // What cannot be read was not said.
            let _ = stderr.take(SAID).read_to_end(&mut text).await;
            let text = String::from_utf8_lossy(&text).into_owned();
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
        });
        let mut reader = BufReader::new(stdout);
        let hello = async {
            for _ in 0..CHATTER {
                // Whatever the login says beside is passed over.
                if let Some(Answer { said: Said::Hello { protocol, version }, .. }) =
                    next(&mut reader).await?
                {
                    return Some((protocol, version));
                }
            }
            None
        };
        let (protocol, version) = match timeout(HELLO, hello).await {
            Ok(Some(hello)) => hello,
            other => {
                let _ = child.start_kill();
                let said = timeout(Duration::from_secs(5), errors).await.ok().and_then(Result::ok);
                let said = said.filter(|said| !said.is_empty());
                return Err(failed(said.unwrap_or_else(|| match other {
                    Err(_) => format!("no answer within {} s", HELLO.as_secs()),
                    _ => format!("{program} there is no duramen that knows `lab agent --stdio`"),
                })));
            }
        };
        if protocol != PROTOCOL {
            let _ = child.start_kill();
            return Err(failed(format!(
                "it is duramen {version} and speaks version {protocol}, this one {PROTOCOL}: install the same there"
            )));
        }
        let run = entropy::token(26);
        let (to, mut told) = mpsc::unbounded_channel::<Told>();
        let (heard, from) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut ticks = interval(BEAT);
            loop {
                let told = tokio::select! {
                    told = told.recv() => told,
                    _ = ticks.tick() => Some(Told::Beat),
                };
                // When there is nothing more to be told, its input ends.
                let Some(mut line) = told.and_then(|told| serde_json::to_vec(&told).ok()) else { return };
                line.push(b'\n');
                if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn({
            let run = run.clone();
            async move {
                // Whoever says nothing for so long is gone, and whoever does not know the run's word is somebody else.
                while let Ok(Some(line)) = timeout(SILENT, next(&mut reader)).await {
                    match line {
                        Some(Answer { said: Said::Beat, .. }) => {}
                        Some(answer) if answer.run == run => {
                            if heard.send(answer.said).is_err() {
                                return;
                            }
                        }
                        _ => return,
                    }
                }
            }
        });
        let begin = Begin {
            protocol: PROTOCOL,
            run: run.clone(),
            sources: sources.clone(),
            primary: primary.exposed(),
            standby: standby.exposed(),
            clients,
            seed,
        };
        let mut agent = Self { name, version, run, to: Some(to), from, child };
        agent.tell(Told::Begin(Box::new(begin)));
        match agent.hear(READY).await? {
            Said::Ready => Ok(agent),
            other => Err(agent.unexpected(other)),
        }
    }

    /// The host.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of its program.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    fn tell(&self, told: Told) {
        if let Some(to) = &self.to {
            // Who is gone is noticed when the answer does not come.
            let _ = to.send(told);
        }
    }

    async fn hear(&mut self, limit: Duration) -> Result<Said, WorkloadError> {
        let doing = || format!("hear of the agent on {}", self.name);
        match timeout(limit, self.from.recv()).await {
            Ok(Some(Said::Failed(said))) => {
                Err(WorkloadError::Server { doing: format!("the agent on {}", self.name), said })
            }
            Ok(Some(said)) => Ok(said),
            Ok(None) => Err(WorkloadError::Server {
                doing: doing(),
                said: "it is gone, or the connection is".to_owned(),
            }),
            Err(_) => Err(WorkloadError::Server {
                doing: doing(),
                said: format!("no answer within {} s", limit.as_secs()),
            }),
        }
    }

    fn unexpected(&self, said: Said) -> WorkloadError {
        let said = match said {
            Said::Failed(said) => said,
            _ => "it says something out of its turn".to_owned(),
        };
        WorkloadError::Server { doing: format!("the agent on {} ({})", self.name, self.run.len()), said }
    }

    /// Makes a block of load there.
    ///
    /// # Errors
    /// When the agent is gone, or cannot.
    pub async fn run(&mut self, block: &Block) -> Result<Tally, WorkloadError> {
        self.tell(Told::Run(block.clone()));
        match self.hear(Duration::from_millis(block.lasts_ms) + DRAIN * 5).await? {
            Said::Loaded(tally) => Ok(*tally),
            other => Err(self.unexpected(other)),
        }
    }

    /// Follows commits to the standby from there.
    ///
    /// # Errors
    /// When the agent is gone, or cannot.
    pub async fn follow(&mut self, following: &Following) -> Result<Vec<Freshness>, WorkloadError> {
        self.tell(Told::Follow(following.clone()));
        match self.hear(Duration::from_millis(following.lasts_ms) + DRAIN * 5).await? {
            Said::Followed(seen) => Ok(seen),
            other => Err(self.unexpected(other)),
        }
    }

    /// Compares the wall clocks of both machines, by the fastest of some ways there and back. No figure is a difference of
    /// both: durations are measured on one of them.
    ///
    /// # Errors
    /// When the agent is gone.
    pub async fn clocks(&mut self) -> Result<Clocks, WorkloadError> {
        let mut best: Option<(Duration, f64)> = None;
        for number in 0..COMPARED {
            let (begin, sent) = (clock::now(), unix_ns());
            self.tell(Told::Clock(number));
            let theirs = match self.hear(SILENT).await? {
                Said::Clock { number: of, unix_ns } if of == number => unix_ns,
                other => return Err(self.unexpected(other)),
            };
            let took = begin.elapsed();
            if best.is_none_or(|(fastest, _)| took < fastest) {
                let middle = sent as f64 + took.as_nanos() as f64 / 2.0;
                best = Some((took, (theirs as f64 - middle) / 1e6));
            }
        }
        let (fastest, offset_ms) = best.unwrap_or_default();
        Ok(Clocks { offset_ms, uncertainty_ms: clock::ms(fastest) / 2.0 })
    }

    /// Ends it.
    pub async fn close(mut self) {
        self.to = None;
        if timeout(END, self.child.wait()).await.is_err() {
            // The connection goes, and with it the input of the agent.
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
    }
}

/// A line; `Some(None)`: one that is not an answer.
async fn next(reader: &mut BufReader<ChildStdout>) -> Option<Option<Answer>> {
    let mut line = Vec::new();
    match reader.take(LONGEST_LINE).read_until(b'\n', &mut line).await {
        Ok(1..) => Some(serde_json::from_slice(&line).ok()),
        _ => None,
    }
}

//! A host with its guardian: what is done there, step by step, and that nothing of it is left.

use std::collections::HashMap;
use std::fmt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duramen_base::clock;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{interval, sleep, timeout};

use crate::address::Address;
use crate::ssh::{quoted, Ssh};

const LIBRARY: &str = include_str!("library.sh");
const GUARDIAN: &str = include_str!("guardian.sh");

/// From the command to a guardian that answers.
const READY: Duration = Duration::from_secs(40);
/// How often it is spoken to.
const BEAT: Duration = Duration::from_secs(2);
/// A guardian that has not answered for so long is gone.
const SILENT: Duration = Duration::from_secs(20);
/// Everything on a host has been removed within this.
const REMOVED: Duration = Duration::from_secs(60);
/// What ssh says of itself is kept to this length.
const SAID: u64 = 4_000;
/// No line of a guardian is longer.
const LONGEST_LINE: u64 = 8_192;

/// What went wrong on a host.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// ssh came to no guardian.
    #[error("{host} cannot be used: {said}")]
    Unreached {
        /// Which.
        host: String,
        /// What ssh or the host said.
        said: String,
    },
    /// A step failed.
    #[error("{host}: cannot {doing}: {said}")]
    Failed {
        /// Which.
        host: String,
        /// What was tried.
        doing: String,
        /// The last lines that it said.
        said: String,
    },
    /// A step did not end in time.
    #[error("{host}: waited {} s to {doing}, in vain", limit.as_secs())]
    Late {
        /// Which.
        host: String,
        /// What was tried.
        doing: String,
        /// How long.
        limit: Duration,
    },
    /// The guardian is gone in the midst of it.
    #[error("{host}: its guardian is gone: {said}")]
    Lost {
        /// Which.
        host: String,
        /// Why, as far as it is known.
        said: String,
    },
    /// Something may be left.
    #[error("{host}: it is not known that everything was removed ({said}); look for {dir} there")]
    Left {
        /// Which.
        host: String,
        /// The directory.
        dir: String,
        /// Why.
        said: String,
    },
}

/// A server's programs on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `15.20`.
    pub version: String,
    /// `15`.
    pub major: u32,
    /// Where the programs are.
    pub bin: String,
}

/// A host that a guardian watches. When this is dropped, or the process is killed, everything there is removed.
pub struct Host {
    ssh: Ssh,
    address: Address,
    dir: String,
    kernel: String,
    free: Option<u64>,
    /// This end of the connection and that one, as the host sees them.
    ends: Option<(String, String)>,
    lines: mpsc::UnboundedSender<Line>,
    shared: Arc<Shared>,
    lost: watch::Receiver<Option<String>>,
    child: Child,
    next: u64,
}

/// What is written to a guardian.
enum Line {
    Text(String),
    /// Nothing more.
    End,
}

#[derive(Default)]
struct Shared {
    steps: Mutex<HashMap<u64, Step>>,
    beats: Mutex<HashMap<u64, Beat>>,
}

/// A word that was sent to a guardian, when, and who waits for it to come back.
struct Beat {
    sent: Instant,
    answered: Option<oneshot::Sender<Duration>>,
}

struct Step {
    said: Vec<String>,
    ended: Option<oneshot::Sender<(i32, Vec<String>)>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("address", &self.address).field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// What may stand in a line to a guardian, as a word.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "/_.+@%=:,~-".contains(c))
}

/// What a host has said, fit for a message.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

impl Drop for Host {
    fn drop(&mut self) {
        // The end of its input, at which the guardian removes everything.
        let _ = self.lines.send(Line::End);
    }
}

impl Host {
    /// Connects and starts a guardian in a new directory for temporary files.
    ///
    /// # Errors
    /// [`HostError::Unreached`].
    pub async fn open(ssh: &Ssh, address: &Address) -> Result<Self, HostError> {
        let host = address.to_string();
        let unreached = |said: String| HostError::Unreached { host: host.clone(), said };
        let line = format!("exec /bin/sh -c {} sh {}", quoted(GUARDIAN), quoted(LIBRARY));
        let mut child = ssh
            .command(address, &line)
            .spawn()
            .map_err(|error| unreached(format!("ssh cannot be started: {error}")))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(unreached("ssh has no pipes".to_owned()));
        };
        let errors = tokio::spawn(async move {
            let mut text = Vec::new();
            // What cannot be read was not said.
            let _ = stderr.take(SAID).read_to_end(&mut text).await;
            printable(&String::from_utf8_lossy(&text))
        });
        let mut reader = BufReader::new(stdout);
        let beginning = async {
            let (mut dir, mut kernel, mut free) = (None, String::new(), None);
            loop {
                let Some(line) = next_line(&mut reader).await else { return Err(None) };
                match line.split_once(' ') {
                    Some(("ready", name)) if is_word(name) => dir = Some(name.to_owned()),
                    Some(("kernel", text)) => kernel = printable(text),
                    Some(("free", text)) => free = text.trim().parse::<u64>().ok().map(|kib| kib << 10),
                    Some(("error", text)) => return Err(Some(printable(text))),
                    Some(("connection", ends)) => {
                        let words: Vec<&str> = ends.split(' ').collect();
                        let is_ip = |text: &&str| text.parse::<std::net::IpAddr>().is_ok();
                        let ends = match words[..] {
                            [ref here, _, ref there, _] if is_ip(here) && is_ip(there) => {
                                Some(((*here).to_owned(), (*there).to_owned()))
                            }
                            _ => None,
                        };
                        return Ok((dir, kernel, free, ends));
                    }
                    // Whatever the login says beside.
                    _ => {}
                }
            }
        };
        let begun = timeout(READY, beginning).await;
        let (dir, kernel, free, ends) = match begun {
            Ok(Ok((Some(dir), kernel, free, ends))) => (dir, kernel, free, ends),
            Ok(other) => {
                let said = match other {
                    Err(Some(said)) => said,
                    _ => {
                        let said = timeout(Duration::from_secs(5), errors).await;
                        let said = said.ok().and_then(Result::ok).filter(|said| !said.is_empty());
                        said.unwrap_or_else(|| "the connection ended without a word".to_owned())
                    }
                };
                let _ = child.start_kill();
                return Err(unreached(said));
            }
            Err(_) => {
                let _ = child.start_kill();
                return Err(unreached(format!("no answer within {} s", READY.as_secs())));
            }
        };
        let shared = Arc::new(Shared::default());
        let (lines, to_write) = mpsc::unbounded_channel();
        let (lose, lost) = watch::channel(None);
        tokio::spawn(write(stdin, to_write));
        tokio::spawn(listen(reader, Arc::clone(&shared), lose.clone()));
        tokio::spawn(beat(lines.clone(), Arc::clone(&shared), lose));
        Ok(Self {
            ssh: ssh.clone(),
            address: address.clone(),
            dir,
            kernel,
            free,
            ends,
            lines,
            shared,
            lost,
            child,
            next: 0,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The directory that was made there.
    #[must_use]
    pub fn dir(&self) -> &str {
        &self.dir
    }

    /// The name and version of its kernel.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// The free space for temporary files when it was connected, if it could be asked for.
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.free
    }

    /// The address by which others reach it: what was said, or by which it was reached.
    #[must_use]
    pub fn reached_at(&self) -> Option<&str> {
        self.address.reached_at().or(self.ends.as_ref().map(|(_, there)| there.as_str()))
    }

    /// The address that this machine has for it.
    #[must_use]
    pub fn sees_us_at(&self) -> Option<&str> {
        self.ends.as_ref().map(|(here, _)| here.as_str())
    }

    fn name(&self) -> String {
        self.address.to_string()
    }

    /// The servers that are there.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn servers(&mut self) -> Result<Vec<Found>, HostError> {
        let said = self.step("look for PostgreSQL", &["find"], Duration::from_secs(30)).await?;
        let found = said.iter().filter_map(|line| {
            let mut words = line.strip_prefix("server ")?.split(' ');
            let (version, bin) =
                (words.next()?.to_owned(), words.next().filter(|bin| is_word(bin))?.to_owned());
            let major = version.split('.').next()?.parse().ok()?;
            Some(Found { version, major, bin })
        });
        Ok(found.collect())
    }

    /// Writes one of the files `admin`, `conf`, `hba` and `pass`. It is for its owner only.
    pub fn put(&self, file: &str, text: &str) {
        // A line with one dot ends a file, and is in none.
        let lines: Vec<&str> = text.lines().filter(|line| *line != ".").collect();
        self.send(format!("put {file}\n{}\n.\n", lines.join("\n")));
    }

    /// Does a step of the guardian: its name and its words. Returns what it said.
    ///
    /// # Errors
    /// [`HostError`].
    pub async fn step(
        &mut self,
        doing: &str,
        words: &[&str],
        limit: Duration,
    ) -> Result<Vec<String>, HostError> {
        let (host, doing) = (self.name(), doing.to_owned());
        let Some((name, words)) = words.split_first().filter(|_| words.iter().all(|word| is_word(word)))
        else {
            let said = "a word has characters that are not supported".to_owned();
            return Err(HostError::Failed { host, doing, said });
        };
        self.next += 1;
        let number = self.next;
        let (ended, end) = oneshot::channel();
        locked(&self.shared.steps).insert(number, Step { said: Vec::new(), ended: Some(ended) });
        self.send(format!("{name} {number} {}\n", words.join(" ")));
        let mut lost = self.lost.clone();
        tokio::select! {
            end = timeout(limit, end) => match end {
                Ok(Ok((0, said))) => Ok(said),
                Ok(Ok((_, said))) => Err(HostError::Failed { host, doing, said: said.join("\n  ") }),
                Ok(Err(_)) => Err(HostError::Lost { host, said: "it answers no more".to_owned() }),
                Err(_) => Err(HostError::Late { host, doing, limit }),
            },
            said = gone(&mut lost) => Err(HostError::Lost { host, said }),
        }
    }

    /// How long a word takes there and back, through ssh and the shell: the median of so many.
    ///
    /// # Errors
    /// [`HostError::Lost`].
    pub async fn round_trip(&self, times: usize) -> Result<Duration, HostError> {
        let mut took = Vec::with_capacity(times);
        for number in 0..times.max(1) as u64 {
            let (answered, answer) = oneshot::channel();
            // Numbers that those of the clock do not have.
            let number = u64::MAX / 2 + number;
            locked(&self.shared.beats).insert(number, Beat { sent: clock::now(), answered: Some(answered) });
            self.send(format!("beat {number}\n"));
            match timeout(SILENT, answer).await {
                Ok(Ok(time)) => took.push(time),
                _ => {
                    return Err(HostError::Lost { host: self.name(), said: "it answers no more".to_owned() })
                }
            }
        }
        took.sort_unstable();
        Ok(took[took.len() / 2])
    }

    /// Waits until its guardian is gone, and says why.
    pub async fn lost(&self) -> HostError {
        let mut lost = self.lost.clone();
        HostError::Lost { host: self.name(), said: gone(&mut lost).await }
    }

    fn send(&self, text: String) {
        // Whoever writes is gone only when the guardian is, which is told elsewhere.
        let _ = self.lines.send(Line::Text(text));
    }

    /// Ends everything there and waits until it is removed. If the guardian is gone it is asked for by a new connection.
    ///
    /// # Errors
    /// [`HostError::Left`].
    pub async fn close(mut self) -> Result<(), HostError> {
        let _ = self.lines.send(Line::End);
        let was_lost = self.lost.borrow().is_some();
        if was_lost {
            let _ = self.child.start_kill();
        }
        let ended = timeout(REMOVED, self.child.wait()).await;
        let said_gone = self.lost.borrow().as_deref() == Some(GONE);
        if matches!(ended, Ok(Ok(status)) if status.success()) && said_gone && !was_lost {
            return Ok(());
        }
        let _ = self.child.start_kill();
        self.clear_up().await
    }

    /// Removes what is left by a connection of its own.
    async fn clear_up(&self) -> Result<(), HostError> {
        let left = |said: String| HostError::Left { host: self.name(), dir: self.dir.clone(), said };
        let script = "eval \"$1\"; clean \"$2\"; [ -e \"$2\" ] || say gone";
        let line = format!("exec /bin/sh -c {} sh {} {}", quoted(script), quoted(LIBRARY), quoted(&self.dir));
        let mut last = String::new();
        // A network that is cut for a moment, or a host that is busy, deserves a second try.
        for _ in 0..2 {
            let mut command = self.ssh.command(&self.address, &line);
            command.stdin(Stdio::null()).kill_on_drop(true);
            match timeout(REMOVED, command.output()).await {
                Ok(Ok(output)) if output.stdout.ends_with(b"gone\n") => return Ok(()),
                Ok(Ok(output)) => last = printable(&String::from_utf8_lossy(&output.stderr)),
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = format!("no answer within {} s", REMOVED.as_secs()),
            }
            sleep(Duration::from_secs(1)).await;
        }
        Err(left(last))
    }
}

/// What a guardian says when it has removed everything.
const GONE: &str = "gone";

async fn next_line(reader: &mut BufReader<tokio::process::ChildStdout>) -> Option<String> {
    let mut line = Vec::new();
    let read = reader.take(LONGEST_LINE).read_until(b'\n', &mut line).await;
    match read {
        Ok(1..) => Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()),
        _ => None,
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<Line>) {
    while let Some(Line::Text(text)) = lines.recv().await {
        if stdin.write_all(text.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
    // Its end is what ends the guardian.
}

async fn listen(
    mut reader: BufReader<tokio::process::ChildStdout>,
    shared: Arc<Shared>,
    lose: watch::Sender<Option<String>>,
) {
    let mut why = "its connection ended".to_owned();
    while let Some(line) = next_line(&mut reader).await {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
        match (word, number.parse::<u64>()) {
            ("beat", Ok(number)) => {
                let beat = locked(&shared.beats).remove(&number);
                if let Some(Beat { sent, answered: Some(answered) }) = beat {
                    // Nobody may be waiting any more.
                    let _ = answered.send(sent.elapsed());
                }
            }
            ("said", Ok(number)) => {
                if let Some(step) = locked(&shared.steps).get_mut(&number) {
                    step.said.push(printable(text));
                }
            }
            ("done", Ok(number)) => {
                if let Some(mut step) = locked(&shared.steps).remove(&number) {
                    let code = text.trim().parse().unwrap_or(-1);
                    let said = std::mem::take(&mut step.said);
                    if let Some(ended) = step.ended.take() {
                        let _ = ended.send((code, said));
                    }
                }
            }
            ("error", _) => why = printable(rest),
            (GONE, _) if rest.is_empty() && why == "its connection ended" => why = GONE.to_owned(),
            _ => {}
        }
    }
    lose.send_if_modified(|lost| lost.is_none().then(|| *lost = Some(why)).is_some());
    locked(&shared.steps).clear();
    locked(&shared.beats).clear();
}

/// Speaks to the guardian, and notices when it does not answer.
async fn beat(lines: mpsc::UnboundedSender<Line>, shared: Arc<Shared>, lose: watch::Sender<Option<String>>) {
    let mut ticks = interval(BEAT);
    for number in 0.. {
        ticks.tick().await;
        {
            let mut beats = locked(&shared.beats);
            let oldest = beats.values().map(|beat| beat.sent.elapsed()).max().unwrap_or_default();
            if oldest > SILENT {
                let why = format!("it has not answered for {} s", SILENT.as_secs());
                lose.send_if_modified(|lost| lost.is_none().then(|| *lost = Some(why)).is_some());
                return;
            }
            beats.insert(number, Beat { sent: clock::now(), answered: None });
        }
        if lose.borrow().is_some() || lines.send(Line::Text(format!("beat {number}\n"))).is_err() {
            return;
        }
    }
}

async fn gone(lost: &mut watch::Receiver<Option<String>>) -> String {
    let said = lost.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
    said.unwrap_or_else(|| "nobody listens to it any more".to_owned())
}

/// What is behind these locks stays whole when a thread panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

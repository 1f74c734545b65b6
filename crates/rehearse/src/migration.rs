//! The migration: a command of the user's in a process group of its own, which ends with the rehearsal.

use crate::error::RehearseError;
use duramen_base::clock;
use duramen_client::run::{Leased, Signals};
use rustix::process::{kill_process_group, Pid, Signal};
use serde::Serialize;
use std::{
    collections::VecDeque,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    sync::mpsc,
    task::JoinHandle,
    time::{sleep_until, timeout, Instant},
};

/// The command's deadline unless the caller says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(600);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// What is kept of its output, in bytes.
const TAIL_MAX: usize = 64 << 10;
/// How long what it left running may hold its output open.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);
const PIECE: usize = 8 << 10;

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Ending {
    /// By itself, with this exit status.
    Exit(i32),
    /// By a signal that somebody else sent.
    Signal(i32),
    /// It was ended at its deadline.
    Deadline,
}

/// What the command did.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) ending: Ending,
    /// The end of what it printed, as it came.
    pub(crate) tail: Vec<u8>,
    /// Whether it printed more.
    pub(crate) is_cut: bool,
}

/// Ends all processes of the group when it is dropped.
struct Group(Option<Pid>);

impl Group {
    fn send(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // They may all have ended.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.send(Signal::KILL);
    }
}

/// Runs a command with a shell until it ends, or until its deadline; `on_output` gets what it prints.
///
/// # Errors
/// [`RehearseError::Process`], and [`RehearseError::Ended`] after a signal; its processes have been ended then.
pub(crate) async fn run(
    text: &str,
    branch: &Leased,
    limit: Duration,
    signals: &mut Signals,
    mut on_output: impl FnMut(&[u8]),
) -> Result<Ran, RehearseError> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(text).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    if !branch.enter(&mut command) {
        return Err(RehearseError::Url { branch: branch.view().name.clone() });
    }
    let spawned = command.spawn();
    let mut child = spawned.map_err(|source| RehearseError::Process { doing: "run the command", source })?;
    let mut group = Group(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw));
    let (sender, mut output) = mpsc::channel(16);
    let reading = [
        tokio::spawn(read(child.stdout.take(), sender.clone())),
        tokio::spawn(read(child.stderr.take(), sender)),
    ];
    let mut tail = Tail::default();
    let deadline = Instant::from_std(clock::now() + limit);
    let status = loop {
        tokio::select! {
            status = child.wait() => break Ok(status),
            Some(piece) = output.recv() => tail.take(&piece, &mut on_output),
            () = sleep_until(deadline) => break Err(None),
            signal = signals.next() => break Err(Some(signal)),
        }
    };
    let waited = |source| RehearseError::Process { doing: "wait for the command", source };
    let ending = match status {
        Ok(status) => ending_of(status.map_err(waited)?),
        Err(signal) => {
            group.send(Signal::TERM);
            let ended = end(&mut child, &mut output, &mut tail, &mut on_output).await;
            if !ended {
                group.send(Signal::KILL);
                child.wait().await.map_err(waited)?;
            }
            match signal {
                Some(signal) => return Err(RehearseError::Ended(signal)),
                None => Ending::Deadline,
            }
        }
    };
    // What it left behind does not go on. Later its number may be that of others.
    group.send(Signal::KILL);
    group.0 = None;
    let rest = async {
        while let Some(piece) = output.recv().await {
            tail.take(&piece, &mut on_output);
        }
    };
    let _ = timeout(OUTPUT_LIMIT, rest).await;
    reading.iter().for_each(JoinHandle::abort);
    Ok(Ran { ending, tail: tail.kept.into(), is_cut: tail.is_cut })
}

/// Whether it ended in time.
async fn end(
    child: &mut Child,
    output: &mut mpsc::Receiver<Vec<u8>>,
    tail: &mut Tail,
    on_output: &mut impl FnMut(&[u8]),
) -> bool {
    let ended = async {
        loop {
            tokio::select! {
                _ = child.wait() => return,
                Some(piece) = output.recv() => tail.take(&piece, &mut *on_output),
            }
        }
    };
    timeout(GRACE, ended).await.is_ok()
}

fn ending_of(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, signal) => Ending::Signal(signal.unwrap_or_default()),
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: mpsc::Sender<Vec<u8>>) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if to.send(piece[..length].to_vec()).await.is_err() {
            return;
        }
    }
}

#[derive(Default)]
struct Tail {
    kept: VecDeque<u8>,
    is_cut: bool,
}

impl Tail {
    fn take(&mut self, piece: &[u8], on_output: &mut impl FnMut(&[u8])) {
        on_output(piece);
        self.kept.extend(piece);
        let over = self.kept.len().saturating_sub(TAIL_MAX);
        self.is_cut |= over > 0;
        self.kept.drain(..over);
    }
}

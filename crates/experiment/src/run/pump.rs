//! Feeds a child and takes what it says, without threads: a measured command has the machine to itself.

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{fcntl_setfl, OFlags};
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use duramen_base::clock;

/// How often it is asked whether the wait was cancelled.
const SLICE: Duration = Duration::from_millis(50);
/// What is read at once.
const CHUNK: usize = 64 * 1024;

/// Why waiting for a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It ended by itself.
    Exited,
    /// The deadline came first.
    TimedOut,
    /// It is not wanted any more.
    Cancelled,
}

/// The pipes of a child, and its end as something that can be waited for.
#[derive(Debug)]
pub(crate) struct Pump {
    process: OwnedFd,
    input: Option<OwnedFd>,
    left: Vec<u8>,
    sent: usize,
    outputs: [Option<OwnedFd>; 2],
    /// What it said on its standard output and standard error.
    pub(crate) said: [Tail; 2],
}

impl Pump {
    /// Takes the pipes of a child that was just started. Of each output `limit` bytes are kept.
    pub(crate) fn start(child: &mut Child, input: Option<Vec<u8>>, limit: usize) -> io::Result<Self> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let stdin = child.stdin.take().map(OwnedFd::from);
        for pipe in outputs.iter().chain([&stdin]).flatten() {
            fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        let left = input.unwrap_or_default();
        let said = [Tail::new(limit), Tail::new(limit)];
        // What gets no input must see the end of it.
        let input = stdin.filter(|_| !left.is_empty());
        Ok(Self { process, input, left, sent: 0, outputs, said })
    }

    /// Until the child has ended, the deadline has come, or `cancelled` says so.
    pub(crate) fn until_exit(&mut self, deadline: Instant, cancelled: &dyn Fn() -> bool) -> Stop {
        loop {
            if self.step(deadline, true) {
                return Stop::Exited;
            }
            if clock::now() >= deadline {
                return Stop::TimedOut;
            }
            if cancelled() {
                return Stop::Cancelled;
            }
        }
    }

    /// Until nobody can write to the outputs any more, or the deadline.
    pub(crate) fn until_closed(&mut self, deadline: Instant) {
        self.input = None;
        while self.outputs.iter().any(Option::is_some) && clock::now() < deadline {
            self.step(deadline, false);
        }
    }

    /// Waits for one thing to happen and deals with it; says whether the child has ended.
    fn step(&mut self, deadline: Instant, process: bool) -> bool {
        let wait = deadline.saturating_duration_since(clock::now()).min(SLICE);
        let wait = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut polled = Vec::with_capacity(4);
        let mut what = Vec::with_capacity(4);
        if process {
            polled.push(PollFd::new(&self.process, PollFlags::IN));
            what.push(What::End);
        }
        for (at, output) in self.outputs.iter().enumerate() {
            if let Some(output) = output {
                polled.push(PollFd::new(output, PollFlags::IN));
                what.push(What::Output(at));
            }
        }
        if let Some(input) = &self.input {
            polled.push(PollFd::new(input, PollFlags::OUT));
            what.push(What::Input);
        }
        if poll(&mut polled, Some(&wait)).is_err() {
            // Interrupted by a signal: the caller looks at the time and asks whether to go on.
            return false;
        }
        let ready: Vec<What> = polled
            .iter()
            .zip(what)
            .filter(|(fd, _)| !fd.revents().is_empty())
            .map(|(_, what)| what)
            .collect();
        drop(polled);
        let mut ended = false;
        for what in ready {
            match what {
                What::End => ended = true,
                What::Output(at) => self.take(at),
                What::Input => self.feed(),
            }
        }
        ended
    }

    fn take(&mut self, at: usize) {
        let Some(output) = &self.outputs[at] else { return };
        let mut chunk = [0; CHUNK];
        match rustix::io::read(output, &mut chunk[..]) {
            Ok(0) => self.outputs[at] = None,
            Ok(read) => self.said[at].push(&chunk[..read]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.outputs[at] = None,
        }
    }

    fn feed(&mut self) {
        let Some(input) = &self.input else { return };
        match rustix::io::write(input.as_fd(), &self.left[self.sent..]) {
            Ok(written) => self.sent += written,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
            // It does not want to read the rest.
            Err(_) => self.sent = self.left.len(),
        }
        if self.sent == self.left.len() {
            self.input = None;
        }
    }
}

#[derive(Clone, Copy)]
enum What {
    End,
    Output(usize),
    Input,
}

/// The last bytes of what was said, up to a limit.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    limit: usize,
    omitted: u64,
}

impl Tail {
    fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, omitted: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Moving the tail forward only now and then keeps a flood of output cheap.
        if self.bytes.len() > self.limit.saturating_mul(2).saturating_add(CHUNK) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let too_many = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..too_many);
        self.omitted += too_many as u64;
    }

    /// The tail, and how many bytes before it were left out. The rest of a line that was cut is left out too: it could
    /// be taken for another line.
    pub(crate) fn finish(&mut self) -> (Vec<u8>, u64) {
        self.cut();
        if self.omitted > 0 {
            let line =
                self.bytes.iter().position(|byte| *byte == b'\n').map_or(self.bytes.len(), |at| at + 1);
            self.bytes.drain(..line);
            self.omitted += line as u64;
        }
        (std::mem::take(&mut self.bytes), self.omitted)
    }
}

//! The agent itself.

use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::{mpsc, Arc};
use std::thread;

use duramen_postgres::connection::Target;
use tokio::sync::mpsc as channel;
use tokio::time::{interval, timeout};

use super::{unix_ns, Answer, Begin, Said, Told, BEAT, LONGEST_LINE, PROTOCOL, SILENT};
use crate::crew::Crew;
use crate::error::WorkloadError;
use crate::workload::Workload;

/// What is still to be written when an agent ends is waited for no longer.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(500);

/// What says things. A thread writes them, so that a lab that does not read holds up nothing that watches over it.
#[derive(Clone)]
struct Mouth {
    run: Arc<std::sync::Mutex<String>>,
    lines: mpsc::Sender<String>,
}

impl Mouth {
    fn say(&self, said: Said) {
        let run = self.run.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Ok(line) = serde_json::to_string(&Answer { run, said }) {
            // Nobody may be reading any more: then the input ends, too.
            let _ = self.lines.send(line);
        }
    }
}

/// Serves one run over the standard input and output. Returns when it is over, in whatever way; the caller then ends the
/// process, and with it all sessions.
///
/// # Errors
/// When the lab was not heard of for too long, or says what is not understood.
pub async fn serve() -> Result<(), WorkloadError> {
    let (heard, mut told) = channel::unbounded_channel();
    // Threads, because a process must end although one of them still reads.
    let listen = move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                // What is no text is not understood, either.
                Ok(1..) if heard.send(String::from_utf8_lossy(&line).into_owned()).is_ok() => {}
                _ => return,
            }
        }
    };
    let (lines, to_write) = mpsc::channel::<String>();
    let (ended, end) = mpsc::channel::<()>();
    let speak = move || {
        // Dropped when everything is said.
        let _ended = ended;
        let mut output = std::io::stdout().lock();
        for line in to_write {
            if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
                return;
            }
        }
    };
    let failed =
        |error: std::io::Error| WorkloadError::Whole(format!("an agent cannot start a thread: {error}"));
    thread::Builder::new().name("agent hears".to_owned()).spawn(listen).map_err(failed)?;
    thread::Builder::new().name("agent says".to_owned()).spawn(speak).map_err(failed)?;
    let mouth = Mouth { run: Arc::default(), lines };
    mouth.say(Said::Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() });
    let beating = tokio::spawn({
        let mouth = mouth.clone();
        async move {
            let mut ticks = interval(BEAT);
            loop {
                ticks.tick().await;
                mouth.say(Said::Beat);
            }
        }
    });
    let served = listen_to(&mut told, &mouth).await;
    beating.abort();
    // What was said last is to be heard, unless nobody listens.
    let _ = beating.await;
    drop(mouth);
    let _ = end.recv_timeout(LAST_WORDS);
    served
}

/// Hears what the lab says, whatever is under way.
async fn listen_to(
    told: &mut channel::UnboundedReceiver<String>,
    mouth: &Mouth,
) -> Result<(), WorkloadError> {
    let mut crew: Option<Arc<Crew>> = None;
    let mut work = tokio::task::JoinSet::new();
    loop {
        let line = match timeout(SILENT, told.recv()).await {
            // Its end is the end of the run.
            Ok(None) => return Ok(()),
            Ok(Some(line)) => line,
            Err(_) => {
                let text =
                    format!("the lab has not been heard of for {} s: the agent ends", SILENT.as_secs());
                return Err(WorkloadError::Whole(text));
            }
        };
        while work.try_join_next().is_some() {}
        // What was said is not repeated: it may hold a password.
        let line = serde_json::from_str(&line);
        let line =
            line.map_err(|_| WorkloadError::Whole("the lab says what an agent does not know".to_owned()))?;
        match (line, &crew) {
            (Told::Beat, _) => {}
            (Told::Clock(number), _) => mouth.say(Said::Clock { number, unix_ns: unix_ns() }),
            (Told::Begin(begin), None) => {
                *mouth.run.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = begin.run.clone();
                let mut opening = std::pin::pin!(open(*begin));
                // A lab that is gone is not connected for.
                let opened = loop {
                    tokio::select! {
                        opened = &mut opening => break opened,
                        line = timeout(SILENT, told.recv()) => match line {
                            Ok(Some(line)) if line.trim() == "\"Beat\"" => {}
                            _ => return Ok(()),
                        },
                    }
                };
                match opened {
                    Ok(opened) => {
                        crew = Some(Arc::new(opened));
                        mouth.say(Said::Ready);
                    }
                    Err(error) => mouth.say(Said::Failed(error.to_string())),
                }
            }
            (Told::Run(block), Some(crew)) if work.is_empty() => {
                let (crew, mouth) = (Arc::clone(crew), mouth.clone());
                work.spawn(async move {
                    mouth.say(match crew.run(&block).await {
                        Ok(tally) => Said::Loaded(Box::new(tally)),
                        Err(error) => Said::Failed(error.to_string()),
                    });
                });
            }
            (Told::Follow(following), Some(crew)) if work.is_empty() => {
                let (crew, mouth) = (Arc::clone(crew), mouth.clone());
                work.spawn(async move {
                    mouth.say(match crew.follow(&following).await {
                        Ok(seen) => Said::Followed(seen),
                        Err(error) => Said::Failed(error.to_string()),
                    });
                });
            }
            _ => return Err(WorkloadError::Whole("the lab says something out of its turn".to_owned())),
        }
    }
}

async fn open(begin: Begin) -> Result<Crew, WorkloadError> {
    if begin.protocol != PROTOCOL {
        let text = format!("the agent speaks version {PROTOCOL}, and the lab {}", begin.protocol);
        return Err(WorkloadError::Whole(text));
    }
    let workload = Arc::new(Workload::parse(&begin.sources)?);
    let wrong = |error: duramen_postgres::connection::ConnectError| WorkloadError::Whole(error.to_string());
    let primary = Target::parse(&begin.primary).map_err(wrong)?;
    let standby = Target::parse(&begin.standby).map_err(wrong)?;
    Crew::open(workload, &primary, &standby, begin.clients, begin.seed).await
}

//! A pair of a source, as the daemon of the home lends it to a run of the suite `replication`.

use duramen_api::model::{MakePair, PairLine, PairView};
use duramen_client::{Client, ClientError};
use duramen_postgres::Secret;
use duramen_replication::pair::lent::{Lease, Lender, Lending, Lent};
use duramen_reports::suite::SuiteError;
use std::thread::{Builder, JoinHandle};
use tokio::sync::{oneshot, watch};

/// The daemon of the home, asked for a source.
#[derive(Debug)]
pub(super) struct OfSource {
    pub(super) client: Client,
    pub(super) source: String,
    pub(super) generation: Option<String>,
}

/// What comes of asking.
type Answer = Result<Box<PairView>, ClientError>;

/// The connection by which the pair was asked for, on a thread of its own: a busy runtime of the suite does not hold it up. It is
/// closed when this is dropped, or the process ends, and then the daemon removes the pair.
#[derive(Debug)]
struct Held {
    keep: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Lease for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.keep.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say that is not said already.
            let _ = thread.join();
        }
    }
}

impl Lender for OfSource {
    fn lend(&self, space: u64) -> Lending<'_> {
        let request = MakePair {
            source: Some(self.source.clone()),
            generation: self.generation.clone(),
            space_bytes: space,
        };
        let client = self.client.clone();
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let (told, gone) = watch::channel(None);
            let (keep, kept) = oneshot::channel();
            let hold = move || hold(&client, &request, answer, &told, kept);
            let thread = Builder::new().name("pair".to_owned()).spawn(hold).map_err(SuiteError::other)?;
            // From here on it is closed when nobody waits any more.
            let lease = Held { keep: Some(keep), thread: Some(thread) };
            let ended = |_| SuiteError::Failed("asking for a pair ended without an answer".to_owned());
            let view = answered.await.map_err(ended)?.map_err(SuiteError::other)?;
            lent(*view, gone, lease)
        })
    }
}

fn lent(view: PairView, gone: watch::Receiver<Option<String>>, lease: Held) -> Result<Lent, SuiteError> {
    let major = view.server_version.split('.').next().and_then(|major| major.parse().ok());
    let major = major.ok_or_else(|| {
        SuiteError::Failed(format!("the daemon says a version that nobody knows: {}", view.server_version))
    })?;
    Ok(Lent {
        source: view.source,
        generation: view.generation,
        data: view.data,
        major,
        sockets: [view.primary.into(), view.standby.into()],
        role: view.role,
        secret: Secret::from_text(&view.secret),
        database: view.database,
        standby_name: view.standby_name,
        gone,
        lease: Box::new(lease),
    })
}

/// Asks, answers, and listens until the pair is given back, or gone.
fn hold(
    client: &Client,
    request: &MakePair,
    answer: oneshot::Sender<Answer>,
    told: &watch::Sender<Option<String>>,
    kept: oneshot::Receiver<()>,
) {
    let mut answer = Some(answer);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        // Whoever waits for an answer hears that there is none.
        Err(error) => return drop(told.send(Some(error.to_string()))),
    };
    let listened = runtime.block_on(async {
        let listening = async {
            let mut connection = client.connect().await?;
            connection
                .pair(request, |line| {
                    if let PairLine::Ready(view) = line {
                        // Nobody waits for it any more: then it goes.
                        return answer.take().is_some_and(|answer| answer.send(Ok(view)).is_ok());
                    }
                    true
                })
                .await
        };
        tokio::select! {
            listened = listening => listened,
            // Given back: nothing is ever sent.
            _ = kept => Ok(()),
        }
    });
    let Err(error) = listened else { return };
    let _ = told.send(Some(error.to_string()));
    if let Some(answer) = answer {
        let _ = answer.send(Err(error));
    }
}

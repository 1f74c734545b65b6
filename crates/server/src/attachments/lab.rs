//! What the lab measured, out of directories that are attached. Reading and judging is `crates/attachments`.

use crate::{
    api::{Answer, Api, Call},
    reply::{json, Refusal},
};
use duramen_api::{attachments::AttachmentKind, route::Op};
use duramen_attachments::lab::{ids, Lab, LabError, Suites};
use duramen_branches::{EngineError, Kind};
use hyper::StatusCode;
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::timeout};

/// How many questions are answered at once. Each may read files for some seconds, and take some hundred megabytes for documents that were
/// made to take them.
const AT_ONCE: usize = 2;
/// How long one may wait for that.
const TURN_LIMIT: Duration = Duration::from_secs(30);

/// What is known of attached directories, and who is reading them.
#[derive(Debug)]
pub(super) struct Measured {
    lab: Arc<Lab>,
    turns: Arc<Semaphore>,
}

impl Measured {
    pub(super) fn new(suites: Suites) -> Measured {
        Measured { lab: Arc::new(Lab::new(suites)), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Has a question answered on a thread of its own. A client that leaves does not end it, so the turn is kept until it has ended.
    async fn answer<T: Serialize + Send + 'static>(
        &self,
        question: impl FnOnce(&Lab) -> Result<T, LabError> + Send + 'static,
    ) -> Answer {
        let turn = timeout(TURN_LIMIT, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let message = format!(
                "{AT_ONCE} others read attached measurements, and have for {} s; ask again",
                TURN_LIMIT.as_secs()
            );
            return Err(EngineError::new(Kind::Unavailable, "too_busy", message).into());
        };
        let lab = Arc::clone(&self.lab);
        let work = tokio::task::spawn_blocking(move || {
            let answer: Answer = question(&lab).map_err(Refusal::from).and_then(|told| json(&told));
            drop(turn);
            answer
        });
        work.await.unwrap_or_else(|error| {
            tracing::error!(%error, "attached measurements could not be read");
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))
        })
    }
}

impl From<LabError> for Refusal {
    fn from(error: LabError) -> Refusal {
        let (kind, code) = match &error {
            LabError::UnknownRun(_) => (Kind::NotFound, "unknown_run"),
            LabError::Damaged { .. } => (Kind::Conflict, "damaged"),
            LabError::NotComparable(_) => (Kind::Invalid, "not_comparable"),
            // `Folder`, and what is added later.
            _ => (Kind::Failed, "unreadable"),
        };
        EngineError::new(kind, code, error.to_string()).into()
    }
}

impl Api {
    /// Answers what is asked of an attached directory of measurements.
    pub(crate) async fn measured_in(&self, call: &Call<'_>) -> Answer {
        let measured = &self.attachments.measured;
        let at = PathBuf::from(self.attachments.registry()?.find(call.name, AttachmentKind::Lab)?);
        let owned = |name| Ok::<_, Refusal>(call.parameter(name)?.map(std::borrow::Cow::into_owned));
        match call.endpoint.op {
            Op::LabRuns => {
                let suite = owned("suite")?;
                measured.answer(move |lab| lab.runs(&at, suite.as_deref())).await
            }
            Op::LabRun => {
                let id = call.needed("id")?.into_owned();
                measured.answer(move |lab| lab.run(&at, &id)).await
            }
            Op::LabSeries => {
                let (suite, figure) = (call.needed("suite")?.into_owned(), owned("measurement")?);
                measured.answer(move |lab| lab.series(&at, &suite, figure.as_deref())).await
            }
            Op::LabComparison => {
                let (a, b) = (call.needed("a")?.into_owned(), call.needed("b")?.into_owned());
                measured.answer(move |lab| lab.comparison(&at, &ids(&a), &ids(&b))).await
            }
            _ => measured.answer(move |lab| lab.experiments(&at)).await,
        }
    }
}

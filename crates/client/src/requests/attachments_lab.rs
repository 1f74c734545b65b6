//! What the lab measured, in attached directories.

use crate::{ClientError, Connection};
use bytes::Bytes;
use duramen_api::{
    attachments::lab::{LabComparison, LabExperiments, LabHistory, LabReport, LabRuns},
    route::{Op, Route},
};

/// Every method fails as those of all requests do.
#[allow(clippy::missing_errors_doc, reason = "the same sentence for all of them stands above")]
impl Connection {
    /// The runs in an attached directory, the newest first; of one suite, or of all.
    pub async fn lab_runs(&mut self, name: &str, suite: Option<&str>) -> Result<LabRuns, ClientError> {
        let route = Route::of(Op::LabRuns, name);
        self.exchange(suite.map_or(route, |suite| route.with(suite)), Bytes::new()).await
    }

    /// One run, by its id in the list of runs.
    pub async fn lab_run(&mut self, name: &str, id: &str) -> Result<LabReport, ClientError> {
        self.exchange(Route::of(Op::LabRun, name).with(id), Bytes::new()).await
    }

    /// The figures of a suite over its runs that are alike, or one of them.
    pub async fn lab_series(
        &mut self,
        name: &str,
        suite: &str,
        measurement: Option<&str>,
    ) -> Result<LabHistory, ClientError> {
        let route = Route::of(Op::LabSeries, name).with(suite);
        self.exchange(measurement.map_or(route, |figure| route.and(figure)), Bytes::new()).await
    }

    /// Runs of two variants compared, by their ids.
    pub async fn lab_comparison(
        &mut self,
        name: &str,
        a: &[&str],
        b: &[&str],
    ) -> Result<LabComparison, ClientError> {
        let (a, b) = (a.join(","), b.join(","));
        self.exchange(Route::of(Op::LabComparison, name).with(&a).and(&b), Bytes::new()).await
    }

    /// The series of tries of which there are logs.
    pub async fn lab_experiments(&mut self, name: &str) -> Result<LabExperiments, ClientError> {
        self.exchange(Route::of(Op::LabExperiments, name), Bytes::new()).await
    }
}

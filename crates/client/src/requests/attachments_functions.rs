//! Requests about durable functions of an attached database.

use crate::{ClientError, Connection};
use bytes::Bytes;
use duramen_api::{
    attachments::functions::{
        ControlFunction, ControlledFunction, FunctionDetail, FunctionInstance, FunctionQueue,
        FunctionSchedule, FunctionsOverview,
    },
    route::{Op, Route},
};

/// Every method fails with [`ClientError::Refused`] when the daemon refuses, else with what kept the reply from coming.
#[allow(clippy::missing_errors_doc, reason = "the same sentence for all of them stands above")]
impl Connection {
    /// What goes on in an attached database: instances by status, and who runs them.
    pub async fn functions(&mut self, name: &str) -> Result<FunctionsOverview, ClientError> {
        self.exchange(Route::of(Op::Functions, name), Bytes::new()).await
    }

    /// The newest instances of an attached database that fit a status and a search, at most so many.
    pub async fn function_instances(
        &mut self,
        name: &str,
        status: Option<&str>,
        search: Option<&str>,
        limit: u32,
    ) -> Result<Vec<FunctionInstance>, ClientError> {
        let limit = limit.to_string();
        let route = Route::of(Op::FunctionInstances, name).besides(&limit);
        let route = status.map_or(route, |status| route.with(status));
        let route = search.map_or(route, |search| route.also(search));
        self.exchange(route, Bytes::new()).await
    }

    /// One instance, with its steps.
    pub async fn function_instance(&mut self, name: &str, id: &str) -> Result<FunctionDetail, ClientError> {
        self.exchange(Route::of(Op::FunctionInstance, name).with(id), Bytes::new()).await
    }

    /// Does something with one instance.
    pub async fn control_function(
        &mut self,
        name: &str,
        request: &ControlFunction,
    ) -> Result<ControlledFunction, ClientError> {
        self.post(Route::of(Op::ControlFunction, name), request).await
    }

    /// The queues of an attached database.
    pub async fn function_queues(&mut self, name: &str) -> Result<Vec<FunctionQueue>, ClientError> {
        self.exchange(Route::of(Op::FunctionQueues, name), Bytes::new()).await
    }

    /// The schedules of an attached database.
    pub async fn function_schedules(&mut self, name: &str) -> Result<Vec<FunctionSchedule>, ClientError> {
        self.exchange(Route::of(Op::FunctionSchedules, name), Bytes::new()).await
    }
}

//! Durable functions of an attached database. What is read there is in `duramen_attachments::functions`.

use crate::{
    api::{Answer, Api, Call},
    page,
    reply::{json, Refusal},
};
use duramen_api::{
    attachments::{functions::ControlFunction, AttachmentKind},
    route::Op,
    segment,
    token::Token,
};
use duramen_attachments::functions::{ClusterError, Controlling, Filter, FunctionsError, InspectError};
use duramen_branches::{EngineError, Kind};
use hyper::header::{HeaderValue, LINK};
use serde_json::json as object;

/// Instances on a page when the request does not say how many.
const INSTANCES_PAGE: u32 = 200;

impl From<FunctionsError> for Refusal {
    fn from(error: FunctionsError) -> Refusal {
        let (kind, code, sqlstate) = match &error {
            FunctionsError::Busy { .. } => (Kind::Unavailable, "attachment_busy", None),
            FunctionsError::Request(_) => (Kind::Invalid, "bad_request", None),
            FunctionsError::Inspect(error) => match error {
                InspectError::Connect(_) | InspectError::Broken { .. } => {
                    (Kind::Unavailable, "database_unreachable", None)
                }
                InspectError::Late { .. } => (Kind::Timeout, "database_late", None),
                InspectError::Slow { .. } => (Kind::Timeout, "database_slow", None),
                InspectError::Schema(_) | InspectError::OtherFunctions { .. } => {
                    (Kind::Conflict, "no_functions", None)
                }
                InspectError::Unknown(_) => (Kind::NotFound, "unknown_instance", None),
                InspectError::Invalid(_) => (Kind::Invalid, "bad_request", None),
                InspectError::Refused { sqlstate, .. } => {
                    (Kind::Sql, "refused_by_database", Some(sqlstate.clone()))
                }
                _ => (Kind::Failed, "attachment_failed", None),
            },
            FunctionsError::Shards(ClusterError::Connect(_)) => {
                (Kind::Unavailable, "database_unreachable", None)
            }
            FunctionsError::Shards(ClusterError::Late { .. }) => (Kind::Timeout, "database_late", None),
            FunctionsError::Shards(ClusterError::Schema(_)) => (Kind::Conflict, "no_functions", None),
            // `Failed`, and what is added later.
            _ => (Kind::Failed, "attachment_failed", None),
        };
        EngineError { sqlstate, ..EngineError::new(kind, code, error.to_string()) }.into()
    }
}

impl Api {
    /// Answers what is asked of the durable functions of an attachment.
    pub(crate) async fn functions(&self, call: &Call<'_>) -> Answer {
        let (name, sessions) = (call.name, &self.attachments.databases);
        let url = self.attachments.registry()?.find(name, AttachmentKind::Functions)?;
        match call.endpoint.op {
            Op::Functions => json(&sessions.overview(name, &url).await?),
            Op::FunctionInstances => self.function_instances(call, &url).await,
            Op::FunctionInstance => json(&sessions.instance(name, &url, &call.needed("id")?).await?),
            Op::FunctionQueues => json(&sessions.queues(name, &url).await?),
            Op::FunctionSchedules => json(&sessions.schedules(name, &url).await?),
            Op::FunctionShards => json(&sessions.shards(name, &url).await?),
            _ => Err(call.not_here()),
        }
    }

    /// A page of instances; where the next one begins is in the header `Link` (RFC 8288).
    async fn function_instances(&self, call: &Call<'_>, url: &str) -> Answer {
        let limit = page::limit(call)?.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(INSTANCES_PAGE);
        // What is empty is not wanted.
        let wanted = |name: &str| -> Result<Option<String>, Refusal> {
            Ok(call.parameter(name)?.filter(|text| !text.is_empty()).map(|text| text.into_owned()))
        };
        let filter = Filter { status: wanted("status")?, queue: wanted("queue")?, search: wanted("search")? };
        let cursor = wanted("cursor")?;
        let page = self.attachments.databases.page(call.name, url, filter.clone(), limit, cursor).await?;
        let mut response = json(&page.instances)?;
        if let Some(next) = page.next {
            let mut link = String::from("<");
            let (before, after) = call.endpoint.path.split_once("{name}").unwrap_or(("", ""));
            link.push_str(before);
            segment::escape(call.name, &mut link);
            link.push_str(after);
            link.push_str(&format!("?limit={limit}"));
            let Filter { status, queue, search } = filter;
            let parts = [("status", status), ("queue", queue), ("search", search), ("cursor", Some(next))];
            for (name, value) in parts {
                let Some(value) = value else { continue };
                link.push_str(&format!("&{name}="));
                segment::escape(&value, &mut link);
            }
            link.push_str(">; rel=\"next\"");
            // What is escaped fits into a header.
            if let Ok(link) = HeaderValue::try_from(link) {
                response.headers_mut().insert(LINK, link);
            }
        }
        Ok(response)
    }

    /// Does something with one instance. What is not in the audit log is not done.
    pub(crate) async fn control_function(
        &self,
        name: &str,
        token: Option<&Token>,
        wanted: ControlFunction,
    ) -> Answer {
        let url = self.attachments.registry()?.find(name, AttachmentKind::Functions)?;
        let wanted = Controlling::read(wanted)?;
        let noted = object!({
            "attachment": name, "instance": wanted.id(), "action": wanted.word(), "detail": wanted.detail(),
            "token": token.map(|token| &token.id), "token_name": token.map(|token| &token.name),
        });
        self.engine.note("function_controlled", noted)?;
        json(&self.attachments.databases.control(name, &url, wanted).await?)
    }
}

//! The list of branches, of all nodes.

use super::Peers;
use crate::{
    api::{Answer, Call},
    caller::Caller,
    holders::onlooker,
    page,
    reply::Refusal,
};
use axum::body::Body;
use duramen_api::{fleet::MISSING, model::BranchView, route::PAGE_MAX, segment};
use duramen_fleet::view::NodeState;
use http_body_util::{BodyExt, Limited};
use hyper::header::HeaderValue;
use std::time::Duration;
use tokio::time::timeout;

/// How long a node has to say what it holds.
const LIMIT: Duration = Duration::from_secs(1);
/// The longest answer.
const ANSWER_MAX: usize = 64 << 20;

impl Peers {
    /// The branches of all nodes that answer, and which do not.
    pub(super) async fn list(&self, call: &Call<'_>, caller: &Caller) -> Answer {
        let target = target(call)?;
        let nodes = self.fleet.view().nodes();
        let mut missing = Vec::new();
        let mut asked = Vec::new();
        for node in nodes.into_iter().filter(|node| node.name != self.fleet.node()) {
            match node.state {
                NodeState::Ready | NodeState::Draining => asked.push(node.name),
                NodeState::Unreachable | NodeState::Lost if node.names > 0 => {
                    missing.push(format!("{} ({})", node.name, node.state));
                }
                NodeState::Unreachable | NodeState::Lost => {}
            }
        }
        let mut list = self.own(caller);
        let answers = asked.iter().map(|node| timeout(LIMIT, self.branches_on(node, call, &target, caller)));
        for (node, answer) in asked.iter().zip(all(answers).await) {
            match answer {
                Ok(Ok(of_node)) => list.extend(of_node),
                Ok(Err(refusal)) => {
                    tracing::warn!(node, why = refusal.body.message, "a node does not say what it holds");
                    missing.push(format!("{node} ({})", refusal.body.code));
                }
                Err(_) => missing.push(format!("{node} (no answer within {} ms)", LIMIT.as_millis())),
            }
        }
        list.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.id.cmp(&b.id)));
        let mut response = page::reply(call, list, |branch| &branch.name)?;
        if let Ok(value) = HeaderValue::try_from(missing.join(", ")) {
            if !missing.is_empty() {
                response.headers_mut().insert(MISSING, value);
            }
        }
        Ok(response)
    }

    fn own(&self, caller: &Caller) -> Vec<BranchView> {
        let mut own = match caller {
            Caller::Holder(visitor) => {
                let views = self.engine.branches_of(&onlooker(&visitor.token));
                views.into_iter().map(|view| visitor.shown(view)).collect()
            }
            _ => self.engine.branches(),
        };
        own.iter_mut().for_each(|branch| branch.node = Some(self.fleet.node().to_owned()));
        own
    }

    async fn branches_on(
        &self,
        node: &str,
        call: &Call<'_>,
        target: &str,
        caller: &Caller,
    ) -> Result<Vec<BranchView>, Refusal> {
        // All of it within the limit of who waits for it.
        let response = self.ask(node, (call, target), caller, Body::empty()).await?;
        let status = response.status();
        let text = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        let text = text.map_err(|error| super::connections::unreachable(node, "", error))?.to_bytes();
        if !status.is_success() {
            return Err(Refusal::new(status, "refused", String::from_utf8_lossy(&text)));
        }
        let mut views: Vec<BranchView> = serde_json::from_slice(&text)
            .map_err(|error| super::connections::unreachable(node, "", error))?;
        views.iter_mut().for_each(|branch| branch.node = Some(node.to_owned()));
        Ok(views)
    }
}

/// What other nodes are asked: the same page, and one more, by which it is known that there are more.
fn target(call: &Call<'_>) -> Result<String, Refusal> {
    let mut target = call.endpoint.path.to_owned();
    let mut mark = '?';
    if let Some(limit) = page::limit(call)? {
        let one_more = u32::try_from(limit).unwrap_or(PAGE_MAX).saturating_add(1).min(PAGE_MAX);
        target.push_str(&format!("?limit={one_more}"));
        mark = '&';
    }
    if let Some(cursor) = call.parameter("cursor")? {
        target.push(mark);
        target.push_str("cursor=");
        segment::escape(&cursor, &mut target);
    }
    Ok(target)
}

/// Has all of them done beside each other.
pub(super) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_done = true;
        for (future, done) in &mut pending {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(output) => *done = Some(output),
                    std::task::Poll::Pending => is_done = false,
                }
            }
        }
        if is_done {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    pending.into_iter().filter_map(|(_, done)| done).collect()
}

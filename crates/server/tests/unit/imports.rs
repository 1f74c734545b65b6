//! An import takes minutes: its client must hear of every step, of every failure, and of the daemon's end.

use super::{run, Ending, Form, Reporter};
use crate::order::{Order, Orders};
use duramen_api::model::{Progress, SourceView};
use duramen_branches::{EngineError, Kind};
use http_body_util::BodyExt;
use hyper::StatusCode;
use std::{future::pending, future::Future, time::Duration};
use tokio::time::timeout;

async fn lines<F, Fut>(ending: Ending, import: F) -> Vec<Progress>
where
    F: FnOnce(Reporter) -> Fut,
    Fut: Future<Output = Result<SourceView, EngineError>> + Send + 'static,
{
    let response = run(Form::Lines, ending, import).await.expect("it begins");
    assert_eq!(response.status(), StatusCode::OK);
    let body =
        timeout(Duration::from_secs(10), response.into_body().collect()).await.expect("it ends").unwrap();
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn source() -> SourceView {
    serde_json::from_str(
        r#"{"name":"a","origin":"script","database":"a","generation":1,"imported_at":"2024-01-01T00:00:00Z",
            "server_version":"18.6","bytes":1,"digest":"d","sanitised":[],"branches_by_generation":{},
            "settings":{}}"#,
    )
    .unwrap()
}

fn failure() -> EngineError {
    EngineError::new(Kind::Conflict, "name_clash", "there is a source `a` already")
}

#[tokio::test]
async fn steps_come_in_order_and_the_source_last() {
    let orders = Orders::new();
    let import = |report: Reporter| async move {
        report("copying", Some(0.5));
        report("checking", None);
        Ok(source())
    };
    match lines(orders.ending(), import).await.as_slice() {
        [Progress::Step { doing: one, fraction: Some(half) }, Progress::Step { doing: two, fraction: None }, Progress::Done(source)] =>
        {
            assert_eq!((one.as_str(), two.as_str(), source.name.as_str()), ("copying", "checking", "a"));
            assert_eq!(*half, 0.5);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failure_before_the_first_step_is_a_status() {
    let orders = Orders::new();
    let refusal = run(Form::Lines, orders.ending(), |_tell| async { Err(failure()) }).await.unwrap_err();
    assert_eq!(refusal.status, StatusCode::CONFLICT);
    assert_eq!(refusal.body.code, "name_clash");
}

#[tokio::test]
async fn a_later_failure_is_the_last_line() {
    let orders = Orders::new();
    let import = |report: Reporter| async move {
        report("copying", None);
        Err(failure())
    };
    let lines = lines(orders.ending(), import).await;
    assert!(matches!(lines.last(), Some(Progress::Failed(body)) if body.code == "name_clash"), "{lines:?}");
}

#[tokio::test]
async fn a_daemon_that_stops_ends_the_import_and_says_so() {
    let orders = Orders::new();
    let told = orders.clone();
    let import = |report: Reporter| async move {
        report("copying", None);
        told.give(Order::Stop);
        // Held, as the daemon holds it.
        let _told = told;
        pending().await
    };
    let lines = lines(orders.ending(), import).await;
    assert!(matches!(lines.last(), Some(Progress::Failed(body)) if body.code == "stopping"), "{lines:?}");
}

#[tokio::test]
async fn an_import_that_crashes_is_told_as_a_failure() {
    let orders = Orders::new();
    let refusal =
        run(Form::Lines, orders.ending(), |_tell| async { panic!("made on purpose") }).await.unwrap_err();
    assert_eq!(refusal.status, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn an_import_ends_when_its_client_leaves() {
    let orders = Orders::new();
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let import = |report: Reporter| async move {
        report("copying", None);
        // Closed when this is dropped.
        let _ended = ended;
        pending().await
    };
    drop(run(Form::Lines, orders.ending(), import).await.unwrap());
    timeout(Duration::from_secs(10), end).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn events_say_what_lines_say() {
    let orders = Orders::new();
    let import = |report: Reporter| async move {
        report("copying", Some(0.5));
        Err(failure())
    };
    let response = run(Form::Events, orders.ending(), import).await.expect("it begins");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body =
        timeout(Duration::from_secs(10), response.into_body().collect()).await.expect("it ends").unwrap();
    let text = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    let mut events = Vec::new();
    for event in text.split_terminator("\n\n") {
        let (name, data) = event.split_once('\n').expect("a name and data");
        let data: Progress = serde_json::from_str(data.strip_prefix("data: ").expect("data")).unwrap();
        events.push((name.strip_prefix("event: ").expect("a name"), data));
    }
    match events.as_slice() {
        [("step", Progress::Step { doing, .. }), ("failed", Progress::Failed(error))] => {
            assert_eq!((doing.as_str(), error.code.as_str()), ("copying", "name_clash"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_are_for_those_who_accept_them() {
    let form = |accept: &str| {
        let mut headers = hyper::HeaderMap::new();
        headers.insert("accept", accept.parse().unwrap());
        Form::accepted(&headers)
    };
    assert_eq!(form("text/event-stream"), Form::Events);
    assert_eq!(form("application/json, Text/Event-Stream;q=0.5"), Form::Events);
    assert_eq!(form("*/*"), Form::Lines);
    assert_eq!(Form::accepted(&hyper::HeaderMap::new()), Form::Lines);
}

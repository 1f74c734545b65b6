use tokio::process::Command;

use super::{job, Process, Reply};
use crate::branches::client::Lived;
use crate::branches::tests::{names, plan};

fn reply(change: impl FnOnce(&mut Reply)) -> Reply {
    let text = r#"{"id": 0, "step": "end", "connect_ms": 3.5, "first_query_ms": 5, "second_query_ms": 0.7,
                   "write_ms": 2, "answers": [[[1]], [[1]], [["17"]]]}"#;
    let mut reply: Reply = serde_json::from_str(text).unwrap();
    change(&mut reply);
    reply
}

async fn stand_in(script: &str) -> Result<Process, super::NodeError> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Process::start_with(command).await
}

#[test]
fn a_reply_becomes_figures_of_their_own_names() {
    let mut lived = Lived::default();
    reply(|_| {}).judge(&plan(), &mut lived).unwrap();
    let figures =
        ["node_pg_connect_ms", "node_pg_first_query_ms", "node_pg_second_query_ms", "node_pg_write_ms"];
    assert_eq!(names(&lived), figures);
    assert_eq!(lived.others[2].1.as_micros(), 700);
}

#[test]
fn what_went_wrong_has_no_latency_and_is_told() {
    let judge = |change: fn(&mut Reply)| {
        let mut lived = Lived::default();
        let failure = reply(change).judge(&plan(), &mut lived).unwrap_err();
        (failure, names(&lived).len())
    };
    let (failure, figures) = judge(|reply| reply.answers[1][0][0] = 2.into());
    assert_eq!((failure.step, figures), ("second query", 2));
    assert!(failure.message.contains("expected [[1]], got [[2]]"), "{}", failure.message);
    let (failure, figures) = judge(|reply| reply.answers[2].clear());
    assert_eq!((failure.step, figures), ("write", 3));
    let (failure, figures) = judge(|reply| {
        reply.answers.truncate(1);
        (reply.step, reply.error) = ("second query".to_owned(), Some("deadlock detected".to_owned()));
        reply.sqlstate = Some("40P01".to_owned());
    });
    assert_eq!((failure.step, failure.deadlock, figures), ("second query", true, 2));
    let (failure, _) = judge(|reply| reply.answers.truncate(2));
    assert!(failure.message.contains("2 answers instead of 3"), "{}", failure.message);
}

#[test]
fn a_job_holds_values_beside_its_statements() {
    let job = job(7, "postgresql:///d", &plan());
    assert_eq!(job["reads"][0]["text"], "select 1");
    assert_eq!(job["write"]["values"][1], "delayed");
    assert!(job["limit_ms"].as_u64().unwrap() > 60_000 && !job.to_string().contains('\n'), "{job}");
}

#[tokio::test]
async fn answers_go_to_those_who_asked() {
    let script = r#"echo '{"ready": true}'; read -r a; read -r b; echo noise
        for id in 1 0; do
            printf '{"id": %s, "step": "end", "first_query_ms": %s, "answers": [[[1]],[[1]],[[1]]]}\n' $id $id
        done; read -r c"#;
    let process = stand_in(script).await.unwrap();
    let handle = process.handle();
    let (plan, mut one, mut two) = (plan(), Lived::default(), Lived::default());
    let (first, second) = tokio::join!(handle.work("", &plan, &mut one), handle.work("", &plan, &mut two));
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert_eq!((one.others[0].1.as_millis(), two.others[0].1.as_millis()), (0, 1));
    process.stop().await;
}

#[tokio::test]
async fn a_process_that_ends_is_told_with_its_complaint() {
    let process = stand_in(r#"echo '{"ready": true}'; echo 'out of memory' >&2; read -r job"#).await.unwrap();
    let (handle, plan) = (process.handle(), plan());
    for _ in 0..2 {
        let failure = handle.work("", &plan, &mut Lived::default()).await.unwrap_err();
        assert!(failure.message.contains("has ended"), "{}", failure.message);
    }
    process.stop().await;
    let Err(error) = stand_in("echo 'no module pg' >&2; exit 1").await else { panic!("it was never ready") };
    let error = error.to_string();
    assert!(error.contains("ended before it was ready: no module pg"), "{error}");
}

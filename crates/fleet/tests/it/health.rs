//! How etcd is, as a node sees it.

use crate::bed::{until, Bed};
use etcd_client::{AlarmAction, AlarmType};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn members_are_asked_one_by_one_and_how_many_may_fail_is_known() {
    let bed = Bed::new(3).await;
    let a = bed.node("a").await;
    let health = a.etcd_health().await;
    assert_eq!((health.voting, health.quorum, health.present, health.problem.clone()), (3, 2, 3, None));
    let names: Vec<_> = health.members.iter().map(|member| member.name.clone().unwrap()).collect();
    assert_eq!(names, ["e0", "e1", "e2"]);
    let said = health.members.iter().map(|member| member.said.clone().unwrap());
    assert_eq!(said.clone().filter(|said| said.leads).count(), 1);
    assert!(said.clone().all(|said| said.size > 0 && said.is_led && said.errors.is_empty()));
    // One is held: the rest go on, and it is told which. A second one: nothing is confirmed.
    bed.etcd.members()[0].hold(true);
    until("two are there", async || {
        let health = a.etcd_health().await;
        health.present == 2 && health.read.is_some()
    })
    .await;
    let health = a.etcd_health().await;
    assert!(health.members[0].problem.is_some() && health.members[0].address.is_some(), "{health:?}");
    assert_eq!(health.members.len(), 3, "the one that is silent is told once");
    bed.etcd.members()[1].hold(true);
    until("there is no quorum", async || {
        let health = a.etcd_health().await;
        health.read.is_none() && health.present < health.quorum && health.quorum == 2
    })
    .await;
    let begin = duramen_base::clock::now();
    drop(a.etcd_health().await);
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    bed.hold(false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_the_address_does_not_have_is_told() {
    let bed = Bed::new(3).await;
    let mut settings = bed.settings("a");
    settings.etcd.members.pop();
    let a = bed.joining(settings);
    crate::bed::registered(&a).await;
    let health = a.etcd_health().await;
    assert_eq!((health.voting, health.present, health.members.len()), (3, 2, 3), "{health:?}");
    let last = health.members.last().unwrap();
    assert_eq!((last.address.as_deref(), last.name.as_deref()), (None, Some("e2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_is_told_by_the_members() {
    let bed = Bed::new(1).await;
    let a = bed.node("a").await;
    let mut client = bed.client().await;
    client.alarm(AlarmAction::Activate, AlarmType::Nospace, None).await.unwrap();
    until("the alarm is told", async || {
        let health = a.etcd_health().await;
        let said = health.members[0].said.clone();
        said.is_some_and(|said| said.errors.iter().any(|error| error.contains("NOSPACE")))
    })
    .await;
    client.alarm(AlarmAction::Deactivate, AlarmType::Nospace, None).await.unwrap();
    until("it is over", async || {
        let health = a.etcd_health().await;
        health.members[0].said.as_ref().is_some_and(|said| said.errors.is_empty())
    })
    .await;
}

use super::*;
use duramen_api::model::Policy;
use duramen_base::clock;
use jiff::Timestamp;

fn branch(name: &str) -> BranchView {
    BranchView {
        name: name.to_owned(),
        id: format!("b-{name}"),
        source: "app".to_owned(),
        generation: 1,
        policy: Policy::ReadWrite,
        data: "full".to_owned(),
        durable: false,
        url: String::new(),
        created_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
        protected: false,
        state: "ready".to_owned(),
        problem: None,
        holder: None,
        disk: None,
        parent: None,
        existing: false,
        node: None,
    }
}

/// M4.
#[test]
fn a_branch_is_renewed_when_a_third_of_its_time_is_over_and_once() {
    let (renewals, begin) = (Renewals::default(), clock::now());
    renewals.note(&branch("a"), 900, begin);
    let after = |seconds| begin + Duration::from_secs(seconds);
    assert_eq!(renewals.due("a", after(299)), None);
    assert_eq!(renewals.due("a", after(300)), Some(("b-a".to_owned(), 900)));
    assert_eq!(renewals.due("a", after(301)), None, "it was just renewed");
    assert_eq!(renewals.due("a", after(600)), Some(("b-a".to_owned(), 900)));
    assert_eq!(renewals.due("b", after(600)), None);
    renewals.forget("a");
    assert_eq!(renewals.due("a", after(6000)), None);
}

/// M4, M5.
#[test]
fn no_more_branches_are_remembered_than_there_is_room_for() {
    let (renewals, begin) = (Renewals::default(), clock::now());
    for number in 0..BRANCHES_MAX + 10 {
        renewals.note(&branch(&format!("n{number}")), 900, begin + Duration::from_millis(number as u64));
    }
    assert_eq!(renewals.0.lock().unwrap().len(), BRANCHES_MAX);
    let later = begin + Duration::from_secs(900);
    assert_eq!(renewals.due("n0", later), None);
    assert!(renewals.due("n10", later).is_some());
}

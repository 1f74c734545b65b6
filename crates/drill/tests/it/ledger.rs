//! What is lost, what is unknown, and who acknowledged beside another one (DR1 to DR3 of `docs/design/drills.md`).

use duramen_drill::ledger::{Account, Attempt, Ledger};
use std::collections::HashSet;
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn attempt(client: i32, number: i64, node: usize, [begin, end]: [u64; 2], is_acknowledged: bool) -> Attempt {
    Attempt { client, number, node, begin: ms(begin), end: ms(end), is_acknowledged }
}

/// Node 0 leads, hangs, and comes back after node 1 has acknowledged a row.
fn ledger() -> Ledger {
    let ledger = Ledger::new();
    for it in [
        attempt(0, 1, 0, [0, 10], true),
        attempt(1, 1, 0, [5, 20], true),
        // Under way when it hung: told after the new one had acknowledged others, but sent before.
        attempt(0, 2, 0, [30, 500], true),
        attempt(1, 2, 0, [30, 90], false),
        attempt(1, 3, 1, [400, 410], true),
        // Sent to the old one when another one led.
        attempt(2, 1, 0, [450, 460], true),
        attempt(1, 4, 1, [420, 430], true),
    ] {
        ledger.note(it);
    }
    ledger
}

#[test]
fn what_was_acknowledged_and_is_not_there_is_lost() {
    let there: HashSet<(i32, i64)> = [(0, 1), (1, 1), (1, 2), (1, 3), (1, 4), (9, 9)].into_iter().collect();
    let account = ledger().account(&there, 0);
    let wanted = Account { attempted: 7, acknowledged: 6, lost: 2, unacknowledged: 1, strange: 1, split: 1 };
    assert_eq!(account, wanted);
    let all: HashSet<(i32, i64)> = ledger().attempts().iter().map(|it| (it.client, it.number)).collect();
    assert_eq!(ledger().account(&all, 0).lost, 0);
}

#[test]
fn a_gap_reaches_from_the_last_row_before_to_the_first_one_after() {
    let ledger = ledger();
    let of = |window, client: i32| ledger.longest_gap(window, |it| it.client == client);
    assert_eq!(ledger.longest_gap([ms(25), ms(440)], |_| true), ms(390), "from 20 to 410");
    assert_eq!(of([ms(25), ms(600)], 0), ms(490), "from 10 to 500");
    // What never comes back is as long as it was waited for.
    assert_eq!(of([ms(15), ms(2_000)], 0), ms(1_500));
    assert_eq!(of([ms(25), ms(300)], 7), ms(275), "a client that never wrote");
    assert_eq!(ledger.first_after(ms(25), |node| node != 0), Some(ms(410)));
    assert_eq!(ledger.first_after(ms(440), |node| node != 0), None);
    assert_eq!(ledger.last(), Some(ms(500)));
    assert_eq!(ledger.stopped([ms(25), ms(450)]), Some(ms(20)));
    assert_eq!(ledger.stopped([ms(600), ms(700)]), None);
}

#[test]
fn so_many_errors_are_told_apart() {
    let ledger = Ledger::new();
    for number in 0..300 {
        ledger.complain(&format!("error {number}"));
        ledger.complain("the same");
    }
    let errors = ledger.errors();
    assert!(errors.len() <= 101, "{}", errors.len());
    assert_eq!(errors["the same"], 300);
    assert_eq!(errors.values().sum::<u64>(), 600);
}

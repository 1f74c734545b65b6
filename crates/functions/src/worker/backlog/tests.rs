use super::*;

fn queue(name: &str, waiting: u64) -> Queue {
    Queue { name: name.to_owned(), waiting, ..Queue::default() }
}

fn many(prefix: &str, count: usize) -> Vec<Queue> {
    (0..count).map(|index| queue(&format!("{prefix} {index}"), 1)).collect()
}

#[test]
fn a_thousand_queues_are_shown_as_fifty_and_their_rest() {
    let (shown, others) = Names::default().choose(many("q", 1_000), clock::now());
    assert_eq!(shown.len(), QUEUES_MAX);
    assert_eq!(others.waiting, 950);
    assert_eq!(others.name, "");
}

#[test]
fn whoever_renames_queues_all_the_time_makes_few_series() {
    let (mut names, began) = (Names::default(), clock::now());
    let mut seen = std::collections::HashSet::new();
    // An hour, with fifty new names every ten seconds.
    for round in 0..360 {
        let now = began + KEEP * round;
        let (shown, others) = names.choose(many(&round.to_string(), 50), now);
        assert_eq!(shown.len() as u64 + others.waiting, 50, "nothing is lost");
        seen.extend(shown.into_iter().map(|queue| queue.name));
    }
    assert!((105..=110).contains(&seen.len()), "{} names in an hour", seen.len());
    assert!(names.shown.len() <= NAMES_MAX);
}

#[test]
fn a_name_that_was_shown_stays() {
    let (mut names, began) = (Names::default(), clock::now());
    names.choose(vec![queue("mail", 1)], began);
    names.choose(many("new", 60), began);
    let (shown, _) = names.choose([vec![queue("mail", 2)], many("newer", 60)].concat(), began);
    assert_eq!(shown, [queue("mail", 2)]);
}

#[test]
fn a_hostile_name_cannot_end_its_line() {
    let name = "a\"} 1\nduramen_functions_fake 7\\";
    let read = Read {
        ready: 3,
        oldest_s: Some(-1.5),
        working: 0,
        activities: 0,
        shown: vec![queue(name, 5)],
        others: Queue::default(),
    };
    let text = read.prometheus();
    assert!(!text.lines().any(|line| line.starts_with("duramen_functions_fake")), "{text}");
    assert!(
        text.contains(
            "duramen_functions_queue_waiting{queue=\"a\\\"} 1\\nduramen_functions_fake 7\\\\\"} 5\n"
        ),
        "{text}"
    );
    assert!(text.contains("duramen_functions_ready_oldest_seconds 0\n"), "{text}");
}

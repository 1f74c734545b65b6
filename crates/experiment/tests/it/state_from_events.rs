//! What a series has come to follows from its events, after a kill as before it.

use crate::support;
use crate::support::{begun, ended, judgement, noise, sample, segment};
use duramen_experiment::{
    event::{Event, Purpose, Verdict},
    log::{Entry, NO_DIGEST},
    state::State,
};

fn entries(events: Vec<Event>) -> Vec<Entry> {
    let entry = |(seq, event)| Entry {
        seq,
        at: jiff::Timestamp::from_second(1_800_000_000 + i64::try_from(seq).unwrap()).unwrap(),
        prev: NO_DIGEST.to_owned(),
        event,
    };
    (1..).zip(events).map(entry).collect()
}

fn state(events: Vec<Event>) -> State {
    State::from_entries(&entries(events))
}

fn overridden(number: u32, verdict: Verdict, head: &str) -> Event {
    Event::Overridden { number, verdict, reason: "so".to_owned(), head: head.to_owned() }
}

/// A try that came to this verdict, on and with this head.
fn whole(number: u32, verdict: Verdict, reason: &str, base: &str, head: &str) -> [Event; 2] {
    let candidate = format!("candidate{number}");
    [begun(number, base, &candidate, "it is faster"), ended(number, judgement(verdict, reason, None), head)]
}

#[test]
fn a_whole_series_is_understood() {
    let state = state(support::events());
    assert_eq!(state.oddities, Vec::<String>::new());
    let current = state.current().unwrap();
    assert_eq!((current.number, current.start.as_str(), current.head.as_str()), (1, "c0", "c0"));
    assert!(current.keeps.is_empty(), "the only keep was taken out by hand");
    let first = state.find_try(1).unwrap();
    assert_eq!(first.verdict(), Some(Verdict::Discard));
    assert_eq!(first.judgement.as_ref().unwrap().verdict, Verdict::Keep, "what was computed stays");
    assert_eq!((first.samples.len(), first.confirmation.len(), first.checks.len()), (2, 1, 1));
    assert_eq!(current.current_noise().unwrap().samples.len(), 2);
    assert_eq!((state.next_try(), state.next_idea()), (3, 2));
    assert_eq!(state.closed_axes().map(|axis| axis.axis.as_str()).collect::<Vec<_>>(), ["unrolling"]);
    assert_eq!((state.imported.len(), state.stops.len()), (1, 1));
    assert_eq!((current.replays.len(), current.ablations.len()), (1, 1));
}

#[test]
fn a_prefix_of_the_events_is_the_state_at_that_moment() {
    let all = entries(support::events());
    let mut step_by_step = State::default();
    for (index, entry) in all.iter().enumerate() {
        step_by_step.apply(entry);
        assert_eq!(step_by_step, State::from_entries(&all[..=index]));
    }
}

#[test]
fn the_head_is_start_plus_keeps() {
    let mut events = vec![segment(1, "start")];
    events.extend(whole(1, Verdict::Keep, "", "start", "h1"));
    events.extend(whole(2, Verdict::Discard, "", "h1", "h1"));
    events.extend(whole(3, Verdict::Keep, "", "h1", "h3"));
    let kept = |events: &[Event]| {
        let state = state(events.to_vec());
        let current = state.current().unwrap().clone();
        (current.head, current.keeps.iter().map(|kept| kept.number).collect::<Vec<_>>())
    };
    assert_eq!(kept(&events), ("h3".to_owned(), vec![1, 3]));
    // By hand: the first out, the second in.
    events.push(overridden(1, Verdict::Discard, "h4"));
    assert_eq!(kept(&events), ("h4".to_owned(), vec![3]));
    events.push(overridden(2, Verdict::Keep, "h5"));
    assert_eq!(kept(&events), ("h5".to_owned(), vec![3, 2]));
    // Twice the same changes nothing.
    events.push(overridden(2, Verdict::Keep, "h5"));
    assert_eq!(kept(&events), ("h5".to_owned(), vec![3, 2]));
    let state = state(events);
    assert_eq!(state.current().unwrap().keeps[1].commit, "candidate2");
    assert_eq!(state.find_try(2).unwrap().overrides.len(), 2);
}

#[test]
fn an_open_try_keeps_its_samples_until_it_ends() {
    let mut events = vec![segment(1, "c0"), begun(7, "c0", "c7", "it is faster")];
    events.push(sample(Purpose::Try(7), 0, 0, 1.0));
    events.push(sample(Purpose::Try(7), 0, 1, 2.0));
    events.push(sample(Purpose::Confirm(7), 0, 0, 3.0));
    let open = state(events.clone());
    assert_eq!(open.open_try().unwrap().number, 7);
    assert_eq!(open.current().unwrap().samples(Purpose::Try(7)).len(), 2);
    assert_eq!(open.current().unwrap().samples(Purpose::Confirm(7)).len(), 1);
    assert!(open.current().unwrap().samples(Purpose::Try(8)).is_empty());
    events.push(ended(7, judgement(Verdict::Inconclusive, "", None), "c0"));
    let over = state(events);
    assert_eq!(over.open_try(), None);
    assert_eq!(over.current().unwrap().samples(Purpose::Try(7)).len(), 2);
    assert_eq!(over.next_try(), 8);
}

#[test]
fn a_new_baseline_begins_anew_and_forgets_nothing() {
    let mut events = vec![segment(1, "c0")];
    events.extend(whole(1, Verdict::Keep, "", "c0", "c1"));
    events.push(segment(2, "c1"));
    let state = state(events);
    let current = state.current().unwrap();
    assert_eq!((current.number, current.head.as_str(), current.tries.len()), (2, "c1", 0));
    assert!(current.keeps.is_empty());
    assert_eq!(state.find_try(1).unwrap().verdict(), Some(Verdict::Keep));
    assert_eq!(state.next_try(), 2, "numbers are those of the series");
}

#[test]
fn unfinished_measurements_are_gone_on_with_and_finished_ones_are_not() {
    let ablated =
        Event::Ablated { number: 1, head: "c1".to_owned(), judgement: None, words: "it helps".to_owned() };
    let mut events = vec![segment(1, "c0"), sample(Purpose::Noise(0), 0, 0, 1.0)];
    assert_eq!(state(events.clone()).current().unwrap().samples(Purpose::Noise(0)).len(), 1);
    events.push(noise("c0", 0.01));
    assert!(state(events.clone()).current().unwrap().samples(Purpose::Noise(0)).is_empty());
    events.extend(whole(1, Verdict::Keep, "", "c0", "c1"));
    events.push(sample(Purpose::Ablate(1), 0, 0, 1.0));
    events.push(sample(Purpose::Replay(1), 0, 0, 1.0));
    assert_eq!(state(events.clone()).current().unwrap().samples(Purpose::Ablate(1)).len(), 1);
    let mut finished = events.clone();
    finished.push(ablated);
    let finished = state(finished);
    assert!(finished.current().unwrap().samples(Purpose::Ablate(1)).is_empty());
    assert_eq!(finished.current().unwrap().samples(Purpose::Replay(1)).len(), 1, "that one has not ended");
    // Of another head, they would be compared with what they do not belong to.
    events.extend(whole(2, Verdict::Keep, "", "c1", "c2"));
    let moved = state(events);
    assert!(moved.current().unwrap().samples(Purpose::Ablate(1)).is_empty());
    assert!(moved.current().unwrap().samples(Purpose::Replay(1)).is_empty());
}

#[test]
fn the_rules_of_stopping_are_counted() {
    let mut events = vec![segment(1, "c0")];
    events.extend(whole(1, Verdict::Keep, "", "c0", "c1"));
    events.extend(whole(2, Verdict::Crash, "exit status 2", "c1", "c1"));
    events.extend(whole(3, Verdict::Crash, "exit status 3", "c1", "c1"));
    events.extend(whole(4, Verdict::Crash, "exit status 3", "c1", "c1"));
    let count = |events: &[Event]| {
        let state = state(events.to_vec());
        let current = state.current().unwrap();
        (current.since_keep(), current.same_failure())
    };
    assert_eq!(count(&events), (3, 2));
    events.push(begun(5, "c1", "c5", "open ones do not count"));
    assert_eq!(count(&events), (3, 2));
    events.push(ended(5, judgement(Verdict::Discard, "exit status 3", None), "c1"));
    assert_eq!(count(&events), (4, 0));
    events.push(overridden(5, Verdict::Keep, "c5"));
    assert_eq!(count(&events), (0, 0));
}

#[test]
fn ideas_come_by_rank_and_the_last_word_on_each_counts() {
    let idea = |idea: u32, rank: f64, done: bool| Event::Idea {
        idea,
        rank,
        text: format!("idea {idea} at {rank}"),
        mechanism: String::new(),
        done,
    };
    let state = state(vec![
        idea(1, 1.0, false),
        idea(2, 5.0, false),
        idea(3, 5.0, false),
        idea(1, 9.0, false),
        idea(2, 5.0, true),
    ]);
    let texts: Vec<&str> = state.open_ideas().iter().map(|idea| idea.text.as_str()).collect();
    assert_eq!(texts, ["idea 1 at 9", "idea 3 at 5"]);
    assert_eq!(state.next_idea(), 4);
}

#[test]
fn what_does_not_hang_together_is_said() {
    let cases = [
        vec![noise("c0", 0.5)],
        vec![segment(1, "c0"), sample(Purpose::Try(3), 0, 0, 1.0)],
        vec![segment(1, "c0"), ended(3, judgement(Verdict::Keep, "", None), "c9")],
        vec![segment(1, "c0"), begun(1, "c0", "c1", "a"), begun(2, "c0", "c2", "b")],
        vec![segment(1, "c0"), begun(1, "c0", "c1", "a"), overridden(1, Verdict::Keep, "c1")],
    ];
    for events in cases {
        let line = events.len();
        let state = state(events);
        assert_eq!(state.oddities.len(), 1, "{:?}", state.oddities);
        assert!(state.oddities[0].starts_with(&format!("line {line}: ")), "{:?}", state.oddities);
        assert!(state.current().is_none_or(|current| current.head == "c0"), "it changes no head");
    }
}

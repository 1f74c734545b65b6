use duramen_traces::{Sampler, Traceparent};
use jiff::Timestamp;

use super::Trace;
use crate::interpret::Cell;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// T-2
#[test]
fn ids_are_the_same_in_every_turn_and_others_everywhere_else() {
    let at = |second: i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
    let trace = |identity, seq| Trace::new(identity, &Sampler::AlwaysOn, (seq, at(0)), None);
    let (cell, other) = (Cell::parse("3").unwrap(), Cell::parse("3#1").unwrap());
    let one = trace("a", 7);
    let again = trace("a", 7);
    assert_eq!((one.id, one.span()), (again.id, again.span()));
    assert_eq!(one.step_span(&cell, at(2)), again.step_span(&cell, at(2)));
    for others in [trace("b", 7), trace("a", 8)] {
        assert_ne!(one.id, others.id);
        assert_ne!(one.span(), others.span());
    }
    let spans =
        [one.span(), one.step_span(&cell, at(2)), one.step_span(&cell, at(3)), one.step_span(&other, at(2))];
    let distinct: std::collections::BTreeSet<_> = spans.iter().collect();
    assert_eq!(distinct.len(), spans.len());
}

#[test]
fn a_given_trace_goes_on_and_its_steps_hand_it_on() {
    let at = Timestamp::from_second(1_700_000_000).unwrap();
    let trace = Trace::new("a", &Sampler::ParentBased(Box::new(Sampler::AlwaysOff)), (7, at), Some(GIVEN));
    let cell = Cell::parse("0").unwrap();
    let handed_on = Traceparent::parse(&trace.of_step(&cell, at)).unwrap();
    let given = Traceparent::parse(GIVEN).unwrap();
    assert_eq!((trace.id, trace.parent), (given.trace, Some(given.span)));
    assert!(trace.is_sampled());
    assert_eq!(
        (handed_on.trace, handed_on.span, handed_on.sampled),
        (given.trace, trace.step_span(&cell, at), true)
    );
}

//! Which queues a screen and a line show.

use super::*;

fn queue(name: &str, waiting: i64, running: i64) -> Queue {
    Queue {
        name: name.to_owned(),
        role: "alice".to_owned(),
        state: "open".to_owned(),
        concurrency: None,
        worker_concurrency: None,
        rate: (name == "mail").then_some(100),
        per_s: (name == "mail").then_some(5.0),
        partition_by: None,
        partition_concurrency: None,
        waiting,
        delayed: 0,
        oldest_s: (waiting > 0).then_some(3.0),
        running,
        admitted: (name == "mail").then_some(12),
    }
}

#[test]
fn a_thousand_queues_do_not_push_the_workers_off_the_screen() {
    let mut queues: Vec<Queue> = (0..1_000).map(|index| queue(&format!("q{index}"), 0, 0)).collect();
    queues.push(queue("fullest", 9, 0));
    queues.push(queue("busiest", 0, 4));
    let text = fullest(&queues);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 22, "{text}");
    assert!(lines[1].starts_with("fullest") && lines[2].starts_with("busiest"), "{text}");
    assert_eq!(lines[21], "and 982 more queues");
    assert!(!fullest(&queues[..20]).contains("more"));
    assert!(fullest(&queues[..21]).ends_with("\nand 1 more queue\n"));
}

#[test]
fn a_line_names_the_fullest_queues_and_counts_the_rest() {
    assert_eq!(line(&[queue("empty", 0, 0)]), "");
    let seconds = text::seconds(3.0);
    let per = text::seconds(5.0);
    let queues = [queue("idle", 0, 0), queue("busy", 0, 2), queue("mail", 7, 1)];
    assert_eq!(
        line(&queues),
        format!("mail: waiting 7 (oldest {seconds}) running 1 let in 12 of 100 in {per}; busy: waiting 0 running 2")
    );
    let many: Vec<Queue> = (0..8).map(|index| queue(&format!("q{index}"), 1, 0)).collect();
    assert!(line(&many).ends_with("; 3 more"), "{}", line(&many));
}

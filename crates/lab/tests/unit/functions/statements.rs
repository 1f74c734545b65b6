//! Counting statements in a server's log.

use crate::functions::statements::{count_statements, Statements};

const AT: &str = "2026-03-01 12:00:00.000 UTC [4711] ";

fn counted(lines: &[&str]) -> Statements {
    let log: Vec<String> = lines.iter().map(|line| format!("{AT}{line}")).collect();
    count_statements(&log.join("\n"))
}

#[test]
fn statements_belong_to_who_sent_them() {
    let all = counted(&[
        "app/duramen fn client LOG:  execute s0: SELECT df.start($1, $2)",
        "app/duramen fn waiter LOG:  statement: LISTEN df_done",
        "postgres/duramen fn 0a1b2c3d-0000 LOG:  execute <unnamed>: SELECT df._finish($1)",
        "postgres/ LOG:  statement: COMMIT",
        "postgres/duramen lab LOG:  execute s1: SELECT 1",
    ]);
    assert_eq!(all, Statements { clients: 2, worker: 2 });
}

#[test]
fn what_is_no_statement_is_not_counted() {
    let none = counted(&[
        "app/duramen fn client DETAIL:  Parameters: $1 = ' LOG:  statement: x'",
        "LOG:  checkpoint starting: time",
        "postgres/duramen fn 0a1b LOG:  could not receive data from client",
        "postgres/duramen fn 0a1b ERROR:  canceling statement due to user request",
    ]);
    assert_eq!(none, Statements::default());
}

#[test]
fn a_statement_of_several_lines_counts_once() {
    let log = format!(
        "{AT}app/duramen fn client LOG:  statement: SELECT 1,\n\t'x] y/z LOG:  statement: SELECT 2',\n\t3\n\
         {AT}app/duramen fn client LOG:  statement: SELECT 4\n"
    );
    assert_eq!(count_statements(&log), Statements { clients: 2, worker: 0 });
}

use super::*;

const ALTER: i32 = 10;
const READER: i32 = 20;
const WRITER: i32 = 21;
const TABLE: u32 = 16_400;

fn session(process: i32, state: &str, began: i64, changed: i64, query: &str) -> Session {
    Session {
        process,
        kind: "client backend".to_owned(),
        state: state.to_owned(),
        transaction_began: (state != "idle").then_some(began),
        query_began: Some(began),
        state_changed: Some(changed),
        query: query.to_owned(),
        ..Session::default()
    }
}

fn lock(process: i32, mode: &str, since: Option<i64>, blockers: &[i32]) -> Lock {
    Lock {
        process,
        relation: Some(TABLE),
        what: "relation".to_owned(),
        mode: mode.to_owned(),
        granted: blockers.is_empty(),
        since,
        blockers: blockers.to_vec(),
    }
}

fn watch(samples: Vec<Sample>) -> Watch {
    let load = [(READER, 0), (WRITER, 1)].into();
    let mut watch = Watch::new(BTreeSet::from([1]), BTreeSet::from([3]));
    watch.take(Sample { at: 0, ..Sample::default() }, &load);
    watch.migration_begins(1_000);
    for sample in samples {
        watch.take(sample, &load);
    }
    watch.end();
    watch
}

#[test]
fn lengths_are_the_servers_where_it_tells_them() {
    let sql = "alter table t add x int";
    let found = watch(vec![
        Sample {
            at: 100_000,
            sessions: vec![
                session(ALTER, "active", 90_000, 90_000, sql),
                session(READER, "active", 95_000, 95_000, "select"),
            ],
            locks: vec![
                lock(ALTER, "AccessExclusiveLock", None, &[]),
                lock(READER, "AccessShareLock", Some(95_500), &[ALTER]),
            ],
            is_cut: false,
        },
        Sample {
            at: 200_000,
            sessions: vec![
                session(ALTER, "idle", 90_000, 180_000, sql),
                session(READER, "idle", 95_000, 180_300, "select"),
            ],
            ..Sample::default()
        },
    ]);
    let held = Held { relation: TABLE, mode: "AccessExclusiveLock".to_owned(), from: 90_000, to: 180_000 };
    assert_eq!(found.held, [held]);
    let [wait] = found.waits.as_slice() else { panic!("{:?}", found.waits) };
    assert_eq!((wait.who, wait.from, wait.to, wait.by_migration), (Who::Load, 95_500, 180_300, true));
    assert!(wait.blockers.iter().any(|text| text.contains(sql)));
    let [seen] = found.statements.as_slice() else { panic!("{:?}", found.statements) };
    assert_eq!((seen.from, seen.to, seen.is_exact, seen.text.as_str()), (90_000, 180_000, true, sql));
    assert_eq!((found.looks, found.longest_gap), (3, 100_000));
}

#[test]
fn who_queues_behind_a_waiting_migration_waits_for_it() {
    // A reader is in the way of the migration, and a writer of the load queues behind that.
    let at = |time: i64| Sample {
        at: time,
        sessions: vec![
            session(READER, "idle in transaction", 10, 20, "select 1"),
            session(ALTER, "active", 50_000, 50_000, "alter table t"),
            session(WRITER, "active", 60_000, 60_000, "update t"),
        ],
        locks: vec![
            lock(READER, "AccessShareLock", None, &[]),
            lock(ALTER, "AccessExclusiveLock", Some(50_000), &[READER]),
            lock(WRITER, "RowExclusiveLock", Some(60_000), &[ALTER]),
        ],
        is_cut: false,
    };
    let found = watch(vec![at(75_000), at(100_000)]);
    let of = |who| found.waits.iter().find(|wait| wait.who == who).unwrap();
    assert_eq!((of(Who::Migration).from, of(Who::Migration).by_migration), (50_000, false));
    assert!(of(Who::Migration).blockers.contains("idle in transaction: select 1"));
    assert_eq!((of(Who::Load).to, of(Who::Load).by_migration), (100_000, true));
    assert!(found.held.is_empty(), "the migration never had it: {:?}", found.held);
}

#[test]
fn waits_of_others_are_not_the_migrations_doing() {
    let found = watch(vec![Sample {
        at: 75_000,
        sessions: vec![
            session(ALTER, "active", 50_000, 50_000, "select pg_sleep(1)"),
            session(READER, "active", 50_000, 50_000, "update t"),
            session(WRITER, "active", 60_000, 60_000, "update t"),
        ],
        locks: vec![lock(WRITER, "ShareLock", Some(60_000), &[READER])],
        is_cut: false,
    }]);
    assert!(!found.waits[0].by_migration);
}

#[test]
fn sessions_that_were_there_are_the_migrations_only_if_they_do_something() {
    let found = watch(vec![Sample {
        at: 75_000,
        sessions: vec![session(1, "idle", -500, -400, "before"), session(2, "idle", 2_000, 3_000, "fresh")],
        ..Sample::default()
    }]);
    assert_eq!(found.statements.len(), 1);
    let found = watch(vec![Sample {
        at: 75_000,
        sessions: vec![session(1, "idle", 2_000, 3_000, "after")],
        ..Sample::default()
    }]);
    assert_eq!(found.statements[0].text, "after");
    // The rehearsal's own sessions never are.
    let found = watch(vec![Sample {
        at: 75_000,
        sessions: vec![session(3, "active", 2_000, 2_000, "ours")],
        locks: vec![lock(3, "AccessShareLock", None, &[])],
        ..Sample::default()
    }]);
    assert!(found.statements.is_empty() && found.held.is_empty());
}

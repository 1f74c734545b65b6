//! Several standbys: what is expected of arrangements, who decides, and both on real servers (AR1 to AR7 of
//! `docs/design/topologies.md`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::user::folder;
use duramen_measure::evidence::{Evidence, Verdict};
use duramen_postgres::processes_below;
use duramen_replication::pair::Pair;
use duramen_replication::topology::{
    decide::decided,
    quorum::Quorum,
    sample::{Position, Sample, Seeing, Seen},
    Arrangement, Expected, Fault, Options, Topologies,
};
use duramen_replication::Level;
use duramen_reports::suite::{run, Suite};

fn arrangement(text: &str) -> Arrangement {
    text.parse().unwrap()
}

#[test]
fn what_is_written_is_what_is_read() {
    for text in ["FIRST 1 (a, b), c<a", "ANY 2 (a, b, c)", "ASYNC (a, b, c<b)", "FIRST 2 (a, b), c"] {
        assert_eq!(arrangement(text).to_string(), text);
    }
    assert_eq!(Arrangement::catalog().len(), 7);
    for (text, reason) in [
        ("FIRST 3 (a, b)", "more standbys than it names"),
        ("ANY 0 (a)", "needs a number"),
        ("FIRST 1 (a<b)", "standbys of the primary itself"),
        ("FIRST 1 (a), b<c", "not named before it"),
        ("FIRST 1 (a), a", "named twice"),
        ("FIRST 1 (a', b)", "lower-case letters"),
        ("MOST 1 (a)", "begins with none"),
        ("FIRST 1", "no list"),
        ("ASYNC (a, b, c, d, e, f, g)", "from one to 6"),
    ] {
        let error = text.parse::<Arrangement>().unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
    }
}

/// AR1: what is connected keeps its place, whatever it answers.
#[test]
fn what_hangs_is_worse_than_what_is_dead() {
    let expected = |text, victim, fault| arrangement(text).expected(victim, fault);
    for (text, victim, slow, hang, vanish, die) in [
        ("FIRST 1 (a, b, c)", "a", Expected::Wait, Expected::Stop, Expected::TakeOver, Expected::GoOn),
        ("FIRST 1 (a, b, c)", "b", Expected::GoOn, Expected::GoOn, Expected::GoOn, Expected::GoOn),
        ("FIRST 2 (a, b, c)", "b", Expected::Wait, Expected::Stop, Expected::TakeOver, Expected::GoOn),
        ("FIRST 1 (a), b", "a", Expected::Wait, Expected::Stop, Expected::Stop, Expected::Stop),
        ("FIRST 1 (a), b", "b", Expected::GoOn, Expected::GoOn, Expected::GoOn, Expected::GoOn),
        ("ANY 1 (a, b, c)", "a", Expected::GoOn, Expected::GoOn, Expected::GoOn, Expected::GoOn),
        ("ANY 2 (a, b, c)", "c", Expected::GoOn, Expected::GoOn, Expected::GoOn, Expected::GoOn),
        ("ANY 2 (a, b)", "a", Expected::Wait, Expected::Stop, Expected::Stop, Expected::Stop),
        ("ASYNC (a)", "a", Expected::GoOn, Expected::GoOn, Expected::GoOn, Expected::GoOn),
    ] {
        for (fault, wanted) in
            [(Fault::Slow, slow), (Fault::Hang, hang), (Fault::Vanish, vanish), (Fault::Die, die)]
        {
            assert_eq!(expected(text, victim, fault), wanted, "{text}: {victim} {}", fault.name());
        }
    }
    assert_eq!(arrangement("FIRST 1 (a), b, c<b").victims(), ["a", "b"]);
}

/// Looks a millisecond apart at a primary that writes 10 bytes in each, with standbys that are so many looks behind.
fn looks(lags: &[(&str, usize)]) -> Vec<Sample> {
    let at = |index: usize| 1_000 + 10 * index as u64;
    let sample = |index: usize| Sample {
        at: Duration::from_millis(index as u64),
        flushed: at(index),
        standbys: lags
            .iter()
            .map(|(name, lag)| {
                let has = at(index.saturating_sub(*lag));
                let position = Position { written: has, flushed: has, replayed: has };
                ((*name).to_owned(), Seen { position, is_synchronous: true })
            })
            .collect::<BTreeMap<_, _>>(),
    };
    (0..200).map(sample).collect()
}

/// AR2: the slowest of the first n, or the n-th fastest; who came at once with another is not told apart.
#[test]
fn who_completes_the_number_decides() {
    let window = [Duration::from_millis(20), Duration::from_millis(150)];
    let samples = looks(&[("a", 9), ("b", 2), ("c", 5)]);
    let by = |quorum| decided(&samples, quorum, Level::On, window);
    for (quorum, name) in
        [(Quorum::Any(1), "b"), (Quorum::Any(2), "c"), (Quorum::Any(3), "a"), (Quorum::First(3), "a")]
    {
        let decided = by(quorum);
        assert_eq!((decided.percent(name), decided.tied), (100.0, 0), "{quorum:?}: {decided:?}");
        assert!(decided.total() > 100, "{decided:?}");
    }
    assert_eq!(by(Quorum::Nobody).total(), 0);
    assert_eq!(decided(&samples, Quorum::Any(1), Level::Local, window).total(), 0);
    let samples = looks(&[("a", 3), ("b", 3), ("c", 5)]);
    let tied = decided(&samples, Quorum::Any(1), Level::On, window);
    assert_eq!((tied.by.len(), tied.tied), (0, tied.total()));
    let last = decided(&samples, Quorum::Any(3), Level::On, window);
    assert_eq!((last.percent("c"), last.tied), (100.0, 0));
}

/// AR3: late is how long ago the first missing byte was on the primary's disk.
#[test]
fn a_standby_is_as_late_as_the_first_byte_that_it_misses() {
    let seeing = Seeing { samples: looks(&[("a", 7), ("b", 0)]), below: BTreeMap::new() };
    let window = [Duration::from_millis(50), Duration::from_millis(150)];
    for (at, bytes, late) in seeing.behind("a", |at| at.flushed, window) {
        // What it misses first came one look after what it has.
        assert_eq!((bytes, late), (70, Duration::from_millis(6)), "{at:?}");
    }
    assert!(seeing
        .behind("b", |at| at.flushed, window)
        .iter()
        .all(|(_, bytes, late)| *bytes == 0 && late.is_zero()));
    assert!(seeing.behind("c", |at| at.flushed, window).is_empty());
    assert_eq!(seeing.resolution(), Duration::from_millis(1));
}

fn assert_nothing_left(dir: &Path) {
    assert_eq!(std::fs::read_dir(dir).expect("it is there").count(), 0, "something is left in the folder");
    let dir = dir.canonicalize().expect("it is there");
    assert_eq!(processes_below(&dir), [0_u32; 0], "something still runs");
}

/// Measures, and looks whether all did what is expected of it and nothing is left.
fn measured(arrangements: &[&str], faults: &[Fault]) -> Evidence {
    let dir = folder();
    let options = Options {
        arrangements: arrangements.iter().map(|text| arrangement(text)).collect(),
        faults: faults.to_vec(),
        quick: true,
        ..Options::new(dir.path())
    };
    let evidence = run(&options, &|_| {}).unwrap();
    for check in &evidence.checks {
        assert!(check.passed, "{check:?}");
    }
    assert_eq!(evidence.verdict, Verdict::Pass, "{:?}", evidence.findings);
    assert_nothing_left(dir.path());
    evidence
}

fn assert_expected(evidence: &Evidence, names: &[&str]) {
    for name in names {
        let name = format!("expected/{name}");
        assert!(evidence.checks.iter().any(|check| check.name == name), "{name}: {:?}", evidence.checks);
    }
}

/// AR4 to AR6: on real servers, each arrangement does what is expected of it, and nothing is left.
#[test]
fn arrangements_do_what_is_expected_of_them() {
    let evidence = measured(&["FIRST 1 (a, b)", "ANY 1 (a, b), c<b"], &[Fault::Slow, Fault::Die]);
    let names = ["first1(a,b)/slow-a/on", "first1(a,b)/die-a/on", "any1(a,b),c<b/die-b/on"];
    assert_expected(&evidence, &names);
    let median = |name: &str| evidence.median(name).unwrap_or_else(|| panic!("{name} is missing"));
    // The one that is far away decides with FIRST, and the other one with ANY.
    assert!(median("decided_percent/first1(a,b)/slow-a/on/a") > 90.0);
    assert!(median("decided_percent/any1(a,b),c<b/slow-a/on/b") > 60.0);
    assert!(median("late_ms/any1(a,b),c<b/slow-a/on/a/flush") > 20.0);
    let below = evidence.measurement("late_ms/any1(a,b),c<b/die-b/on/c/flush").unwrap();
    assert!(below.max > 1_000.0, "a standby gets nothing from one that is dead: {below:?}");
    let page = Topologies.page(&evidence).render();
    assert!(page.contains("is far away"), "the page has no such pass");
    assert!(Topologies.table(&evidence).contains("FIRST 1 (a, b)"));
    assert_eq!(Evidence::parse(evidence.to_json().unwrap().as_bytes(), Path::new("-")).unwrap(), evidence);
}

/// AR4 to AR6 for what is only noticed after a time, and for quorums of two.
#[test]
fn what_hangs_or_vanishes_is_seen_in_each_arrangement() {
    let arrangements = ["FIRST 1 (a, b, c)", "FIRST 2 (a, b, c)", "ANY 2 (a, b, c)", "FIRST 1 (a), c<a"];
    let evidence = measured(&arrangements, &[Fault::Plain, Fault::Hang, Fault::Vanish]);
    let names = ["first1(a,b,c)/hang-a/on", "any2(a,b,c)/vanish-a/on", "first1(a),c<a/vanish-a/on"];
    assert_expected(&evidence, &names);
    for name in ["first1(a,b,c)", "first2(a,b,c)"] {
        let gap = evidence.median(&format!("gap_s/{name}/vanish-a/on")).unwrap();
        assert!((1.4..3.6).contains(&gap), "{name}: {gap}");
    }
}

/// AR7: of servers of somebody nothing is changed, and what is there is measured as it is.
#[test]
fn a_primary_that_is_there_is_measured_as_it_is() {
    let dir = folder();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pair = runtime.block_on(async {
        let options = duramen_replication::Options {
            quick: true,
            ..duramen_replication::Options::new(dir.path().join("servers"), "duramen")
        };
        Pair::open(&options, &|_| {}).await.unwrap()
    });
    let root = std::fs::read_dir(dir.path().join("servers")).unwrap().next().unwrap().unwrap().path();
    let dsn = |node: &str| format!("host={} user=postgres dbname=postgres", root.join(node).display());
    let relations = || {
        runtime.block_on(async {
            let client =
                duramen_postgres::connection::Target::parse(&dsn("p")).unwrap().connect().await.unwrap();
            let sql =
                "SELECT count(*), (SELECT string_agg(name || setting, ',' ORDER BY name) FROM pg_settings
                       WHERE source = 'configuration file') FROM pg_class";
            let row = client.query_one(sql, &[]).await.unwrap();
            (row.get::<_, i64>(0), row.get::<_, String>(1))
        })
    };
    let before = relations();
    let options = |primary: String| Options {
        arrangements: Vec::new(),
        levels: vec![Level::RemoteApply],
        primary: Some(primary),
        quick: true,
        ..Options::new(dir.path().join("out"))
    };
    let evidence = run(&options(dsn("p")), &|_| {}).unwrap();
    assert_eq!(evidence.verdict, Verdict::Pass, "{:?}", evidence.findings);
    let name = "first1(duramen_standby)/plain/remote_apply";
    assert!(evidence.median(&format!("commit_ms/{name}")).is_some_and(|median| median > 0.0), "{evidence:?}");
    assert_eq!(evidence.median(&format!("decided_percent/{name}/duramen_standby")), Some(100.0));
    assert_eq!(relations(), before);
    let refused = run(&options(dsn("s")), &|_| {}).unwrap_err();
    assert!(refused.to_string().contains("is a standby"), "{refused}");
    drop(runtime.block_on(pair.close()));
}

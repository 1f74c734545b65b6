//! Reading an origin takes as long as it takes while something comes, and is given up when nothing comes: by its copy, and
//! by the reading for later comparison.

use crate::{
    origin::{import, OtherServer},
    slow_origin::{Pace, SlowOrigin},
    support::{majors, settle, Home},
};
use duramen_api::model::{AddSource, Origin, SourceSettings};
use duramen_base::clock;
use duramen_branches::{users_of, Engine};
use duramen_postgres::processes_below;
use std::{
    sync::{atomic::Ordering, Arc, Mutex, PoisonError},
    time::Duration,
};

const STALL: Duration = Duration::from_secs(2);
/// What a copy of a server begins with, and the reading of one table.
const COPY: &str = "BASE_BACKUP";
const READ: &str = "copy \"public\".\"t\"";

async fn origin(home: &Home) -> OtherServer {
    let origin = OtherServer::start(home, majors()[0]).await;
    origin
        .run(
            "shop",
            "create table t as select n as x, repeat('word ', 100) as word from generate_series(1, 8000) n",
        )
        .await;
    origin
}

fn impatient() -> Home {
    let mut home = Home::new();
    home.options.stall = Some(STALL);
    home
}

/// How far an import said that it is, by what it did.
type Told = Arc<Mutex<Vec<(String, f64)>>>;

async fn add(engine: &Arc<Engine>, origin: Origin) -> (Told, Result<(), duramen_branches::EngineError>) {
    let (name, database) = ("app".to_owned(), Some("shop".to_owned()));
    let request = AddSource { name, origin, database, settings: SourceSettings::default() };
    let told = Told::default();
    let seen = Arc::clone(&told);
    let progress = move |doing: &str, fraction: Option<f64>| {
        let line = fraction.map(|fraction| (doing.to_owned(), fraction));
        seen.lock().unwrap_or_else(PoisonError::into_inner).extend(line);
    };
    let added = engine.add_source(request, progress).await.map(drop);
    (told, added)
}

/// A database of more than 14 GB that comes at less than 4 MB a second was cut off after an hour and a second for each 4 MB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_slowly_is_not_given_up() {
    let home = impatient();
    let engine = home.open().await;
    let origin = origin(&home).await;
    for (asks, pace, step) in [
        (COPY, Pace::Slow(64 << 10, Duration::from_millis(10)), "base backup"),
        (READ, Pace::Slow(8 << 10, Duration::from_millis(15)), "reading database shop of the live source"),
    ] {
        let slow = SlowOrigin::start(&home, &format!("slow-{}", asks.len()), &origin, asks, pace);
        let begin = clock::now();
        let (told, added) = add(&engine, slow.origin()).await;
        added.unwrap_or_else(|error| panic!("{asks}: {error}"));
        assert!(slow.met.load(Ordering::Acquire), "{asks} was asked");
        assert!(begin.elapsed() > STALL * 2, "{asks}: it was slow: {:?}", begin.elapsed());
        let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let fractions: Vec<f64> =
            told.iter().filter(|(doing, _)| doing == step).map(|(_, fraction)| *fraction).collect();
        assert!(fractions.len() > 2 && fractions.last() > fractions.first(), "{asks}: {fractions:?}");
        settle(&engine).await;
        engine.remove_source("app").await.expect("the source is forgotten");
    }
    engine.close().await.expect("close");
}

/// A copy had no limit at all: an origin that hung held up every other import until the daemon was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_stands_still_is_given_up_and_says_where() {
    let home = impatient();
    let engine = home.open().await;
    let origin = origin(&home).await;
    for (asks, bytes, said) in [
        (COPY, 0, "while its base backup was made, after 0 MB"),
        (COPY, 5 << 20, "while its base backup was made, after"),
        (READ, 0, "while table shop.public.t was read"),
        (READ, 1 << 20, "while table shop.public.t was read"),
        ("pg_database_size(oid) else 0 end", 0, "while its catalogues were read"),
    ] {
        let pace = Pace::StopsAfter(bytes);
        let slow = SlowOrigin::start(&home, &format!("still-{}-{bytes}", asks.len()), &origin, asks, pace);
        let begin = clock::now();
        let error = add(&engine, slow.origin()).await.1.expect_err("it stands still");
        assert!(slow.met.load(Ordering::Acquire), "{asks} was asked");
        assert!(begin.elapsed() < STALL * 2 + Duration::from_secs(10), "{asks}: {:?}", begin.elapsed());
        assert_eq!(error.code, "source_slow", "{asks}: {error}");
        assert!(error.message.contains(said) && error.message.contains("2 s"), "{asks}: {error}");
        let left = processes_below(&home.path().join("volumes"));
        assert!(left.is_empty() && users_of(home.path()).is_empty(), "{asks}: {left:?}");
        assert!(engine.sources().is_empty());
    }
    import(&engine, "app", origin.running(), &[]).await.expect("the next one");
    engine.close().await.expect("close");
}

/// A server that takes connections and does not answer is told from one that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_lets_nobody_in_is_given_up() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = OtherServer::start(&home, majors()[0]).await;
    let mute = SlowOrigin::start(&home, "mute", &origin, "shop", Pace::StopsAfter(0));
    let added = tokio::time::timeout(Duration::from_secs(50), add(&engine, mute.origin())).await;
    let error = added.expect("it is given up").1.expect_err("nobody gets in");
    assert_eq!(error.code, "source_unreachable", "{error}");
    assert!(error.message.contains("did not let it in within 30 s"), "{error}");
    engine.close().await.expect("close");
}

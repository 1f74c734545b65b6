//! Databases that are the shards of a cluster: what ids and lists say (SH-1 to SH-3), what stays on one shard (SH-4), draining (SH-5),
//! copies (SH-6), the worker of all shards (SH-7), lists that are not so (SH-9, SH-10), and lists over shards (SH-11). The numbers are those of docs/design/shards.md.

mod hostile;
mod kept;
mod listings;
mod stalls;
pub(crate) mod workers;

use crate::common::{database, maybe_one, one, refusal, rows, Database, OWNER};
use crate::worker::{ended, eventually, execute, start, TestWorker, SOON};
use duramen_functions::cluster::{Clients, Cluster, ClusterError, ClusterWorker, ShardState};
use duramen_functions::schema::{self, External};
use duramen_functions::worker::shard_of;
use tokio_postgres::Client;

/// As many databases, each a shard, and a role that may use all of them.
pub(crate) async fn cluster_of(count: usize) -> (Vec<Database<'static>>, Cluster, String) {
    let mut databases = Vec::new();
    for _ in 0..count {
        databases.push(database().await);
    }
    let alice = databases[0].role("alice").await;
    for database in &databases[1..] {
        execute(&database.owner().await, &[&format!("SELECT df.grant_usage('{alice}')")]).await;
    }
    let cluster = create(&databases).await.unwrap();
    (databases, cluster, alice)
}

pub(super) async fn create(databases: &[Database<'static>]) -> Result<Cluster, ClusterError> {
    let urls: Vec<String> = databases.iter().map(Database::url).collect();
    Cluster::create(&urls.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// What each shard knows: its number, the version of its list, and the list.
async fn knows(database: &Database<'_>) -> (Option<String>, Option<String>, Vec<Vec<Option<String>>>) {
    let owner = database.owner().await;
    (
        one(&owner, "SELECT df.shard()").await,
        one(&owner, "SELECT cluster_version FROM df._meta").await,
        rows(&owner, "SELECT shard, place, state, keyed FROM df._shard ORDER BY shard").await,
    )
}

fn refused(result: Result<Cluster, ClusterError>) -> String {
    result.expect_err("it was not refused").to_string()
}

#[tokio::test]
async fn ids_name_their_shard_and_every_shard_has_the_list() {
    // SH-1, SH-3.
    let (databases, cluster, alice) = cluster_of(3).await;
    assert_eq!(cluster.version(), 1);
    let (_, _, list) = knows(&databases[0]).await;
    assert_eq!(list.len(), 3);
    for (number, database) in databases.iter().enumerate() {
        let known = (Some(number.to_string()), Some("1".to_owned()), list.clone());
        assert_eq!(knows(database).await, known);
        let client = database.connect(&alice).await;
        for expression in ["'SELECT 7'", "df.sleep(60)", "'SELECT 7', idempotency_key => 'once'"] {
            let id = start(&client, expression).await;
            assert_eq!(usize::from(shard_of(&id).unwrap()), number, "{id}");
            assert_eq!(id.len(), if number == 0 { 8 } else { 16 });
            for asked in &databases {
                let route = format!("SELECT shard || ' ' || here FROM df.route('{id}')");
                let expected =
                    format!("{number} {}", if asked.name() == database.name() { "true" } else { "false" });
                assert_eq!(one(&asked.connect(&alice).await, &route).await, Some(expected));
            }
        }
        // No password, no role: for everybody.
        let place = &cluster.shards()[number].place;
        assert!(!place.contains("password") && !place.contains("user"), "{place}");
    }
    let client = databases[1].connect(&alice).await;
    let message = refusal(&client, "SELECT * FROM df.route('0070000000000001')").await;
    assert!(message.contains("is of shard 7, and version 1 of the list of shards has none"), "{message}");
    let message = refusal(&client, "SELECT * FROM df.route('order 7')").await;
    assert!(message.contains("is not an instance id"), "{message}");
}

#[tokio::test]
async fn a_database_without_a_cluster_is_as_it_was() {
    let database = database().await;
    let alice = database.role("alice").await;
    let client = database.connect(&alice).await;
    let id = start(&client, "'SELECT 1'").await;
    assert_eq!(one(&client, &format!("SELECT here FROM df.route('{id}')")).await.as_deref(), Some("t"));
    assert_eq!(one(&client, "SELECT df.shard()").await, None);
    assert_eq!(one(&client, "SELECT df.home('x')").await, None);
    // An id of sixteen digits is no other shard's where there are none.
    assert_eq!(one(&client, "SELECT df.status('0030000000000001')").await, None);
    let error = Cluster::read(&database.url_as(&alice)).await.unwrap_err();
    assert!(matches!(error, ClusterError::None { .. }), "{error}");
}

#[tokio::test]
async fn a_database_joins_once_and_only_where_its_numbers_fit() {
    // SH-1, SH-2.
    let (databases, cluster, alice) = cluster_of(2).await;
    assert_eq!(create(&databases).await.unwrap().version(), 1, "done again it changes nothing");
    let fourth = [database().await];
    let more = [databases[0].url(), fourth[0].url()];
    let message = refused(Cluster::create(&[&more[0], &more[1]]).await);
    assert!(message.contains("belongs to a cluster already"), "{message}");
    assert_eq!(knows(&fourth[0]).await.0, None, "it was made ready for nothing");
    let used = database().await;
    let bob = used.role("bob").await;
    start(&used.connect(&bob).await, "'SELECT 1'").await;
    let message = refused(cluster.add(&used.url()).await);
    assert!(message.contains("has had instances of shard 0, and cannot become shard 2"), "{message}");
    let message = refused(cluster.add(&databases[1].url()).await);
    assert!(message.contains("are the same database"), "{message}");
    let others = [used, database().await];
    let other = create(&others).await.unwrap();
    let fresh = database().await;
    let message = refused(other.add(&databases[0].url()).await);
    assert!(message.contains("this database is shard 0 of the cluster"), "{message}");
    // Nothing of the failed attempts is left: the number is given to the next.
    let added = cluster.add(&fresh.url()).await.unwrap();
    assert_eq!((added.version(), added.shards().len(), added.shards()[2].keyed), (2, 3, false));
    assert_eq!(knows(&databases[1]).await.1.as_deref(), Some("2"));
    execute(&fresh.owner().await, &[&format!("SELECT df.grant_usage('{alice}')")]).await;
    let id = start(&fresh.connect(&alice).await, "'SELECT 1'").await;
    assert_eq!(shard_of(&id), Some(2));
    let same = Cluster::create(&[&fresh.url(), &fresh.url()]).await;
    assert!(refused(same).contains("are the same database"));
}

#[tokio::test]
async fn a_creation_that_was_interrupted_goes_on_and_one_that_was_given_up_hinders_nobody() {
    // SH-2: killed before each of its statements, in another order afterwards, too.
    const ID: &str = "11111111-1111-4111-8111-111111111111";
    for joined in 0..=3 {
        let databases = [database().await, database().await, database().await];
        let alice = databases[0].role("alice").await;
        for database in &databases[1..] {
            execute(&database.owner().await, &[&format!("SELECT df.grant_usage('{alice}')")]).await;
        }
        for (number, database) in databases.iter().take(joined).enumerate() {
            execute(&database.owner().await, &[&format!("SELECT df._join('{ID}', {number})")]).await;
        }
        // Another one may get its number: nothing begins there before the list has come.
        for database in databases.iter().take(joined).skip(1) {
            let begun = maybe_one(&database.connect(&alice).await, "SELECT df.start('SELECT 1')").await;
            assert!(
                begun.as_ref().is_err_and(|said| said.contains("not in the list of shards yet")),
                "{begun:?}"
            );
        }
        let mut databases = Vec::from(databases);
        if joined % 2 == 1 {
            databases.reverse();
        }
        let cluster = create(&databases).await.unwrap();
        assert_eq!(cluster.id() == ID, joined > 0 && (joined % 2 == 0 || joined == 3), "{joined}");
        for (number, database) in databases.iter().enumerate() {
            assert_eq!(knows(database).await.0, Some(number.to_string()));
            let id = start(&database.connect(&alice).await, "'SELECT 1'").await;
            assert_eq!(usize::from(shard_of(&id).unwrap()), number);
        }
    }
}

#[tokio::test]
async fn of_changes_at_once_none_is_lost() {
    // SH-3.
    let (databases, cluster, _) = cluster_of(2).await;
    let (one, two, three) = (database().await, database().await, database().await);
    let (one_url, two_url, three_url) = (one.url(), two.url(), three.url());
    let (first, second, third, drained) = tokio::join!(
        cluster.add(&one_url),
        cluster.add(&two_url),
        cluster.add(&three_url),
        cluster.set(1, ShardState::Draining, false)
    );
    for outcome in [first, second, third, drained] {
        outcome.unwrap();
    }
    let read = Cluster::read(&databases[0].url()).await.unwrap();
    assert_eq!((read.version(), read.shards().len()), (5, 5));
    assert_eq!(read.shard(1).unwrap().state, ShardState::Draining);
    let mut seen = Vec::new();
    for database in [&one, &two, &three] {
        let (number, version, list) = knows(database).await;
        assert_eq!((version.as_deref(), list.len()), (Some("5"), 5));
        seen.push(number.unwrap());
    }
    seen.sort();
    assert_eq!(seen, ["2", "3", "4"]);
}

#[tokio::test]
async fn a_list_that_is_older_or_of_another_cluster_is_not_taken_nor_one_of_a_submitters() {
    // SH-3.
    let (databases, cluster, alice) = cluster_of(2).await;
    cluster.set(1, ShardState::Draining, false).await.unwrap();
    let before = knows(&databases[1]).await;
    let owner = databases[1].owner().await;
    let old = format!("SELECT df._take_list('{}', 1, 1, '[]', false)", cluster.id());
    assert_eq!(one(&owner, &old).await.as_deref(), Some("2"));
    let foreign = "SELECT df._take_list('11111111-1111-4111-8111-111111111111', 1, 9, '[]', false)";
    assert!(refusal(&owner, foreign).await.contains("is not shard 1 of the cluster"));
    // Nor one that was meant for another shard: a name may lead elsewhere.
    let astray = format!("SELECT df._take_list('{}', 0, 9, '[]', false)", cluster.id());
    assert!(refusal(&owner, &astray).await.contains("is not shard 0 of the cluster"));
    // Only shard 0 decides.
    let decided = format!("SELECT df._take_list('{}', 1, 3, '[]', true)", cluster.id());
    assert!(refusal(&owner, &decided).await.contains("Do it again"));
    let client = databases[1].connect(&alice).await;
    for statement in [
        &decided[..],
        "SELECT df._join('11111111-1111-4111-8111-111111111111', 5)",
        "UPDATE df._shard SET place = 'host=evil'",
        "DELETE FROM df._shard",
        "UPDATE df._meta SET shard = 0",
        "SELECT df._leave()",
        "SELECT df._open_or_close()",
        "SELECT df._unended()",
    ] {
        let message = refusal(&client, statement).await;
        assert!(message.contains("permission denied"), "{statement}: {message}");
    }
    assert_eq!(knows(&databases[1]).await, before);
}

/// How many transactions a database has had: of sessions that have ended, since others may not have said yet.
async fn transactions(owner: &Client) -> i64 {
    let sql = "SELECT pg_stat_clear_snapshot()::text || xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    one(owner, sql).await.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spans_shards_is_refused_by_name_and_nothing_else_is_asked() {
    // SH-4.
    let (databases, cluster, alice) = cluster_of(2).await;
    let here = databases[0].connect(&alice).await;
    let there = databases[1].connect(&alice).await;
    let id = start(&there, "df.wait_for_signal('go')").await;
    for call in [
        "df.status('ID')",
        "df.result('ID')",
        "df.signal('ID', 'go')",
        "df.cancel('ID')",
        "df.pause('ID')",
        "df.resume('ID')",
        "df.delete('ID')",
        "df.fork('ID')",
        "df.await_instance('ID')",
        "df.set_event('ID', 'k', '1')",
    ] {
        let message = maybe_one(&here, &format!("SELECT {}", call.replace("ID", &id))).await.unwrap_err();
        let expected = format!(
            "DFS01: instance {id} is on shard 1, and this is shard 0 DETAIL: {}",
            cluster.shards()[1].place
        );
        assert!(message.starts_with(&expected), "{call}: {message}");
    }
    // A queue and its limit are one shard's.
    execute(&here, &["SELECT df.queue('mail', concurrency => 1)"]).await;
    let message = refusal(&there, "SELECT df.start('SELECT 1', queue => 'mail')").await;
    assert!(message.contains("mail"), "{message}");
    // Another role's is not told apart from one that is not there.
    let bob = databases[0].role("bob").await;
    execute(&databases[1].owner().await, &[&format!("SELECT df.grant_usage('{bob}')")]).await;
    let message =
        maybe_one(&databases[1].connect(&bob).await, &format!("SELECT df.signal('{id}', 'go')")).await;
    assert!(message.unwrap_err().contains("not found or access denied"));

    // The instances of one shard cost the other nothing, though one worker serves both: it looks now and then, and no more.
    let worker = ClusterWorker::start(workers::options(&databases[1].url())).await.unwrap();
    let owner = databases[0].owner().await;
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    let before = transactions(&owner).await;
    let ids: Vec<_> =
        rows(&there, "SELECT df.start('SELECT 1' ~> 'SELECT 2') FROM generate_series(1, 300)").await;
    for id in ids {
        ended(&there, id[0].as_ref().unwrap(), SOON).await.completed();
    }
    drop(worker);
    tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
    let asked = transactions(&owner).await - before;
    // One for each instance would be 300.
    assert!(asked < 100, "{asked} transactions on a shard that has none of the 300 instances");
}

#[tokio::test]
async fn a_shard_that_is_drained_takes_nothing_new_and_ends_what_it_has() {
    // SH-5.
    let (databases, cluster, alice) = cluster_of(2).await;
    let client = databases[1].connect(&alice).await;
    let _worker = TestWorker::start(&databases[1], 2).await;
    // The session knows the short way, and there is a queue and a schedule.
    start(&client, "'SELECT 1'").await;
    execute(
        &client,
        &[
            "SELECT df.queue('mail', concurrency => 1)",
            "SELECT df.schedule('often', 'SELECT 1', every => interval '1 second', label => 'often')",
        ],
    )
    .await;
    eventually(&client, "SELECT count(*) > 0 FROM df.instances WHERE label = 'often'", "t", SOON).await;
    let going = start(
        &client,
        "df.wait_for_signal('go') ~> df.call('SELECT 8') ~> 'SELECT df.start(''SELECT 9'') AS other'",
    )
    .await;
    let kept = start(&client, "'SELECT 1', idempotency_key => 'kept'").await;
    let drained = cluster.set(1, ShardState::Draining, false).await.unwrap();
    assert_eq!(drained.shard(1).unwrap().state, ShardState::Draining);
    let again = databases[1].connect(&alice).await;
    for session in [&client, &again] {
        for expression in [
            "df.start('SELECT 1')",
            "df.start('SELECT 1' ~> 'SELECT 2')",
            "df.start('SELECT 1', queue => 'mail')",
            "df.start('SELECT 1', queue => 'mail', delay => interval '1 hour')",
            "df.start('SELECT 1', idempotency_key => 'new')",
            "df.start_many(ARRAY['SELECT 1', 'SELECT 2'])",
        ] {
            let message = refusal(session, &format!("SELECT {expression}")).await;
            assert!(
                message.starts_with("DFS02: shard 1 is draining, and takes no new instances"),
                "{expression}: {message}"
            );
        }
    }
    // A second start with a key that is here is no new instance.
    assert_eq!(start(&client, "'SELECT 1', idempotency_key => 'kept'").await, kept);
    execute(&client, &[&format!("SELECT df.signal('{going}', 'go')")]).await;
    let result = ended(&client, &going, SOON).await.completed();
    assert!(result.contains("001"), "the instance has started another one: {result}");
    let scheduled = "SELECT count(*) FROM df.instances WHERE label = 'often'";
    let fired = one(&client, scheduled).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(one(&client, scheduled).await, fired);

    // Whoever lets a client choose is not led there.
    let clients = Clients::connect(&databases[0].url_as(&alice)).await.unwrap();
    for _ in 0..20 {
        let id = clients.start("SELECT 1", None, None).await.unwrap();
        assert_eq!(shard_of(&id), Some(0));
    }
    cluster.set(1, ShardState::Open, false).await.unwrap();
    start(&client, "'SELECT 1'").await;
    // The short way of starting is taken again.
    let short = "SELECT pg_sequence_last_value('df._vars_used')";
    assert_eq!(one(&databases[1].owner().await, short).await, None);
}

#[tokio::test]
async fn a_shard_is_removed_when_it_has_ended_what_it_had() {
    // SH-5.
    let (databases, cluster, alice) = cluster_of(2).await;
    let client = databases[1].connect(&alice).await;
    let id = start(&client, "df.wait_for_signal('go')").await;
    let message = refused(cluster.set(1, ShardState::Removed, false).await);
    assert!(message.contains("shard 1 is open and has 1 instances"), "{message}");
    cluster.set(1, ShardState::Draining, false).await.unwrap();
    let message = refused(cluster.set(1, ShardState::Removed, false).await);
    assert!(message.contains("shard 1 is draining and has 1 instances"), "{message}");
    assert!(refused(cluster.set(0, ShardState::Removed, true).await).contains("shard 0 keeps the list"));
    assert!(refused(cluster.set(9, ShardState::Draining, false).await).contains("no shard 9"));
    let worker = TestWorker::start(&databases[1], 2).await;
    execute(&client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    ended(&client, &id, SOON).await.completed();
    let removed = cluster.set(1, ShardState::Removed, false).await.unwrap();
    drop(worker);
    assert_eq!((removed.served().count(), removed.shards().len()), (1, 2));
    assert!(refused(removed.set(1, ShardState::Open, false).await).contains("was removed"));
    // Its number is nobody else's, and whoever asks for its instances is told.
    let added = removed.add(&database().await.url()).await.unwrap();
    assert_eq!(added.shards()[2].number, 2);
    let here = databases[0].connect(&alice).await;
    let message = refusal(&here, &format!("SELECT df.status('{id}')")).await;
    assert!(message.contains("is on shard 1") && message.contains("was taken out"), "{message}");
}

#[tokio::test]
async fn a_key_is_placed_on_the_same_shard_whatever_shards_come() {
    // SH-8.
    let (databases, cluster, alice) = cluster_of(3).await;
    let clients = Clients::connect(&databases[2].url_as(&alice)).await.unwrap();
    let mut before = Vec::new();
    for number in 0..60 {
        before.push(clients.start("SELECT 1", None, Some(&format!("order {number}"))).await.unwrap());
    }
    for shard in 0..3 {
        let share = before.iter().filter(|id| shard_of(id) == Some(shard)).count();
        assert!((8..=40).contains(&share), "{share} of 60 keys on shard {shard}");
    }
    let fourth = database().await;
    execute(&fourth.owner().await, &[&format!("SELECT df.grant_usage('{alice}')")]).await;
    let added = cluster.add(&fourth.url()).await.unwrap();
    // One that has read the list before, and one that reads the new one.
    for clients in [clients, Clients::connect(&fourth.url_as(&alice)).await.unwrap()] {
        for (number, id) in before.iter().enumerate() {
            let again = clients.start("SELECT 1", None, Some(&format!("order {number}"))).await.unwrap();
            assert_eq!(&again, id);
        }
    }
    // A home that takes no starts refuses new keys, and still knows its own.
    let gone = shard_of(&before[0]).filter(|number| *number > 0).unwrap_or(1);
    added.set(gone, ShardState::Draining, false).await.unwrap();
    let clients = Clients::connect(&databases[0].url_as(&alice)).await.unwrap();
    let mut refusals = 0;
    for (number, id) in before.iter().enumerate() {
        let again = clients.start("SELECT 1", None, Some(&format!("order {number}"))).await.unwrap();
        assert_eq!(&again, id);
        match clients.start("SELECT 1", None, Some(&format!("new {number}"))).await {
            Ok(id) => assert_ne!(shard_of(&id), Some(gone)),
            Err(error) => {
                assert!(error.to_string().contains("takes no new instances"), "{error}");
                refusals += 1;
            }
        }
    }
    assert!(refusals > 5, "{refusals}");
}

#[tokio::test]
async fn a_copy_of_a_shard_is_none() {
    // SH-6.
    let (databases, cluster, alice) = cluster_of(2).await;
    let server = databases[1].server();
    let name = format!("{}_copy", databases[1].name());
    let admin = server.connect(OWNER, "postgres").await;
    execute(&admin, &[&format!("CREATE DATABASE {name} TEMPLATE {}", databases[1].name())]).await;
    let url = server.url(OWNER, &name);
    // Until somebody decides what it is, nothing is changed from there, and no worker serves it.
    let message = cluster.add(&url).await.unwrap_err().to_string();
    assert!(message.contains("is a copy of the database"), "{message}");
    schema::adopt(&url, External::Skip).await.unwrap();
    let client = server.connect(&alice, &name).await;
    assert_eq!(one(&client, "SELECT df.shard()").await, None);
    assert_eq!(one(&client, "SELECT count(*) FROM df._shard").await.as_deref(), Some("0"));
    assert!(matches!(Cluster::read(&url).await, Err(ClusterError::None { .. })));
    // It goes on with its own numbers, and its ids lead nowhere else.
    let id = start(&client, "'SELECT 1'").await;
    assert_eq!(shard_of(&id), Some(1));
    assert_eq!(one(&client, &format!("SELECT here FROM df.route('{id}')")).await.as_deref(), Some("t"));
    drop(client);
    execute(&admin, &[&format!("DROP DATABASE {name} WITH (FORCE)")]).await;
}

#[tokio::test]
async fn a_cluster_whose_maker_was_killed_before_it_told_the_others_is_made_whole() {
    // SH-3: by a worker, by the same command again, and by whoever changes it next.
    for mended_by in ["worker", "create", "change"] {
        let databases = [database().await, database().await];
        let places: Vec<String> = databases
            .iter()
            .map(|database| duramen_postgres::connection::Target::parse(&database.url()).unwrap().place())
            .collect();
        const ID: &str = "22222222-2222-4222-8222-222222222222";
        for (number, database) in databases.iter().enumerate() {
            execute(&database.owner().await, &[&format!("SELECT df._join('{ID}', {number})")]).await;
        }
        let shard = |number: usize| {
            let place = places[number].replace('\'', "''");
            format!(r#"{{"shard":{number},"place":"{place}","state":"open","keyed":true}}"#)
        };
        let decide = format!("SELECT df._take_list('{ID}', 0, 1, '[{},{}]', true)", shard(0), shard(1));
        execute(&databases[0].owner().await, &[&decide]).await;
        let told = databases[1].owner().await;
        assert_eq!(one(&told, "SELECT cluster_version FROM df._meta").await.as_deref(), Some("0"));
        assert!(matches!(
            Cluster::read(&databases[1].url()).await,
            Err(ClusterError::Unlisted { number: 1, .. })
        ));
        let databases = Vec::from(databases);
        let mut worker = None;
        match mended_by {
            "worker" => {
                worker = Some(ClusterWorker::start(workers::options(&databases[0].url())).await.unwrap());
            }
            "create" => assert_eq!(create(&databases).await.unwrap().id(), ID),
            _ => drop(
                Cluster::read(&databases[0].url())
                    .await
                    .unwrap()
                    .set(0, ShardState::Open, false)
                    .await
                    .unwrap(),
            ),
        }
        eventually(&told, "SELECT cluster_version FROM df._meta", "1", SOON).await;
        drop(worker);
    }
}

#[tokio::test]
async fn nothing_that_is_being_started_is_left_on_a_shard_that_is_removed() {
    // SH-5: not by an open transaction, nor by a shard that was not told that it is drained.
    let (databases, cluster, alice) = cluster_of(2).await;
    let client = databases[1].connect(&alice).await;
    execute(&client, &["BEGIN", "SELECT df.start('SELECT 1')"]).await;
    cluster.set(1, ShardState::Draining, false).await.unwrap();
    let message = refused(cluster.set(1, ShardState::Removed, false).await);
    assert!(message.contains("lock timeout"), "{message}");
    execute(&client, &["COMMIT"]).await;
    let message = refused(cluster.set(1, ShardState::Removed, false).await);
    assert!(message.contains("has 1 instances"), "{message}");
    // It has gone back to the list before, as if it had never been told.
    let owner = databases[1].owner().await;
    execute(&owner, &["UPDATE df._meta SET cluster_version = 1", "UPDATE df._shard SET state = 'open'"])
        .await;
    assert!(refused(cluster.set(1, ShardState::Removed, false).await).contains("has 1 instances"));
    assert!(refusal(&client, "SELECT df.start('SELECT 1')").await.contains("is draining"));
    let forced = cluster.set(1, ShardState::Removed, true).await.unwrap();
    assert_eq!(forced.served().count(), 1);
    assert!(refusal(&client, "SELECT df.start('SELECT 1')").await.contains("is removed"));
}

#[tokio::test]
async fn a_shard_0_that_went_back_gives_no_number_twice() {
    // SH-1, SH-3: it was restored, or its standby had not been sent the last change.
    let (databases, cluster, _) = cluster_of(2).await;
    let (second, third) = (database().await, database().await);
    let added = cluster.add(&second.url()).await.unwrap();
    assert_eq!(added.version(), 2);
    let owner = databases[0].owner().await;
    execute(&owner, &["UPDATE df._meta SET cluster_version = 1", "DELETE FROM df._shard WHERE shard = 2"])
        .await;
    let before = Cluster::read(&databases[0].url()).await.unwrap();
    // Nobody but an operator says that what the others have is so.
    let message = refused(before.add(&third.url()).await);
    assert!(message.contains("has version 2") && message.contains("believe 1"), "{message}");
    let before = before.believe(1).await.unwrap();
    assert_eq!((before.version(), before.shards().len()), (2, 3));
    let mended = before.add(&third.url()).await.unwrap();
    assert_eq!((mended.version(), mended.shards().len(), mended.shard(3).is_some()), (3, 4, true));
    assert_eq!(knows(&third).await.0.as_deref(), Some("3"));
    // Two lists of one version are nobody's to choose from.
    execute(&owner, &["UPDATE df._shard SET state = 'draining' WHERE shard = 1"]).await;
    let message = refused(mended.set(3, ShardState::Draining, false).await);
    assert!(message.contains("another list of version 3"), "{message}");
}

#[tokio::test]
async fn a_change_through_any_shard_leaves_its_caller_where_it_was() {
    let (databases, _, _) = cluster_of(2).await;
    let through_one = Cluster::read(&databases[1].url()).await.unwrap();
    for _ in 0..2 {
        let drained = through_one.set(1, ShardState::Draining, false).await.unwrap();
        assert_eq!((drained.here(), drained.version()), (1, 2));
        let standing = drained.standing().await;
        assert!(standing.iter().all(|standing| standing.counts.is_ok()), "{standing:?}");
    }
    assert_eq!(through_one.set(1, ShardState::Open, false).await.unwrap().version(), 3);
}

#[tokio::test]
async fn a_place_that_leads_to_another_database_is_noticed() {
    let (databases, cluster, alice) = cluster_of(2).await;
    let owner = databases[0].owner().await;
    let astray = cluster.shards()[0].place.replace('\'', "''");
    execute(&owner, &[&format!("UPDATE df._shard SET place = '{astray}' WHERE shard = 1")]).await;
    let read = Cluster::read(&databases[0].url()).await.unwrap();
    let standing = read.standing().await;
    assert!(standing[1].counts.as_ref().is_err_and(|error| error.contains("is not shard 1")), "{standing:?}");
    let message = refused(read.set(1, ShardState::Removed, false).await);
    assert!(message.contains("is not shard 1"), "{message}");
    let clients = Clients::connect(&databases[0].url_as(&alice)).await.unwrap();
    let message = clients.on(1).await.err().unwrap().to_string();
    assert!(message.contains("is not shard 1"), "{message}");
    // The home of a key is worked out as the database does.
    for key in ["", "order 1", "\u{fc}ber"] {
        let home = one(&owner, &format!("SELECT df.home('{key}')")).await;
        assert_eq!(home, Some(read.home(key).unwrap().to_string()));
    }
}

#[tokio::test]
async fn a_database_that_was_made_ready_in_vain_is_let_go() {
    let database = database().await;
    let alice = database.role("alice").await;
    let owner = database.owner().await;
    execute(&owner, &["SELECT df._join('33333333-3333-4333-8333-333333333333', 4)"]).await;
    let client = database.connect(&alice).await;
    assert!(refusal(&client, "SELECT df.start('SELECT 1')").await.contains("duramen fn cluster leave"));
    Cluster::leave(&database.url()).await.unwrap();
    assert_eq!(shard_of(&start(&client, "'SELECT 1'").await), Some(0));
    let (databases, _, _) = cluster_of(1).await;
    assert!(Cluster::leave(&databases[0].url())
        .await
        .unwrap_err()
        .to_string()
        .contains("is shard 0 of a cluster"));
}

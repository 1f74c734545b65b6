//! Constraints and triggers that wait for the commit.

use super::{common::one, execute, run_step, Scene};
use crate::worker::{ended, start, start_step, SOON};

/// F-7: a constraint that is deferred fails the instance whose step violated it, and no neighbour of its batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_constraint_fails_its_own_instance_only() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(
        &scene.client,
        &[
            &format!("CREATE TABLE {alice}.parent (id int PRIMARY KEY)"),
            &format!(
                "CREATE TABLE {alice}.child (id int REFERENCES {alice}.parent DEFERRABLE INITIALLY DEFERRED)"
            ),
            &format!("CREATE TABLE {alice}.single (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"),
            &format!("INSERT INTO {alice}.parent SELECT generate_series(0, 99)"),
            &format!("INSERT INTO {alice}.single VALUES (-1)"),
        ],
    )
    .await;
    let mut ids = Vec::new();
    scene.client.batch_execute("BEGIN").await.unwrap();
    for number in 0..45 {
        let step = match number % 3 {
            0 => format!("INSERT INTO {alice}.child VALUES ({number})"),
            1 => format!("INSERT INTO {alice}.child VALUES ({number}), (100 + {number})"),
            _ => format!("INSERT INTO {alice}.single VALUES ({number}), (-1)"),
        };
        ids.push(start_step(&scene.client, &step).await);
    }
    scene.client.batch_execute("COMMIT").await.unwrap();
    for (number, id) in ids.iter().enumerate() {
        let ended = ended(&scene.client, id, SOON).await;
        match number % 3 {
            0 => assert_eq!(ended.completed(), r#"{"rows":[],"row_count":1}"#),
            1 => assert!(ended.failed().contains("violates foreign key constraint")),
            _ => assert!(ended.failed().contains("violates unique constraint")),
        }
    }
    let rows =
        one(&scene.owner, &format!("SELECT count(*) || ' ' || count(DISTINCT id) FROM {alice}.child")).await;
    assert_eq!(rows.as_deref(), Some("15 15"), "what did not fail was done once");
    assert_eq!(
        one(&scene.owner, &format!("SELECT count(*) FROM {alice}.single")).await.as_deref(),
        Some("1")
    );
}

/// F-5: a deferred trigger that defers itself again, so that it is still queued when the worker commits. From
/// PostgreSQL
/// 18 on it runs as who queued it; before, the step is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_defers_itself_does_not_run_as_the_worker() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    execute(
        &scene.client,
        &[
            &format!("CREATE TABLE {alice}.hot (n int)"),
            &format!(
                "CREATE FUNCTION {alice}.again() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     PERFORM {alice}.steal();
                     IF NEW.n > 0 THEN
                         SET CONSTRAINTS ALL DEFERRED;
                         INSERT INTO {alice}.hot VALUES (NEW.n - 1);
                     END IF;
                     RETURN NULL;
                 END $$"
            ),
            &format!(
                "CREATE CONSTRAINT TRIGGER again AFTER INSERT ON {alice}.hot DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION {alice}.again()"
            ),
            // The same behind a partition, whose triggers the server has made.
            &format!("CREATE TABLE {alice}.parted (n int) PARTITION BY RANGE (n)"),
            &format!("CREATE TABLE {alice}.part PARTITION OF {alice}.parted DEFAULT"),
            &format!(
                "CREATE CONSTRAINT TRIGGER again AFTER INSERT ON {alice}.parted DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION {alice}.again()"
            ),
        ],
    )
    .await;
    // What the worker asks the server behind the step is not answered by the submitter.
    let mut traps = Vec::new();
    for what in ["inserted", "updated", "deleted"] {
        traps.push(format!(
            "CREATE FUNCTION {alice}.pg_stat_get_xact_tuples_{what}(oid) RETURNS bigint
                LANGUAGE sql AS 'SELECT 0::bigint'"
        ));
    }
    traps.push(format!(
        "CREATE FUNCTION {alice}.less(bigint, int) RETURNS boolean LANGUAGE sql AS 'SELECT false'"
    ));
    traps.push(format!(
        "CREATE OPERATOR {alice}.> (LEFTARG = bigint, RIGHTARG = int, FUNCTION = {alice}.less)"
    ));
    for trap in &traps {
        execute(&scene.client, &[trap]).await;
    }
    let by_path = format!(
        "WITH path AS MATERIALIZED (SELECT set_config('search_path', '{alice}, pg_catalog', true))
         INSERT INTO {alice}.hot SELECT 1 FROM path"
    );
    run_step(&scene.client, &by_path).await;
    for table in ["hot", "parted"] {
        for n in [0, 1, 3] {
            let ended = run_step(&scene.client, &format!("INSERT INTO {alice}.{table} VALUES ({n})")).await;
            if scene.database.server().major() < 18 {
                let said = ended.failed();
                assert!(said.contains("before PostgreSQL 18"), "{said}");
            }
        }
    }
    if scene.database.server().major() >= 18 {
        scene.ran_as_herself("a trigger that defers itself").await;
    }
    let who = one(&scene.owner, &format!("SELECT string_agg(DISTINCT who, ',') FROM {alice}.ran")).await;
    assert!(who.is_none() || who.as_deref() == Some(alice.as_str()), "ran as {who:?}");
    scene.nothing_stolen("a trigger that defers itself").await;
}

/// F-5: the check of a deferrable exclusion constraint evaluates the index's expression, which is the submitter's.
#[tokio::test(flavor = "multi_thread")]
async fn an_exclusion_that_is_checked_at_the_commit_runs_nothing_as_the_worker() {
    let scene = Scene::set().await;
    scene.make_thief().await;
    let alice = &scene.alice;
    execute(
        &scene.client,
        &[
            &format!("CREATE TABLE {alice}.excluded (n int)"),
            &format!("CREATE SEQUENCE {alice}.calls"),
            // Equal for the first rows, so that a check is queued; then different, so that the check passes, and in
            // the check it queues another one.
            &format!(
                "CREATE FUNCTION {alice}.moody(n int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
                 DECLARE
                     call int := nextval('{alice}.calls');
                 BEGIN
                     PERFORM {alice}.steal();
                     IF call <= 3 THEN
                         RETURN 7;
                     END IF;
                     IF call <= 12 THEN
                         SET CONSTRAINTS ALL DEFERRED;
                         INSERT INTO {alice}.excluded VALUES (call);
                         RETURN 7;
                     END IF;
                     RETURN 1000 + call;
                 END $$"
            ),
            &format!(
                "CREATE FUNCTION {alice}.steady(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
                 DECLARE
                     found int;
                 BEGIN
                     EXECUTE 'SELECT {alice}.moody($1)' INTO found USING n;
                     RETURN found;
                 END $$"
            ),
            &format!(
                "ALTER TABLE {alice}.excluded ADD EXCLUDE USING btree ({alice}.steady(n) WITH =)
                 DEFERRABLE INITIALLY DEFERRED"
            ),
            &format!("SELECT setval('{alice}.calls', 1, false)"),
        ],
    )
    .await;
    let id = start_step(&scene.client, &format!("INSERT INTO {alice}.excluded VALUES (1), (2)")).await;
    // It may fail; it may not hold anybody up.
    ended(&scene.client, &id, SOON).await;
    let id = start(&scene.client, "'SELECT 1'").await;
    ended(&scene.client, &id, SOON).await.completed();
    let who = one(&scene.owner, &format!("SELECT string_agg(DISTINCT who, ',') FROM {alice}.ran")).await;
    assert!(who.is_none() || who.as_deref() == Some(alice.as_str()), "ran as {who:?}");
    scene.nothing_stolen("an exclusion constraint").await;
}

/// F-7: a trigger that fails only at the commit, when it is too late to tell whose it is, fails its own instance and
/// none
/// of its neighbours, which still have their effects once.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_fails_its_own_instance_only() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(
        &scene.client,
        &[
            &format!("CREATE TABLE {alice}.late (n int)"),
            &format!("CREATE TABLE {alice}.ledger (n int)"),
            &format!(
                "CREATE FUNCTION {alice}.late() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     IF NEW.n > 0 THEN
                         SET CONSTRAINTS ALL DEFERRED;
                         INSERT INTO {alice}.late VALUES (NEW.n - 1);
                         RETURN NULL;
                     END IF;
                     RAISE EXCEPTION 'too late';
                 END $$"
            ),
            &format!(
                "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON {alice}.late DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION {alice}.late()"
            ),
        ],
    )
    .await;
    let mut ids = Vec::new();
    scene.client.batch_execute("BEGIN").await.unwrap();
    for number in 0..20 {
        let step = match number {
            7 | 13 => format!("INSERT INTO {alice}.late VALUES (2)"),
            _ => format!("INSERT INTO {alice}.ledger VALUES ({number})"),
        };
        ids.push(start_step(&scene.client, &step).await);
    }
    scene.client.batch_execute("COMMIT").await.unwrap();
    for (number, id) in ids.iter().enumerate() {
        let ended = ended(&scene.client, id, SOON).await;
        match number {
            7 | 13 if scene.database.server().major() >= 18 => assert!(ended.failed().contains("too late")),
            7 | 13 => assert!(ended.failed().contains("before PostgreSQL 18")),
            _ => drop(ended.completed()),
        }
    }
    let rows =
        one(&scene.owner, &format!("SELECT count(*) || ' ' || count(DISTINCT n) FROM {alice}.ledger")).await;
    assert_eq!(rows.as_deref(), Some("18 18"), "every neighbour's effect, once");
    assert_eq!(one(&scene.owner, &format!("SELECT count(*) FROM {alice}.late")).await.as_deref(), Some("0"));
}

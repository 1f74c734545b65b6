//! What a step cannot do: F-5 (its submitter's rights and no way to others'), F-7 (no harm to neighbours) and F-8 (rows
//! that others have written are not believed). Every test runs real steps through a real worker, which is a superuser.

mod deferred;
mod escapes;
mod forgery;
mod walls;

use crate::common;
use crate::common::{one, Database};
use crate::worker;
use crate::worker::{execute, run_step, TestWorker};
use tokio_postgres::Client;

/// A database with a worker and a submitter who may create things in a schema of her own name.
struct Scene {
    worker: TestWorker,
    alice: String,
    client: Client,
    owner: Client,
    database: Database<'static>,
}

impl Scene {
    async fn set() -> Scene {
        let database = common::database().await;
        let (alice, client, owner) = worker::submitter(&database).await;
        execute(&owner, &["CREATE TABLE public.secret (value text)"]).await;
        execute(&owner, &["INSERT INTO public.secret VALUES ('untouched')"]).await;
        let worker = TestWorker::start(&database, 3).await;
        Scene { worker, alice, client, owner, database }
    }

    /// A function of the submitter's that uses whatever rights it finds: first as it is, then as the session's user. It
    /// notes as whom it ran in the table `ran`.
    async fn make_thief(&self) {
        let alice = &self.alice;
        let thief = format!(
            "CREATE FUNCTION {alice}.steal() RETURNS int LANGUAGE plpgsql VOLATILE AS $$
             BEGIN
                 FOR attempt IN 1 .. 2 LOOP
                     BEGIN
                         INSERT INTO {alice}.ran VALUES (current_user);
                     EXCEPTION WHEN OTHERS THEN NULL; END;
                     BEGIN
                         EXECUTE 'ALTER ROLE {alice} CREATEROLE CREATEDB';
                     EXCEPTION WHEN OTHERS THEN NULL; END;
                     BEGIN
                         EXECUTE 'UPDATE public.secret SET value = ''stolen''';
                     EXCEPTION WHEN OTHERS THEN NULL; END;
                     BEGIN
                         EXECUTE 'RESET ROLE';
                     EXCEPTION WHEN OTHERS THEN NULL; END;
                 END LOOP;
                 RETURN 1;
             END $$"
        );
        let table = format!("CREATE TABLE {alice}.ran (who text)");
        let let_all = format!("GRANT ALL ON {alice}.ran TO PUBLIC; GRANT ALL ON SCHEMA {alice} TO PUBLIC");
        execute(&self.client, &[&table, &let_all, &thief]).await;
    }

    /// The submitter has what she had, and nothing else has changed; later steps run as her.
    async fn nothing_stolen(&self, attempt: &str) {
        let powers = format!(
            "SELECT concat_ws(' ', CASE WHEN r.rolsuper THEN 'super' END,
                 CASE WHEN r.rolcreaterole THEN 'createrole' END, CASE WHEN r.rolcreatedb THEN 'createdb' END,
                 (SELECT string_agg(m.roleid::regrole::text, ' ') FROM pg_auth_members m WHERE m.member = r.oid),
                 (SELECT value FROM public.secret))
             FROM pg_roles r WHERE r.rolname = '{}'",
            self.alice
        );
        assert_eq!(one(&self.owner, &powers).await.as_deref(), Some("untouched"), "{attempt}");
        let now = run_step(&self.client, "SELECT current_user::text AS me").await.completed();
        assert_eq!(
            now,
            format!(r#"{{"rows":[{{"me":"{}"}}],"row_count":1}}"#, self.alice),
            "after {attempt}"
        );
    }

    /// As whom the submitter's functions have run: herself only, and at least once.
    async fn ran_as_herself(&self, attempt: &str) {
        let who =
            one(&self.owner, &format!("SELECT string_agg(DISTINCT who, ',') FROM {}.ran", self.alice)).await;
        assert_eq!(who.as_deref(), Some(self.alice.as_str()), "{attempt}: as whom the function ran");
    }
}

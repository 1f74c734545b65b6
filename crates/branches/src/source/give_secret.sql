-- By this the first session of a branch gives its role the branch's own secret. ALTER ROLE would first try whether the
-- password is empty, by all 4,096 rounds of the verifier: 10 ms of processor time for each branch of the pool. A role may
-- change its own password anyway, so whoever calls this gains nothing; and nothing but a verifier is taken.
drop function if exists pg_catalog.duramen_give_secret(pg_catalog.text) cascade;
create function pg_catalog.duramen_give_secret(verifier pg_catalog.text) returns pg_catalog.void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update pg_catalog.pg_authid set rolpassword = verifier
  where rolname operator(pg_catalog.=) session_user
    and pg_catalog.starts_with(verifier, 'SCRAM-SHA-256$4096:'::pg_catalog.text)
$$;
revoke all on function pg_catalog.duramen_give_secret(pg_catalog.text) from public;
grant execute on function pg_catalog.duramen_give_secret(pg_catalog.text) to duramen_read, duramen_write, duramen_ddl;

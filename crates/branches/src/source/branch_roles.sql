-- The roles that a branch's holder can be. They see all rows (a branch holds full data), and own nothing. Two more,
-- which nobody can log in as, own what superusers owned: duramen_owner, whose rights `ddl` has, and
-- duramen_extensions, whose rights nobody has, for what belongs to extensions.
do $$
declare
  name pg_catalog.text;
begin
  foreach name in array array['duramen_owner', 'duramen_extensions', 'duramen_read', 'duramen_write', 'duramen_ddl']::pg_catalog.text[] loop
    if not exists (select from pg_catalog.pg_authid where rolname = name::pg_catalog.name) then
      execute 'create role ' || pg_catalog.quote_ident(name);
    end if;
    execute 'alter role ' || pg_catalog.quote_ident(name)
      || ' nosuperuser nocreatedb nocreaterole noreplication bypassrls '
      || case when name in ('duramen_owner', 'duramen_extensions') then 'nologin' else 'login' end || ' password null valid until ''infinity'' connection limit -1';
  end loop;
end $$;

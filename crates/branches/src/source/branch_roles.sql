-- The roles that a branch's holder can be. They see all rows (a branch holds full data), and own nothing.
do $$
declare
  name text;
begin
  foreach name in array array['duramen_owner', 'duramen_read', 'duramen_write', 'duramen_ddl'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I', name);
    end if;
    execute format('alter role %I nosuperuser nocreatedb nocreaterole noreplication bypassrls %s password null',
      name, case when name = 'duramen_owner' then 'nologin' else 'login' end);
    -- RAISE LOG in a loop, or the plans that debug_print_plan writes, would fill the disk that holds the server's log.
    -- A setting that only superusers change, so no holder lifts it; what the server itself says stays.
    execute format('alter role %I set log_min_messages = fatal', name);
  end loop;
end $$;

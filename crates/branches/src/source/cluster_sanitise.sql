-- Run once in a snapshot, as its administrator: nothing in a branch may log in with the source's passwords, hold
-- rights on the server's files, or have settings forced on it that load code or change roles.
--
-- What a user of the source made is not run by this file: see `connection.rs` for the search path, and why functions
-- and operators are given exactly the types that they declare.
do $$
declare
  r record;
  setting pg_catalog.text;
  target pg_catalog.text;
begin
  for r in
    select oid, rolname::pg_catalog.text as rolname, rolsuper, rolpassword from pg_catalog.pg_authid
    where rolname !~ '^pg_'::pg_catalog.text
      and rolname not in ('duramen_admin', 'duramen_owner', 'duramen_extensions', 'duramen_read', 'duramen_write', 'duramen_ddl')
  loop
    execute 'alter role ' || pg_catalog.quote_ident(r.rolname) || ' nologin password null';
    if r.oid <> 10::pg_catalog.oid then
      -- Who bypasses row-level security goes on doing so: views show by it what they showed, and a branch holds all rows.
      execute 'alter role ' || pg_catalog.quote_ident(r.rolname) || ' nosuperuser noreplication nocreaterole nocreatedb'
        || case when r.rolsuper then ' nobypassrls' else '' end;
    end if;
    insert into pg_temp.report values
      ('role', r.rolname, 'login disabled'
        || case when r.rolpassword is not null then ', password removed' else '' end
        || case when r.rolsuper and r.oid <> 10::pg_catalog.oid then ', superuser right removed' else '' end);
  end loop;

  for r in
    select g.rolname::pg_catalog.text as granted, m.rolname::pg_catalog.text as member, b.rolname::pg_catalog.text as grantor
    from pg_catalog.pg_auth_members a
    join pg_catalog.pg_authid g on g.oid = a.roleid
    join pg_catalog.pg_authid m on m.oid = a.member
    join pg_catalog.pg_authid b on b.oid = a.grantor
    where g.rolname in ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_create_subscription',
                        'duramen_owner', 'duramen_extensions', 'duramen_read', 'duramen_write', 'duramen_ddl')
       or g.rolsuper or m.rolname in ('duramen_owner', 'duramen_extensions', 'duramen_read', 'duramen_write', 'duramen_ddl')
  loop
    execute 'revoke ' || pg_catalog.quote_ident(r.granted) || ' from ' || pg_catalog.quote_ident(r.member)
      || ' granted by ' || pg_catalog.quote_ident(r.grantor) || ' cascade';
    insert into pg_temp.report values ('role', r.member, 'membership in ' || r.granted || ' revoked');
  end loop;

  -- Rights to set what superusers alone may set (PostgreSQL 15 and later).
  if exists (select from pg_catalog.pg_class where relname = 'pg_parameter_acl' and relnamespace = 11::pg_catalog.oid) then
    for r in
      select distinct p.parname, case when a.grantee = 0::pg_catalog.oid then 'public'
        else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text) end as grantee
      from pg_catalog.pg_parameter_acl p, pg_catalog.aclexplode(p.paracl) a where a.grantee <> 10::pg_catalog.oid
    loop
      execute 'revoke all on parameter ' || r.parname || ' from ' || r.grantee || ' cascade';
      insert into pg_temp.report values ('setting', r.parname, 'right to set it revoked from ' || r.grantee);
    end loop;
  end if;

  -- Settings that load code, become somebody, or have the server log; and everything that was set for our own roles,
  -- which the source had then. A role may still be set to become one that it is a member of.
  for r in
    select d.datname::pg_catalog.text as datname, a.rolname::pg_catalog.text as rolname, s.setconfig,
      coalesce(a.rolname in ('duramen_admin', 'duramen_owner', 'duramen_extensions', 'duramen_read', 'duramen_write', 'duramen_ddl'), false) as ours
    from pg_catalog.pg_db_role_setting s
    left join pg_catalog.pg_database d on d.oid = s.setdatabase
    left join pg_catalog.pg_authid a on a.oid = s.setrole
  loop
    target := case when r.rolname is not null then 'role ' || pg_catalog.quote_ident(r.rolname)
        || case when r.datname is not null then ' in database ' || pg_catalog.quote_ident(r.datname) else '' end
      when r.datname is not null then 'database ' || pg_catalog.quote_ident(r.datname)
      else 'role all' end;
    if r.ours then
      execute 'alter ' || target || ' reset all';
      continue;
    end if;
    foreach setting in array r.setconfig loop
      setting := pg_catalog.split_part(setting, '='::pg_catalog.text, 1);
      if setting in ('session_preload_libraries', 'local_preload_libraries', 'dynamic_library_path', 'extension_control_path', 'session_authorization')
         or (setting = 'role' and r.rolname is null) or (setting = 'log_min_messages' and r.rolname is not null) then
        execute 'alter ' || target || ' reset ' || pg_catalog.quote_ident(setting);
        insert into pg_temp.report values ('setting', setting,
          'removed from ' || case when r.rolname is not null then target when r.datname is null then 'all roles' else 'database ' || r.datname end);
      end if;
    end loop;
  end loop;

  -- RAISE LOG in a loop, or the plans that debug_print_plan writes, would fill the disk that holds the server's log. A
  -- setting that only superusers change, so no holder lifts it; what the server itself says stays.
  alter role duramen_read set log_min_messages = fatal;
  alter role duramen_write set log_min_messages = fatal;
  alter role duramen_ddl set log_min_messages = fatal;

  -- Large objects have owners and rights of their own, one by one, and a dump reads all of them. Who may write tables may
  -- write these; `read-only` lacks the functions that do.
  alter role duramen_read set lo_compat_privileges = on;
  alter role duramen_write set lo_compat_privileges = on;
  alter role duramen_ddl set lo_compat_privileges = on;

  -- What is not connected to below is not made harmless: its owner could open it again.
  for r in
    select datname::pg_catalog.text as datname from pg_catalog.pg_database where not datallowconn and datname <> 'template0'
  loop
    execute 'alter database ' || pg_catalog.quote_ident(r.datname) || ' owner to duramen_admin';
    insert into pg_temp.report values ('database', r.datname, 'stays closed: it accepted no connections');
  end loop;
end $$;

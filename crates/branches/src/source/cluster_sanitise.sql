-- Run once in a snapshot, as its administrator: nothing in a branch may log in with the source's passwords, hold
-- rights on the server's files, or have settings forced on it that load code or change roles.
do $$
declare
  r record;
begin
  for r in
    select oid, rolname, rolsuper, rolcanlogin, rolpassword from pg_authid
    where rolname !~ '^pg_' and rolname not in ('duramen_admin', 'duramen_owner', 'duramen_read', 'duramen_write', 'duramen_ddl')
  loop
    execute format('alter role %I nologin password null', r.rolname);
    if r.oid <> 10 then
      execute format('alter role %I nosuperuser noreplication nocreaterole nocreatedb nobypassrls', r.rolname);
    end if;
    insert into pg_temp.report values
      ('role', r.rolname, 'login disabled'
        || case when r.rolpassword is not null then ', password removed' else '' end
        || case when r.rolsuper and r.oid <> 10 then ', superuser right removed' else '' end);
  end loop;

  for r in
    select g.rolname as granted, m.rolname as member, b.rolname as grantor
    from pg_auth_members a
    join pg_authid g on g.oid = a.roleid
    join pg_authid m on m.oid = a.member
    join pg_authid b on b.oid = a.grantor
    where g.rolname in ('pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_create_subscription')
       or g.rolsuper or m.rolname in ('duramen_owner', 'duramen_read', 'duramen_write', 'duramen_ddl')
  loop
    execute format('revoke %I from %I granted by %I cascade', r.granted, r.member, r.grantor);
    insert into pg_temp.report values ('role', r.member, 'membership in ' || r.granted || ' revoked');
  end loop;

  -- Rights to set what superusers alone may set (PostgreSQL 15 and later).
  if to_regclass('pg_catalog.pg_parameter_acl') is not null then
    for r in
      select distinct p.parname, case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee
      from pg_parameter_acl p, aclexplode(p.paracl) a where a.grantee <> 10
    loop
      execute format('revoke all on parameter %s from %s cascade', r.parname, r.grantee);
      insert into pg_temp.report values ('setting', r.parname, 'right to set it revoked from ' || r.grantee);
    end loop;
  end if;

  for r in
    select d.datname, split_part(c, '=', 1) as name
    from pg_db_role_setting s left join pg_database d on d.oid = s.setdatabase, unnest(s.setconfig) c
    where s.setrole = 0
      and split_part(c, '=', 1) in ('session_preload_libraries', 'local_preload_libraries', 'dynamic_library_path', 'role', 'session_authorization')
  loop
    if r.datname is null then
      execute format('alter role all reset %I', r.name);
    else
      execute format('alter database %I reset %I', r.datname, r.name);
    end if;
    insert into pg_temp.report values ('setting', r.name, 'removed from ' || coalesce('database ' || r.datname, 'all roles'));
  end loop;
end $$;

-- Run in every database of a snapshot, as its administrator: nothing in a branch may reach out, own what it should
-- not change, or run with the administrator's rights.
do $$
declare
  r record;
  grantee text;
  writing text;
  object text;
begin
  for r in
    select s.subname, s.subenabled from pg_subscription s join pg_database d on d.oid = s.subdbid
    where d.datname = current_database()
  loop
    -- Dropping would call the publisher: first it is pointed nowhere, and its slot is forgotten.
    execute format('alter subscription %I disable', r.subname);
    execute format('alter subscription %I connection %L', r.subname, 'host=/nonexistent port=1 dbname=none user=none password=none');
    execute format('alter subscription %I set (slot_name = none)', r.subname);
    execute format('drop subscription %I', r.subname);
    insert into pg_temp.report values ('subscription', r.subname, 'dropped' || case when r.subenabled then ' (was enabled)' else '' end);
  end loop;

  for r in select usename, srvname from pg_user_mappings loop
    if r.usename = 'public' then
      execute format('drop user mapping for public server %I', r.srvname);
    else
      execute format('drop user mapping for %I server %I', r.usename, r.srvname);
    end if;
    insert into pg_temp.report values ('user mapping', r.usename || ' on ' || r.srvname, 'dropped');
  end loop;
  -- Without a right to a server nobody can write a new mapping for it.
  for r in select srvname, srvacl, srvowner from pg_foreign_server loop
    execute format('alter server %I owner to duramen_admin', r.srvname);
    for grantee in select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
      from aclexplode(r.srvacl) a where a.grantee <> r.srvowner
    loop
      execute format('revoke all on foreign server %I from %s cascade', r.srvname, grantee);
    end loop;
    insert into pg_temp.report values ('foreign server', r.srvname, 'rights revoked');
  end loop;
  for r in select fdwname, fdwacl, fdwowner from pg_foreign_data_wrapper loop
    execute format('alter foreign data wrapper %I owner to duramen_admin', r.fdwname);
    for grantee in select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
      from aclexplode(r.fdwacl) a where a.grantee <> r.fdwowner
    loop
      execute format('revoke all on foreign data wrapper %I from %s cascade', r.fdwname, grantee);
    end loop;
  end loop;

  if to_regclass('cron.job') is not null then
    update cron.job set active = false where active;
    insert into pg_temp.report values ('scheduled jobs', 'cron.job', 'disabled');
  end if;
  if to_regclass('pgagent.pga_job') is not null then
    update pgagent.pga_job set jobenabled = false where jobenabled;
    insert into pg_temp.report values ('scheduled jobs', 'pgagent.pga_job', 'disabled');
  end if;

  -- Functions that reach the network, the server's files or a shell, whoever they were granted to.
  for r in
    select p.oid::regprocedure::text as name, p.proacl, p.proowner,
           coalesce(e.extname, 'language ' || l.lanname) as why
    from pg_proc p
    join pg_language l on l.oid = p.prolang
    left join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
    left join pg_extension e on e.oid = d.refobjid
    where p.prokind in ('f', 'p', 'w')
      and (e.extname in ('dblink', 'postgres_fdw', 'http', 'pg_net', 'pg_curl', 'aws_s3', 'aws_lambda', 'adminpack', 'file_fdw', 'pg_background', 'plsh', 'oracle_fdw', 'mysql_fdw')
           or (not l.lanpltrusted and l.lanname not in ('internal', 'c', 'sql') and e.extname is null)
           or (p.pronamespace = 'pg_catalog'::regnamespace
               and p.proname in ('pg_read_file', 'pg_read_binary_file', 'pg_stat_file', 'pg_ls_dir', 'pg_ls_logdir', 'pg_ls_waldir',
                                 'pg_ls_tmpdir', 'pg_ls_archive_statusdir', 'lo_import', 'lo_export', 'pg_reload_conf', 'pg_rotate_logfile')))
  loop
    execute format('revoke all on function %s from public', r.name);
    for grantee in select distinct quote_ident(pg_get_userbyid(a.grantee)) from aclexplode(r.proacl) a
      where a.grantee <> 0 and a.grantee <> r.proowner and pg_get_userbyid(a.grantee) !~ '^pg_'
    loop
      execute format('revoke all on function %s from %s', r.name, grantee);
    end loop;
    if r.why not in ('language internal', 'language c') then
      execute format('alter routine %s owner to duramen_admin', r.name);
      insert into pg_temp.report values ('function', r.name, 'no longer executable (' || r.why || ')');
    end if;
  end loop;

  -- What superusers own runs with their rights (views, SECURITY DEFINER functions): it gets an ordinary owner.
  for r in
    select 'schema' as kind, quote_ident(n.nspname) as name from pg_namespace n join pg_authid o on o.oid = n.nspowner
    where (o.oid = 10 or o.rolname = 'duramen_admin') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
      and not exists (select from pg_depend d where d.classid = 'pg_namespace'::regclass and d.objid = n.oid and d.deptype = 'e')
    union all
    select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end,
           c.oid::regclass::text
    from pg_class c join pg_authid o on o.oid = c.relowner join pg_namespace n on n.oid = c.relnamespace
    where (o.oid = 10 or o.rolname = 'duramen_admin') and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
      and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
                      and (d.deptype = 'e' or (c.relkind = 'S' and d.deptype in ('a', 'i'))))
    union all
    select 'routine', p.oid::regprocedure::text
    from pg_proc p join pg_authid o on o.oid = p.proowner join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
    where o.oid = 10 and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and p.prokind in ('f', 'p', 'w')
      and (l.lanpltrusted or l.lanname = 'sql')
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    union all
    select 'type', t.oid::regtype::text
    from pg_type t join pg_authid o on o.oid = t.typowner join pg_namespace n on n.oid = t.typnamespace
    left join pg_class c on c.oid = t.typrelid
    where (o.oid = 10 or o.rolname = 'duramen_admin') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
      and (t.typtype in ('e', 'd', 'r') or c.relkind = 'c')
      and not exists (select from pg_depend d where d.classid = 'pg_type'::regclass and d.objid = t.oid and d.deptype = 'e')
  loop
    execute format('alter %s %s owner to duramen_owner', r.kind, r.name);
  end loop;
  -- A function that runs with its owner's rights would do for read-only what it may not do. The branch roles see and,
  -- by policy, write every table, so it runs with its caller's rights as well. Of extensions it is taken from everybody.
  for r in
    select p.oid::regprocedure::text as name, p.proacl, p.proowner,
           exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e') as extension
    from pg_proc p where p.prosecdef and p.oid >= 16384
  loop
    if r.extension then
      for grantee in select distinct case when a.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end
        from aclexplode(coalesce(r.proacl, acldefault('f', r.proowner))) a where a.grantee <> r.proowner
      loop
        execute format('revoke all on routine %s from %s cascade', r.name, grantee);
      end loop;
      insert into pg_temp.report values ('function', r.name, 'no longer executable (security definer)');
    else
      execute format('alter routine %s security invoker', r.name);
      insert into pg_temp.report values ('function', r.name, 'runs with the rights of its caller (was security definer)');
    end if;
  end loop;
  for r in
    select c.oid::regclass::text as name from pg_class c where c.relkind = 'f'
  loop
    execute format('alter foreign table %s owner to duramen_admin', r.name);
    execute format('revoke all on %s from public, duramen_read, duramen_write, duramen_ddl', r.name);
    insert into pg_temp.report values ('foreign table', r.name, 'not readable in branches');
  end loop;

  -- Rights of the branch roles.
  execute format('revoke all on database %I from public', current_database());
  execute format('grant connect on database %I to duramen_read, duramen_write, duramen_ddl', current_database());
  execute format('grant temporary on database %I to duramen_write, duramen_ddl', current_database());
  execute format('grant create on database %I to duramen_ddl', current_database());
  for r in
    select quote_ident(nspname) as name from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
  loop
    execute format('revoke create on schema %s from public', r.name);
    execute format('grant usage on schema %s to duramen_read, duramen_write, duramen_ddl', r.name);
    execute format('grant create on schema %s to duramen_ddl', r.name);
  end loop;
  for r in
    select c.oid, c.oid::regclass::text as name, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'S') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  loop
    -- What the public may write, read-only could write too, whoever allowed it. What it may read stays: views of
    -- other owners read by it.
    writing := case when r.relkind = 'S' then 'usage, update'
      else 'insert, update, delete, truncate, references, trigger'
        || case when current_setting('server_version_num')::int >= 170000 then ', maintain' else '' end end;
    object := case when r.relkind = 'S' then 'sequence ' else 'table ' end || r.name;
    for grantee in
      select quote_ident(pg_get_userbyid(a.grantor)) from pg_class c, aclexplode(c.relacl) a
        where c.oid = r.oid and a.grantee = 0 and a.grantor <> c.relowner and a.privilege_type <> 'SELECT'
      union select quote_ident(pg_get_userbyid(a.grantor)) from pg_class c, pg_attribute t, aclexplode(t.attacl) a
        where c.oid = r.oid and t.attrelid = c.oid and a.grantee = 0 and a.grantor <> c.relowner and a.privilege_type <> 'SELECT'
    loop
      execute format('revoke grant option for %s on %s from %s cascade', writing, object, grantee);
    end loop;
    execute format('revoke %s on %s from public cascade', writing, object);
    if r.relkind = 'S' then
      execute format('grant select on sequence %s to duramen_read, duramen_write, duramen_ddl', r.name);
      execute format('grant usage, update on sequence %s to duramen_write, duramen_ddl', r.name);
    else
      execute format('grant select on %s to duramen_read', r.name);
      execute format('grant select, insert, update, delete, truncate on %s to duramen_write', r.name);
      execute format('grant all on %s to duramen_ddl', r.name);
    end if;
  end loop;

  -- Large objects and WAL messages can be written with no right at all: under read-only they must not.
  for r in
    select p.oid::regprocedure::text as name from pg_proc p
    where p.pronamespace = 'pg_catalog'::regnamespace
      and p.proname in ('lo_create', 'lo_creat', 'lo_from_bytea', 'lo_put', 'lowrite', 'lo_unlink', 'lo_truncate', 'lo_truncate64', 'pg_logical_emit_message')
  loop
    execute format('revoke all on function %s from public', r.name);
    execute format('grant execute on function %s to duramen_write, duramen_ddl', r.name);
  end loop;

  -- DDL on what ordinary roles own is done as a member of them.
  for r in
    select distinct o.rolname from pg_authid o
    where not o.rolsuper and o.rolname !~ '^(pg_|duramen_)'
      and (exists (select from pg_class c where c.relowner = o.oid) or exists (select from pg_namespace n where n.nspowner = o.oid)
           or exists (select from pg_proc p where p.proowner = o.oid))
    union all select 'duramen_owner'
  loop
    execute format('grant %I to duramen_ddl', r.rolname);
  end loop;
end $$;

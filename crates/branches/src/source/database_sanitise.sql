-- Run in every database of a snapshot, as its administrator: nothing in a branch may reach out, own what it should
-- not change, or run with the administrator's rights.
--
-- What a user of the source made is not run by this file, so it reads and changes the system catalogue alone: see
-- `connection.rs` for the search path, and why functions and operators are given exactly the types that they declare.
-- Objects of the source are those with an id from 16384 on, whatever their schema is called.

-- The relations of extensions, and the sequences of their columns.
create temporary table of_extensions as
  select c.oid, e.extname from pg_catalog.pg_class c
  join pg_catalog.pg_depend d on d.classid = 1259::pg_catalog.oid and d.objid = c.oid and d.deptype = 'e'
  join pg_catalog.pg_extension e on e.oid = d.refobjid
  where d.refclassid = 3079::pg_catalog.oid
union
  select s.objid, e.extname from pg_catalog.pg_depend s
  join pg_catalog.pg_class c on c.oid = s.objid and c.relkind = 'S'
  join pg_catalog.pg_depend d on d.classid = 1259::pg_catalog.oid and d.objid = s.refobjid and d.deptype = 'e'
  join pg_catalog.pg_extension e on e.oid = d.refobjid
  where s.classid = 1259::pg_catalog.oid and s.refclassid = 1259::pg_catalog.oid and s.deptype in ('a', 'i')
    and d.refclassid = 3079::pg_catalog.oid;

do $$
declare
  r record;
  grantee pg_catalog.text;
  writing pg_catalog.text;
  object pg_catalog.text;
  here pg_catalog.text := pg_catalog.quote_ident(pg_catalog.current_database()::pg_catalog.text);
  kept constant pg_catalog.name[] := array['pg_catalog', 'information_schema', 'pg_toast']::pg_catalog.name[];
  -- Extensions whose functions are known to stay inside the database, by the names of their libraries too.
  inward constant pg_catalog.name[] := array['address_standardizer', 'amcheck', 'autoinc', 'bloom', 'btree_gin', 'btree_gist', 'citext',
    'cube', 'dict_int', 'dict_xsyn', 'earthdistance', 'fuzzystrmatch', 'hll', 'hstore', 'hypopg', 'insert_username', 'intagg', 'intarray', '_int',
    'ip4r', 'isn', 'lo', 'ltree', 'moddatetime', 'orafce', 'pg_freespacemap', 'pg_hint_plan', 'pg_stat_statements', 'pg_trgm', 'pg_uuidv7',
    'pg_visibility', 'pgaudit', 'pgcrypto', 'pgrowlocks', 'pgstattuple', 'pgtap', 'plpgsql', 'postgis', 'postgis_sfcgal', 'postgis_topology',
    'prefix', 'refint', 'rum', 'seg', 'semver', 'tablefunc', 'tcn', 'temporal_tables', 'tsm_system_rows', 'tsm_system_time', 'unaccent',
    'uuid-ossp', 'vector']::pg_catalog.name[];
  -- Functions in their libraries that do not, by their symbols: orafce's access to files.
  outward constant pg_catalog.text := '^utl_file_';
  -- Functions of the system that reach the server's files or signal it.
  reaching constant pg_catalog.text[] := array['pg_read_file', 'pg_read_binary_file', 'pg_stat_file', 'pg_ls_dir', 'pg_ls_logdir', 'pg_ls_waldir',
    'pg_ls_tmpdir', 'pg_ls_archive_statusdir', 'pg_ls_logicalsnapdir', 'pg_ls_logicalmapdir', 'pg_ls_replslotdir', 'pg_ls_summariesdir', 'lo_import', 'lo_export', 'pg_reload_conf', 'pg_rotate_logfile']::pg_catalog.text[];
begin
  -- Code that hangs on the system's own tables would run as the bootstrap superuser.
  for r in
    select i.indrelid as oid from pg_catalog.pg_index i where i.indexrelid >= 16384::pg_catalog.oid and i.indrelid < 16384::pg_catalog.oid
    union select t.tgrelid from pg_catalog.pg_trigger t where t.tgrelid < 16384::pg_catalog.oid
    union select w.ev_class from pg_catalog.pg_rewrite w where w.oid >= 16384::pg_catalog.oid and w.ev_class < 16384::pg_catalog.oid
    union select s.stxrelid from pg_catalog.pg_statistic_ext s where s.stxrelid < 16384::pg_catalog.oid
  loop
    raise exception 'the source has changed tables of the system catalogue: indexes, triggers, rules or statistics hang on the one with id %', r.oid;
  end loop;

  for r in
    select s.subname::pg_catalog.text as subname, s.subenabled from pg_catalog.pg_subscription s
    join pg_catalog.pg_database d on d.oid = s.subdbid where d.datname = pg_catalog.current_database()
  loop
    -- Dropping would call the publisher: first it is pointed nowhere, and its slot is forgotten.
    object := 'subscription ' || pg_catalog.quote_ident(r.subname);
    execute 'alter ' || object || ' disable';
    execute 'alter ' || object || ' connection ''host=/nonexistent port=1 dbname=none user=none password=none''';
    execute 'alter ' || object || ' set (slot_name = none)';
    execute 'drop ' || object;
    insert into pg_temp.report values ('subscription', r.subname, 'dropped' || case when r.subenabled then ' (was enabled)' else '' end);
  end loop;

  for r in
    select case when m.umuser = 0::pg_catalog.oid then 'public' else pg_catalog.pg_get_userbyid(m.umuser)::pg_catalog.text end as usename,
      m.umuser, s.srvname::pg_catalog.text as srvname
    from pg_catalog.pg_user_mapping m join pg_catalog.pg_foreign_server s on s.oid = m.umserver
  loop
    execute 'drop user mapping for ' || case when r.umuser = 0::pg_catalog.oid then 'public' else pg_catalog.quote_ident(r.usename) end
      || ' server ' || pg_catalog.quote_ident(r.srvname);
    insert into pg_temp.report values ('user mapping', r.usename || ' on ' || r.srvname, 'dropped');
  end loop;
  -- Without a right to a server nobody can write a new mapping for it.
  for r in
    select s.srvname::pg_catalog.text as name, s.srvacl as acl, s.srvowner as owner, 'server' as kind from pg_catalog.pg_foreign_server s
    union all
    select w.fdwname::pg_catalog.text, w.fdwacl, w.fdwowner, 'data wrapper' from pg_catalog.pg_foreign_data_wrapper w
  loop
    execute 'alter ' || case when r.kind = 'server' then 'server ' else 'foreign data wrapper ' end
      || pg_catalog.quote_ident(r.name) || ' owner to duramen_admin';
    for grantee in select distinct case when a.grantee = 0::pg_catalog.oid then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text) end
      from pg_catalog.aclexplode(r.acl) a where a.grantee <> r.owner
    loop
      execute 'revoke all on foreign ' || r.kind || ' ' || pg_catalog.quote_ident(r.name) || ' from ' || grantee || ' cascade';
    end loop;
    if r.kind = 'server' then
      insert into pg_temp.report values ('foreign server', r.name, 'rights revoked');
    else
      -- A foreign table is also read as a partition, or by a view of who may read it: without a handler by nobody.
      execute 'alter foreign data wrapper ' || pg_catalog.quote_ident(r.name) || ' no handler';
    end if;
  end loop;

  -- Functions that are not known to stay inside the database: they may reach the network, the server's files or a
  -- shell, whoever they were granted to. What an extension or a language is called proves little, so libraries count.
  for r in
    select pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(p.proname::pg_catalog.text) || '('
             || case p.prokind when 'a' then pg_catalog.oidvectortypes(p.proargtypes) else pg_catalog.pg_get_function_identity_arguments(p.oid) end
             || ')' as name,
           p.oid, p.proacl, p.proowner, p.prorettype::pg_catalog.regtype::pg_catalog.text as result, e.extname::pg_catalog.text as extension,
           'language ' || l.lanname::pg_catalog.text as language
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    join pg_catalog.pg_language l on l.oid = p.prolang
    left join pg_catalog.pg_proc h on h.oid = l.lanplcallfoid
    left join pg_catalog.pg_depend d on d.classid = 1255::pg_catalog.oid and d.objid = p.oid and d.deptype = 'e'
    left join pg_catalog.pg_extension e on e.oid = d.refobjid
    where (p.oid < 16384::pg_catalog.oid and p.pronamespace = 11::pg_catalog.oid and p.proname = any (reaching::pg_catalog.name[]))
      or (p.oid >= 16384::pg_catalog.oid and case
        when e.extname <> all (inward) then true
        when l.lanname = 'sql' then false
        when l.lanname = 'internal' then p.prosrc in (
          select b.prosrc from pg_catalog.pg_proc b where b.oid < 16384::pg_catalog.oid and b.proname = any (reaching::pg_catalog.name[]))
        when l.lanname = 'c' then p.prosrc ~ outward or not (p.probin ~ '^([$]libdir/)?[^/]+$'::pg_catalog.text
          and pg_catalog.regexp_replace(p.probin, '^[$]libdir/|(-[0-9.]+)?([.]so)?$'::pg_catalog.text, ''::pg_catalog.text, 'g'::pg_catalog.text)::pg_catalog.name = any (inward))
        -- Languages that confine what is written in them, by their handlers.
        else not (l.lanpltrusted and h.probin ~ '^[$]libdir/[^/]+$'::pg_catalog.text
          and h.prosrc in ('plpgsql_call_handler', 'plperl_call_handler', 'pltcl_call_handler', 'plv8_call_handler'))
        end)
  loop
    if r.oid >= 16384::pg_catalog.oid and r.result in ('trigger', 'event_trigger') then
      -- Triggers call it without asking for a right.
      execute 'create or replace function ' || r.name || ' returns pg_catalog.' || r.result || ' language plpgsql as '
        || case r.result when 'trigger'
             then pg_catalog.quote_literal('begin raise exception ''the function of this trigger is not available in branches''; end')
             else pg_catalog.quote_literal('begin end') end;
      insert into pg_temp.report values ('function', r.name, case r.result when 'trigger' then 'raises when a trigger calls it (' else 'does nothing ('
        end || coalesce('extension ' || r.extension, r.language) || ')');
    end if;
    execute 'revoke all on routine ' || r.name || ' from public';
    for grantee in select distinct pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text)
      from pg_catalog.aclexplode(r.proacl) a
      where a.grantee <> 0::pg_catalog.oid and a.grantee <> r.proowner and pg_catalog.pg_get_userbyid(a.grantee) !~ '^pg_'::pg_catalog.text
    loop
      execute 'revoke all on routine ' || r.name || ' from ' || grantee;
    end loop;
    if r.oid >= 16384::pg_catalog.oid then
      execute 'alter routine ' || r.name || ' owner to duramen_admin';
      if r.extension <> all (inward) then
        insert into pg_temp.report values ('extension', r.extension, 'its functions are not executable: it is not known to stay inside the database');
      else
        insert into pg_temp.report values ('function', r.name, 'no longer executable (' || r.language || ')');
      end if;
    end if;
  end loop;

  -- What superusers own runs with their rights (views, SECURITY DEFINER functions, and, when it is vacuumed, the index
  -- expressions of a table): it gets an ordinary owner. What belongs to an extension gets one that nobody can be.
  for r in
    select 'schema' as kind, pg_catalog.quote_ident(n.nspname::pg_catalog.text) as name, 'duramen_owner' as owner
    from pg_catalog.pg_namespace n join pg_catalog.pg_authid o on o.oid = n.nspowner
    where o.rolsuper and (n.oid >= 16384::pg_catalog.oid or n.nspname = 'public') and n.nspname !~ '^pg_(temp|toast)'::pg_catalog.text
      and not exists (select from pg_catalog.pg_depend d where d.classid = 2615::pg_catalog.oid and d.objid = n.oid and d.deptype = 'e')
    union all
    select case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end,
           pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(c.relname::pg_catalog.text),
           case when x.oid is null then 'duramen_owner' else 'duramen_extensions' end
    from pg_catalog.pg_class c
    join pg_catalog.pg_authid o on o.oid = c.relowner
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join pg_temp.of_extensions x on x.oid = c.oid
    where (o.rolsuper or x.oid is not null) and c.relkind in ('r', 'p', 'v', 'm', 'S')
      and c.oid >= 16384::pg_catalog.oid and c.relpersistence <> 't'
      and not (c.relkind = 'S' and exists (select from pg_catalog.pg_depend d where d.classid = 1259::pg_catalog.oid and d.objid = c.oid
                                             and d.refclassid = 1259::pg_catalog.oid and d.deptype in ('a', 'i')))
    union all
    select 'routine', pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(p.proname::pg_catalog.text)
             || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')', 'duramen_owner'
    from pg_catalog.pg_proc p
    join pg_catalog.pg_authid o on o.oid = p.proowner
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    join pg_catalog.pg_language l on l.oid = p.prolang
    where o.oid = 10::pg_catalog.oid and n.nspname <> all (kept) and p.oid >= 16384::pg_catalog.oid and p.prokind in ('f', 'p', 'w')
      and (l.lanpltrusted or l.lanname = 'sql')
      and not exists (select from pg_catalog.pg_depend d where d.classid = 1255::pg_catalog.oid and d.objid = p.oid and d.deptype = 'e')
    union all
    select 'type', pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(t.typname::pg_catalog.text), 'duramen_owner'
    from pg_catalog.pg_type t
    join pg_catalog.pg_authid o on o.oid = t.typowner
    join pg_catalog.pg_namespace n on n.oid = t.typnamespace
    left join pg_catalog.pg_class c on c.oid = t.typrelid
    where o.rolsuper and t.oid >= 16384::pg_catalog.oid and n.nspname <> all (kept)
      and (t.typtype in ('e', 'd', 'r') or c.relkind = 'c')
      and not exists (select from pg_catalog.pg_depend d where d.classid = 1247::pg_catalog.oid and d.objid = t.oid and d.deptype = 'e')
  loop
    execute 'alter ' || r.kind || ' ' || r.name || ' owner to ' || r.owner;
  end loop;
  -- A function that runs with its owner's rights would do for read-only what it may not do. The branch roles see and,
  -- by policy, write every table, so it runs with its caller's rights as well. Of extensions it is taken from everybody;
  -- triggers and indexes call it all the same, without asking for a right.
  for r in
    select pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(p.proname::pg_catalog.text)
             || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')' as name, p.proacl, p.proowner,
           exists (select from pg_catalog.pg_depend d where d.classid = 1255::pg_catalog.oid and d.objid = p.oid and d.deptype = 'e') as extension
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where p.prosecdef and p.oid >= 16384::pg_catalog.oid
  loop
    execute 'alter routine ' || r.name || ' security invoker';
    if r.extension then
      for grantee in select distinct case when a.grantee = 0::pg_catalog.oid then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text) end
        from pg_catalog.aclexplode(coalesce(r.proacl, pg_catalog.acldefault('f'::pg_catalog."char", r.proowner))) a where a.grantee <> r.proowner
      loop
        execute 'revoke all on routine ' || r.name || ' from ' || grantee || ' cascade';
      end loop;
      insert into pg_temp.report values ('function', r.name, 'no longer executable (security definer)');
    else
      insert into pg_temp.report values ('function', r.name, 'runs with the rights of its caller (was security definer)');
    end if;
  end loop;
  for r in
    select c.oid, pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(c.relname::pg_catalog.text) as name
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind = 'f'
  loop
    execute 'alter foreign table ' || r.name || ' owner to duramen_admin';
    execute 'revoke all on ' || r.name || ' from public, duramen_read, duramen_write, duramen_ddl';
    insert into pg_temp.report values ('foreign table', r.name, 'not readable in branches'
      || coalesce((select ', nor is ' || pg_catalog.quote_ident(above.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(pc.relname::pg_catalog.text)
           || ' where a query needs this part of it'
         from pg_catalog.pg_inherits i join pg_catalog.pg_class pc on pc.oid = i.inhparent join pg_catalog.pg_namespace above on above.oid = pc.relnamespace
         where i.inhrelid = r.oid limit 1), ''));
  end loop;

  -- Rights on tables that would be given by themselves: to the public, and to anybody on what superusers make, as
  -- extensions are even when others create them.
  for r in
    select distinct pg_catalog.quote_ident(o.rolname::pg_catalog.text) as owner,
      case when n.oid is null then '' else ' in schema ' || pg_catalog.quote_ident(n.nspname::pg_catalog.text) end as place,
      case f.defaclobjtype when 'r' then 'tables' else 'sequences' end as kind,
      case when a.grantee = 0::pg_catalog.oid then 'public' else pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text) end as grantee
    from pg_catalog.pg_default_acl f
    join pg_catalog.pg_authid o on o.oid = f.defaclrole
    left join pg_catalog.pg_namespace n on n.oid = f.defaclnamespace
    cross join pg_catalog.aclexplode(f.defaclacl) a
    where a.grantee <> f.defaclrole and f.defaclobjtype in ('r', 'S') and (o.rolsuper or a.grantee = 0::pg_catalog.oid)
  loop
    execute 'alter default privileges for role ' || r.owner || r.place || ' revoke all on ' || r.kind || ' from ' || r.grantee || ' cascade';
  end loop;

  -- Rights of the branch roles.
  execute 'revoke all on database ' || here || ' from public';
  execute 'grant connect on database ' || here || ' to duramen_read, duramen_write, duramen_ddl';
  execute 'grant temporary on database ' || here || ' to duramen_write, duramen_ddl';
  execute 'grant create on database ' || here || ' to duramen_ddl';
  for r in
    select pg_catalog.quote_ident(nspname::pg_catalog.text) as name from pg_catalog.pg_namespace
    where (oid >= 16384::pg_catalog.oid or nspname = 'public') and nspname !~ '^pg_(temp|toast)'::pg_catalog.text
  loop
    execute 'revoke create on schema ' || r.name || ' from public';
    -- The owners too: checks of foreign keys run with their rights.
    execute 'grant usage on schema ' || r.name || ' to duramen_owner, duramen_extensions, duramen_read, duramen_write, duramen_ddl';
    execute 'grant create on schema ' || r.name || ' to duramen_ddl';
  end loop;
  for r in
    select c.oid, c.relkind, x.extname::pg_catalog.text as extension,
      pg_catalog.quote_ident(n.nspname::pg_catalog.text) || '.' || pg_catalog.quote_ident(c.relname::pg_catalog.text) as name
    from pg_catalog.pg_class c
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join pg_temp.of_extensions x on x.oid = c.oid
    where c.relkind in ('r', 'p', 'v', 'm', 'S') and c.oid >= 16384::pg_catalog.oid and c.relpersistence <> 't'
  loop
    -- What the public may write, read-only could write too, whoever allowed it. What it may read stays: views of
    -- other owners read by it. What belongs to extensions nobody may write: rows there steer what they do, such as
    -- which of the host's files they open.
    writing := case when r.relkind = 'S' then 'usage, update'
      else 'insert, update, delete, truncate, references, trigger{maintain}' end;
    object := case when r.relkind = 'S' then 'sequence ' else 'table ' end || r.name;
    for grantee in
      select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantor)::pg_catalog.text)
        from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
        where c.oid = r.oid and a.grantee = 0::pg_catalog.oid and a.grantor <> c.relowner and a.privilege_type <> 'SELECT'::pg_catalog.text
      union select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantor)::pg_catalog.text)
        from pg_catalog.pg_class c, pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
        where c.oid = r.oid and t.attrelid = c.oid and a.grantee = 0::pg_catalog.oid and a.grantor <> c.relowner and a.privilege_type <> 'SELECT'::pg_catalog.text
    loop
      execute 'revoke grant option for ' || writing || ' on ' || object || ' from ' || grantee || ' cascade';
    end loop;
    execute 'revoke ' || writing || ' on ' || object || ' from public cascade';
    if r.extension is not null then
      for grantee in
        select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text)
          from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
          where c.oid = r.oid and a.grantee <> 0::pg_catalog.oid and a.grantee <> c.relowner
        union select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text)
          from pg_catalog.pg_class c, pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) a
          where c.oid = r.oid and t.attrelid = c.oid and a.grantee <> 0::pg_catalog.oid and a.grantee <> c.relowner
      loop
        execute 'revoke ' || writing || ' on ' || object || ' from ' || grantee || ' cascade';
      end loop;
      execute 'grant select on ' || object || ' to duramen_read, duramen_write, duramen_ddl';
      insert into pg_temp.report values (case when r.relkind = 'S' then 'sequence' else 'table' end, r.name,
        'not writable in branches (extension ' || r.extension || ')');
    elsif r.relkind = 'S' then
      execute 'grant select on sequence ' || r.name || ' to duramen_read, duramen_write, duramen_ddl';
      execute 'grant usage, update on sequence ' || r.name || ' to duramen_write, duramen_ddl';
    else
      execute 'grant select on ' || r.name || ' to duramen_read';
      execute 'grant select, insert, update, delete, truncate on ' || r.name || ' to duramen_write';
      execute 'grant all on ' || r.name || ' to duramen_ddl';
    end if;
  end loop;

  -- Large objects and WAL messages can be written with no right at all: under read-only they must not.
  for r in
    select 'pg_catalog.' || pg_catalog.quote_ident(p.proname::pg_catalog.text) || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')' as name
    from pg_catalog.pg_proc p
    where p.pronamespace = 11::pg_catalog.oid
      and p.proname in ('lo_create', 'lo_creat', 'lo_from_bytea', 'lo_put', 'lowrite', 'lo_unlink', 'lo_truncate', 'lo_truncate64', 'pg_logical_emit_message')
  loop
    execute 'revoke all on function ' || r.name || ' from public';
    execute 'grant execute on function ' || r.name || ' to duramen_write, duramen_ddl';
  end loop;

  -- DDL on what ordinary roles own is done as a member of them.
  for r in
    select distinct o.rolname::pg_catalog.text as rolname from pg_catalog.pg_authid o
    where not o.rolsuper and o.rolname !~ '^(pg_|duramen_)'::pg_catalog.text
      and (exists (select from pg_catalog.pg_class c where c.relowner = o.oid) or exists (select from pg_catalog.pg_namespace n where n.nspowner = o.oid)
           or exists (select from pg_catalog.pg_proc p where p.proowner = o.oid))
    union all select 'duramen_owner'
  loop
    execute 'grant ' || pg_catalog.quote_ident(r.rolname) || ' to duramen_ddl';
  end loop;
end $$;

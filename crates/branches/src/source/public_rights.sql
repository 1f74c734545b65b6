-- What PUBLIC may do in a database besides reading, as the statements that would grant it: the rest of what
-- database_sanitise.sql takes. What belongs to extensions stays closed.
select 'grant ' || string_agg(distinct a.privilege_type, ', '::text) || ' on database ' || quote_ident(d.datname::text) || ' to public'
  from pg_catalog.pg_database d cross join lateral aclexplode(coalesce(d.datacl, acldefault('d'::"char", d.datdba))) a
  where d.datname = current_database() and a.grantee = 0::oid group by d.datname
union all
select 'grant create on schema ' || quote_ident(n.nspname::text) || ' to public'
  from pg_catalog.pg_namespace n
  where (n.oid >= 16384::oid or n.nspname = 'public') and n.nspname !~ '^pg_(temp|toast)'::text
    and exists (select from aclexplode(n.nspacl) a where a.grantee = 0::oid and a.privilege_type = 'CREATE'::text)
union all
select 'grant ' || string_agg(distinct a.privilege_type, ', '::text) || ' on ' || case c.relkind when 'S' then 'sequence ' else 'table ' end
    || quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text) || ' to public'
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace cross join lateral aclexplode(c.relacl) a
  where c.relkind in ('r', 'p', 'v', 'm', 'S') and c.oid >= 16384::oid and c.relpersistence <> 't'
    and a.grantee = 0::oid and a.privilege_type <> 'SELECT'::text
    and not exists (select from pg_catalog.pg_depend d where d.classid = 1259::oid and d.objid = c.oid and d.deptype = 'e')
    and not exists (select from pg_catalog.pg_depend s join pg_catalog.pg_depend d on d.classid = 1259::oid and d.objid = s.refobjid and d.deptype = 'e'
      where s.classid = 1259::oid and s.objid = c.oid and s.refclassid = 1259::oid and s.deptype in ('a', 'i'))
  group by n.nspname, c.relname, c.relkind
union all
select 'grant ' || a.privilege_type || ' (' || quote_ident(t.attname::text) || ') on table '
    || quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text) || ' to public'
  from pg_catalog.pg_attribute t join pg_catalog.pg_class c on c.oid = t.attrelid
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace cross join lateral aclexplode(t.attacl) a
  where c.relkind in ('r', 'p', 'v', 'm') and c.oid >= 16384::oid and c.relpersistence <> 't' and not t.attisdropped
    and a.grantee = 0::oid and a.privilege_type <> 'SELECT'::text
    and not exists (select from pg_catalog.pg_depend d where d.classid = 1259::oid and d.objid = c.oid and d.deptype = 'e')
union all
select 'grant execute on function pg_catalog.' || quote_ident(p.proname::text) || '(' || pg_get_function_identity_arguments(p.oid) || ') to public'
  from pg_catalog.pg_proc p
  where p.pronamespace = 11::oid
    and p.proname in ('lo_create', 'lo_creat', 'lo_from_bytea', 'lo_put', 'lowrite', 'lo_unlink', 'lo_truncate', 'lo_truncate64', 'pg_logical_emit_message')
    and exists (select from aclexplode(coalesce(p.proacl, acldefault('f'::"char", p.proowner))) a where a.grantee = 0::oid)

//! What is asked of the system catalogues.
//!
//! Every query for objects gives rows of one shape: catalogue, id and sub-id (for dependencies), the id of the relation
//! that it is a part of or 0, kind, name, name in statements, whether it is derived, comment, and properties as an array of
//! names and values.
//!
//! Sessions that read are often superusers'. So names are looked for in `pg_catalog` alone, functions and operators get
//! the types that they declare, and no cast goes by input and output functions, for which a user could declare another.
//! Numbers become text through `format`. The functions that write definitions (`pg_get_*def`) run nothing of a user's:
//! they parse nothing, plan nothing, and write constants by the output functions of their types.

/// A relation's name, a role's, and schemas of others than the system.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("{rel}", "quote_ident(n.nspname::text) || '.' || quote_ident(c.relname::text)"),
    ("{user}", "n.nspname !~ '^pg_' and n.nspname <> 'information_schema'"),
];

/// The queries for objects, those of a server of a major version.
pub(super) fn objects(major: u32) -> Vec<String> {
    QUERIES.iter().map(|(_, query)| expand(query, major)).collect()
}

pub(super) fn expand(query: &str, major: u32) -> String {
    let mut text = query.to_owned();
    for (name, value) in ABBREVIATIONS {
        text = text.replace(name, value);
    }
    let since = |version, column: &str| if major >= version { column.to_owned() } else { "''".to_owned() };
    text.replace("{compression}", &since(14, "x.attcompression::text"))
        .replace("{multirange}", &since(14, "(select format('%I.%I', mn.nspname, m.typname) from pg_type m join pg_namespace mn on mn.oid = m.typnamespace where m.oid = r.rngmultitypid)"))
}

/// Parents before their parts.
const QUERIES: &[(&str, &str)] = &[
    (
        "schemas",
        "select 2615::oid, n.oid, 0, 0::oid, 'schema', quote_ident(n.nspname::text), quote_ident(n.nspname::text), false, \
           obj_description(n.oid, 'pg_namespace'), array[]::text[] \
         from pg_namespace n where {user}",
    ),
    (
        "extensions",
        "select 3079::oid, x.oid, 0, 0::oid, 'extension', quote_ident(x.extname::text), quote_ident(x.extname::text), false, \
           obj_description(x.oid, 'pg_extension'), \
           array['schema', quote_ident(n.nspname::text), 'version', x.extversion] \
         from pg_extension x join pg_namespace n on n.oid = x.extnamespace",
    ),
    (
        "relations",
        "select 1259::oid, c.oid, 0, 0::oid, \
           case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end, \
           {rel}, {rel}, false, obj_description(c.oid, 'pg_class'), \
           array['unlogged', case when c.relpersistence = 'u' then 'yes' end, \
             'options', nullif(array_to_string(c.reloptions, ', '), ''), \
             'row security', case when c.relrowsecurity then 'enabled' end, \
             'forced row security', case when c.relforcerowsecurity then 'yes' end, \
             'replica identity', case when c.relkind in ('r', 'p') then case c.relreplident when 'n' then 'nothing' when 'f' then 'full' \
               when 'i' then (select 'using index ' || quote_ident(ic.relname::text) from pg_index i join pg_class ic on ic.oid = i.indexrelid \
                 where i.indrelid = c.oid and i.indisreplident) end end, \
             'access method', case when c.relkind in ('r', 'm') and am.amname <> 'heap' then quote_ident(am.amname::text) end, \
             'partition key', case when c.relkind = 'p' then pg_get_partkeydef(c.oid) end, \
             'bound', pg_get_expr(c.relpartbound, c.oid), \
             'parents', (select string_agg(quote_ident(k.nspname::text) || '.' || quote_ident(p.relname::text), ', ' order by h.inhseqno) \
               from pg_inherits h join pg_class p on p.oid = h.inhparent join pg_namespace k on k.oid = p.relnamespace where h.inhrelid = c.oid), \
             'of type', case when c.reloftype <> 0::oid then format_type(c.reloftype, null::int4) end, \
             'definition', case when c.relkind in ('v', 'm') then rtrim(pg_get_viewdef(c.oid), ';') end, \
             'empty', case when c.relkind = 'm' and not c.relispopulated then 'yes' end, \
             'columns', case when c.relkind = 'v' then \
               (select string_agg(quote_ident(a.attname::text) || ' ' || format_type(a.atttypid, a.atttypmod), e'\\n' order by a.attnum) \
                from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) end, \
             'type', format_type(s.seqtypid, null::int4), \
             'clauses', case when c.relkind = 'S' then format('increment by %s minvalue %s maxvalue %s start with %s cache %s %s', \
               s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, case when s.seqcycle then 'cycle' else 'no cycle' end) end] \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         left join pg_am am on am.oid = c.relam left join pg_sequence s on s.seqrelid = c.oid \
         where {user} and c.relkind in ('r', 'p', 'v', 'm', 'S') and c.relpersistence <> 't' \
           and not exists (select from pg_depend d where d.classid = 1259::oid and d.objid = c.oid and d.refclassid = 1259::oid \
             and d.deptype = 'i' and c.relkind = 'S')",
    ),
    (
        "types",
        "select 1247::oid, t.oid, 0, 0::oid, \
           case t.typtype when 'e' then 'enum' when 'd' then 'domain' when 'r' then 'range' else 'composite' end, \
           quote_ident(n.nspname::text) || '.' || quote_ident(t.typname::text), quote_ident(n.nspname::text) || '.' || quote_ident(t.typname::text), \
           false, obj_description(t.oid, 'pg_type'), \
           array['labels', (select string_agg(quote_literal(e.enumlabel::text), e'\\n' order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid), \
             'base', case when t.typtype = 'd' then format_type(t.typbasetype, t.typtypmod) end, \
             'collation', case when t.typtype = 'd' and t.typcollation <> b.typcollation then format('%I.%I', tn.nspname, tc.collname) end, \
             'not null', case when t.typnotnull then 'yes' end, \
             'default', case when t.typtype = 'd' then pg_get_expr(t.typdefaultbin, 0::oid) end, \
             'constraints', case when t.typtype = 'd' then (select string_agg(quote_ident(k.conname::text) || ' ' || pg_get_constraintdef(k.oid), e'\\n' order by k.conname) \
               from pg_constraint k where k.contypid = t.oid and k.contype = 'c') end, \
             'attributes', case when t.typtype = 'c' then (select string_agg(quote_ident(a.attname::text) || ' ' || format_type(a.atttypid, a.atttypmod) \
               || coalesce((select format(' collate %I.%I', an.nspname, ac.collname) from pg_collation ac join pg_namespace an on an.oid = ac.collnamespace \
                 join pg_type aty on aty.oid = a.atttypid where ac.oid = a.attcollation and a.attcollation <> aty.typcollation), ''), e'\\n' order by a.attnum) \
               from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) end, \
             'range', case when t.typtype = 'r' then format('subtype = %s', format_type(r.rngsubtype, null::int4)) \
               || coalesce((select format(', subtype_opclass = %I.%I', opn.nspname, op.opcname) from pg_opclass op join pg_namespace opn on opn.oid = op.opcnamespace \
                  where op.oid = r.rngsubopc and not op.opcdefault), '') \
               || coalesce((select format(', collation = %I.%I', rn.nspname, rc.collname) from pg_collation rc join pg_namespace rn on rn.oid = rc.collnamespace \
                  join pg_type rt on rt.oid = r.rngsubtype where rc.oid = r.rngcollation and rc.oid <> rt.typcollation), '') \
               || coalesce((select format(', subtype_diff = %I.%I', fn.nspname, f.proname) from pg_proc f join pg_namespace fn on fn.oid = f.pronamespace \
                  where f.oid = r.rngsubdiff::oid), '') end, \
             'multirange', case when t.typtype = 'r' then {multirange} end] \
         from pg_type t join pg_namespace n on n.oid = t.typnamespace \
         left join pg_class tr on tr.oid = t.typrelid left join pg_type b on b.oid = t.typbasetype left join pg_range r on r.rngtypid = t.oid \
         left join pg_collation tc on tc.oid = t.typcollation left join pg_namespace tn on tn.oid = tc.collnamespace \
         where {user} and (t.typtype in ('e', 'd', 'r') or t.typtype = 'c' and tr.relkind = 'c')",
    ),
    (
        "functions",
        "select 1255::oid, p.oid, 0, 0::oid, 'function', \
           quote_ident(n.nspname::text) || '.' || quote_ident(p.proname::text) || '(' || oidvectortypes(p.proargtypes) || ')', \
           quote_ident(n.nspname::text) || '.' || quote_ident(p.proname::text) || '(' || pg_get_function_identity_arguments(p.oid) || ')', \
           false, obj_description(p.oid, 'pg_proc'), \
           array['is', case p.prokind when 'p' then 'procedure' when 'w' then 'window' end, 'arguments', pg_get_function_arguments(p.oid), \
             'result', pg_get_function_result(p.oid), 'definition', rtrim(pg_get_functiondef(p.oid), e'\\n'), \
             'settings', nullif(array_to_string(p.proconfig, ', '), '')] \
         from pg_proc p join pg_namespace n on n.oid = p.pronamespace where {user} and p.prokind <> 'a' \
           and not exists (select from pg_depend d where d.classid = 1255::oid and d.objid = p.oid and d.deptype = 'i')",
    ),
    (
        "columns",
        "select 1259::oid, x.attrelid, x.attnum::int4, x.attrelid, 'column', {rel} || '.' || quote_ident(x.attname::text), quote_ident(x.attname::text), \
           x.attinhcount > 0, col_description(x.attrelid, x.attnum::int4), \
           array['type', format_type(x.atttypid, x.atttypmod), 'base type', format_type(x.atttypid, null::int4), \
             'not null', case when x.attnotnull then 'yes' end, \
             'collation', case when x.attcollation <> t.typcollation then (select format('%I.%I', cn.nspname, co.collname) \
               from pg_collation co join pg_namespace cn on cn.oid = co.collnamespace where co.oid = x.attcollation) end, \
             'generated', case x.attgenerated when 's' then 'stored' when 'v' then 'virtual' end, \
             'expression', case when x.attgenerated <> '' then (select pg_get_expr(d.adbin, d.adrelid) from pg_attrdef d \
               where d.adrelid = x.attrelid and d.adnum = x.attnum) end, \
             'identity', case x.attidentity when 'a' then 'always' when 'd' then 'by default' end, \
             'identity sequence', case when x.attidentity <> '' then (select format('increment by %s minvalue %s maxvalue %s start with %s cache %s %s', \
               s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, case when s.seqcycle then 'cycle' else 'no cycle' end) \
               from pg_depend d join pg_sequence s on s.seqrelid = d.objid where d.classid = 1259::oid and d.refclassid = 1259::oid \
               and d.refobjid = x.attrelid and d.refobjsubid = x.attnum::int4 and d.deptype = 'i') end, \
             'storage', case when x.attstorage <> t.typstorage then case x.attstorage when 'p' then 'plain' when 'e' then 'external' \
               when 'm' then 'main' else 'extended' end end, \
             'compression', case {compression} when 'p' then 'pglz' when 'l' then 'lz4' end, \
             'statistics', case when x.attstattarget >= 0 then format('%s', x.attstattarget) end, \
             'options', nullif(array_to_string(x.attoptions, ', '), ''), 'position', format('%s', x.attnum)] \
         from pg_attribute x join pg_class c on c.oid = x.attrelid join pg_namespace n on n.oid = c.relnamespace \
         join pg_type t on t.oid = x.atttypid \
         where {user} and c.relkind in ('r', 'p') and c.relpersistence <> 't' and x.attnum > 0 and not x.attisdropped",
    ),
    (
        "columns of views",
        "select 1259::oid, x.attrelid, x.attnum::int4, x.attrelid, 'column of view', {rel} || '.' || quote_ident(x.attname::text), quote_ident(x.attname::text), \
           false, col_description(x.attrelid, x.attnum::int4), array[]::text[] \
         from pg_attribute x join pg_class c on c.oid = x.attrelid join pg_namespace n on n.oid = c.relnamespace \
         where {user} and c.relkind in ('v', 'm') and x.attnum > 0 and not x.attisdropped \
           and (x.attacl is not null or col_description(x.attrelid, x.attnum::int4) is not null)",
    ),
    (
        "defaults",
        "select 2604::oid, x.oid, 0, x.adrelid, 'default', {rel} || '.' || quote_ident(a.attname::text), quote_ident(a.attname::text), \
           false, null::text, array['expression', pg_get_expr(x.adbin, x.adrelid), 'table', {rel}] \
         from pg_attrdef x join pg_class c on c.oid = x.adrelid join pg_namespace n on n.oid = c.relnamespace \
         join pg_attribute a on a.attrelid = x.adrelid and a.attnum = x.adnum \
         where {user} and c.relkind in ('r', 'p', 'v') and c.relpersistence <> 't' and a.attgenerated = ''",
    ),
    (
        "owners of sequences",
        "select 0::oid, s.oid, 0, s.oid, 'owner of sequence', quote_ident(sn.nspname::text) || '.' || quote_ident(s.relname::text), \
           quote_ident(sn.nspname::text) || '.' || quote_ident(s.relname::text), false, null::text, \
           array['column', {rel} || '.' || quote_ident(a.attname::text)] \
         from pg_depend d join pg_class s on s.oid = d.objid join pg_namespace sn on sn.oid = s.relnamespace \
         join pg_class c on c.oid = d.refobjid join pg_namespace n on n.oid = c.relnamespace \
         join pg_attribute a on a.attrelid = d.refobjid and a.attnum::int4 = d.refobjsubid \
         where {user} and d.classid = 1259::oid and d.refclassid = 1259::oid and d.deptype = 'a' and s.relkind = 'S'",
    ),
    (
        "constraints",
        "select 2606::oid, x.oid, 0, x.conrelid, case x.contype when 'f' then 'foreign key' else 'constraint' end, \
           quote_ident(x.conname::text) || ' on ' || {rel}, quote_ident(x.conname::text), \
           x.conparentid <> 0::oid or x.coninhcount > 0, obj_description(x.oid, 'pg_constraint'), \
           array['definition', pg_get_constraintdef(x.oid), \
             'is', case x.contype when 'p' then 'primary key' when 'u' then 'unique' when 'x' then 'exclusion' when 'c' then 'check' end, \
             'references', (select quote_ident(fn.nspname::text) || '.' || quote_ident(f.relname::text) from pg_class f \
               join pg_namespace fn on fn.oid = f.relnamespace where f.oid = x.confrelid)] \
         from pg_constraint x join pg_class c on c.oid = x.conrelid join pg_namespace n on n.oid = c.relnamespace \
         where {user} and c.relpersistence <> 't' and x.contype in ('p', 'u', 'c', 'f', 'x')",
    ),
    (
        "indexes",
        "select 1259::oid, x.indexrelid, 0, x.indrelid, 'index', quote_ident(n.nspname::text) || '.' || quote_ident(i.relname::text), \
           quote_ident(n.nspname::text) || '.' || quote_ident(i.relname::text), \
           exists (select from pg_inherits h where h.inhrelid = x.indexrelid), obj_description(x.indexrelid, 'pg_class'), \
           array['definition', pg_get_indexdef(x.indexrelid), 'table', {rel}, 'name', quote_ident(i.relname::text), \
             'invalid', case when not x.indisvalid and c.relkind <> 'p' then 'yes' end] \
         from pg_index x join pg_class i on i.oid = x.indexrelid \
         join pg_class c on c.oid = x.indrelid join pg_namespace n on n.oid = c.relnamespace \
         where {user} and c.relkind in ('r', 'p', 'm') and c.relpersistence <> 't' \
           and not exists (select from pg_constraint k where k.conindid = x.indexrelid and k.contype in ('p', 'u', 'x'))",
    ),
    (
        "statistics",
        "select 3381::oid, x.oid, 0, x.stxrelid, 'statistics', quote_ident(sn.nspname::text) || '.' || quote_ident(x.stxname::text), \
           quote_ident(sn.nspname::text) || '.' || quote_ident(x.stxname::text), false, obj_description(x.oid, 'pg_statistic_ext'), \
           array['definition', pg_get_statisticsobjdef(x.oid)] \
         from pg_statistic_ext x join pg_namespace sn on sn.oid = x.stxnamespace \
         join pg_class c on c.oid = x.stxrelid join pg_namespace n on n.oid = c.relnamespace where {user}",
    ),
    (
        "rules",
        "select 2618::oid, x.oid, 0, x.ev_class, 'rule', quote_ident(x.rulename::text) || ' on ' || {rel}, quote_ident(x.rulename::text), \
           false, obj_description(x.oid, 'pg_rewrite'), \
           array['definition', rtrim(pg_get_ruledef(x.oid), ';'), 'enabled', nullif(x.ev_enabled::text, 'O')] \
         from pg_rewrite x join pg_class c on c.oid = x.ev_class join pg_namespace n on n.oid = c.relnamespace \
         where {user} and c.relpersistence <> 't' and x.rulename <> '_RETURN'",
    ),
    (
        "triggers",
        "select 2620::oid, x.oid, 0, x.tgrelid, 'trigger', quote_ident(x.tgname::text) || ' on ' || {rel}, quote_ident(x.tgname::text), \
           x.tgparentid <> 0::oid, obj_description(x.oid, 'pg_trigger'), \
           array['definition', pg_get_triggerdef(x.oid), 'enabled', nullif(x.tgenabled::text, 'O')] \
         from pg_trigger x join pg_class c on c.oid = x.tgrelid join pg_namespace n on n.oid = c.relnamespace \
         where {user} and c.relpersistence <> 't' and not x.tgisinternal",
    ),
    (
        "policies",
        "select 3256::oid, x.oid, 0, x.polrelid, 'policy', quote_ident(x.polname::text) || ' on ' || {rel}, quote_ident(x.polname::text), \
           false, obj_description(x.oid, 'pg_policy'), \
           array['as', case when x.polpermissive then 'permissive' else 'restrictive' end, \
             'for', case x.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end, \
             'to', (select string_agg(case when r.id = 0::oid then 'public' else quote_ident(pg_get_userbyid(r.id)::text) end, ', ' \
               order by r.id <> 0::oid, pg_get_userbyid(r.id)) from unnest(x.polroles) r (id)), \
             'using', pg_get_expr(x.polqual, x.polrelid), 'check', pg_get_expr(x.polwithcheck, x.polrelid)] \
         from pg_policy x join pg_class c on c.oid = x.polrelid join pg_namespace n on n.oid = c.relnamespace where {user}",
    ),
    (
        "default privileges",
        "select 826::oid, x.oid, 0, 0::oid, 'default privileges', \
           format('of %I%s on %s', pg_get_userbyid(x.defaclrole), case when n.oid is not null then format(' in %I', n.nspname) end, \
             case x.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' when 'T' then 'types' \
               when 'n' then 'schemas' else 'large objects' end), \
           format('for role %I%s', pg_get_userbyid(x.defaclrole), case when n.oid is not null then format(' in schema %I', n.nspname) end), \
           false, null::text, array['on', case x.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions' \
             when 'T' then 'types' when 'n' then 'schemas' else 'large objects' end, \
             'everywhere', case when n.oid is null then 'yes' end] \
         from pg_default_acl x left join pg_namespace n on n.oid = x.defaclnamespace \
         where pg_get_userbyid(x.defaclrole) !~ '^duramen_'",
    ),
    (
        "what is compared by name",
        "select x.class, x.id, 0, 0::oid, 'other', i.type || ' ' || i.identity, i.identity, false, null::text, array[]::text[] \
         from (select 1255::oid, p.oid from pg_proc p where p.prokind = 'a' and p.oid >= 16384::oid \
           union all select 2617::oid, o.oid from pg_operator o where o.oid >= 16384::oid \
           union all select 2616::oid, o.oid from pg_opclass o where o.oid >= 16384::oid \
           union all select 2605::oid, o.oid from pg_cast o where o.oid >= 16384::oid and not exists (select from pg_depend d where d.classid = 2605::oid and d.objid = o.oid and d.deptype = 'i') \
           union all select 3456::oid, o.oid from pg_collation o where o.oid >= 16384::oid \
           union all select 2612::oid, o.oid from pg_language o where o.oid >= 16384::oid \
           union all select 3602::oid, o.oid from pg_ts_config o where o.oid >= 16384::oid \
           union all select 3600::oid, o.oid from pg_ts_dict o where o.oid >= 16384::oid \
           union all select 3466::oid, o.oid from pg_event_trigger o where o.oid >= 16384::oid \
           union all select 6104::oid, o.oid from pg_publication o where o.oid >= 16384::oid \
           union all select 2328::oid, o.oid from pg_foreign_data_wrapper o where o.oid >= 16384::oid \
           union all select 1417::oid, o.oid from pg_foreign_server o where o.oid >= 16384::oid \
           union all select 1259::oid, o.oid from pg_class o where o.relkind = 'f' and o.oid >= 16384::oid) x (class, id) \
         cross join lateral pg_identify_object(x.class, x.id, 0) i where i.identity is not null",
    ),
];

/// How much text definitions hold, as it is stored; bodies of functions and comments are most of it.
pub(super) const SIZE: &str =
    "select (select coalesce(sum(octet_length(p.prosrc)), 0) from pg_proc p where p.oid >= 16384::oid) \
       + (select coalesce(sum(octet_length(d.description)), 0) from pg_description d where d.objoid >= 16384::oid) \
       + (select coalesce(sum(pg_column_size(w.ev_action)), 0) from pg_rewrite w where w.oid >= 16384::oid) \
       + (select coalesce(sum(pg_column_size(d.adbin)), 0) from pg_attrdef d where d.oid >= 16384::oid) \
       + (select coalesce(sum(pg_column_size(k.conbin)), 0) from pg_constraint k where k.oid >= 16384::oid)";

/// What stands for what: catalogue, id, and those of an object that is asked for above.
pub(super) const STANDS_FOR: &str =
    // The row type of a relation, a composite type's relation, arrays, what makes a view, indexes of constraints, functions
    // that come with ranges, and sequences of identities.
    "select 1247::oid, t.oid, 1259::oid, t.typrelid, 0 from pg_type t where t.typrelid <> 0::oid and t.oid >= 16384::oid \
     union all select 1259::oid, t.typrelid, 1247::oid, t.oid, 0 from pg_type t join pg_class c on c.oid = t.typrelid where c.relkind = 'c' \
     union all select 1247::oid, t.typarray, 1247::oid, t.oid, 0 from pg_type t where t.typarray <> 0::oid and t.oid >= 16384::oid \
     union all select 2618::oid, w.oid, 1259::oid, w.ev_class, 0 from pg_rewrite w where w.rulename = '_RETURN' and w.oid >= 16384::oid \
     union all select 2604::oid, d.oid, 1259::oid, d.adrelid, d.adnum::int4 from pg_attrdef d \
       join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum where a.attgenerated <> '' \
     union all select 1259::oid, k.conindid, 2606::oid, k.oid, 0 from pg_constraint k where k.contype in ('p', 'u', 'x') and k.conindid <> 0::oid \
     union all select 2606::oid, k.oid, 1247::oid, k.contypid, 0 from pg_constraint k where k.contypid <> 0::oid \
     union all select d.classid, d.objid, 1247::oid, d.refobjid, 0 from pg_depend d \
       where d.classid in (1255::oid, 2605::oid) and d.refclassid = 1247::oid and d.deptype = 'i' \
     union all select 1259::oid, d.objid, 1259::oid, d.refobjid, d.refobjsubid from pg_depend d join pg_class s on s.oid = d.objid \
       where d.classid = 1259::oid and d.refclassid = 1259::oid and d.deptype = 'i' and s.relkind = 'S'";

/// The same, from 14 on.
pub(super) const MULTIRANGES: &str =
    " union all select 1247::oid, r.rngmultitypid, 1247::oid, r.rngtypid, 0 from pg_range r where r.rngtypid >= 16384::oid";

/// What depends on what. What belongs to an extension has the type `e`. Parts depend on what they derive from.
pub(super) const DEPENDENCIES: &str =
    "select d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid, d.refobjsubid, d.deptype = 'e' from pg_depend d \
       where d.objid >= 16384::oid and d.deptype in ('n', 'a', 'e', 'i', 'x', 'P', 'S') \
     union all select 2606::oid, k.oid, 0, 2606::oid, k.conparentid, 0, false from pg_constraint k where k.conparentid <> 0::oid \
     union all select 1259::oid, h.inhrelid, 0, 1259::oid, h.inhparent, 0, false from pg_inherits h \
     union all select 2620::oid, t.oid, 0, 2620::oid, t.tgparentid, 0, false from pg_trigger t where t.tgparentid <> 0::oid \
     union all select 1259::oid, a.attrelid, a.attnum::int4, 1259::oid, h.inhparent, p.attnum::int4, false from pg_inherits h \
       join pg_attribute a on a.attrelid = h.inhrelid and a.attnum > 0 and not a.attisdropped \
       join pg_attribute p on p.attrelid = h.inhparent and p.attname = a.attname and p.attnum > 0 and not p.attisdropped \
     union all select 2606::oid, k.oid, 0, 2606::oid, p.oid, 0, false from pg_inherits h \
       join pg_constraint k on k.conrelid = h.inhrelid and k.contype = 'c' and k.coninhcount > 0 \
       join pg_constraint p on p.conrelid = h.inhparent and p.contype = 'c' and p.conname = k.conname";

/// Who has which privilege on what: catalogue, id and sub-id of the object, grantee, privilege, whether he may pass it on.
/// Not what owners have on their own, nor the roles of branches.
pub(super) const GRANTS: &str = "select x.class, x.id, x.sub, case when a.grantee = 0::oid then '' else quote_ident(pg_get_userbyid(a.grantee)::text) end, \
       lower(a.privilege_type), a.is_grantable \
     from (select 1259::oid, c.oid, 0, c.relacl, c.relowner from pg_class c where c.relacl is not null \
       union all select 1259::oid, a.attrelid, a.attnum::int4, a.attacl, c.relowner from pg_attribute a join pg_class c on c.oid = a.attrelid \
         where a.attacl is not null and not a.attisdropped and a.attnum > 0 \
       union all select 1255::oid, p.oid, 0, coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner from pg_proc p where p.oid >= 16384::oid \
       union all select 1247::oid, t.oid, 0, coalesce(t.typacl, acldefault('T', t.typowner)), t.typowner from pg_type t where t.oid >= 16384::oid \
         and t.typtype in ('e', 'c', 'd', 'r') \
       union all select 2615::oid, n.oid, 0, n.nspacl, n.nspowner from pg_namespace n where n.nspacl is not null \
       union all select 826::oid, d.oid, 0, d.defaclacl, d.defaclrole from pg_default_acl d) x (class, id, sub, acl, owner) \
     cross join lateral aclexplode(x.acl) a \
     where a.grantee <> x.owner and pg_get_userbyid(a.grantee) !~ '^duramen_'";

/// Casts, so that a column's new type is reached by one where there is one.
pub(super) const CASTS: &str =
    "select format_type(c.castsource, null::int4), format_type(c.casttarget, null::int4) from pg_cast c";

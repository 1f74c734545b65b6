-- Run in every database of a copy that has roles of ours already, as its administrator, before it is made harmless: a copy
-- of a branch, or of a server that was one. What their holders made becomes duramen_owner's, and what anybody allowed
-- them is taken; each is given anew what its policy has. So no holder of one policy leaves a right to those of another.
do $$
declare
  r record;
begin
  -- What only superusers may own stays one's: an administrator may have made a holder's role a superuser.
  for r in
    select 'event trigger' as kind, e.evtname::pg_catalog.text as name from pg_catalog.pg_event_trigger e
    join pg_catalog.pg_authid o on o.oid = e.evtowner where o.rolname in ('duramen_read', 'duramen_write', 'duramen_ddl')
    union all
    select 'foreign data wrapper', w.fdwname::pg_catalog.text from pg_catalog.pg_foreign_data_wrapper w
    join pg_catalog.pg_authid o on o.oid = w.fdwowner where o.rolname in ('duramen_read', 'duramen_write', 'duramen_ddl')
    union all
    select 'publication', p.pubname::pg_catalog.text from pg_catalog.pg_publication p
    join pg_catalog.pg_authid o on o.oid = p.pubowner where o.rolname in ('duramen_read', 'duramen_write', 'duramen_ddl')
  loop
    execute 'alter ' || r.kind || ' ' || pg_catalog.quote_ident(r.name) || ' owner to duramen_admin';
  end loop;
end $$;
reassign owned by duramen_read, duramen_write, duramen_ddl to duramen_owner;
drop owned by duramen_read, duramen_write, duramen_ddl;

alter table orders add column note text not null default '';

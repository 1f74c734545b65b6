-- What the source `shop` of the examples holds: duramen source add shop --script examples/django/shop.sql
create table items (id int primary key, name text not null, price numeric(10, 2) not null);
insert into items values (1, 'pencil', 0.90), (2, 'paper', 4.50), (3, 'ink', 7.25);

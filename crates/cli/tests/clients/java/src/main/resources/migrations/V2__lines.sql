create table lines (order_id bigint not null references orders, amount numeric(12, 2) not null);
create index lines_of_order on lines (order_id);

-- Flyway runs what it finds to be CONCURRENTLY outside of a transaction.
create index concurrently orders_state on orders (state);

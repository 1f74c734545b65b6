create index concurrently orders_state on orders (state);

exports.up = (knex) => knex.raw("create index concurrently orders_state on orders (state)");
exports.down = (knex) => knex.raw("drop index concurrently orders_state");
// CONCURRENTLY is not allowed in a transaction.
exports.config = { transaction: false };

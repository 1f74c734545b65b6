exports.up = (knex) => knex.schema.alterTable("orders", (table) => table.text("note").notNullable().defaultTo(""));
exports.down = (knex) => knex.schema.alterTable("orders", (table) => table.dropColumn("note"));

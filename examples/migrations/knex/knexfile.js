// What knex needs to know: the database is in the environment.
module.exports = { client: "pg", connection: process.env.DATABASE_URL };

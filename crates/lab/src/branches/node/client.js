'use strict';
// The clients of the runner node-pg: a new one of the package pg for each line of the standard input, all at once.
//
// A line is a job: {id, url, limit_ms, reads: [query, query], write: query or null}; a query is {text, values}. A line of
// the output answers it: {id, step, connect_ms, first_query_ms, second_query_ms, write_ms, answers, error, sqlstate}.
// Times are in milliseconds; first_query_ms holds the connection. The process ends with its input.
const { performance } = require('node:perf_hooks');
const readline = require('node:readline');
const { Client } = require('pg');

function say(reply) {
  process.stdout.write(JSON.stringify(reply) + '\n');
}

async function work(job) {
  const reply = { id: job.id, step: 'connect', answers: [] };
  const ask = async (client, query) => {
    const result = await client.query({ ...query, rowMode: 'array' });
    reply.answers.push(Array.isArray(result) ? [] : result.rows);
  };
  try {
    let begin = performance.now();
    const client = new Client({
      connectionString: job.url,
      connectionTimeoutMillis: job.limit_ms,
      query_timeout: job.limit_ms,
    });
    // A connection that breaks between two queries has no query to tell it to.
    client.on('error', () => {});
    await client.connect();
    reply.connect_ms = performance.now() - begin;
    reply.step = 'first query';
    await ask(client, job.reads[0]);
    reply.first_query_ms = performance.now() - begin;
    reply.step = 'second query';
    begin = performance.now();
    await ask(client, job.reads[1]);
    reply.second_query_ms = performance.now() - begin;
    if (job.write) {
      reply.step = 'write';
      begin = performance.now();
      await ask(client, job.write);
      reply.write_ms = performance.now() - begin;
    }
    reply.step = 'end';
    await client.end();
  } catch (error) {
    reply.error = String(error && error.message ? error.message : error);
    reply.sqlstate = error && typeof error.code === 'string' ? error.code : null;
  }
  say(reply);
}

const input = readline.createInterface({ input: process.stdin, terminal: false });
input.on('line', (line) => work(JSON.parse(line)));
input.on('close', () => process.exit(0));
say({ ready: true });

// An agent with the official SDK of TypeScript does its work: over standard streams, or over HTTP with a token.
//
// Usage: agent.mjs stdio SOURCE BRANCH COMMAND...
//        agent.mjs http SOURCE BRANCH URL NAME:SECRET
//
// The SDK is found in the working directory.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const require = createRequire(`${process.cwd()}/`);
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const [way, source, branch, ...rest] = process.argv.slice(2);
const transport = way === "stdio"
  ? new StdioClientTransport({ command: rest[0], args: rest.slice(1) })
  : new StreamableHTTPClientTransport(new URL(rest[0]), {
    requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
  });
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
assert.equal(client.getServerVersion().name, "duramen");

const tool = async (name, args) => {
  const result = await client.callTool({ name, arguments: args });
  assert.ok(!result.isError, `${name}: ${result.content[0].text}`);
  return result.content[0].text;
};
const { tools } = await client.listTools();
assert.equal(tools.length, 9);
assert.equal(tools.find((each) => each.name === "branch_reset").annotations.destructiveHint, true);

assert.equal(JSON.parse(await tool("branch_create", { source, name: branch })).branch, branch);
assert.match(await tool("describe", { branch, table: "t" }), /public\.t/);
const found = JSON.parse(await tool("query", { branch, sql: "select sum(x) from t where x > $1", params: [0] }));
assert.deepEqual([found.columns, found.rows], [["sum int8"], [[5050]]]);
assert.equal(JSON.parse(await tool("query", { branch, sql: "delete from t" })).command, "DELETE 100");
const refused = await client.callTool({ name: "query", arguments: { branch, sql: "select * from nothing" } });
assert.ok(refused.isError && refused.content[0].text.includes("SQLSTATE 42P01"));
const { resources } = await client.listResources();
assert.deepEqual(resources.map((each) => each.uri), ["schema", "evidence"].map((kind) => `duramen://branches/${branch}/${kind}`));
const { contents } = await client.readResource({ uri: resources[0].uri });
assert.match(contents[0].text, /public\.t/);
await assert.rejects(client.readResource({ uri: "duramen://branches/../schema" }), /no such resource/);
const prompt = await client.getPrompt({ name: "try_a_migration", arguments: { sql: "drop table t" } });
assert.match(prompt.messages[0].content.text, /drop table t/);
assert.equal(JSON.parse(await tool("branch_reset", { branch })).reset, branch);
assert.deepEqual(JSON.parse(await tool("branch_destroy", { branch })), { destroyed: branch });
await client.close();
console.log(`${way}: ok`);

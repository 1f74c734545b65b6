"""An agent with the official SDK of Python does its work: over standard streams, or over HTTP with a token.

Usage: agent.py stdio SOURCE BRANCH COMMAND...
       agent.py http SOURCE BRANCH URL NAME:SECRET

By HTTP it is no administrator, and does not see the evidence.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

way, source, branch, *rest = sys.argv[1:]
TOOLS = [
    "branch_create", "branch_destroy", "branch_evidence", "branch_list", "branch_reset", "branch_url", "describe", "explain", "query",
]


def check(what, found, expected):
    assert found == expected, f"{what}: {found!r} instead of {expected!r}"


async def work(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    check("tools", sorted(tools), TOOLS)
    check("hints", tools["branch_destroy"].annotations.destructive_hint, True)
    check("hints", tools["describe"].annotations.read_only_hint, True)

    async def tool(which, **arguments):
        result = await client.call_tool(which, arguments)
        text = result.content[0].text
        assert not result.is_error, f"{which}: {text}"
        return text

    made = json.loads(await tool("branch_create", source=source, name=branch))
    check("branch", made["branch"], branch)
    assert "public.t" in await tool("describe", branch=branch)
    found = json.loads(await tool("query", branch=branch, sql="select sum(x) from t where x > $1", params=[0]))
    check("rows", (found["columns"], found["rows"]), (["sum int8"], [[5050]]))
    check("write", json.loads(await tool("query", branch=branch, sql="delete from t"))["command"], "DELETE 100")
    assert "Delete on t" in await tool("explain", branch=branch, sql="delete from t")
    assert branch in json.loads(await tool("branch_url", branch=branch))["url"] or way == "stdio"
    refused = await client.call_tool("query", {"branch": branch, "sql": "select * from nothing"})
    assert refused.is_error and "SQLSTATE 42P01" in refused.content[0].text, refused
    resources = [str(resource.uri) for resource in (await client.list_resources()).resources]
    check("resources", resources, [f"duramen://branches/{branch}/schema", f"duramen://branches/{branch}/evidence"])
    schema = await client.read_resource(resources[0])
    assert "public.t" in schema.contents[0].text, schema
    if way == "stdio":
        evidence = await client.read_resource(resources[1])
        check("evidence", json.loads(evidence.contents[0].text)["snapshot"], "unchanged")
    else:
        try:
            raise AssertionError(await client.read_resource(resources[1]))
        except MCPError as error:
            assert "not_allowed" in str(error), error
    check("prompts", len((await client.list_prompts()).prompts), 2)
    prompt = await client.get_prompt("work_in_a_branch", {"task": "count the rows"})
    assert "count the rows" in prompt.messages[0].content.text
    check("reset", json.loads(await tool("branch_reset", branch=branch))["reset"], branch)
    found = json.loads(await tool("query", branch=branch, sql="select count(*) from t"))
    check("rows after the reset", found["rows"], [[100]])
    check("end", json.loads(await tool("branch_destroy", branch=branch)), {"destroyed": branch})


async def main():
    # As the SDK does it by itself, and as clients of before do it, with a handshake.
    for mode in ["auto", "legacy"]:
        if way == "stdio":
            async with Client(StdioServerParameters(command=rest[0], args=rest[1:]), mode=mode) as client:
                await work(client)
        else:
            url, token = rest
            async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
                async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                    await work(client)
    print(f"{way}: ok")


asyncio.run(main())

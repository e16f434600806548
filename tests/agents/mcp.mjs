// SPDX-License-Identifier: ISC
// The official MCP client, told what to do line by line.
//
//	node mcp.mjs http URL KEY
//	node mcp.mjs stdio COMMAND [ARGUMENT...]
//
// Standard input: {"tool": NAME, "args": {...}} or {"list": true}; standard
// output: one line of JSON for each, the first about the server.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from
	"@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from
	"@modelcontextprotocol/sdk/client/streamableHttp.js";

const [how, ...rest] = process.argv.slice(2);
const transport = how === "stdio" ?
	new StdioClientTransport({ command: rest[0], args: rest.slice(1),
		env: process.env, stderr: "inherit" }) :
	new StreamableHTTPClientTransport(new URL(rest[0]), {
		requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } },
	});
const client = new Client({ name: "postern-tests", version: "1" });
const say = (what) => console.log(JSON.stringify(what));

try {
	await client.connect(transport);
} catch (error) {
	say({ error: error.message, code: error.code });
	process.exit(0);
}
say({
	server: client.getServerVersion(), capabilities:
	client.getServerCapabilities(), instructions: client.getInstructions(),
	version: transport.protocolVersion,
});
for await (const line of createInterface({ input: process.stdin })) {
	const ask = JSON.parse(line);
	try {
		// Results are checked by the client against their outputSchema.
		say(ask.list ? await client.listTools() :
			await client.callTool({ name: ask.tool,
				arguments: ask.args }));
	} catch (error) {
		say({ error: error.message, code: error.code });
	}
}
await client.close();

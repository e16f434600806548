// SPDX-License-Identifier: ISC
// An MCP client: what a model would see, without a model.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from
	"@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "example", version: "1" });
await client.connect(new StreamableHTTPClientTransport(
	new URL(`${process.env.POSTERN_URL}/mcp`), { requestInit: {
		headers: { Authorization: `Bearer ${process.env.POSTERN_KEY}` },
	} }));
const { tools } = await client.listTools();
console.log(tools.map((tool) => tool.name).join(" "));
const sent = await client.callTool({ name: "send", arguments: {
	to: ["ann@example.org"], subject: "From MCP", text: "Hello.",
} });
console.log(sent.content[0].text);
await client.close();

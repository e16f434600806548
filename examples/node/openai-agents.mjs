// SPDX-License-Identifier: ISC
// An agent of @openai/agents with the tools of Postern, by MCP. OPENAI_API_KEY
// is its model's; with POSTERN_STUB=1 a few lines stand in for the model, which
// is how the tests run it.
import { Agent, MCPServerStreamableHttp, Usage, run, setTracingDisabled }
	from "@openai/agents";

const postern = new MCPServerStreamableHttp({
	name: "postern", url: `${process.env.POSTERN_URL}/mcp`, requestInit: {
		headers: { Authorization: `Bearer ${process.env.POSTERN_KEY}` },
	},
});

// Calls the tool `send` once, and then says what it was told.
const stub = {
	async getResponse({ input, tools }) {
		const told = input.findLast((i) => i.type === "function_call_result");
		const output = told ? [{
			type: "message", role: "assistant", status: "completed",
			content: [{ type: "output_text",
				text: JSON.stringify(told.output) }],
		}] : [{
			type: "function_call", callId: "1", status: "completed",
			name: tools.find((t) => t.name === "send").name,
			arguments: JSON.stringify({ to: ["ann@example.org"],
				subject: "From @openai/agents", text: "Hello." }),
		}];
		return { usage: new Usage(), output };
	},
};

const agent = new Agent({
	name: "Writer", mcpServers: [postern],
	instructions: "You write mail. Mail that is held waits for a person: that "
		+ "is a success, never send it again.",
	...(process.env.POSTERN_STUB ? { model: stub } : {}),
});
if (process.env.POSTERN_STUB)
	setTracingDisabled(true);
await postern.connect();
try {
	const done = await run(agent, "Write to ann@example.org: Hello.");
	console.log(done.finalOutput);
} finally {
	await postern.close();
}

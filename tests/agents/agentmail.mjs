// SPDX-License-Identifier: ISC
// The stock AgentMail client, unmodified, told what to call line by line.
//
//	node agentmail.mjs URL KEY
//
// Standard input: {"call": "inboxes.messages.send", "args": [...]}, or
// {"fetch": URL}; standard output: {"data"} or {"error", "status", "body"}.
import { createInterface } from "node:readline";
import { AgentMailClient } from "agentmail";

const [url, key] = process.argv.slice(2);
const client = new AgentMailClient({ apiKey: key, baseUrl: url,
	environment: url });
const say = (what) => console.log(JSON.stringify(what));

say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
	const ask = JSON.parse(line);
	try {
		if (ask.fetch !== undefined) {
			const got = await fetch(ask.fetch);
			say({ type: got.headers.get("content-type"), base64:
				Buffer.from(await got.arrayBuffer())
					.toString("base64") });
			continue;
		}
		const path = ask.call.split(".");
		const name = path.pop();
		const owner = path.reduce((o, p) => o[p], client);
		say({ data: (await owner[name](...ask.args)) ?? null });
	} catch (error) {
		say({ error: error.constructor.name, status: error.statusCode,
			body: error.body, message: error.message });
	}
}
// The client's own timers would keep the process for a minute.
process.exit(0);

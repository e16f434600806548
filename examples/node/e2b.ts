// SPDX-License-Identifier: ISC
// Code that nobody trusts, in a sandbox of E2B: it gets a session key that may
// write one mail to one address, and never the key of the inbox.
import { Sandbox } from "@e2b/code-interpreter";

const url = process.env.POSTERN_URL!;

async function postern(path: string, body: object): Promise<any> {
	const answer = await fetch(url + path, {
		method: "POST", body: JSON.stringify(body), headers: {
			"Content-Type": "application/json",
			Authorization: `Bearer ${process.env.POSTERN_KEY}`,
		},
	});
	if (!answer.ok)
		throw new Error(`${path}: ${await answer.text()}`);
	return answer.json();
}

const untrusted = `
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["POSTERN_URL"] + "/v1/messages/send",
    json.dumps({"to": ["ann@example.org"], "subject": "From E2B",
                "text": "Hello."}).encode(),
    {"Content-Type": "application/json",
     "Authorization": "Bearer " + os.environ["POSTERN_KEY"]})
print(json.load(urllib.request.urlopen(request))["status"])
`;

const sandbox = await Sandbox.create();
const session = await postern("/v1/sessions", {
	policy: { recipients: ["ann@example.org"], max_messages: 1,
		doors: ["rest"] },
	expires_in: 300, sandbox_id: sandbox.sandboxId, template: "code-interpreter",
	purpose: "an example",
});
let failed: string | undefined;
try {
	const done = await sandbox.runCode(untrusted, {
		envs: { POSTERN_URL: url, POSTERN_KEY: session.key },
	});
	failed = done.error?.value;
	console.log(failed ?? done.logs.stdout.join("").trim());
} finally {
	// What it left stays for a person to look at; its key is dead.
	await postern(`/v1/sessions/${session.session_id}/end`, {
		held: "keep", exit_error: failed,
	});
	await sandbox.kill();
}

// SPDX-License-Identifier: ISC
// The stock AgentMail client; only its base URL is another.
import { AgentMailClient } from "agentmail";

const client = new AgentMailClient({
	apiKey: process.env.POSTERN_KEY, baseUrl: process.env.POSTERN_URL,
});
const inbox = process.env.POSTERN_INBOX;
const sent = await client.inboxes.messages.send(inbox, {
	to: ["ann@example.org"], subject: "From agentmail", text: "Hello.",
}, { idempotencyKey: `report-${Date.now()}` });
console.log(sent.status, sent.messageId);
const mail = await client.inboxes.messages.get(inbox, sent.messageId);
console.log(mail.subject, mail.to);

// SPDX-License-Identifier: ISC
// node emailjs.mjs CASE.json: emailjs, its messages over one connection. It
// sends text as it is, so that line ends have to be CRLF.
import fs from "node:fs";
import { SMTPClient } from "emailjs";
const c = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const tls = { ca: fs.readFileSync(c.ca) };
const client = new SMTPClient({ user: c.user, password: c.key,
	host: "localhost", port: c.port, ssl: c.tls ? tls : false,
	tls: c.tls ? false : tls, timeout: 30000 });
for (let i = 1; i <= c.count; i++) {
	try {
		await client.sendAsync({ from: "Agent <" + c.sender + ">", to: c.rcpt,
			subject: c.subject + " " + i, text: c.body.replace(/\n/g, "\r\n") });
		console.log("250 2.6.0");
	} catch (err) {
		console.log(err.message, err.smtp || "", err.previous || "");
		process.exitCode = 1;
	}
}
client.smtp.quit(() => client.smtp.close());

// SPDX-License-Identifier: ISC
// node send.js PORT SECURE(0|1) CA USER PASS FROM TO: two messages over one
// pooled connection; prints the replies or the error, one JSON line each.
const fs = require("fs");
const nodemailer = require("nodemailer");
const [port, secure, ca, user, pass, from, to] = process.argv.slice(2);
const transport = nodemailer.createTransport({
	host: "localhost", port: Number(port), secure: secure === "1",
	requireTLS: secure !== "1", auth: { user, pass }, pool: true,
	maxConnections: 1, tls: { ca: fs.readFileSync(ca) } });
(async () => {
	for (let i = 1; i <= 2; i++) {
		try {
			const info = await transport.sendMail({ from: "Agent <" + from + ">",
				to, cc: "copy@example.com", bcc: "secret@example.com",
				subject: "nodemailer \u00fcber " + i, text: "line\n.dot\nend " + i,
				html: "<p>line</p>",
				attachments: [{ filename: "a.bin", content: Buffer.alloc(3000, i) }] });
			console.log(JSON.stringify({ response: info.response }));
		} catch (err) {
			console.log(JSON.stringify({ code: err.responseCode || err.code,
				response: err.response || String(err) }));
		}
	}
	transport.close();
})();

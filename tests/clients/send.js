// SPDX-License-Identifier: ISC
// node send.js CASE.json: nodemailer, over one pooled connection.
const fs = require("fs");
const nodemailer = require("nodemailer");
const c = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const transport = nodemailer.createTransport({
	host: "localhost", port: c.port, secure: c.tls, requireTLS: !c.tls,
	auth: { user: c.user, pass: c.key }, pool: true, maxConnections: 1,
	tls: { ca: fs.readFileSync(c.ca) } });
(async () => {
	for (let i = 1; i <= c.count; i++) {
		try {
			const info = await transport.sendMail({
				from: "Agent <" + c.sender + ">",
				envelope: { from: c.user, to: c.rcpt },
				to: c.rcpt, subject: c.subject + " " + i, text: c.body });
			console.log(info.response);
		} catch (err) {
			console.log(err.response || String(err));
			process.exitCode = 1;
		}
	}
	transport.close();
})();

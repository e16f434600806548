// SPDX-License-Identifier: ISC
// Send by SMTP with nodemailer. NODE_EXTRA_CA_CERTS names the CA.
import nodemailer from "nodemailer";

const [host, port] = process.env.POSTERN_SMTPS.split(":");
const transport = nodemailer.createTransport({
	host, port: Number(port), secure: true,
	auth: { user: process.env.POSTERN_INBOX,
		pass: process.env.POSTERN_SMTP_KEY },
});
const sent = await transport.sendMail({
	from: process.env.POSTERN_INBOX, to: "ann@example.org",
	subject: "From nodemailer", text: "Hello.",
});
console.log(sent.response);

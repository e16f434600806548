// SPDX-License-Identifier: ISC
// The least a service can do that takes mail by REST: check a key, read JSON,
// one durable INSERT, answer. What tests/bench/run rest measures against.
//
//	node server.mjs PORT CERT KEY PGHOST PGPORT PGUSER PGDATABASE TOKEN
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import express from "express";
import pg from "pg";

const [port, cert, key, host, pgport, user, database, token] =
	process.argv.slice(2);
const pool = new pg.Pool({ host, port: Number(pgport), user, database,
	max: 20 });
const app = express();
app.use(express.json({ limit: "1mb" }));
app.post("/v1/messages/send", async (req, res) => {
	if (req.get("authorization") !== "Bearer " + token)
		return res.status(401).json({ code: "unknown_api_key" });
	const { to, subject, text } = req.body;
	if (!Array.isArray(to) || typeof text !== "string")
		return res.status(422).json({ code: "validation_error" });
	const done = await pool.query({ name: "insert", text: "INSERT INTO mail " +
		"(rcpt, subject, body) VALUES ($1, $2, $3) RETURNING id",
	values: [to, subject, text] });
	res.status(202).json({ message_id: done.rows[0].id, status: "held" });
});
createServer({ cert: readFileSync(cert), key: readFileSync(key) }, app)
	.listen(Number(port), "127.0.0.1", () => console.log("ready"));

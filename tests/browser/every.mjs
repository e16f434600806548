// SPDX-License-Identifier: ISC
// node every.mjs DIR: a picture of every page at 1280 and 390 pixels, light
// and dark, to look at. DIR is made; nothing of it belongs into a commit.
import fs from 'node:fs';
import path from 'node:path';
import { Stack, launch, visitor, signIn, ready, mail, uuid } from './lib.mjs';

const dir = process.argv[2];
if (!dir) {
	console.error('usage: node every.mjs DIR');
	process.exit(2);
}
fs.mkdirSync(dir, { recursive: true });

const BOTH = mail({ more: 'Content-Type: multipart/alternative; boundary=b\n',
	body: '--b\nContent-Type: text/plain\n\nDear Jana,\n\nwe refund EUR 84.90.' +
		'\n--b\nContent-Type: text/html\n\n<h1 style="color:#a30">Refund' +
		'</h1><p>Dear Jana,</p><p>we refund EUR 48.90. <a href="https://' +
		'pay.example/x">Answer</a></p>\n--b--\n' });

const stack = await Stack.start();
const browser = await launch();
try {
	const held = async (more) => (await stack.ask('submit', {
		rcpt: ['jana@example.org'], raw: BOTH, subject: 'Your refund',
		...more })).id;
	const low = await held({ risk: 5 });
	const high = await held({ risk: 90, rcpt: ['jana@example.org',
		'hidden@collector.example'] });
	for (let i = 0; i < 8; i++)
		await held({ risk: 50, inbox: i % 2, subject: 'Ticket ' + i });
	const [box] = await stack.sql('SELECT tenant_id AS t, inbox_id AS i FROM ' +
		"d.inbox WHERE address = 'helpdesk@agents.example.com'");
	await stack.sql('INSERT INTO d.allow_rule (tenant_id, inbox_id, entry, ' +
		'operator_id, reason, uses_left, expires_at) VALUES (' +
		`${box.t}, ${box.i}, '@partner.example', 1, 'Weekly report', 20, ` +
		"now() + interval '30 days')");
	// one that revises another, is looked at and talked about
	const talked = await held({ risk: 50, subject: 'Second try' });
	const u = uuid(talked);
	await stack.ask('operator', { name: 'maria', tenant: 'acme',
		password: 'a long enough pass phrase', role: 'reviewer' });
	await stack.sql('SET session_replication_role = replica; UPDATE ' +
		`d.message SET revises = '${uuid(high)}' WHERE message_id = '${u}'; ` +
		'RESET session_replication_role; INSERT INTO d.look SELECT ' +
		'message_id, tenant_id, inbox_id, (SELECT operator_id FROM d.operator ' +
		"WHERE name = 'maria'), now() + interval '4 min' FROM d.state WHERE " +
		`message_id = '${u}'; INSERT INTO d.comment SELECT message_id, ` +
		"tenant_id, inbox_id, 1, 1, 'Is that the amount we agreed?' FROM " +
		`d.state WHERE message_id = '${u}'`);
	const maker = await visitor(browser, stack);
	const desk = await maker.newPage();
	await signIn(desk, stack);
	const makeJob = async (value) => {
		await desk.goto('/q');
		await desk.click('.all summary');
		await desk.click(`button[name=all][value=${value}]`);
		await desk.waitForURL('**/jobs/job_*');
		return new URL(desk.url()).pathname;
	};
	const approveJob = await makeJob('a'), rejectJob = await makeJob('r');
	await maker.close();
	const pages = { jobs: '/jobs', 'job-approve': approveJob,
		'job-reject': rejectJob, queue: '/q', empty: '/q?q=zzz', history: '/history',
		inboxes: '/inboxes', inbox: `/inbox/${box.t}.${box.i}`,
		'inbox-new': '/inboxes/new', pause: '/pause', health: '/health',
		audit: '/audit', tenants: '/tenants', operators: '/operators',
		account: '/account', 'reject-all': `/reject-all?box=${box.t}.${box.i}`,
		talked: '/m/' + talked, changes: `/m/${talked}?view=revised`,
		low: '/m/' + low, high: '/m/' + high, html: `/m/${low}?view=html`,
		diff: `/m/${low}?view=diff`, headers: `/m/${low}?view=headers`,
		raw: `/m/${low}?view=raw`, missing: '/nothing' };
	for (const width of [1280, 390])
		for (const theme of ['light', 'dark']) {
			const context = await visitor(browser, stack, {
				colorScheme: theme, isMobile: width < 700,
				hasTouch: width < 700,
				viewport: { width, height: width < 700 ? 844 : 800 } });
			const page = await context.newPage();
			const shot = (name) => page.screenshot({ fullPage: true,
				path: path.join(dir, `${name}-${width}-${theme}.png`) });
			await page.goto('/login');
			await shot('login');
			await signIn(page, stack);
			for (const [name, at] of Object.entries(pages)) {
				await page.goto(at);
				await ready(page);
				await shot(name);
			}
			await context.close();
		}
} finally {
	await browser.close();
	await stack.stop();
}

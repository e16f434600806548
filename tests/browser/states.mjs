// SPDX-License-Identifier: ISC
// Every page, and every state that a press leads to, made in a stack: what
// every.mjs takes pictures of.
import { visitor, signIn, ready, mail, posted, uuid } from './lib.mjs';
import { totp } from './second.mjs';

const PASSWORD = 'a long enough pass phrase';
const BOTH = mail({ more: 'Content-Type: multipart/alternative; boundary=b\n',
	body: '--b\nContent-Type: text/plain\n\nDear Jana,\n\nwe refund EUR 84.90.' +
		'\n--b\nContent-Type: text/html\n\n<h1 style="color:#a30">Refund' +
		'</h1><p>Dear Jana,</p><p>we refund EUR 48.90. <a href="https://' +
		'pay.example/x">Answer</a></p>\n--b--\n' });

// `pages` by name their path, `presses` by name what leads a signed-in page to
// the state; the last two sign out.
export async function everything(stack, browser) {
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
		password: PASSWORD, role: 'reviewer' });
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

	// What became of mail: sent after a second try, unclear, rejected.
	const where = (id) => `message_id = '${uuid(id)}'`;
	const replica = (query) => stack.sql('SET session_replication_role = ' +
		'replica; ' + query);
	const approved = async (more) => {
		const id = await held({ raw: mail(), ...more });
		await desk.goto('/m/' + id);
		await desk.click('#approve > summary');
		await posted(desk, () => desk.click('#approve-button'));
		return id;
	};
	const sent = await approved({ subject: 'Sent at last' });
	const [queued] = await stack.sql('UPDATE d.send_q SET due_at = now() ' +
		`WHERE ${where(sent)} RETURNING domain`);
	for (const [mx, status, reply] of [['mx1', 4, '451 come back later'],
		['mx2', 3, '250 queued as 4711']]) {
		const [row] = (await stack.sql("SELECT * FROM api.claim_due_1('w1', " +
			'100, 60)')).filter((r) => r.domain === queued.domain);
		const on = [row.tenant_id, row.message_id, row.domain, row.lease]
			.map(String);
		await stack.sql('SELECT * FROM api.attempt_1(%s,%s,%s,%s,%s,%s,%s)',
			...on, mx + '.example.org', 'TLSv1.3 verified', [1]);
		if (status === 3)
			await stack.sql('SELECT * FROM api.dot_1(%s,%s,%s,%s,%s)',
				...on, [1]);
		await stack.sql('SELECT * FROM api.done_1(%s,%s,%s,%s,%s,%s,%s,%s,' +
			'%s,60,%s)', ...on, [1], [status], [Number(reply.slice(0, 3))],
		['2.0.0'], [reply], reply);
		await stack.sql('UPDATE d.send_q SET due_at = now() WHERE ' +
			where(sent));
	}
	const unclear = await approved({ subject: 'May have been sent' });
	await replica(`DELETE FROM d.send_q WHERE ${where(unclear)}; UPDATE ` +
		`d.delivery SET status = 6 WHERE ${where(unclear)}; UPDATE d.state ` +
		`SET state = 11 WHERE ${where(unclear)}`);
	const refused = await held({ subject: 'Not like this' });
	await desk.goto('/m/' + refused);
	await desk.click('#reject > summary');
	await desk.check('input[value=wrong_content]');
	await desk.fill('textarea[name=note]', 'The amount is 48.90, not 84.90.');
	await posted(desk, () => desk.click('#reject-button'));
	await maker.close();

	// Who signs in with two factors.
	await stack.ask('operator', { name: 'two', password: PASSWORD,
		role: 'admin' });
	const enrolled = await visitor(browser, stack);
	const door = await enrolled.newPage();
	await signIn(door, stack, 'two', PASSWORD);
	const enrol = async (page, password) => {
		await page.goto('/account');
		await page.click('#add-totp > summary');
		const field = page.locator('#add-totp input[name=password]');
		if (await field.count())
			await field.fill(password);
		await posted(page, () => page.click('#add-totp button'));
	};
	await enrol(door, PASSWORD);
	await door.fill('input[name=confirm]',
		totp(await door.textContent('#secret')));
	await posted(door, () => door.click('.enrol button'));
	await enrolled.close();

	// On a phone the bar at the bottom opens what to decide.
	const open = async (page, what) => page.click(
		await page.locator('.bar').isVisible() ?
			`.bar a[href="#${what}-form"]` : `#${what} > summary`);

	// States that a press leads to, by name.
	const presses = {
		'approve-open': async (page) => {
			await page.goto('/m/' + high);
			await ready(page);
			await open(page, 'approve');
		},
		'reject-open': async (page) => {
			await page.goto('/m/' + high);
			await ready(page);
			await open(page, 'reject');
		},
		'all-open': async (page) => {
			await page.goto('/q');
			await ready(page);
			await page.check('.pick input >> nth=1');
			await page.click('.all summary');
		},
		'filter-open': async (page) => {
			await page.goto('/q?links=has:links&q=ticket');
			await ready(page);
			await page.click('.narrow summary');
		},
		undo: async (page) => {
			const id = await held({ subject: 'Can be taken back', risk: 5,
				raw: mail() });
			await page.goto('/m/' + id);
			await posted(page, async () => page.click(
				await page.locator('.bar').isVisible() ?
					'.bar .primary' : '#approve-button'));
		},
		conflict: async (page) => {
			const id = await held({ subject: 'Somebody was faster' });
			await page.goto('/m/' + id);
			await replica(`UPDATE d.state SET round = 2 WHERE ${where(id)}`);
			await ready(page);
			await open(page, 'reject');
			await page.check('input[value=other]');
			await posted(page, () => page.click('#reject-button'));
		},
		help: async (page) => {
			await page.goto('/q');
			await ready(page);
			await page.evaluate(() =>
				document.querySelector('#help-open').click());
		},
		'account-open': async (page) => {
			await page.goto('/account');
			await ready(page);
			await page.evaluate(() => document.querySelectorAll('details')
				.forEach((d) => { d.open = true; }));
		},
		'inbox-open': async (page) => {
			await page.goto(`/inbox/${box.t}.${box.i}`);
			await page.evaluate(() => document.querySelectorAll('details')
				.forEach((d) => { d.open = true; }));
		},
		'enrol-app': async (page) => enrol(page, stack.password),
		paused: async (page) => {
			await stack.sql('UPDATE d.inbox SET paused_at = now() WHERE ' +
				"address = 'research@agents.example.com'");
			await page.goto('/q');
			await stack.sql('UPDATE d.inbox SET paused_at = NULL');
		},
		'wrong-password': async (page) => {
			await page.context().clearCookies();
			await page.goto('/login');
			await page.fill('input[name=name]', 'nobody');
			await page.fill('input[name=password]', 'wrong');
			await posted(page, () => page.click('button.primary'));
		},
		'second-factor': async (page) => {
			await page.goto('/login');
			await page.fill('input[name=name]', 'two');
			await page.fill('input[name=password]', PASSWORD);
			await posted(page, () => page.click('button.primary'));
			await page.click('summary');
		},
	};
	const pages = { jobs: '/jobs', 'job-approve': approveJob,
		'job-reject': rejectJob, queue: '/q', empty: '/q?q=zzz', history: '/history',
		inboxes: '/inboxes', inbox: `/inbox/${box.t}.${box.i}`,
		'inbox-new': '/inboxes/new', pause: '/pause', health: '/health',
		audit: '/audit', tenants: '/tenants', operators: '/operators',
		account: '/account', 'queue-low': '/q?risk=low',
		talked: '/m/' + talked, changes: `/m/${talked}?view=revised`,
		low: '/m/' + low, high: '/m/' + high, html: `/m/${low}?view=html`,
		sent: '/m/' + sent, unclear: '/m/' + unclear,
		refused: '/m/' + refused, 'refused-open': `/m/${refused}?why=asked`,
		'queue-left': '/q?sort=left', found: '/q?q=ticket', setup: '/setup',
		uncertain: '/history?show=uncertain',
		diff: `/m/${low}?view=diff`, headers: `/m/${low}?view=headers`,
		raw: `/m/${low}?view=raw`, missing: '/nothing' };
	return { pages, presses };
}

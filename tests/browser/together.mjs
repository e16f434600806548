// SPDX-License-Identifier: ISC
// Several people, many messages: jobs, who looks at what, comments, news.
import assert from 'node:assert/strict';
import { mail, posted, ready, signIn, uuid } from './lib.mjs';

export default function ({ test, using, held, raw, cookieOf, stack }) {
	const states = (ids) => Promise.all(ids.map(
		async (id) => (await stack.state(id)).state));

	const shows = (page, text) => page.locator('#job-state',
		{ hasText: text }).waitFor();
	// of two thousand messages, beside other suites
	const finished = (page) => page.locator('#job-state',
		{ hasText: 'finished' }).waitFor({ timeout: 60000 });

	test('20 ticked mail is rejected as a job, by keys', () =>
		using({}, async (page) => {
			const ids = [];
			for (let i = 0; i < 3; i++)
				ids.push(await held({ subject: 'Zebra ' + i, risk: 90 }));
			await signIn(page, stack);
			await page.goto('/q?q=zebra');
			await ready(page);
			await page.focus('#rows .hit');
			await page.keyboard.press('x');
			await page.keyboard.press('j');
			await page.keyboard.press('j');
			await page.keyboard.press('Shift+X');
			assert.equal(await page.textContent('#ticked'), '3 ticked:');
			await page.keyboard.press('k');
			await page.keyboard.press('x');
			assert.equal(await page.textContent('#ticked'), '2 ticked:');
			await page.click('.ticked button[value=r]');
			await page.waitForURL('**/jobs/job_*');
			assert.match(await page.textContent('h1'), /Reject 2 messages/);
			await page.check('input[name=category][value=duplicate]');
			await page.fill('textarea[name=note]', 'One of three is enough');
			await page.click('#confirm-button');
			await finished(page);
			assert.deepEqual((await states(ids)).sort(), [1, 3, 3]);
			const done = ids[(await states(ids)).indexOf(3)];
			const [d] = (await stack.state(done)).decisions;
			assert.equal(d.note, 'One of three is enough');
		}));

	test('20 approval of all that fit leaves out and lists what is risky', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const low = [];
			for (let i = 0; i < 3; i++)
				low.push(await held({ subject: 'Yak ' + i, risk: 5 }));
			const risky = await held({ subject: 'Yak risky', risk: 50 });
			const worst = await held({ subject: 'Yak worst', risk: 90 });
			await signIn(page, stack);
			await page.goto('/q?q=yak');
			await page.click('.all summary');
			await page.click('button[name=all][value=a]');
			assert.match(await page.textContent('h1'), /Approve 3 messages/);
			assert.deepEqual(await page.locator('tbody a').evaluateAll((all) =>
				all.map((a) => a.getAttribute('href'))),
			['/m/' + worst, '/m/' + risky]); // as the queue has them
			assert.match(await page.textContent('table'), /risk is not low/);
			await page.click('#confirm-button');
			const at = page.url().split('?')[0];
			for (let i = 0; i < 100 && !/finished/.test(
				await page.textContent('#job-state')); i++)
				await page.goto(at);
			assert.deepEqual(await states([...low, risky, worst]), [2, 2, 2, 1, 1]);
			// each carries what the relay needs, and can be taken back
			for (const id of low)
				assert.deepEqual([(await stack.state(id)).releases,
					(await stack.state(id)).queued], [1, 1]);
		}));

	test('20 a job stands when its session ends, and goes on when confirmed',
		() => using({}, async (page, context) => {
			const n = 2000;
			await stack.ask('submit', { rcpt: ['q@example.org'], count: n,
				raw: 'From: a@b.example\nSubject: Quagga\n\nx\n',
				subject: 'Quagga {n}', inbox: 1 });
			await signIn(page, stack);
			await page.goto('/q?q=quagga');
			await page.click('.all summary');
			await page.click('button[name=all][value=r]');
			await page.waitForURL('**/jobs/job_*');
			const at = new URL(page.url()).pathname;
			await page.check('input[name=category][value=other]');
			const done = async () => (await stack.sql('SELECT done FROM d.job ' +
				'WHERE job_id = %s', uuid(at.split('/')[2])))[0].done;
			const cookie = await cookieOf(context);
			const body = (id) => page.evaluate((form) => new URLSearchParams(
				new FormData(document.querySelector(form))).toString(), id);
			const send = (path, form) => raw(cookie, 'POST', path,
				{ Origin: stack.url }, form);
			const [form, out] = [await body('#confirm-form'),
				await body('form[action="/logout"]')];
			assert.equal((await send(at + '/confirm', form)).status, 303);
			assert.equal((await send('/logout', out)).status, 303);
			await signIn(page, stack);
			await page.goto(at);
			assert.ok(await done() < n, 'it was done before the sign-out');
			await shows(page, 'stands');
			await page.click('#confirm-button');
			await finished(page);
			assert.equal(await done(), n);
		}));

	test('20 a job goes on when its session gets another secret', () =>
		using({}, async (page, context) => {
			const PASSWORD = 'a long enough pass phrase';
			const name = 'turning' + Date.now();
			await stack.ask('operator', { name, password: PASSWORD,
				role: 'senior' });
			const ids = [];
			for (let i = 0; i < 4; i++)
				ids.push(await held({ subject: 'Kakapo ' + i, risk: 5 }));
			await signIn(page, stack, name, PASSWORD);
			await page.goto('/q?q=kakapo');
			await page.click('.all summary');
			await page.click('button[name=all][value=a]');
			await page.waitForURL('**/jobs/job_*');
			const at = new URL(page.url()).pathname;
			const csrf = await page.inputValue('#confirm-form [name=csrf]');
			// One is a statement, and the oldest is the first: it has to wait.
			await stack.ask('lock', { query: 'SELECT 1 FROM d.state WHERE ' +
				'message_id = %s FOR UPDATE', args: [uuid(ids[0])] });
			const waits = async (calls) => {
				for (let n = 0; n < 1;)
					n = (await stack.sql('SELECT count(*)::int AS n FROM ' +
						"pg_stat_activity WHERE wait_event_type = 'Lock' " +
						'AND query LIKE %s', `%api.${calls}_1%`))[0].n;
			};
			await posted(page, () => page.click('#confirm-button'));
			await waits('job_approve');
			const up = raw(await cookieOf(context), 'POST', '/account/totp',
				{ Origin: stack.url }, new URLSearchParams({ csrf,
					password: PASSWORD }).toString());
			await waits('step_up_password');
			await stack.ask('free');
			const { status, headers } = await up;
			assert.equal(status, 200);
			const [value] = headers['set-cookie'][0].split(';');
			await context.addCookies([{ name: '__Host-sid', secure: true,
				value: value.split('=')[1], url: stack.url }]);
			await page.goto(at);
			await finished(page);
			assert.deepEqual(await states(ids), [2, 2, 2, 2]);
		}));

	test('20 a job is paused and ended by its maker', () =>
		using({}, async (page) => {
			const id = await held({ subject: 'Okapi', risk: 50 });
			await signIn(page, stack);
			await page.goto('/q?q=okapi');
			await page.click('.all summary');
			await page.click('button[name=all][value=r]');
			await page.waitForURL('**/jobs/job_*');
			await page.click('text=Leave it');
			await page.waitForURL(/said=job_canceled/);
			assert.match(await page.textContent('#job-state'), /ended early/);
			assert.equal(await page.locator('#confirm-form').count(), 0);
			assert.deepEqual(await states([id]), [1]);
			await page.goto('/jobs');
			assert.ok(await page.locator('.switches a').count() > 0);
		}));

	test('23 two people: not the same one twice', () =>
		using({}, async (page) => using({}, async (two) => {
			const PASSWORD = 'a long enough pass phrase';
			const name = 'other' + Date.now();
			await stack.ask('operator', { name, tenant: 'acme',
				password: PASSWORD, role: 'reviewer' });
			const box = "address = 'helpdesk@agents.example.com'";
			await stack.sql('UPDATE d.inbox SET need_approvals = 2 WHERE ' + box);
			const id = await held({ subject: 'By two' });
			await stack.sql('UPDATE d.inbox SET need_approvals = NULL WHERE ' +
				box);
			await signIn(page, stack);
			const approve = async (tab) => {
				await tab.goto('/m/' + id);
				if (await tab.locator('#approve > summary').count() === 0)
					return null;
				await tab.click('#approve > summary');
				return posted(tab, () => tab.click('#approve-button'));
			};
			await approve(page);
			let row = await stack.state(id);
			assert.deepEqual([row.state, row.decisions.length, row.releases],
				[1, 1, 0]);
			const again = await approve(page);
			assert.ok(again === null || again.status() === 423);
			row = await stack.state(id);
			assert.deepEqual([row.state, row.decisions.length], [1, 1]);
			await signIn(two, stack, name, PASSWORD);
			await approve(two);
			row = await stack.state(id);
			assert.deepEqual([row.state, row.decisions.length, row.releases],
				[2, 2, 1]);
		})));

	test('21 no list reads through a table of messages', () =>
		using({}, async (page) => {
			// what a list joins begins empty each week: plans must not count
			// on that
			const scans = async () => {
				for (let last = null; ;) { // told a second after the last call
					const [{ n }] = await stack.sql('SELECT coalesce(sum(' +
						'seq_tup_read), 0)::int AS n FROM pg_stat_user_tables ' +
						"WHERE relname ~ '^(message|state|word|decision)_[0-9]'");
					if (n === last)
						return n;
					last = n;
					await page.waitForTimeout(1100);
				}
			};
			const id = await held({ subject: 'Saiga' });
			await signIn(page, stack);
			const before = await scans();
			for (const path of ['/q', '/q?q=saiga', '/q?q=order', '/q?risk=low',
				'/q?sort=left', '/q?box=1.1', '/q?q=jana@example.org',
				'/q?links=has:links', '/q?new=new:recipient&files=has:files',
				'/q?seen=seen:nobody', '/q?seen=seen:anyone&q=saiga',
				'/q?age=older:1h', '/q?q=newer:9d', '/q?left=left:1d',
				'/q?q=left:9d+order&risk=low',
				'/history', '/history?q=saiga', '/health', '/audit', '/counts',
				'/inboxes', '/jobs', '/m/' + id]) {
				await page.goto(path);
			}
			assert.equal(await scans(), before);
		}));

	const focusedId = (page) => page.evaluate(
		() => document.activeElement.closest('.row')?.dataset.id);

	test('22 what arrives never moves the row in focus; the bar counts it', () =>
		using({}, async (page) => {
			for (let i = 0; i < 3; i++)
				await held({ subject: 'Steady ' + i, risk: 50, inbox: 2 });
			await signIn(page, stack);
			await page.goto('/q');
			await ready(page);
			await page.keyboard.press('j');
			await page.keyboard.press('j');
			const id = await focusedId(page);
			const top = () => page.evaluate(() => document.activeElement
				.getBoundingClientRect().top);
			const was = await top();
			const rows = await page.locator('#rows .row').count();
			await held({ subject: 'Newer', risk: 90, inbox: 2 });
			await page.locator('#fresh', { hasText: '1 new' }).waitFor();
			await held({ subject: 'Newest', risk: 90, inbox: 2 });
			await page.locator('#fresh', { hasText: '2 new' }).waitFor();
			assert.equal(await focusedId(page), id);
			assert.equal(await page.locator('#rows .row').count(), rows);
			assert.ok(Math.abs(await top() - was) <= 60, 'only the bar is new');
			await page.waitForTimeout(450); // the keys' silence
			await Promise.all([page.waitForNavigation(),
				page.keyboard.press('n')]);
			assert.equal(await page.locator('#fresh:not([hidden])').count(), 0);
			assert.ok(await page.locator('text=Newest').count());
		}));

	test('33 seven tabs hold one stream, and each is told', () =>
		using({}, async (page, context) => {
			const holders = new Set(); // tabs that asked for a stream
			context.on('request', (r) => r.url().includes('/events') &&
				holders.add(r.frame().page()));
			await signIn(page, stack);
			const tabs = [page];
			for (let i = 0; i < 6; i++)
				tabs.push(await context.newPage());
			for (const tab of tabs) {
				await tab.goto('/q');
				await ready(tab);
			}
			await held({ subject: 'For all tabs' });
			for (const tab of tabs)
				await tab.locator('#fresh', { hasText: 'new' }).waitFor();
			assert.equal(holders.size, 1);
		}));

	test('a session that is ended ends its stream', () =>
		using({}, async (page, context) => {
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			let stream;
			await new Promise((began) => {
				stream = raw(cookie, 'GET', '/events',
					{ 'Sec-Fetch-Site': 'same-origin' }, '', began);
			});
			await stack.sql('UPDATE d.operator_session SET ended_at = now() ' +
				'WHERE ended_at IS NULL AND session_sha256 = (SELECT ' +
				'session_sha256 FROM d.operator_session ORDER BY created_at ' +
				'DESC LIMIT 1)');
			const answer = await stream; // ends by itself
			assert.equal(answer.status, 200);
			assert.match(answer.headers['content-type'], /event-stream/);
			assert.match(answer.text, /data: \{"held":\d+,"new":\[/);
		}));

	test('18 who looks is shown to the others within 2 s, and is taken over', () =>
		using({}, async (one) => using({}, async (two) => {
			const PASSWORD = 'a long enough pass phrase';
			const name = 'looker' + Date.now();
			await stack.ask('operator', { name, tenant: 'acme',
				password: PASSWORD, role: 'reviewer' });
			const id = await held({ subject: 'Looked at', risk: 90 });
			await signIn(two, stack, name, PASSWORD);
			await two.goto('/q?q=looked');
			await ready(two);
			await signIn(one, stack);
			await one.goto('/m/' + id);
			const row = two.locator(`[data-id="${id}"] .looks`);
			await row.waitFor({ timeout: 2000 });
			assert.match(await row.textContent(),
				new RegExp(stack.operator + ' has it open'));
			await two.goto('/m/' + id);
			assert.match(await two.textContent('#look'), /has this open/);
			await ready(one);
			await two.click('#look button');
			await two.waitForURL(/said=taken/);
			assert.equal(await two.locator('#look:not([hidden])').count(), 0);
			await one.locator('#look', { hasText: name }).waitFor();
			assert.equal((await stack.sql('SELECT count(*)::int AS n FROM ' +
				"d.audit WHERE event = 'message.take_over' AND message_id = " +
				'%s', uuid(id)))[0].n, 1);
			// whoever has it, the other may decide; a claim only tells
			await one.goto('/m/' + id);
			await one.click('#reject > summary');
			await one.check('input[value=duplicate]');
			await one.click('#reject-button');
			await one.waitForURL(/said=rejected/);
		})));

	test('comments are shown as typed, to operators only', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const id = await held({ subject: 'Talked about' });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const text = '<b>no</b>\n\tp\u0430ypal \u202e "quoted" & so on';
			await page.fill('#comment-form textarea', text);
			await page.click('#comment-form button');
			await page.waitForURL(/said=commented/);
			const [row] = await stack.sql('SELECT text FROM d.comment WHERE ' +
				'message_id = %s', uuid(id));
			assert.equal(row.text.replace(/\r\n/g, '\n'), text);
			const said = await page.textContent('.said');
			assert.match(said, /<b>no<\/b>/);
			assert.match(said, /U\+202E/);
			assert.equal(await page.locator('.said b').count(), 0);
		}));

	test('a revision shows the note, and what changed', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const body = (text) => mail({ body: text });
			const old = await held({ subject: 'First try', raw:
				body('We pay you 500 EUR on Monday.\n') });
			await signIn(page, stack);
			await page.goto('/m/' + old);
			await page.click('#reject > summary');
			await page.check('input[value=wrong_content]');
			await page.fill('#reject textarea', 'It is <50> EUR');
			await posted(page, () => page.click('#reject-button'));
			const id = await held({ subject: 'Second try', raw:
				body('We pay you 50 EUR on Monday.\n') });
			const other = await held({ subject: 'Third try', inbox: 1 });
			await stack.sql('SET session_replication_role = replica; UPDATE ' +
				`d.message SET revises = '${uuid(old)}' WHERE message_id IN ` +
				`('${uuid(id)}', '${uuid(other)}'); ` +
				'RESET session_replication_role');
			await page.goto('/m/' + id);
			assert.match(await page.textContent('#revises'),
				/Wrong content.*It is <50> EUR/s);
			await page.click('#revises a:has-text("what changed")');
			assert.deepEqual([await page.locator('#diff del').allInnerTexts(),
				await page.locator('#diff ins').allInnerTexts()],
			[['500'], ['50']]);
			// read for that reason, and written down
			assert.match((await stack.sql('SELECT detail FROM d.audit WHERE ' +
				"event = 'message.opened' AND message_id = %s", uuid(old)))[0]
				.detail, /compared with its revision/);
			// an agent cannot borrow another inbox's mail this way
			await page.goto('/m/' + other);
			assert.match(await page.textContent('#revises'), /no mail of this/);
			assert.doesNotMatch(await page.textContent('#revises'), /EUR/);
		}));
}

// SPDX-License-Identifier: ISC
// Keys of two strokes, what they reach, and the ways through a long queue.
import assert from 'node:assert/strict';
import { signIn, posted, ready, uuid, mail } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';

export default function ({ test, using, held, quiet, raw, cookieOf, stack }) {
	const fresh = async (page, path) => {
		await page.goto(path);
		await ready(page);
		await quiet(page);
	};
	const at = (page) => new URL(page.url()).pathname;

	test('2 g and a letter go to each page that the role may open', () =>
		using({}, async (page) => {
			const id = await held();
			await signIn(page, stack);
			for (const [key, path] of Object.entries({ h: '/history',
				i: '/inboxes', p: '/pause', d: '/health', a: '/audit',
				t: '/tenants', o: '/operators', s: '/account', q: '/q' })) {
				await fresh(page, '/m/' + id);
				await page.keyboard.press('g');
				await Promise.all([page.waitForURL('**' + path),
					page.keyboard.press(key)]);
			}
			// the second key decides nothing, and nothing else is one
			await fresh(page, '/m/' + id);
			await page.keyboard.press('g');
			await page.keyboard.press('r');
			assert.equal(await page.locator('#reject[open]').count(), 0);
			await page.keyboard.press('r');
			await page.locator('#reject[open]').waitFor();
			assert.equal(at(page), '/m/' + id);
			const name = 'goer' + Date.now();
			await stack.ask('operator', { name, tenant: 'acme',
				password: PASSWORD, role: 'reviewer' });
			await page.context().clearCookies();
			await signIn(page, stack, name, PASSWORD);
			await fresh(page, '/q');
			await page.keyboard.press('g');
			await page.keyboard.press('o'); // not for a reviewer
			await page.keyboard.press('?');
			await page.waitForSelector('dialog[open]');
			const help = await page.textContent('dialog');
			assert.match(help, /g hHistory/);
			assert.doesNotMatch(help, /g oOperators/);
			assert.equal(at(page), '/q');
		}));

	test('2 * a, * n, * m, b, [ and ], c', () =>
		using({}, async (page) => {
			for (let i = 0; i < 3; i++)
				await held({ subject: 'Ibex ' + i, risk: 50 });
			await signIn(page, stack);
			await fresh(page, '/q?q=ibex');
			const ticked = () => page.locator('.pick input:checked').count();
			const press = async (...keys) => {
				for (const key of keys)
					await page.keyboard.press(key);
			};
			await press('*', 'a');
			assert.equal(await ticked(), 3);
			assert.equal(await page.textContent('#ticked'), '3 ticked:');
			await press('b');
			assert.equal(await page.evaluate(
				() => document.activeElement.textContent), 'Reject…');
			await page.evaluate(() => document.activeElement.blur());
			await press('*', 'n');
			assert.equal(await ticked(), 0);
			await press('*', 'm');
			assert.equal(await page.evaluate(
				() => document.activeElement.textContent), 'Reject all…');
			// from the list into a message, along the queue and back
			await fresh(page, '/q');
			const ids = await page.$$eval('#rows .row', (all) =>
				all.map((r) => r.dataset.id));
			await fresh(page, '/m/' + ids[0]);
			const at = (id) => page.waitForFunction(
				(end) => location.pathname.endsWith(end), id);
			await press(']');
			await at(ids[1]);
			await ready(page);
			await quiet(page);
			await press('[');
			await at(ids[0]);
			await ready(page);
			await quiet(page);
			await press('c');
			assert.equal(await page.evaluate(() => document.activeElement
				.closest('form').id), 'comment-form');
			await page.keyboard.type('ab*');
			assert.equal(await page.inputValue('#comment-form textarea'),
				'ab*');
		}));

	test('5 a key that another action has is refused, and said', () =>
		using({}, async (page) => {
			await signIn(page, stack);
			await page.goto('/account');
			await ready(page);
			await page.fill('#key-bulk', 'a');
			await page.press('#key-bulk', 'Tab');
			assert.match(await page.$eval('#key-bulk',
				(e) => e.validationMessage), /taken: Approve/);
			await page.fill('#key-bulk', 'y');
			await page.press('#key-bulk', 'Tab');
			assert.equal(await page.$eval('#key-bulk',
				(e) => e.validationMessage), '');
			const id = await held({ subject: 'Kudu' });
			await fresh(page, '/q?q=kudu');
			await page.keyboard.press('b');
			assert.equal(await page.locator('.all[open]').count(), 0);
			await page.keyboard.press('y');
			await page.locator('.all[open]').waitFor();
			assert.ok(id);
		}));

	test('the queue by the time that is left, page after page', () =>
		using({ javaScriptEnabled: false }, async (page, context) => {
			const ids = [];
			for (let i = 0; i < 60; i++)
				ids.push(await held({ inbox: 1, risk: i % 2 ? 5 : 60,
					subject: 'Gnu ' + i }));
			await stack.sql('SET session_replication_role = replica; ' +
				ids.map((id, i) => 'UPDATE d.state SET hold_until = now() + ' +
				`interval '${1000 - 7 * (i % 30)} min' WHERE message_id = ` +
				`'${uuid(id)}'`).join(';'));
			const want = (await stack.sql('SELECT s.message_id::text AS m ' +
				'FROM d.state s WHERE s.state = 1 AND s.inbox_id = (SELECT ' +
				"inbox_id FROM d.inbox WHERE address = 'research@agents." +
				"example.com') ORDER BY hold_until, message_id"))
				.map((r) => r.m.replaceAll('-', ''));
			await signIn(page, stack);
			const [box] = await stack.sql('SELECT tenant_id AS t, inbox_id AS ' +
				"i FROM d.inbox WHERE address = 'research@agents.example.com'");
			await page.goto(`/q?box=${box.t}.${box.i}`);
			await page.click('text=Time left first');
			assert.match(await page.textContent('.sub'), /least time left/);
			const got = [];
			for (;;) {
				got.push(...await page.$$eval('#rows .row', (all) =>
					all.map((r) => r.dataset.id)));
				const more = page.locator('a[rel=next]');
				if (await more.count() === 0)
					break;
				await Promise.all([page.waitForNavigation(), more.click()]);
			}
			assert.deepEqual(got.map(uuid), want);
			// nothing reads one order's place in the other
			const cookie = await cookieOf(context);
			for (const path of ['/q?sort=left&after=50:' + '0'.repeat(8) +
				'-0000-0000-0000-000000000000', '/q?sort=x',
			'/q?sort=left&q=x', '/q?sort=left&risk=low'])
				assert.equal((await raw(cookie, 'GET', path)).status, 400,
					path);
		}));

	test('one tenant of several, and what has files', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const mine = await held({ subject: 'Oryx a' });
			const theirs = await held({ subject: 'Oryx b', inbox: 2 });
			await signIn(page, stack);
			await page.goto('/history');
			await page.click('#only summary');
			await posted(page, () => page.click('#only button:has-text("other")'));
			assert.match(page.url(), /\/history$/);
			await page.click('.top a[href="/q"]');
			await page.fill('#find', 'oryx');
			await Promise.all([page.waitForNavigation(),
				page.press('#find', 'Enter')]);
			const shown = () => page.$$eval('#rows .row', (all) =>
				all.map((r) => r.dataset.id));
			assert.deepEqual(await shown(), [theirs]);
			assert.equal(await page.textContent('#only summary bdi'), 'other');
			await page.click('#only summary');
			await posted(page, () => page.click('#only button:has-text("All")'));
			assert.match(page.url(), /\/q\?q=oryx$/);
			assert.deepEqual((await shown()).sort(), [mine, theirs].sort());
			await stack.sql('UPDATE d.word SET words = words || array_to_' +
				"tsvector(ARRAY[tenant_id || ':h:files']) WHERE message_id = %s",
			uuid(mine));
			await page.goto('/q?q=has:files+oryx');
			assert.deepEqual(await shown(), [mine]);
			await page.goto('/q?q=has:files+oryx+b');
			assert.deepEqual(await shown(), []);
			await page.goto('/q?q=has:files');
			assert.deepEqual(await shown(), [mine]);
		}));

	test('1 filters on a phone without scripts: links, new, open, age', () =>
		using({ javaScriptEnabled: false, isMobile: true, hasTouch: true,
			viewport: { width: 390, height: 844 } },
		async (page, context) => {
			const links = await held({ subject: 'Quagga', raw: mail({
				body: 'See https://quagga.example/' }) });
			const plain = await held({ subject: 'Quagga' });
			await stack.sql('INSERT INTO d.look SELECT message_id, ' +
				'tenant_id, inbox_id, (SELECT min(operator_id) FROM ' +
				"d.operator), now() + interval '4 min' FROM d.state WHERE " +
				`message_id = '${uuid(plain)}'`);
			const shown = () => page.$$eval('#rows .row', (all) =>
				all.map((r) => r.dataset.id));
			const apply = async (fill) => {
				await page.tap('.narrow summary');
				await fill();
				await Promise.all([page.waitForNavigation(),
					page.tap('.narrow button')]);
			};
			await signIn(page, stack);
			await page.goto('/q?q=quagga');
			assert.deepEqual(await shown(), [links, plain]);
			assert.match(await page.textContent('#rows .looks'),
				new RegExp(stack.operator + ' has it open'));
			await apply(() => page.check('input[name=links]'));
			assert.deepEqual(await shown(), [links]);
			assert.match(await page.textContent('.filter'),
				/Found for quagga\s+Has links/);
			assert.equal(await page.inputValue('#find'), 'quagga');
			await apply(async () => {
				assert.ok(await page.isChecked('input[name=links]'));
				await page.uncheck('input[name=links]');
				await page.selectOption('select[name=seen]', 'seen:me');
				await page.selectOption('select[name=age]', 'newer:1h');
				assert.ok(await page.evaluate(() => document
					.documentElement.scrollWidth <= innerWidth));
			});
			assert.deepEqual(await shown(), [plain]);
			await apply(() => page.selectOption('select[name=left]',
				'left:1h'));
			assert.deepEqual(await shown(), []);
			assert.match(await page.textContent('.empty'), /Nothing found/);
			await page.goto('/q?q=quagga+older:36h&new=new:recipient');
			assert.match(await page.textContent('.filter'), /older:36h/);
			// what all that fit is, for a job: what the page shows
			await page.goto('/q?q=quagga&seen=seen:nobody');
			await page.tap('.all summary');
			await Promise.all([page.waitForNavigation(),
				page.tap('button[name=all][value=r]')]);
			const [job] = await stack.sql('SELECT items FROM d.job ORDER BY ' +
				'made_at DESC LIMIT 1');
			assert.equal(job.items, 1);
			const cookie = await cookieOf(context);
			for (const bad of ['seen=x', 'age=left:1h', 'links=has:files'])
				assert.equal((await raw(cookie, 'GET', '/q?' + bad)).status,
					400, bad);
		}));

	test('2 filters by keyboard', () => using({}, async (page) => {
		const links = await held({ subject: 'Okapi', raw: mail({
			body: 'See https://okapi.example/' }) });
		await held({ subject: 'Okapi' });
		await signIn(page, stack);
		await fresh(page, '/q?q=okapi');
		await page.keyboard.press('/');
		for (let i = 0; i < 6; i++) {
			await page.keyboard.press('Tab');
			if (await page.evaluate(() => document.activeElement.matches(
				'.narrow summary')))
				break;
		}
		for (const key of ['Enter', 'Tab', 'Space'])
			await page.keyboard.press(key);
		await Promise.all([page.waitForNavigation(),
			page.keyboard.press('Enter')]);
		assert.deepEqual(await page.$$eval('#rows .row', (all) =>
			all.map((r) => r.dataset.id)), [links]);
	}));

	test('a wide screen has the queue beside the message', () =>
		using({}, async (page) => {
			// The highest there is: to open it cannot move it in the order.
			await held({ subject: 'Near one', risk: 100 });
			const id = await held({ subject: 'Near two', risk: 100 });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const beside = page.locator('.around');
			assert.ok(await beside.isVisible());
			assert.equal(await beside.locator('[aria-current]')
				.getAttribute('href'), '/m/' + id);
			assert.ok(await beside.locator('[aria-current]').isVisible());
			await beside.locator('a', { hasText: 'Near one' }).first().click();
			await page.waitForURL((u) => u.pathname !== '/m/' + id);
			assert.equal(await page.textContent('#subject'), 'Hello');
			await page.setViewportSize({ width: 1000, height: 800 });
			assert.ok(!await beside.isVisible());
		}));

	test('a page says when it is not told any more', () =>
		using({}, async (page, context) => {
			await signIn(page, stack);
			await page.goto('/q');
			await ready(page);
			const sign = page.locator('#offline');
			assert.ok(!await sign.isVisible());
			const streams = page.waitForRequest((r) =>
				r.url().includes('/events'));
			await page.reload();
			await streams;
			await stack.ask('kill', { name: 'postern-admin' });
			try {
				await sign.filter({ hasText: 'Offline' }).waitFor();
			} finally {
				await stack.ask('program', { name: 'postern-admin', run: true });
			}
			await sign.waitFor({ state: 'hidden' });
			await stack.sql('UPDATE d.operator_session SET ended_at = now() ' +
				'WHERE ended_at IS NULL AND session_sha256 = (SELECT ' +
				'session_sha256 FROM d.operator_session ORDER BY created_at ' +
				'DESC LIMIT 1)');
			await sign.filter({ hasText: 'Signed out' }).waitFor();
			context.faults.length = 0; // the refused stream is said so
		}));

	test('a time says what it is where the reader is', () =>
		using({ timezoneId: 'Asia/Kolkata', locale: 'en-GB' }, async (page) => {
			await signIn(page, stack);
			await page.goto('/m/' + await held());
			const time = page.locator('#history time').first();
			await time.scrollIntoViewIfNeeded();
			const before = await time.boundingBox();
			const utc = await time.getAttribute('title');
			await time.hover();
			const title = await time.getAttribute('title');
			assert.ok(title.startsWith(utc + ' = '), title);
			assert.match(title, /GMT\+5:30|IST/);
			const at = new Date(await time.getAttribute('datetime'));
			assert.ok(title.includes(new Date(at.getTime() + 19800000)
				.toISOString().slice(11, 19)), title);
			assert.deepEqual(await time.boundingBox(), before);
		}));

	for (const javaScriptEnabled of [true, false])
		test('the history begins with the last day, and shows more when asked' +
			(javaScriptEnabled ? '' : ', without scripts'), () =>
			using({ javaScriptEnabled }, async (page) => {
				const word = 'Numbat' + (javaScriptEnabled ? 'one' : 'two');
				const ids = [];
				// whose inbox no other test fills
				await stack.ask('operator', { name: word, password: PASSWORD,
					role: 'reviewer', tenant: 'other' });
				await signIn(page, stack, word, PASSWORD);
				ids.push(await held({ subject: word, inbox: 2 }));
				await page.goto('/m/' + ids[0]);
				await page.click('#reject > summary');
				await page.check('input[value=other]');
				await posted(page, () => page.click('#reject-button'));
				for (const days of [2, 10, 40])
					ids.push((await stack.ask('older', { id: ids[0], days })).id);
				const there = async () => {
					const all = await page.locator('#rows .row').evaluateAll(
						(rows) => rows.map((row) => row.dataset.id));
					return ids.map((id) => all.includes(id));
				};
				const current = (label) => page.textContent(
					`nav[aria-label="${label}"] [aria-current]`);
				await page.click('.top a[href="/history"]');
				assert.deepEqual(await there(), [true, false, false, false]);
				assert.equal(await current('Changed'), '24 hours');
				assert.match(await page.textContent('#wider'), /Show more/);
				assert.equal(await page.locator('a[rel=next]').count(), 0);
				await page.click('#wider >> text=7 days');
				assert.match(page.url(), /since=7d/);
				assert.deepEqual(await there(), [true, true, false, false]);
				// What is chosen goes with the other choices, and is the address.
				await page.click('text=Rejected, expired, canceled');
				assert.match(page.url(), /show=decided&since=7d/);
				assert.deepEqual(await there(), [true, true, false, false]);
				await page.reload();
				assert.equal(await current('Changed'), '7 days');
				await page.click('#since >> text=30 days');
				assert.deepEqual(await there(), [true, true, true, false]);
				await page.click('#since >> text=All time');
				assert.deepEqual(await there(), [true, true, true, true]);
				assert.equal(await page.locator('#wider').count(), 0);
				// What waits is never hidden by its age, nor what is searched.
				for (const show of ['underway', 'uncertain']) {
					await page.goto('/history?show=' + show);
					assert.equal(await current('Changed'), 'All time');
				}
				await page.goto('/history');
				await page.fill('#find', word);
				await page.press('#find', 'Enter');
				await page.waitForURL(/q=Numbat/);
				assert.equal(await current('Changed'), 'All time');
				assert.deepEqual(await there(), [true, true, true, true]);
				await page.click('#since >> text=7 days');
				assert.deepEqual(await there(), [true, true, false, false]);
				assert.equal(await page.inputValue('#find'), word);
				await page.goto('/history?q=nothing-like-it&since=7d');
				assert.match(await page.textContent('.empty h2'),
					/^Nothing of the last 7 days$/);
				assert.equal((await page.goto('/history?since=1y')).status(),
					400);
				// Of today is what came to its end today, however old it is.
				await stack.sql('UPDATE d.state SET changed_at = now() WHERE ' +
					'message_id = %s', uuid(ids[2]));
				await page.goto('/history');
				assert.deepEqual(await there(), [true, false, true, false]);
				await page.click('text=Bounced');
				assert.deepEqual(await there(), [false, false, false, false]);
			}));
}

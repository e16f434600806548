// SPDX-License-Identifier: ISC
// What a person wrote, or may expect, when something else came first: the
// session ended, the message changed, its time was over, the role may not.
import assert from 'node:assert/strict';
import { mail, posted, signIn, uuid } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';
const NOTE = 'The amount in line three is wrong.\nAsk </textarea><b>Maria</b>.';

export default function ({ test, using, held, raw, cookieOf, stack }) {
	const replica = (query) => stack.sql('SET session_replication_role = ' +
		'replica; ' + query + '; RESET session_replication_role');
	const where = (id) => `WHERE message_id = '${uuid(id)}'`;

	async function refuse(page, id) {
		await page.goto('/m/' + id);
		await page.click('#reject > summary');
		await page.check('input[value=wrong_content]');
		await page.fill('#reject-form textarea', NOTE);
	}

	for (const scripts of [true, false])
		test('a note that was typed is not lost' +
			(scripts ? '' : ', nor without scripts'), () =>
			using({ javaScriptEnabled: scripts }, async (page, context) => {
				const press = async (status) => {
					const answer = await posted(page,
						() => page.click('#reject-button'));
					assert.equal(answer.status(), status);
					assert.equal(await page.inputValue('#typed'), NOTE);
					assert.equal(await page.locator('main b').count(), 0);
				};
				const id = await held();
				await signIn(page, stack);
				await refuse(page, id);
				await stack.sql('UPDATE d.operator_session SET ended_at = ' +
					'now() WHERE created_at = (SELECT max(created_at) FROM ' +
					'd.operator_session)');
				await press(401);
				await page.click('main a.button');
				assert.equal(await page.inputValue('input[name=return_to]'),
					'/m/' + id);
				await signIn(page, stack);
				await refuse(page, id);
				const other = await context.newPage();
				await signIn(other, stack); // the form is of the old session
				await press(403);
				await refuse(page, id);
				await replica(`UPDATE d.state SET round = 2 ${where(id)}`);
				await press(409);
				assert.equal((await stack.state(id)).state, 1);
				const answer = await page.goto(`/m/${id}`);
				assert.equal(answer.status(), 200);
				await page.fill('#comment-form textarea', 'x'.repeat(10));
				await context.clearCookies();
				await posted(page, () => page.click('#comment-form button'));
				assert.equal(await page.inputValue('#typed'), 'x'.repeat(10));
			}));

	test('what was stopped can be pressed again', () =>
		using({}, async (page, context) => {
			const id = await held();
			await signIn(page, stack);
			await refuse(page, id);
			const browser = await context.newCDPSession(page);
			let asked = 0;
			await page.route('**/decide', (route) => {
				if (++asked > 1) // the first is never answered
					route.continue();
			});
			const first = page.waitForRequest(/decide$/);
			await page.click('#reject-button', { noWaitAfter: true });
			await first;
			await browser.send('Page.stopLoading');
			await page.waitForSelector('#reject-button:not([aria-busy])');
			assert.equal(asked, 1);
			await page.click('#reject-button', { noWaitAfter: true });
			await page.waitForURL(/said=rejected/);
			await page.unroute('**/decide');
			const { state, decisions } = await stack.state(id);
			assert.equal(state, 3);
			assert.equal(decisions[0].note.replace(/\r/g, ''), NOTE);
		}));

	test('19 what is past its time is not approved, swept away or not', () =>
		using({}, async (page) => {
			const ids = [await held(), await held()];
			await signIn(page, stack);
			await page.goto('/m/' + ids[0]);
			for (const id of ids)
				await replica("UPDATE d.state SET hold_until = now() - " +
					`interval '1 s' ${where(id)}`);
			await page.click('#approve > summary');
			const answer = await posted(page,
				() => page.click('#approve-button'));
			assert.equal(answer.status(), 409);
			assert.match(await page.textContent('main'), /time .* is over/);
			assert.equal((await stack.state(ids[0])).state, 1);
			await page.goto('/m/' + ids[1]);
			assert.match(await page.textContent('#decide'), /time .* is over/);
			assert.equal(await page.locator('#approve-form').count(), 0);
			// no is no, also late
			await refuse(page, ids[1]);
			await posted(page, () => page.click('#reject-button'));
			assert.equal((await stack.state(ids[1])).state, 3);
		}));

	test('15 the winner is named, also when the relay has gone on', () =>
		using({}, async (page) => {
			const id = await held();
			const name = 'faster' + Date.now();
			await stack.ask('operator', { name, tenant: 'acme',
				password: PASSWORD, role: 'reviewer' });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await page.click('#approve > summary');
			await using({}, async (other) => {
				await signIn(other, stack, name, PASSWORD);
				await other.goto('/m/' + id);
				await other.click('#approve > summary');
				await posted(other, () => other.click('#approve-button'));
			});
			// the relay takes it
			await stack.sql(`UPDATE d.send_q SET due_at = now() ${where(id)}`);
			while ((await stack.state(id)).state === 2)
				await stack.sql("SELECT * FROM api.claim_due_1('w1', 100, 60)");
			const answer = await posted(page,
				() => page.click('#approve-button'));
			assert.equal(answer.status(), 409);
			assert.match(await page.textContent('main'), new RegExp(
				`Approved by ${name} .*Its state is now: Sending`, 's'));
		}));

	test('11 no hidden recipient hides behind many', () =>
		using({ viewport: { width: 390, height: 844 } }, async (page) => {
			const to = Array.from({ length: 60 }, (_, i) =>
				`reader${i}@a-rather-long-name-of-a-domain.example.org`);
			const id = await held({ rcpt: [...to, 'zoe@collector.example'],
				kinds: 't'.repeat(60) + 'b', raw: mail({ to: to.join(',\n ') }) });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			assert.equal(await page.locator('.rcpts li:visible').count(), 20);
			assert.match(await page.locator('.rcpts li').first().textContent(),
				/zoe@collector\.example/);
			assert.match(await page.textContent('.named li'),
				/zoe@collector\.example\s*Bcc/);
			await page.click('#rest summary');
			assert.equal(await page.locator('.rcpts li:visible').count(), 61);
			await page.emulateMedia({ media: 'print' });
			await page.goto('/m/' + id);
			assert.equal(await page.locator('.rcpts li:visible').count(), 61);
			// whom a row is for is read whole
			await page.emulateMedia({ media: 'screen' });
			for (const width of [390, 1280]) {
				await page.setViewportSize({ width, height: 800 });
				await held({ rcpt: to.slice(0, 1), subject: 'Whole' });
				await page.goto('/q?q=whole');
				const { seen, whole } = await page.locator('.row .to .local')
					.first().evaluate((e) => {
						const range = document.createRange();
						range.selectNodeContents(e);
						return { seen: e.getBoundingClientRect().width,
							whole: range.getBoundingClientRect().width };
					});
				assert.ok(seen >= whole, `${width}: ${seen} of ${whole}`);
			}
		}));

	test('32 a thousand recipients are read on one page within its budget', () =>
		using({ viewport: { width: 390, height: 844 } }, async (page) => {
			const to = Array.from({ length: 999 }, (_, i) =>
				`reader${i}@weekly.example`);
			await stack.sql('UPDATE d.inbox SET rcpt_max = 1000');
			const id = await held({ rcpt: [...to, 'zoe@collector.example'],
				kinds: 't'.repeat(999) + 'b', raw: mail({ to: to.join(',\n ') }) });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			assert.match(await page.locator('.rcpts li').first().textContent(),
				/zoe@collector\.example/);
			await page.click('#rest summary');
			const text = await page.innerText('#who');
			for (const one of to)
				assert.ok(text.includes(one.split('@')[0] + '@'), one);
			const nodes = await page.evaluate(() =>
				document.querySelectorAll('*').length);
			assert.ok(nodes <= 1500, `${nodes} nodes`);
			assert.ok(await page.evaluate(() => document.documentElement
				.scrollWidth <= innerWidth));
		}));

	test('32 a thousand recipients are settled on a page within its budget', () =>
		using({ javaScriptEnabled: false },
			async (page) => {
				const n = 1000;
				const to = Array.from({ length: n }, (_, i) =>
					`reader${i}@weekly${i % 250}.example`);
				await stack.sql('UPDATE d.inbox SET rcpt_max = 1000');
				const id = await held({ rcpt: to, subject: 'To a thousand',
					raw: mail({ to: to.join(',\n ') }) });
				await signIn(page, stack);
				await page.goto('/m/' + id);
				await page.click('#approve > summary');
				const asked = { domain: 'weekly0.example',
					password: stack.password };
				for (const [name, text] of Object.entries(asked)) {
					const field = page.locator(`#approve input[name=${name}]`);
					if (await field.count())
						await field.fill(text);
				}
				await posted(page, () => page.click('#approve-button'));
				// As if each of 250 connections broke after the dot, and a few
				// tries before that.
				const where = ` WHERE message_id = '${uuid(id)}'`;
				await stack.sql('SET session_replication_role = replica; ' +
					`DELETE FROM d.send_q${where}; ` +
					`UPDATE d.delivery SET status = 6${where}; ` +
					`UPDATE d.state SET state = 11${where}; ` +
					'INSERT INTO d.attempt (message_id, tenant_id, inbox_id, ' +
					'domain, n, round, at, ended_at, worker, mx, tls, dot_at, ' +
					'result)' +
					" SELECT message_id, tenant_id, inbox_id, 'weekly' || g || " +
					"'.example', 1, 1, now() + g * interval '1 second', now(), " +
					"'w', 'mx' || g || '.weekly.example', 'TLSv1.3', now(), " +
					"'connection lost after the dot' FROM d.state, " +
					`generate_series(0, 249) g${where}`);
				const within = async () => {
					const nodes = await page.evaluate(() =>
						document.querySelectorAll('*').length);
					assert.ok(nodes <= 1500, `${nodes} nodes`);
					assert.ok(await page.evaluate(() => document
						.documentElement.scrollWidth <= innerWidth));
				};
				await page.setViewportSize({ width: 390, height: 844 });
				const status = async () => Object.fromEntries((await stack.sql(
					'SELECT status, count(*)::int AS n FROM d.delivery' + where +
					' GROUP BY status')).map((r) => [r.status, r.n]));
				await page.goto('/m/' + id);
				await within();
				// The tries: the newest in rows, and the others are there.
				assert.match(await page.textContent('#delivery h2'),
					/newest 200 tries/);
				assert.equal(await page.locator('#delivery li').count(), 20);
				await page.click('#earlier summary');
				assert.match(await page.textContent('#earlier summary'),
					/and 180 more/);
				const earlier = (await page.innerText('#earlier pre')).trim()
					.split('\n');
				assert.equal(earlier.length, 180);
				assert.match(earlier[0], /mx50\.weekly\.example +for weekly50\.example +TLSv1\.3 +all of it was handed over +connection lost/);
				// Some one by one, all others in one.
				const ticks = page.locator('#settle-form input[name=ix]');
				assert.equal(await ticks.count(), 20);
				const form = await page.textContent('#settle-form');
				assert.match(form, /and 980 more/);
				assert.match(form, /1–20 of 1000/);
				const settle = async (outcome) => {
					await page.check(
						`#settle-form input[name=outcome][value=${outcome}]`);
					await page.fill('#settle-form input[name=note]', 'asked');
					await posted(page, () => page.click('#settle-button'));
					assert.match(page.url(), /said=settled/);
				};
				// Only what is on the second page, one of it not.
				await page.click('#settle-pages a');
				assert.match(page.url(), /settle=20/);
				await within();
				assert.match(await page.textContent('#settle-pages'),
					/21–40 of 1000/);
				assert.equal(await page.locator(
					'#settle-form input[name=rest]').count(), 0);
				await ticks.first().uncheck();
				await settle('failed');
				const failed = await status();
				assert.equal(Object.values(failed).reduce((a, b) => a + b), n);
				assert.equal(failed[6], n - 19);
				// The last page, and none behind it.
				await page.goto(`/m/${id}?settle=980`);
				assert.match(await page.textContent('#settle-pages'),
					/981–981 of 981/);
				await page.goto(`/m/${id}?settle=5000`);
				assert.match(await page.textContent('#settle-pages'),
					/1–20 of 981/);
				// All that is left, at once.
				await settle('sent');
				const after = await status();
				assert.equal(after[6], undefined);
				assert.equal((await stack.sql('SELECT count(*)::int AS n FROM ' +
					`d.delivery${where} AND status = 3`))[0].n, n - 19);
			}));

	test('what is to be settled beside the ticks has to be numbers', () =>
		using({}, async (page, context) => {
			const id = await held();
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const csrf = await page.inputValue('input[name=csrf] >> nth=0');
			for (const rest of ['0-3', '3-2', 'a-b', '1', '1-', '-1', '1-1001',
				'1-1000,1-1', '1-2-3', ',']) {
				const got = await raw(await cookieOf(context), 'POST',
					`/m/${id}/settle`, { Origin: stack.url },
					new URLSearchParams({ csrf, rest, outcome: 'sent',
						note: 'x' }).toString());
				assert.equal(got.status, 422, rest);
			}
		}));

	test('26 nothing is offered that the role may not do', () =>
		using({}, async (page, context) => {
			await stack.ask('submit', { rcpt: ['jana@example.org'], inbox: 2,
				raw: 'Subject: x\n\nx\n', count: 30 });
			await stack.ask('operator', { name: 'reads', password: PASSWORD,
				role: 'auditor' });
			await stack.ask('operator', { name: 'readsone', tenant: 'acme',
				password: PASSWORD, role: 'auditor' });
			const paths = async (name, password) => {
				await context.clearCookies();
				await signIn(page, stack, name, password);
				return page.$$eval('.top nav a', (all) =>
					all.map((a) => a.getAttribute('href')));
			};
			const everything = await paths(stack.operator, stack.password);
			assert.ok(await page.locator('.group button').count() >= 2);
			assert.ok(!(await paths('readsone', PASSWORD))
				.includes('/operators'));
			// an auditor of everything may read every page, and change nothing
			assert.deepEqual(await paths('reads', PASSWORD), everything);
			for (const path of ['/q', '/jobs', ...everything]) {
				await page.goto(path);
				assert.deepEqual(await page.$$eval('main form[method=post]',
					(all) => all.map((f) => f.action)), [], path);
			}
		}));
}

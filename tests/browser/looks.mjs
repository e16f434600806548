// SPDX-License-Identifier: ISC
// Every page in both themes and four widths: axe finds nothing, nothing
// scrolls sideways, what a thumb presses is 44 px high.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { Stack, signIn, ready, mail, uuid, posted, listed } from './lib.mjs';
import { totp } from './second.mjs';

const PASSWORD = 'a long enough pass phrase';
const axe = fs.readFileSync(
	createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const LONG = 'a-very-long-local-part-of-an-address.that.goes.on@' +
	'and-a-domain-that-does-not-fit-either.example.co.uk';

// Inject by evaluate: a script tag is what our policy refuses.
async function audit(page, name, within) {
	await page.evaluate(axe);
	const found = await page.evaluate(([tags, part]) => axe.run(part ?
		document.querySelector(part) : document, {
		runOnly: { type: 'tag', values: tags } }), [TAGS, within]);
	assert.deepEqual(found.violations.map((v) => [v.id,
		v.nodes[0].html.slice(0, 160), v.nodes[0].failureSummary]), [], name);
}

async function measure(page, name, width) {
	const { scroll, small } = await page.evaluate(() => ({
		scroll: document.documentElement.scrollWidth,
		small: [...document.querySelectorAll('button, summary, .button, ' +
			'nav a, input:not([type=hidden]):not([type=radio])' +
			':not([type=checkbox]), select, .cats label')]
			.filter((e) => e.checkVisibility({ visibilityProperty: true }) &&
				!e.closest('.skip'))
			.map((e) => [e.outerHTML.slice(0, 80),
				e.getBoundingClientRect().height])
			.filter(([, h]) => h > 0 && h < 43.5),
	}));
	assert.ok(scroll <= width, `${name}: ${scroll} > ${width}`);
	if (width < 700)
		assert.deepEqual(small, [], name);
}

export default function ({ test, using, held, stack }) {
	// Approved on the page; then as if the connection broke after the dot.
	async function uncertain(page) {
		const id = await held({ subject: 'Broke after the dot' });
		await page.goto('/m/' + id);
		await page.click('#approve > summary');
		await page.click('#approve-button');
		await page.waitForURL(/said=approved/);
		const where = ` WHERE message_id = '${uuid(id)}'; `;
		await stack.sql('SET session_replication_role = replica; ' +
			'DELETE FROM d.send_q' + where +
			'UPDATE d.delivery SET status = 6' + where +
			'UPDATE d.state SET state = 11' + where);
		return id;
	}

	async function pages(page) {
		const rich = { rcpt: ['jana@example.org', LONG, 'x@hidden.example'],
			context: { purpose: 'Answer a customer. ' + 'x'.repeat(200) },
			raw: mail({ to: 'jana@example.org, ' + LONG, cc: 'no@one.example',
				subject: 'Y'.repeat(120),
				more: 'Content-Type: multipart/mixed; boundary=b\n',
				body: '--b\nContent-Type: text/plain\n\n' + 'z'.repeat(400) +
					'\n--b\nContent-Type: text/html\n\n<p>Hello</p>\n--b\n' +
					'Content-Type: application/pdf\nContent-Disposition: ' +
					'attachment; filename="' + 'n'.repeat(90) + '.pdf"\n\n' +
					'%PDF-1.7\n--b--\n' }) };
		const high = await held({ ...rich, risk: 90, subject: 'Y'.repeat(120) });
		const low = await held({ risk: 5 });
		const gone = await held();
		const { some, all } = await listed(stack, held);
		const unclear = await uncertain(page);
		await stack.sql('UPDATE d.inbox SET paused_at = now() WHERE address = ' +
			"'research@agents.example.com'");
		const [box] = await stack.sql('SELECT tenant_id AS t, inbox_id AS i ' +
			"FROM d.inbox WHERE address = 'helpdesk@agents.example.com'");
		const jobs = ['/jobs'];
		for (const verdict of ['a', 'r']) {
			await page.goto('/q?q=y');
			await page.click('.all summary');
			await page.click(`button[name=all][value=${verdict}]`);
			await page.waitForURL('**/jobs/job_*');
			jobs.push(new URL(page.url()).pathname);
		}
		jobs.push(jobs[2] + '?show=all');
		return { gone, list: [...jobs, '/q', '/q?q=nothing-like-it', '/history',
			'/history?show=uncertain', '/inboxes', '/inboxes?q=zzz', '/pause',
			'/account', `/inbox/${box.t}.${box.i}`, '/inboxes/new', '/tenants',
			'/operators', '/audit', '/audit?who=nobody', '/health',
			'/q?risk=high', '/q?risk=low', '/m/' + low,
			'/m/' + some, '/m/' + all,
			'/m/' + high, `/m/${high}?view=html`,
			`/m/${high}?view=diff`, `/m/${high}?view=headers`, `/m/${high}?view=raw`,
			'/m/' + unclear, '/m/' + gone, '/m/1', '/nothing'] };
	}

	test('29 and 30: axe, widths, targets, both themes', async () => {
		let found;
		const full = process.env.POSTERN_FULL === '1';
		if (!full)
			console.log('SKIP browser 29: 1280 dark, 390 light: with --full');
		// 640 is 1280 at 200 %
		for (const [width, theme, deep] of [[1280, 'light', true],
			...full ? [[1280, 'dark', true], [390, 'light', true]] : [],
			[390, 'dark', true], [320, 'light', false], [640, 'light', false]])
			await using({ viewport: { width, height: 800 },
				colorScheme: theme, hasTouch: width < 700,
				isMobile: width < 700 }, async (page) => {
				for (const path of ['/login', '/setup']) {
					await page.goto(path);
					if (deep)
						await audit(page, path);
					await measure(page, path, width);
				}
				await signIn(page, stack);
				found = found || await pages(page);
				const { gone, list } = found;
				if ((await stack.state(gone)).state === 1) {
					await page.goto('/m/' + gone); // and the undo bar is there
					await page.click('#approve > summary');
					await page.click('#approve-button');
					await page.waitForURL(/said=approved/);
				}
				for (const path of list) {
					const answer = await page.goto(path);
					assert.ok(answer.status() < 500, path);
					await page.evaluate(() => {
						for (const d of document.querySelectorAll(
							'details:not(.only)'))
							d.open = true;
					});
					const name = `${path} ${width} ${theme}`;
					if (deep)
						await audit(page, name);
					// A menu lies over what is under it, so it is looked at alone.
					if (await page.locator('.only > summary').count() > 0) {
						await page.evaluate(() => {
							document.querySelector('.only').open = true;
						});
						if (deep)
							await audit(page, name + ' menu', '.only');
					}
					await measure(page, name, width);
				}
				if (!deep || width < 700)
					return;
				await page.goto('/q');
				await ready(page);
				await page.click('#help-open');
				await page.waitForSelector('dialog[open]');
				await audit(page, 'help ' + theme);
			});
		await stack.sql('UPDATE d.inbox SET paused_at = NULL');
	});

	// What no address leads to: with --full in all four looks.
	test('29 axe: refused, conflict, jobs on their way, offline, help', async () => {
		const full = process.env.POSTERN_FULL === '1';
		for (const [width, theme] of full ? [[1280, 'light'], [1280, 'dark'],
			[390, 'light'], [390, 'dark']] : [[390, 'dark']])
			await using({ viewport: { width, height: 800 },
				colorScheme: theme, hasTouch: width < 700,
				isMobile: width < 700 }, async (page, context) => {
				const look = async (name) => {
					await audit(page, `${name} ${width} ${theme}`);
					await measure(page, name, width);
				};
				await page.goto('/login');
				await page.fill('input[name=name]', 'nobody');
				await page.fill('input[name=password]', 'wrong');
				await posted(page, () => page.click('button.primary'));
				await look('refused');
				await signIn(page, stack);
				const ids = [await held(), await held()];
				for (const [i, field] of ['round', 'digest'].entries()) {
					await page.goto('/m/' + ids[i]);
					await page.evaluate((name) => document.querySelectorAll(
						`#reject-form [name=${name}]`).forEach((e) => {
						e.value = name === 'round' ? 2 : e.value.replace(/.$/,
							(c) => c === '0' ? '1' : '0');
					}), field);
					await page.evaluate(() => {
						document.querySelector('#reject').open = true;
					});
					await page.check('input[value=other]');
					const answer = await posted(page,
						() => page.click('#reject-button'));
					assert.equal(answer.status(), i ? 412 : 409);
					await look(field);
				}
				await page.goto('/q?q=hello');
				await page.click('.all summary');
				await page.click('button[name=all][value=r]');
				await page.waitForURL('**/jobs/job_*');
				for (const state of [2, 3, 4]) {
					await stack.sql('SET session_replication_role = replica; ' +
						`UPDATE d.job SET state = ${state}, done = 1, ` +
						'confirmed_at = now() WHERE made_at = (SELECT ' +
						'max(made_at) FROM d.job)');
					await page.reload();
					await look('job ' + state);
				}
				await page.goto('/q');
				await ready(page);
				await page.evaluate(() =>
					document.querySelector('#help-open').click());
				await page.waitForSelector('dialog[open]');
				await look('help');
				await context.route('**/events*', (route) => route.abort());
				await page.reload();
				await page.locator('#offline:not([hidden])').waitFor();
				await look('offline');
			});
	});

	test('29 axe: an app, its recovery codes, signing in with them', async () => {
		const full = process.env.POSTERN_FULL === '1';
		for (const [width, theme] of full ? [[1280, 'light'], [1280, 'dark'],
			[390, 'light'], [390, 'dark']] : [[1280, 'dark'], [390, 'light']])
			await using({ viewport: { width, height: 800 },
				colorScheme: theme, hasTouch: width < 700,
				isMobile: width < 700 }, async (page, context) => {
				const look = async (name) => {
					await page.evaluate(() => {
						for (const d of document.querySelectorAll('details'))
							d.open = true;
					});
					await audit(page, `${name} ${width} ${theme}`);
					await measure(page, name, width);
				};
				const name = `looker${width}${theme}`;
				await stack.ask('operator', { name, password: PASSWORD,
					role: 'admin' });
				await signIn(page, stack, name, PASSWORD);
				await page.goto('/account');
				await page.click('#add-totp > summary');
				const field = page.locator('#add-totp input[name=password]');
				if (await field.count())
					await field.fill(PASSWORD);
				await posted(page, () => page.click('#add-totp button'));
				await look('the secret');
				await page.fill('input[name=confirm]',
					totp(await page.textContent('#secret')));
				await posted(page, () => page.click('.enrol button'));
				assert.match(await page.textContent('#codes'), /-/);
				await look('recovery codes');
				await page.goto('/account');
				await look('an account with a factor');
				await context.clearCookies();
				await page.goto('/login');
				await page.fill('input[name=name]', name);
				await page.fill('input[name=password]', PASSWORD);
				await posted(page, () => page.click('button.primary'));
				await look('the second factor');
			});
	});

	test('30 what has the focus is never under the bar', () =>
		using({ viewport: { width: 390, height: 700 }, hasTouch: true,
			isMobile: true }, async (page) => {
			const id = await held({ context: { purpose: 'x '.repeat(400) } });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await ready(page);
			let seen = 0;
			for (let i = 0; i < 60; i++) {
				await page.keyboard.press('Tab');
				const at = await page.evaluate(() => {
					const e = document.activeElement;
					if (e === document.body || e.closest('.bar, .skip'))
						return e.closest('.bar') ? 'bar' : null;
					const r = e.getBoundingClientRect();
					const bar = document.querySelector('.bar')
						.getBoundingClientRect();
					return [r.top < bar.top && r.bottom > 0, e.outerHTML
						.slice(0, 90)];
				});
				if (Array.isArray(at)) {
					assert.ok(at[0], at[1]);
					seen++;
				}
			}
			assert.ok(seen > 10, String(seen));
		}));

	test('a pause of an inbox shows where it concerns', () =>
		using({}, async (page) => {
			const mine = await held();
			const theirs = await held({ inbox: 1 });
			await stack.sql('UPDATE d.inbox SET paused_at = now() WHERE ' +
				"address = 'research@agents.example.com'");
			await signIn(page, stack);
			for (const path of ['/q', '/history', '/inboxes', '/pause',
				'/account', '/m/' + theirs]) {
				await page.goto(path);
				assert.match(await page.textContent('.paused'),
					/Inbox research@agents\.example\.com is paused/, path);
			}
			await page.goto('/m/' + mine);
			assert.equal(await page.locator('.paused').count(), 0);
			await stack.sql('UPDATE d.inbox SET paused_at = NULL');
		}));

	test('mail that may have been sent is settled by a person', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			await signIn(page, stack);
			const id = await uncertain(page);
			await page.goto('/m/' + id);
			assert.match(await page.textContent('#decide'), /may have taken it/);
			await page.check('input[name=outcome][value=sent]');
			await page.fill('#settle-form input[name=note]', 'asked them');
			await posted(page, () => page.click('#settle-button'));
			assert.match(page.url(), /said=settled/,
				await page.textContent('main'));
			assert.equal((await stack.state(id)).state, 8);
			const [row] = await stack.sql('SELECT detail FROM d.audit WHERE ' +
				"event = 'message.uncertain' ORDER BY n DESC LIMIT 1");
			assert.match(row.detail, /asked them/);
		}));

	test('approved mail is canceled, and then it is too late', () =>
		using({ javaScriptEnabled: false }, async (page, context) => {
			const id = await held();
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await page.click('#approve > summary');
			await posted(page, () => page.click('#approve-button'));
			await page.goto('/m/' + id);
			const late = await context.newPage();
			await late.goto('/m/' + id);
			for (const [tab, status] of [[page, 200], [late, 409]]) {
				await tab.click('#cancel > summary');
				await tab.fill('#cancel-form input[name=note]', 'a mistake');
				const [answer] = await Promise.all([
					tab.waitForNavigation(),
					tab.click('#cancel-button')]);
				assert.equal(answer.status(), status);
			}
			assert.match(await late.textContent('main'),
				new RegExp('Canceled by ' + stack.operator));
			const row = await stack.state(id);
			assert.deepEqual([row.state, row.queued], [5, 0]);
		}));

	test('undo and pause without scripts', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const id = await held();
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await page.click('#approve > summary');
			await posted(page, () => page.click('#approve-button'));
			await posted(page, () => page.click('#undo-button'));
			assert.match(page.url(), /said=undone/);
			assert.deepEqual([(await stack.state(id)).state,
				(await stack.state(id)).round], [1, 2]);
			await page.goto('/pause');
			const row = page.locator('.switch', { hasText: 'research@' });
			await row.locator('summary').click();
			await row.locator('input[name=reason]').fill('a test');
			await posted(page, () => row.locator('button').click());
			assert.match(page.url(), /said=paused/);
			assert.match(await page.textContent('.paused'), /research@/);
			await stack.sql('UPDATE d.inbox SET paused_at = NULL');
		}));

	test('the first run, in the browser', async () => {
		const empty = await Stack.start({ STACK_EMPTY: '1' });
		const token = () => fs.readFileSync(empty.token_file, 'utf8').trim();
		const phrase = 'correct horse battery';
		try {
			await using({ baseURL: empty.url,
				javaScriptEnabled: true }, async (page) => {
				await page.goto('/');
				await page.waitForURL('**/setup');
				await page.fill('input[name=token]', 'wrong');
				await page.fill('input[name=name]', 'maria');
				await page.fill('input[name=password]', phrase);
				await page.fill('input[name=again]', phrase);
				await posted(page, () => page.click('button.primary'));
				assert.match(await page.textContent('.refusal'),
					/not the setup token/);
				await page.goto('/setup?token=' + token());
				await page.fill('input[name=password]', phrase);
				await page.fill('input[name=again]', phrase);
				await page.evaluate(() => document.querySelector('[name=name]')
					.removeAttribute('pattern'));
				await page.fill('input[name=name]', '\u043caria');
				await posted(page, () => page.click('button.primary'));
				assert.match(await page.textContent('.refusal'),
					/A name has 1 to 64/);
				await page.fill('input[name=name]', 'maria');
				await page.fill('input[name=password]', phrase);
				await page.fill('input[name=again]', 'something else');
				await posted(page, () => page.click('button.primary'));
				assert.match(await page.textContent('.refusal'), /differ/);
				await page.fill('input[name=password]', phrase);
				await page.fill('input[name=again]', phrase);
				await page.click('button.primary');
				await page.waitForURL('**/login');
				await signIn(page, empty, 'maria', phrase);
				assert.match(await page.textContent('main'),
					/Nothing is waiting/);
				assert.equal(await page.getAttribute('.empty a', 'href'),
					'/inboxes/new');
				await ready(page);
				assert.throws(token, /ENOENT/); // used up
				await page.goto('/setup');
				assert.match(await page.textContent('main'),
					/An operator exists already/);
			});
		} finally {
			await empty.stop();
		}
	});
}

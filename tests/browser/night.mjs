// SPDX-License-Identifier: ISC
// What is long, or written from the right: all of it stays within its place,
// and what is to be looked at before a decision is not pushed away by it.
import assert from 'node:assert/strict';
import { posted, ready, signIn, mail } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true,
	isMobile: true };
const DESK = { viewport: { width: 1280, height: 800 } };
const ARABIC = 'مرحبا بالعالم هذا موضوع طويل جدا للغاية يحتوي على أرقام كثيرة ' +
	'ولا ينتهي في سطر واحد أبدا مهما كان العرض';

export default function ({ test, using, held, stack }) {
	const fits = async (page, path) => {
		await page.goto(path);
		await ready(page);
		const { width } = page.viewportSize(); // a phone's innerWidth gives way
		const wide = await page.evaluate(() =>
			document.documentElement.scrollWidth);
		assert.ok(wide <= width, `${path}: ${wide} > ${width}`);
	};
	let people = 0;
	for (const [kind, view] of [['a phone', PHONE], ['a desk', DESK]])
		test('30 the longest name of a person, and of a search, on ' + kind, () =>
			using(view, async (page) => {
				const name = 'n'.repeat(62) + ++people + 'x';
				await stack.ask('operator', { name, password: PASSWORD,
					role: 'admin' });
				const id = await held();
				await signIn(page, stack, name, PASSWORD);
				await stack.sql("UPDATE d.inbox SET paused_at = now(), " +
					"paused_by = 'op:' || (SELECT operator_id FROM d.operator " +
					'WHERE name = %s) WHERE address LIKE %s RETURNING 1', name,
				'research@%');
				await page.goto('/m/' + id);
				await page.fill('#comments textarea', 'c'.repeat(300));
				await page.click('#comments button');
				await page.waitForURL(/said=commented/);
				for (const path of ['/q', '/m/' + id, '/history', '/inboxes',
					'/pause', '/account', '/operators', '/audit', '/tenants',
					'/q?q=' + 'w'.repeat(300), '/audit?who=' + name,
					'/history?q=' + 'w'.repeat(300)])
					await fits(page, path);
				await stack.sql('UPDATE d.inbox SET paused_at = NULL');
			}));

	test('30 no width between a phone and a desk scrolls sideways', () =>
		using(DESK, async (page) => {
			const name = 'm'.repeat(64);
			await stack.ask('operator', { name, password: PASSWORD,
				role: 'admin' });
			const id = await held();
			await signIn(page, stack, name, PASSWORD);
			for (const width of [701, 844, 1000, 1001, 1024, 1100, 1240, 1241,
				1280]) {
				await page.setViewportSize({ width, height: 390 });
				for (const path of ['/q', '/operators', '/m/' + id]) {
					await fits(page, path);
					const seen = await page.evaluate(() => document
						.querySelector('.me form button')
						.getBoundingClientRect().right);
					assert.ok(seen <= width, `${path}: sign out at ${seen}`);
				}
			}
		}));

	test('30 what is written from the right is cut at its end', () =>
		using(DESK, async (page) => {
			const subject = ARABIC + ' okapi'; // to be found by
			const id = await held({ subject, raw: mail({ subject }) });
			await signIn(page, stack);
			await page.goto('/q?q=okapi');
			await ready(page);
			// The first word is seen, whole, within the column.
			const seen = await page.evaluate((at) => {
				const row = document.querySelector(`#rows [data-id="${at}"]`);
				const text = row.querySelector('.c-subject bdi').firstChild;
				const range = document.createRange();
				range.setStart(text, 0);
				range.setEnd(text, 5);
				const word = range.getBoundingClientRect();
				const cell = row.querySelector('.c-subject')
					.getBoundingClientRect();
				return [word.left, word.right, cell.left, cell.right];
			}, id);
			assert.ok(seen[0] >= seen[2] - 1 && seen[1] <= seen[3] + 1, seen);
		}));

	test('17 the undo bar says when it leaves, whatever its subject', () =>
		using(DESK, async (page) => {
			const subject = 'long '.repeat(60);
			const id = await held({ subject, raw: mail({ subject }) });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await ready(page);
			await page.click('#approve > summary');
			await page.click('#approve-button');
			await page.waitForURL(/said=approved/);
			await ready(page);
			const [when, bar] = await page.evaluate(() => ['#undo .when',
				'#undo p'].map((s) => document.querySelector(s)
				.getBoundingClientRect().right));
			assert.ok(when <= bar + 1, `${when} > ${bar}`);
		}));

	test('30 a subject of a thousand letters pushes nothing away', () =>
		using(PHONE, async (page) => {
			const subject = 'W'.repeat(900) + 'end';
			const id = await held({ subject, raw: mail({ subject }) });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await ready(page);
			const at = await page.evaluate(() => document.querySelector(
				'.title .sub').getBoundingClientRect().bottom);
			assert.ok(at < 500, `risk and inbox at ${at}`);
			// All of it can be read, without a mouse too.
			const end = page.evaluate(() => new Promise((resolve) => {
				const h = document.querySelector('#subject');
				h.addEventListener('scroll', () => {
					if (h.scrollTop + h.clientHeight >= h.scrollHeight - 2)
						resolve();
				});
			}));
			await page.focus('#subject');
			await page.keyboard.press('End');
			await end;
		}));

	test('27 who signs in again is where he was, search and all', () =>
		using(PHONE, async (page) => {
			const at = '/history?range=all&q=' +
				encodeURIComponent('a&b=c %2F "ü"');
			await signIn(page, stack);
			await page.goto(at);
			const was = await page.inputValue('input[name=q]');
			await stack.sql('UPDATE d.operator_session SET ended_at = now() ' +
				'WHERE session_sha256 = (SELECT session_sha256 FROM ' +
				'd.operator_session ORDER BY created_at DESC LIMIT 1) ' +
				'RETURNING 1');
			await page.reload();
			await page.waitForURL(/login/);
			await page.fill('input[name=name]', stack.operator);
			await page.fill('input[name=password]', stack.password);
			await posted(page, () => page.click('button.primary'));
			assert.equal(new URL(page.url()).pathname + new URL(page.url())
				.search, at);
			assert.equal(await page.inputValue('input[name=q]'), was);
			// Nobody is led elsewhere by it.
			for (const bad of ['//evil.example', '/%5Cevil.example',
				'https://evil.example', '%2F%2Fevil.example']) {
				await page.goto('/login?return_to=' + bad);
				assert.equal(await page.inputValue(
					'input[name=return_to]'), '/q', bad);
			}
		}));
}

// SPDX-License-Identifier: ISC
// Several people, many messages: jobs, who looks at what, comments, news.
import assert from 'node:assert/strict';
import { ready, signIn, uuid } from './lib.mjs';

export default function ({ test, using, held, raw, cookieOf, stack }) {
	const states = (ids) => Promise.all(ids.map(
		async (id) => (await stack.state(id)).state));

	const shows = (page, text) => page.locator('#job-state',
		{ hasText: text }).waitFor();
	const finished = (page) => shows(page, 'finished');

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
			await signIn(page, stack);
			await page.goto('/q?q=yak');
			await page.click('.all summary');
			await page.click('button[name=all][value=a]');
			assert.match(await page.textContent('h1'), /Approve 3 messages/);
			assert.equal(await page.locator(`a[href="/m/${risky}"]`).count(), 1);
			assert.match(await page.textContent('table'), /risk is not low/);
			await page.click('#confirm-button');
			const at = page.url().split('?')[0];
			for (let i = 0; i < 100 && !/finished/.test(
				await page.textContent('#job-state')); i++)
				await page.goto(at);
			assert.deepEqual(await states([...low, risky]), [2, 2, 2, 1]);
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
}

// SPDX-License-Identifier: ISC
// What became of a message, and subjects that only the helper reads.
// With SHOTS=DIR it leaves pictures there.
import assert from 'node:assert/strict';
import path from 'node:path';
import { signIn, mail, posted, uuid } from './lib.mjs';

// Subjects as the gateway keeps them: words in charsets it does not decode.
const SUBJECTS = [
	['=?iso-2022-jp?B?GyRCOCtAUT1xJE43bxsoQg==?=', '見積書の件'],
	['=?windows-1251?B?0fe48iDn4CDt7v/h8Pw=?=', 'Счёт за ноябрь'],
	['=?euc-kr?B?sejDtrz2tNQ=?= (2)', '김철수님 (2)'],
];

const TLS = 'TLSv1.3 TLS_AES_256_GCM_SHA384 verified'; // as the worker has it
const NASTY = '"><img src=x onerror=alert(1)><script>alert(2)</script>\u202E';

export default function ({ test, using, held, stack }) {
	const shoot = async (page, name) => {
		if (!process.env.SHOTS)
			return;
		for (const width of [1280, 390]) {
			await page.setViewportSize({ width, height: 900 });
			await page.screenshot({ fullPage: true,
				path: path.join(process.env.SHOTS, `${name}-${width}.png`) });
		}
		await page.setViewportSize({ width: 1280, height: 800 });
	};

	test('subjects in other charsets read the same in lists and on pages', () =>
		using({}, async (page) => {
			const ids = [];
			for (const [subject] of SUBJECTS)
				ids.push(await held({ subject, risk: 95,
					raw: mail({ subject }) }));
			await signIn(page, stack);
			// Asked again: a busy machine gives the helper too little time.
			for (const [i, [, text]] of SUBJECTS.entries()) {
				const row = page.locator(`.row[data-id="${ids[i]}"] .hit`);
				for (let left = 20; left > 0 &&
					await row.textContent() !== text; left--)
					await page.reload();
				assert.equal(await row.textContent(), text);
			}
			assert.doesNotMatch(await page.textContent('#rows'), /=\?/);
			await shoot(page, 'subjects');
			for (const [i, [, text]] of SUBJECTS.entries()) {
				await page.goto('/m/' + ids[i]);
				assert.equal(await page.textContent('#subject'), text);
			}
		}));

	// What a worker does with what it leased, by the calls it makes.
	const call = async (name, ...args) => {
		const marks = args.map((a) => typeof a === 'number' ? `${a}::int`
			: '%s').join(',');
		return stack.sql(`SELECT * FROM api.${name}(${marks})`,
			...args.filter((a) => typeof a !== 'number'));
	};
	async function lease(id) {
		await stack.sql('UPDATE d.send_q SET due_at = now() WHERE ' +
			'message_id = %s', uuid(id));
		const rows = await call('claim_due_1', 'w1', 100, 60);
		return rows.filter((r) => r.message_id.replaceAll('-', '') ===
			uuid(id)).map((r) => [r.tenant_id, r.message_id, r.domain,
			r.lease].map(String));
	}
	const done = (on, ix, result, code, enhanced, reply) => stack.sql(
		'SELECT * FROM api.done_1(%s,%s,%s,%s,%s,%s,%s,%s,%s,60,%s)', ...on,
		ix, result, code, enhanced, reply, reply[0]);

	test('each try of a delivery is on the page of its message', () =>
		using({}, async (page) => {
			const id = await held({ subject: 'Two of three',
				rcpt: ['ann@one.example', 'bob@one.example',
					'eve@two.example'] });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			assert.equal(await page.locator('#delivery').count(), 0);
			await page.click('#approve > summary');
			await posted(page, () => page.click('#approve-button'));
			await page.goto('/m/' + id);
			assert.equal(await page.locator('#delivery').count(), 0);

			// one.example: first nothing, then one taken and one refused
			let [one, two] = await lease(id);
			await stack.sql('SELECT * FROM api.attempt_1(%s,%s,%s,%s,%s,' +
				'%s,%s)', ...one, 'mx1.one.example', TLS, [1, 2]);
			await page.goto('/m/' + id);
			assert.match(await page.textContent('#delivery li'),
				/mx1\.one\.example for one\.example TLSv1\.3 \S+ verified under way/);
			await done(one, [1, 2], [4, 4], [451, 451], ['4.7.1', '4.7.1'],
				['greylisted, come back', 'greylisted, come back']);
			// two.example: in clear, and a host with bad manners
			await stack.sql('SELECT * FROM api.attempt_1(%s,%s,%s,%s,%s,' +
				'%s,%s)', ...two, 'mx.two.example', 'none', [3]);
			await done(two, [3], [5], [550], ['5.1.1'], [NASTY]);
			[one] = await lease(id);
			await stack.sql('SELECT * FROM api.attempt_1(%s,%s,%s,%s,%s,' +
				'%s,%s)', ...one, 'mx2.one.example', 'TLSv1.2', [1, 2]);
			await stack.sql('SELECT * FROM api.dot_1(%s,%s,%s,%s,%s)',
				...one, [1]);
			await page.goto('/m/' + id);
			assert.match(await page.textContent('#delivery li:last-child'),
				/the answer is awaited/);
			await done(one, [1, 2], [3, 5], [250, 550], ['2.0.0', '5.2.2'],
				['queued as 4711', 'mailbox full']);

			await page.goto('/m/' + id);
			const tries = await page.locator('#delivery li').allTextContents();
			assert.equal(tries.length, 3);
			assert.match(tries[0], /mx1.*TLSv1\.3.*before all of it.*greylisted/);
			assert.match(tries[1], /mx\.two\.example for two\.example no TLS/);
			assert.ok(tries[1].includes('"><img src=x onerror=alert(1)>'));
			assert.match(tries[2],
				/mx2.*TLSv1\.2.*all of it was handed over.*queued as 4711/);
			const who = await page.locator('#who .rcpts li')
				.allTextContents();
			assert.match(who[0], /ann.*after 2 tries.*250 2\.0\.0 queued/s);
			assert.match(who[1], /bob.*after 2 tries.*550 5\.2\.2 mailbox full/s);
			assert.match(who[2], /eve.*550 5\.1\.1/s);
			assert.equal(await page.locator('#msg img, main script').count(), 0);
			assert.match(await page.textContent('#delivery'), /U\+202E/);
			await shoot(page, 'delivery');
			for (const width of [320, 390, 1280]) {
				await page.setViewportSize({ width, height: 900 });
				assert.ok(await page.evaluate(() => document
					.documentElement.scrollWidth <= innerWidth), width);
			}
			// without a session there is nothing
			assert.equal((await stack.sql('SELECT status FROM ' +
				'api.review_attempts_1(%s, %s)', 'x', uuid(id)))[0].status,
			401);
		}));
}

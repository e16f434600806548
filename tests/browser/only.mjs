// SPDX-License-Identifier: ISC
// One tenant of several on every page, why something is paused, and what may
// have arrived although it was canceled.
import assert from 'node:assert/strict';
import { mail, posted, signIn, uuid } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';

export default function ({ test, using, held, raw, stack }) {
	const choose = async (page, name) => {
		await page.click('#only summary');
		return posted(page, () => page.click(`#only button:has-text("${name}")`));
	};

	const jar = async (context) => (await context.cookies()).map((c) =>
		`${c.name}=${c.value}`).join('; ');

	test('one tenant is chosen once for all pages, without scripts', () =>
		using({ javaScriptEnabled: false, isMobile: true, hasTouch: true,
			viewport: { width: 390, height: 844 } },
		async (page, context) => {
			const mine = await held({ subject: 'Serval a' });
			const theirs = await held({ subject: 'Serval b', inbox: 2 });
			await signIn(page, stack);
			await page.goto('/inboxes');
			const inboxes = () => page.locator('#boxes tbody tr').count();
			const all = await inboxes();
			await choose(page, 'other');
			assert.ok(await inboxes() < all);
			for (const path of ['/q', '/history', '/inboxes', '/pause',
				'/health', '/audit', '/tenants', '/operators', '/account',
				'/jobs', '/m/' + theirs, '/m/' + mine]) {
				await page.goto(path);
				assert.equal(await page.textContent('#only summary bdi'),
					'other', path);
				assert.ok(await page.evaluate(() => document.documentElement
					.scrollWidth <= innerWidth), path);
			}
			await page.goto('/q?q=serval');
			assert.deepEqual(await page.$$eval('#rows .row', (rows) =>
				rows.map((r) => r.dataset.id)), [theirs]);
			await page.goto('/pause');
			assert.doesNotMatch(await page.textContent('.switches'), /acme/);
			await page.goto('/audit');
			assert.doesNotMatch(await page.textContent('main'), /\bacme\b/);
			const counts = JSON.parse((await raw(await jar(context), 'GET',
				'/counts')).text);
			await page.goto('/q');
			assert.ok((await page.textContent('#held')).startsWith(
				String(counts.held)));
			// from a message, back to the queue, with all of it
			await page.goto('/m/' + theirs);
			await choose(page, 'All');
			assert.match(page.url(), /\/q$/);
			assert.ok((await context.cookies()).every((c) => c.name !==
				'__Host-tenant'));
		}));

	test('a tenant out of reach is not chosen, and shows nothing', () =>
		using({}, async (page, context) => {
			await held({ inbox: 2 });
			const [{ id }] = await stack.sql("SELECT tenant_id AS id FROM " +
				"d.tenant WHERE slug = 'other'");
			await stack.ask('operator', { name: 'onlyacme', tenant: 'acme',
				password: PASSWORD, role: 'senior' });
			await signIn(page, stack, 'onlyacme', PASSWORD);
			// who sees one tenant has nothing to choose
			assert.equal(await page.locator('#only').count(), 0);
			const csrf = await page.inputValue('.me input[name=csrf]');
			const answer = await raw(await jar(context), 'POST', '/only', {
				'Sec-Fetch-Site': 'same-origin' },
			`csrf=${csrf}&tenant=${id}&back=/q`);
			assert.equal(answer.status, 404);
			const paths = ['/q', '/history', '/health', '/audit',
				'/inboxes', '/pause', '/jobs', '/account'];
			for (const path of paths) {
				const got = await raw(await jar(context) +
					`; __Host-tenant=${id}`, 'GET', path);
				assert.equal(got.status, 200, path);
				assert.doesNotMatch(got.text, /none of yours|bot@other/, path);
				// as without it, and it is gone
				assert.match(String(got.headers['set-cookie']),
					/__Host-tenant=0;.*Max-Age=0/, path);
			}
			await held();
			const seen = await raw(await jar(context) +
				`; __Host-tenant=${id}`, 'GET', '/q');
			assert.match(seen.text, /data-id="msg_/);
			// also of one that there is not any more
			await signIn(page, stack);
			for (const path of paths) {
				const got = await raw(await jar(context) +
					'; __Host-tenant=99999', 'GET', path);
				assert.equal(got.status, 200, path);
				assert.doesNotMatch(got.text, /none of yours/, path);
				assert.match(String(got.headers['set-cookie']),
					/__Host-tenant=0;/, path);
			}
		}));

	test('a pause says who, since when and why', () =>
		using({}, async (page) => {
			await signIn(page, stack);
			await page.goto('/pause');
			const row = page.locator('.switch', { hasText: 'bot@other' });
			await row.locator('summary').click();
			await row.locator('input[name=reason]').fill('<b>Loops</b> at 2');
			await posted(page, () => row.locator('button').click());
			for (const where of ['.paused', '.switch:has-text("bot@other")'])
				assert.match(await page.textContent(where),
					/Paused by alice .*s ago: <b>Loops<\/b> at 2/s);
			await stack.sql("UPDATE d.inbox SET paused_at = NULL, paused_by = " +
				"NULL, pause_reason = NULL WHERE paused_at IS NOT NULL");
			await stack.ask('ctl', { args: ['pause', 'bot@other.example.com',
				'--reason', 'Pager 17'] });
			await page.goto('/q');
			assert.match(await page.textContent('.paused'),
				/Paused by posternctl, user \d+ .* ago: Pager 17/s);
			await stack.sql("UPDATE d.inbox SET paused_at = NULL, paused_by = " +
				"NULL, pause_reason = NULL WHERE paused_at IS NOT NULL");
		}));

	test('canceled mail that may have arrived says so', () =>
		using({}, async (page) => {
			const id = await held({ subject: 'Dugong', raw: mail() });
			const where = ` WHERE message_id = '${uuid(id)}'`;
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await page.click('#approve > summary');
			await posted(page, () => page.click('#approve-button'));
			// sent without an answer, sent again by a person, and called back
			await stack.sql(`UPDATE d.send_q SET due_at = now()${where}`);
			let lease;
			for (;;) {
				[lease] = await stack.sql('SELECT message_id, tenant_id, domain, ' +
					"lease FROM api.claim_due_1('w1', 100, 60) WHERE " +
					'message_id = %s', uuid(id));
				if (lease)
					break;
			}
			const on = [lease.tenant_id, lease.message_id, lease.domain,
				lease.lease];
			await stack.sql('SELECT api.attempt_1(%s, %s, %s, %s, ' +
				"'mx.example', 'TLSv1.3', ARRAY[1])", ...on);
			await stack.sql("SELECT api.dot_1(%s, %s, %s, %s, ARRAY[1], " +
				"'mx.example')", ...on);
			await stack.sql(`UPDATE d.send_q SET lease_until = now()${where}`);
			while ((await stack.state(id)).state !== 11)
				await stack.sql('SELECT api.sweep_1(100)');
			await page.goto('/m/' + id);
			await page.check('input[value=retry]');
			await page.fill('#settle-form input[name=note]', 'They lost it');
			await posted(page, () => page.click('#settle-button'));
			await page.click('#cancel > summary');
			await page.fill('#cancel-form input[name=note]', 'Found it');
			await posted(page, () => page.click('#cancel-button'));
			assert.match(await page.textContent('#status'),
				/Nothing more leaves, but it may have been sent before/);
			assert.equal((await stack.state(id)).state, 11);
			assert.equal(await page.locator('#settle-form').count(), 1);
			// what ended otherwise says both
			await stack.sql(`SET session_replication_role = replica; ` +
				`UPDATE d.state SET state = 5${where}; ` +
				'SET session_replication_role = origin');
			for (const path of ['/m/' + id, '/history?q=dugong']) {
				await page.goto(path);
				assert.match(await page.textContent('main'),
					/Canceled\s+May have been sent/);
			}
		}));
}

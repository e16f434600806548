// SPDX-License-Identifier: ISC
// Each form that sets something, from its own page to what it sets.
import assert from 'node:assert/strict';
import { listed, posted, signIn, uuid } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';

export default function ({ test, using, held, stack }) {
	// Fills a form of the page by the names of its fields, and sends it. The
	// password is given where it is asked for.
	async function send(page, form, fields = {}, then = /said=/) {
		const at = page.locator(form).first();
		await at.evaluate((f) => {
			for (let d = f.closest('details'); d;
				d = d.parentElement.closest('details'))
				d.open = true;
		});
		for (const [name, value] of Object.entries(fields)) {
			const field = at.locator(`[name="${name}"]`);
			const kind = await field.first().evaluate(
				(f) => f.tagName + f.type);
			if (kind === 'SELECTselect-one')
				await field.selectOption(value);
			else if (/radio|checkbox/.test(kind))
				await at.locator(`[name="${name}"][value="${value}"]`).check();
			else
				await field.first().fill(value);
		}
		const password = at.locator('[name=password]');
		if (await password.count())
			await password.fill(stack.password);
		await posted(page, () => at.locator('button').last().click());
		assert.match(page.url(), then, form + ' ' + page.url());
	}

	const one = async (query, ...args) => Object.values(
		(await stack.sql(query, ...args))[0])[0];

	// What it has of its own: set, shown, refused, given back.
	async function own_settings(page, at, id) {
		const form = `form[action="${at}/own"]`;
		const set = async () => (await stack.sql('SELECT need_approvals AS n, ' +
			"extract(epoch FROM hold_for)::int AS h, oversight AS o, " +
			'smtp_wide AS w, may_duplicate AS d FROM d.inbox WHERE inbox_id ' +
			'= %s', id))[0];
		await send(page, form, { need: '2', hold: '36h', overseer:
			'Chief@Partner.example', full_key_smtp: 'yes',
		retry_uncertain: 'yes' });
		const all = { n: 2, h: 129600, o: 'Chief@Partner.example', w: true,
			d: true };
		assert.deepEqual(await set(), all);
		for (const [name, value] of Object.entries({ need: '2', hold: '36h',
			overseer: 'Chief@Partner.example', full_key_smtp: 'yes',
			retry_uncertain: 'yes' }))
			assert.equal(await page.inputValue(`${form} [name="${name}"]`),
				value);
		// one vote instead of two is looser, and asks who that is
		await stack.sql('UPDATE d.operator_session SET step_up_until = NULL, ' +
			'step_up_by = NULL');
		for (const [fields, error] of [[{ need: '1' }, 'again'],
			[{ overseer: '' }, 'again'], [{ hold: '5s' }, 'invalid']]) {
			await page.goto(at);
			await page.locator(form).evaluate((f) => {
				f.closest('details').open = true;
			});
			for (const [name, value] of Object.entries(fields)) {
				const field = page.locator(`${form} [name="${name}"]`);
				await (name === 'need' ? field.selectOption(value)
					: field.fill(value));
			}
			await posted(page, () => page.locator(form + ' button').last()
				.click());
			assert.match(page.url(), new RegExp('error=' + error));
			assert.deepEqual(await set(), all);
		}
		await send(page, form, { need: '0', hold: '', overseer: '',
			full_key_smtp: 'no', retry_uncertain: 'no' });
		assert.deepEqual(await set(), { n: null, h: null, o: null, w: false,
			d: false });
	}

	test('settings of an inbox do what they say', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const [box] = await stack.sql('SELECT tenant_id AS t, inbox_id AS ' +
				"i FROM d.inbox WHERE address = 'bot@other.example.com'");
			const at = `/inbox/${box.t}.${box.i}`;
			const now = async (column) => one(`SELECT ${column} FROM d.inbox ` +
				'WHERE inbox_id = %s', box.i);
			await signIn(page, stack);
			await page.goto(at);
			await send(page, `form[action="${at}/limits"]`,
				{ hour: '11', day: '77', month: '777', held: '7' });
			assert.deepEqual((await stack.sql('SELECT lim_hour, lim_day, ' +
				'lim_month, lim_held FROM d.inbox WHERE inbox_id = %s',
			box.i))[0], { lim_hour: 11, lim_day: 77, lim_month: 777,
				lim_held: 7 });
			await own_settings(page, at, box.i);
			await send(page, `form[action="${at}/allow"]`, { entry:
				'Friend@Partner.example', uses: '3', days: '5',
			reason: 'a test' });
			assert.equal(await one('SELECT entry FROM d.allow_rule WHERE ' +
				'inbox_id = %s AND ended_at IS NULL', box.i),
			'friend@partner.example');
			await send(page, `form[action="${at}/allow-end"]`);
			assert.equal(await one('SELECT count(*)::int FROM d.allow_rule ' +
				'WHERE inbox_id = %s AND ended_at IS NULL', box.i), 0);
			await send(page, `form[action="${at}/block"]`,
				{ entry: '@bad.example', reason: 'a test' });
			assert.equal(await one('SELECT count(*)::int FROM d.list_entry ' +
				"WHERE inbox_id = %s AND entry = '@bad.example' AND " +
				'ended_at IS NULL', box.i), 1);
			await send(page, `form[action="${at}/block-end"]`,
				{ reason: 'over' });
			assert.equal(await one('SELECT count(*)::int FROM d.list_entry ' +
				'WHERE inbox_id = %s AND ended_at IS NULL', box.i), 0);
			await send(page, `form[action="${at}/mode"]:has([value="1"])`,
				{ mode: '1', reason: 'a test' });
			assert.equal(await now('mode'), 1);
			await send(page, `form[action="${at}/mode"]:has([value="2"])`,
				{ mode: '2', reason: 'a test' });
			assert.equal(await now('mode'), 2);
			for (const [path, column] of [['pause', 'paused_at'],
				['suspend', 'suspended_at']]) {
				await send(page, `form[action="${at}/${path}"]`,
					{ reason: 'a test' });
				assert.notEqual(await now(column), null);
				await send(page, `form[action="${at}/${path}"]`,
					{ reason: 'over' });
				assert.equal(await now(column), null);
			}
			await send(page, `form[action="${at}/key-end"]`);
			assert.ok(await one('SELECT count(*)::int FROM d.credential WHERE ' +
				'inbox_id = %s AND revoked_at IS NOT NULL', box.i) > 0);
			// Others go on with it.
			await stack.sql('UPDATE d.inbox SET lim_hour = 9999, lim_day = ' +
				'9999, lim_month = 9999, lim_held = 9999');
		}));

	test('settings of tenants, and of people who then come and go', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const made = Date.now().toString(36);
			await signIn(page, stack);
			await page.goto('/tenants');
			await send(page, 'form[action="/tenants"]',
				{ slug: 't' + made, name: 'Made here' });
			const id = await one('SELECT tenant_id FROM d.tenant WHERE slug ' +
				'= %s', 't' + made);
			await send(page, `form[action="/tenants/${id}"]`,
				{ need: '2', days: '3' });
			assert.deepEqual((await stack.sql('SELECT need_approvals AS n, ' +
				"extract(epoch FROM hold_for)::int / 86400 AS d FROM d.tenant WHERE " +
				'tenant_id = %s', id))[0], { n: 2, d: 3 });
			await send(page, `form[action="/tenants/${id}/domain"]`,
				{ domain: made + '.example.org' });
			assert.equal(await one('SELECT tenant_id FROM d.domain WHERE ' +
				'domain = %s', made + '.example.org'), id);

			await page.goto('/operators');
			for (const wrong of ['op:1', 'a\u202eb', '\u0430dmin']) {
				await page.evaluate(() => document.querySelectorAll(
					'[pattern]').forEach((i) => i.removeAttribute('pattern')));
				await send(page, 'form[action="/operators"]', { name: wrong,
					first: PASSWORD, role: 'auditor', tenant: String(id) },
				/error=login/);
				assert.match(await page.textContent('#error'),
					/A name has 1 to 64/);
				assert.equal(await one('SELECT count(*)::int FROM d.operator ' +
					'WHERE name = %s', wrong), 0);
			}
			const name = 'p' + made;
			await send(page, 'form[action="/operators"]', { name,
				first: PASSWORD, role: 'auditor', tenant: String(id) });
			const own = `[data-operator="${name}"] `;
			await send(page, own + 'form[action="/operators/scope"]',
				{ role: 'reviewer', tenant: String(id), risk_cap: '30' });
			assert.deepEqual(await stack.sql('SELECT role, risk_cap AS c FROM ' +
				'd.operator_scope s JOIN d.operator p USING (operator_id) ' +
				'WHERE p.name = %s ORDER BY scope_id', name),
			[{ role: 'auditor', c: 74 }, { role: 'reviewer', c: 30 }]);
			await send(page, own + 'form[action="/operators/scope-end"]');
			assert.equal(await one('SELECT count(*)::int FROM ' +
				'd.operator_scope s JOIN d.operator p USING (operator_id) ' +
				'WHERE p.name = %s', name), 1);

			// it signs in, takes a password of its own, ends the other session
			await using({ javaScriptEnabled: false }, async (two) => {
				await signIn(two, stack, name, PASSWORD);
				await using({ javaScriptEnabled: false }, async (third) => {
					await signIn(third, stack, name, PASSWORD);
					await two.goto('/account');
					await posted(two, () => two.click(
						'form[action="/account/session-end"] button'));
					await third.goto('/q');
					assert.match(third.url(), /\/login/);
				});
				const form = two.locator('form[action="/account/password"]');
				await form.evaluate((f) => {
					for (let d = f.closest('details'); d;
						d = d.parentElement.closest('details'))
						d.open = true;
				});
				await form.locator('[name=old]').fill(PASSWORD);
				await form.locator('[name=new]').fill(PASSWORD + '!');
				await form.locator('[name=again]').fill(PASSWORD + '!');
				const [{ name: cookie, value }] = await two.context().cookies();
				await posted(two, () => form.locator('button').click());
				assert.match(two.url(), /said=/);
				await two.goto('/q');
				assert.match(two.url(), /\/q$/);
				// a copy of its own session from before is worth nothing
				await using({}, async (copy) => {
					await copy.context().addCookies([{ name: cookie, value,
						url: stack.url, secure: true }]);
					await copy.goto('/q');
					assert.match(copy.url(), /\/login/);
				});
				await using({ javaScriptEnabled: false }, (fourth) =>
					signIn(fourth, stack, name, PASSWORD + '!'));
				await page.goto('/operators');
				await send(page, own + 'form[action="/operators/disable"]');
				await two.goto('/q');
				assert.match(two.url(), /\/login/);
			});
			assert.ok(await held());
		}));

	test('who was suppressed meanwhile is marked, and gets nothing', async () => {
		for (const options of [{}, { viewport: { width: 390, height: 844 },
			hasTouch: true, isMobile: true }])
			await using(options, async (page) => {
				const { gone, some, all } = await listed(stack, held);
				await signIn(page, stack);
				await page.goto('/m/' + some);
				const row = page.locator('.rcpts li',
					{ hasText: gone.split('@')[0] });
				assert.match(await row.innerText(), /suppressed: gets nothing/);
				assert.equal(await page.locator('.rcpts li',
					{ hasText: 'gets nothing' }).count(), 1);
				const press = page.locator('#approve-button:visible, ' +
					'.bar .primary:visible');
				assert.match(await press.innerText(), /Send to 2 of 3/);
				await press.click();
				await page.waitForURL(/said=approved/);
				const [sent] = await stack.sql('SELECT state FROM d.state WHERE ' +
					'message_id = %s', uuid(some));
				assert.equal(sent.state, 2);
				await page.goto('/m/' + some);
				assert.match(await row.innerText(), /suppressed: gets nothing/);
				await page.goto('/m/' + all);
				assert.equal(await page.locator('#approve-button, .bar .primary')
					.count(), 0);
				assert.match(await page.locator('.refusal').innerText(),
					/nothing of it would leave/);
				assert.equal(await page.locator('#reject-button').count(), 1);
			});
	});
}

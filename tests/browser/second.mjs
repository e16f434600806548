// SPDX-License-Identifier: ISC
// Second factors: an app's codes, recovery codes, passkeys by a virtual
// authenticator, and what is said when postern-auth is away.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { posted, signIn, uuid } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function fromBase32(text) {
	let bits = 0n, n = 0;
	for (const c of text.replace(/ /g, '')) {
		bits = bits << 5n | BigInt(ALPHABET.indexOf(c));
		n += 5;
	}
	return Buffer.from(bits.toString(16).padStart(n / 4, '0'), 'hex');
}

// RFC 6238, written again here.
export function totp(secret, at = Date.now() / 1000, ahead = 0) {
	const step = Buffer.alloc(8);
	step.writeBigUInt64BE(BigInt(Math.floor(at / 30) + ahead));
	const mac = createHmac('sha1', fromBase32(secret)).update(step).digest();
	const place = mac[19] & 15;
	return String((mac.readUInt32BE(place) & 0x7fffffff) % 1000000)
		.padStart(6, '0');
}

// Six digits that are no code of any step around now.
function wrong(secret, n = 0) {
	const right = [-3, -2, -1, 0, 1, 2, 3].map((ahead) =>
		totp(secret, Date.now() / 1000, ahead));
	return [...Array(20).keys()].map((i) => String(123450 + i))
		.filter((code) => !right.includes(code))[n];
}

export default function second(
	{ test, using, held, raw, cookieOf, stack }) {
	let made = 0;
	const person = async (role = 'admin') => {
		const name = 'second' + ++made;
		await stack.ask('operator', { name, password: PASSWORD, role });
		return name;
	};
	// The last code and the mark, as if they were long ago.
	const later = async (name) => {
		await stack.sql('UPDATE d.operator_factor f SET last_step = 0 FROM ' +
			'd.operator p WHERE p.operator_id = f.operator_id AND ' +
			'p.name = %s RETURNING 1', name);
		await stack.sql('UPDATE d.operator_session z SET step_up_until = ' +
			'now() FROM d.operator p WHERE p.operator_id = z.operator_id ' +
			'AND p.name = %s RETURNING 1', name);
	};
	const withPassword = async (page, name) => {
		await page.goto('/login');
		await page.fill('input[name=name]', name);
		await page.fill('input[name=password]', PASSWORD);
		await posted(page, () => page.click('button.primary'));
	};
	const enrol = async (page, name) => {
		await page.goto('/account');
		await page.click('#add-totp > summary');
		const field = page.locator('#add-totp input[name=password]');
		if (await field.count())
			await field.fill(PASSWORD);
		await posted(page, () => page.click('#add-totp button'));
		const secret = await page.textContent('#secret');
		assert.match(await page.getAttribute('.enrol a', 'href'),
			new RegExp('^otpauth://totp/Postern%20localhost:' + name +
			'\\?secret=' + secret.replace(/ /g, '') + '&issuer='));
		assert.ok(await page.locator('svg.qr path').count() === 2);
		await page.fill('input[name=confirm]', totp(secret));
		await posted(page, () => page.click('.enrol button'));
		const codes = (await page.textContent('#codes')).trim().split('\n');
		assert.equal(codes.length, 10);
		assert.ok(codes.every((c) => /^(\w{4}-){3}\w{4}$/.test(c)));
		return { secret, codes };
	};
	const audit = (name, event) => stack.sql('SELECT a.detail FROM d.audit a ' +
		"JOIN d.operator p ON a.actor = 'op:' || p.operator_id WHERE " +
		'p.name = %s AND a.event = %s ORDER BY a.at', name, event);

	for (const javaScriptEnabled of [true, false])
		test('27 an app: enrol, sign in, step up' +
			(javaScriptEnabled ? '' : ', without scripts'), () =>
			using({ javaScriptEnabled }, async (page, context) => {
				const name = await person();
				await signIn(page, stack, name, PASSWORD);
				const { secret } = await enrol(page, name);
				await page.click('.enrol .button');
				assert.equal(await page.locator(
					'#factors li[data-kind=t]').count(), 1);
				await later(name);
				await context.clearCookies();
				await withPassword(page, name);
				assert.match(page.url(), /\/login\/second$/);
				// The cookie of this session opens nothing yet.
				const due = await cookieOf(context);
				assert.match((await raw(due, 'GET', '/q')).headers.location,
					/^\/login\/second/);
				assert.equal((await raw(due, 'GET', '/counts')).status, 401);
				await page.fill('input[name=code]', wrong(secret));
				const no = await posted(page, () =>
					page.click('button.primary'));
				assert.equal(no.status(), 401);
				assert.match(await page.textContent('#error'), /not right/);
				const code = totp(secret);
				await page.fill('input[name=code]',
					code.slice(0, 3) + ' ' + code.slice(3));
				await turned(context, () => posted(page, () =>
					page.click('button.primary')));
				await page.waitForURL('**/q');
				// Replay: the same code again confirms nothing.
				await stack.sql('UPDATE d.operator_session SET ' +
					'step_up_until = now() RETURNING 1');
				const setMode = async (mode, with_) => {
					await page.goto('/inboxes');
					await page.click('text=research@agents.example.com');
					await page.click('#mode summary');
					await page.check(`#mode input[value="${mode}"]`);
					await page.fill('#mode input[name=reason]', 'a test');
					if (with_)
						await page.fill('#mode input[name=code]', with_);
					await posted(page, () => page.click('#mode button'));
				};
				await setMode(3, code);
				assert.match(page.url(), /error=used/);
				await turned(context, () =>
					setMode(3, totp(secret, Date.now() / 1000, 1)));
				assert.match(page.url(), /said=changed/);
				assert.deepEqual((await audit(name, 'operator.step_up'))
					.map((r) => JSON.parse(r.detail).by).at(-1), 'totp');
				await setMode(2);
			}));

	// What `press` did gave the browser another cookie, and the old one is dead.
	const turned = async (context, press) => {
		const old = await cookieOf(context);
		const got = await press();
		const [cookie] = await context.cookies();
		assert.deepEqual([cookie.secure, cookie.httpOnly, cookie.sameSite,
			cookie.path, cookie.value.length], [true, true, 'Strict', '/', 52]);
		const now = await cookieOf(context);
		assert.notEqual(now, old);
		const dead = await raw(old, 'GET', '/q');
		assert.equal(dead.headers.location, '/login');
		assert.equal((await raw(old, 'GET', '/events',
			{ 'Sec-Fetch-Site': 'same-origin' })).status, 401);
		assert.equal((await raw(now, 'GET', '/q')).status, 200);
		return got;
	};

	test('27 a step-up changes the cookie, and other tabs go on', () =>
		using({}, async (page, context) => {
			const name = await person('senior');
			const id = await held({ risk: 50 });
			let streams = 0;
			context.on('request', (r) =>
				streams += new URL(r.url()).pathname === '/events');
			const streaming = page.waitForRequest('**/events?*');
			await signIn(page, stack, name, PASSWORD);
			await streaming; // this tab leads
			const tab = await context.newPage();
			await tab.goto('/m/' + id);
			await tab.click('#reject > summary');
			await tab.check('input[value=duplicate]');
			await tab.fill('textarea[name=note]', 'Half written.');
			const one = await context.newPage();
			const csrf = await tab.inputValue('#reject-form input[name=csrf]');
			const setMode = async (mode, password) => {
				await one.goto('/inboxes');
				await one.click('text=research@agents.example.com');
				await one.click('#mode summary');
				await one.check(`#mode input[value="${mode}"]`);
				await one.fill('#mode input[name=reason]', 'a test');
				const field = one.locator('#mode input[name=password]');
				if (password)
					await field.fill(password);
				return posted(one, () => one.click('#mode button'));
			};
			// What is wrong, or needs none, changes nothing.
			const before = await cookieOf(context);
			const no = await setMode(3, 'not this one, surely');
			assert.match(one.url(), /error=password/);
			assert.equal(no.headers()['set-cookie'], undefined);
			assert.equal(await cookieOf(context), before);
			const old = new URLSearchParams({ csrf, to: 'keep' }).toString();
			await turned(context, () => setMode(3, PASSWORD));
			assert.match(one.url(), /said=changed/);
			const dead = await raw(before, 'POST', `/m/${id}/look`,
				{ Origin: stack.url }, old);
			assert.equal(dead.status, 401);
			const now = await cookieOf(context);
			await setMode(2);
			assert.equal(await cookieOf(context), now);
			await one.close();
			// The tabs that were open: the stream of one, the other's form.
			await held({ subject: 'After the step-up' });
			await page.waitForSelector('#fresh:not([hidden])');
			assert.equal(streams, 1, 'the stream went on');
			await posted(tab, () => tab.click('#reject-button'));
			assert.match(tab.url(), /said=rejected/);
			assert.equal((await stack.state(id)).state, 3);
			const log = (await stack.ask('log')).lines.join('\n');
			for (const cookie of [before, now])
				assert.ok(!log.includes(cookie.split('=')[1]));
		}));

	test('27 a password alone confirms nothing beside a factor', () =>
		using({}, async (page, context) => {
			const name = await person();
			await signIn(page, stack, name, PASSWORD);
			await enrol(page, name);
			await later(name);
			await page.goto('/account');
			const csrf = await page.inputValue('input[name=csrf] >> nth=0');
			const cookie = await cookieOf(context);
			const [factor] = await stack.sql('SELECT factor_id AS id FROM ' +
				'd.operator_factor f JOIN d.operator p USING (operator_id) ' +
				'WHERE p.name = %s AND f.ended_at IS NULL', name);
			const end = await raw(cookie, 'POST', '/account/factor-end',
				{ Origin: stack.url }, new URLSearchParams({ csrf,
					id: factor.id, password: PASSWORD }).toString());
			assert.match(end.headers.location, /error=again/);
			assert.equal((await stack.sql('SELECT totp FROM d.operator ' +
				'WHERE name = %s', name))[0].totp, true);
		}));

	test('27 recovery codes: each once, and new ones', () =>
		using({}, async (page, context) => {
			const name = await person('reviewer');
			await signIn(page, stack, name, PASSWORD);
			await page.setViewportSize({ width: 390, height: 844 });
			const { codes } = await enrol(page, name);
			assert.ok(await page.evaluate(() =>
				document.documentElement.scrollWidth <= innerWidth));
			assert.ok(await page.$eval('#codes', (e) =>
				e.scrollWidth <= e.clientWidth + 1));
			const recover = async (code) => {
				await context.clearCookies();
				await withPassword(page, name);
				await page.click('summary');
				await page.fill('details input[name=code]', code);
				return posted(page, () => page.click('details button'));
			};
			await recover(codes[4].toUpperCase());
			assert.match(page.url(), /\/q$/);
			assert.equal((await recover(codes[4])).status(), 401);
			await recover(codes[5]);
			await page.goto('/account');
			assert.match(await page.textContent('#recovery'), /8 recovery/);
			await page.click('#recovery + details summary');
			await posted(page, () => page.click('#recovery + details button'));
			const fresh = (await page.textContent('#codes')).trim().split('\n');
			assert.equal(fresh.length, 10);
			assert.equal((await recover(codes[6])).status(), 401);
			await recover(fresh[0]);
			assert.match(page.url(), /\/q$/);
			// Stored is neither a code nor a secret.
			const [row] = await stack.sql('SELECT string_agg(encode(' +
				"code_sha256::bytea, 'hex'), '') AS all FROM " +
				'd.operator_recovery');
			assert.ok(!row.all.includes(Buffer.from(fresh[1]).toString('hex')));
		}));

	test('27 tries are counted, also over sessions', () =>
		using({}, async (page, context) => {
			const name = await person('reviewer');
			await signIn(page, stack, name, PASSWORD);
			const { secret } = await enrol(page, name);
			await later(name);
			let last;
			for (let i = 0; i < 6; i++) {
				if (i % 2 === 0) {
					await context.clearCookies();
					await withPassword(page, name);
				}
				await page.fill('input[name=code]', wrong(secret, i));
				last = await posted(page, () =>
					page.click('button.primary'));
			}
			assert.equal(last.status(), 429);
			assert.match(await page.textContent('#error'), /Wait \d+ sec/);
			await page.fill('input[name=code]', totp(secret));
			last = await posted(page, () => page.click('button.primary'));
			assert.equal(last.status(), 429);
		}));

	const authenticator = async (page) => {
		const cdp = await page.context().newCDPSession(page);
		await cdp.send('WebAuthn.enable');
		const { authenticatorId } = await cdp.send(
			'WebAuthn.addVirtualAuthenticator', { options: {
				protocol: 'ctap2', transport: 'usb', hasResidentKey: false,
				hasUserVerification: true, isUserVerified: true,
				automaticPresenceSimulation: true } });
		return { cdp, authenticatorId };
	};
	const addPasskey = async (page) => {
		await page.goto('/account');
		await page.click('#add-passkey > summary');
		await page.fill('#add-passkey input[name=label]', 'Blue key');
		const field = page.locator('#add-passkey input[name=password]');
		if (await field.count())
			await field.fill(PASSWORD);
		await posted(page, () => page.click('[data-register]'));
	};

	test('27 a passkey: register, sign in, step up, remove', () =>
		using({}, async (page, context) => {
			const name = await person();
			const key = await authenticator(page);
			await signIn(page, stack, name, PASSWORD);
			await turned(context, () => addPasskey(page));
			assert.equal((await page.textContent('#codes')).trim()
				.split('\n').length, 10);
			await page.goto('/account');
			assert.match(await page.textContent('#factors li[data-kind=p]'),
				/Blue key/);
			await later(name);
			await context.clearCookies();
			await withPassword(page, name);
			await turned(context, () => posted(page, () =>
				page.click('[data-passkey=i]')));
			await page.waitForURL('**/q');
			await later(name);
			await page.goto('/operators');
			await page.click('#new summary');
			await page.fill('#new input[name=name]', 'by-' + name);
			await page.fill('#new input[name=first]', PASSWORD);
			await turned(context, () => posted(page, () =>
				page.click('#new [data-passkey]')));
			assert.match(page.url(), /said=changed/);
			assert.deepEqual((await audit(name, 'operator.step_up'))
				.map((r) => JSON.parse(r.detail).by).at(-1), 'passkey');
			// Another authenticator has no key for this person.
			await later(name);
			await key.cdp.send('WebAuthn.removeVirtualAuthenticator',
				{ authenticatorId: key.authenticatorId });
			await later(name);
			await page.goto('/account');
			assert.match(await page.textContent('#factors'), /Blue key/);
		}));

	// The form that adds a person, filled but for the confirmation.
	const newPerson = async (page, name) => {
		await page.goto('/operators');
		await page.click('#new summary');
		await page.fill('#new input[name=name]', 'new-' + name);
		await page.fill('#new input[name=first]', PASSWORD);
	};

	test('27 a passkey that was stopped is asked for again', () =>
		using({}, async (page, context) => {
			const name = await person();
			await authenticator(page);
			await signIn(page, stack, name, PASSWORD);
			await addPasskey(page);
			await later(name);
			await newPerson(page, name);
			const browser = await context.newCDPSession(page);
			let asked = 0;
			await page.route('**/operators', (route) => {
				if (route.request().method() !== 'POST' || ++asked > 1)
					route.continue(); // the first is never answered
			});
			const first = page.waitForRequest((r) => r.method() === 'POST' &&
				r.url().endsWith('/operators'));
			await page.click('#new [data-passkey]');
			await first;
			await browser.send('Page.stopLoading');
			await page.waitForSelector('#new [data-passkey]:not([disabled])');
			assert.equal(await page.inputValue('#new [name=assertion]'), '');
			await page.click('#new [data-passkey]', { noWaitAfter: true });
			await page.waitForURL(/said=changed/);
			await page.unroute('**/operators');
		}));

	test('27 a passkey without a session, or a server, says what is so', () =>
		using({}, async (page, context) => {
			const name = await person();
			await authenticator(page);
			await signIn(page, stack, name, PASSWORD);
			await addPasskey(page);
			await later(name);
			await newPerson(page, name);
			const said = async () => {
				await page.click('#new [data-passkey]');
				await page.waitForSelector('#new [data-passkey]:not([disabled])');
				return page.textContent('#new .refusal');
			};
			await context.setOffline(true);
			assert.match(await said(), /does not answer/);
			await context.setOffline(false);
			await stack.sql('UPDATE d.operator_session z SET ended_at = now() ' +
				'FROM d.operator p WHERE p.operator_id = z.operator_id AND ' +
				'p.name = %s RETURNING 1', name);
			assert.match(await said(), /session has ended/);
			// What was typed is still there to be copied.
			assert.equal(await page.inputValue('#new input[name=name]'),
				'new-' + name);
		}));

	test('27 an assertion is for one challenge and one person', () =>
		using({}, async (page, context) => {
			const name = await person();
			await authenticator(page);
			await signIn(page, stack, name, PASSWORD);
			await addPasskey(page);
			await later(name);
			await page.goto('/operators');
			await page.click('#new summary');
			await page.fill('#new input[name=name]', 'twice-' + name);
			await page.fill('#new input[name=first]', PASSWORD);
			const [request] = await Promise.all([
				page.waitForRequest((r) => r.method() === 'POST' &&
					r.url().endsWith('/operators')),
				posted(page, () => page.click('#new [data-passkey]'))]);
			const form = new URLSearchParams(request.postData());
			form.set('name', 'thrice-' + name);
			await later(name);
			const again = await raw(await cookieOf(context), 'POST',
				'/operators', { Origin: stack.url }, form.toString());
			assert.match(again.headers.location, /error=used/);
			for (const bad of ['a.b.c.d', '....', 'AAAA', 'A'.repeat(9000)]) {
				form.set('assertion', bad);
				const got = await raw(await cookieOf(context), 'POST',
					'/operators', { Origin: stack.url }, form.toString());
				assert.match(got.headers.location, /error=(code|used)/);
			}
			assert.equal((await stack.sql("SELECT 1 FROM d.operator WHERE " +
				"name = %s", 'thrice-' + name)).length, 0);
		}));

	test('3 who has a passkey signs what is risky with it', () =>
		using({}, async (page, context) => {
			const name = await person('senior');
			await authenticator(page);
			await signIn(page, stack, name, PASSWORD);
			await addPasskey(page);
			const id = await held({ risk: 90 });
			await later(name); // nothing is confirmed but by the signature
			await page.goto('/m/' + id);
			await page.click('#approve > summary');
			assert.equal(await page.locator(
				'#approve input[name=code]').count(), 0);
			await page.fill('#approve input[name=domain]', 'example.org');
			const [request] = await Promise.all([
				page.waitForRequest((r) => r.method() === 'POST' &&
					r.url().endsWith('/decide')),
				posted(page, () => page.click('#approve-button'))]);
			assert.match(page.url(), /said=approved/);
			assert.equal((await stack.state(id)).state, 2);
			// it was for this decision: nothing else is confirmed by it
			assert.equal((await stack.sql('SELECT count(*)::int AS n FROM ' +
				'd.operator_session z JOIN d.operator p USING (operator_id) ' +
				'WHERE p.name = %s AND z.step_up_until > now()', name))[0].n, 0);
			const [row] = await stack.sql("SELECT detail FROM d.audit WHERE " +
				"event = 'message.approve' ORDER BY n DESC LIMIT 1");
			assert.ok(JSON.parse(row.detail).passkey.length > 300);
			// The same signature, or none, for another message.
			const other = await held({ risk: 90 });
			await page.goto('/m/' + other);
			const form = new URLSearchParams(request.postData());
			const shown = (field) => page.inputValue(
				`#approve-form input[name=${field}]`);
			for (const field of ['version', 'round', 'digest', 'once',
				'opened', 'id'])
				form.set(field, await shown(field));
			const send = async () => raw(await cookieOf(context), 'POST',
				`/m/${other}/decide`, { Origin: stack.url }, form.toString());
			assert.equal((await send()).status, 403);
			form.delete('assertion');
			const bare = await send();
			assert.equal(bare.status, 403);
			assert.match(bare.text, /you have a passkey/);
			assert.equal((await stack.state(other)).state, 1);
			// The auditor and the worker judge it again.
			await stack.ask('ctl', { args: ['seal'] });
			assert.match((await stack.ask('ctl', {
				args: ['audit', 'verify'] })).said, /, 1 approvals signed/);
			const spoilt = await held({ risk: 90 });
			await page.goto('/m/' + spoilt);
			await page.click('#approve > summary');
			await page.fill('#approve input[name=domain]', 'example.org');
			await posted(page, () => page.click('#approve-button'));
			await stack.sql('UPDATE d.decision_proof SET packed = set_byte(' +
				'packed, octet_length(packed) - 9, get_byte(packed, ' +
				'octet_length(packed) - 9) # 1) WHERE message_id = %s ' +
				'RETURNING 1', uuid(spoilt));
			await stack.sql('UPDATE d.send_q SET due_at = now() WHERE ' +
				'message_id IN (%s, %s) RETURNING 1', uuid(id),
			uuid(spoilt));
			await stack.ask('program', { name: 'postern-deliver',
				run: true });
			try {
				const { line } = await stack.ask('await', {
					name: 'postern-deliver', event: 'deliver.integrity' });
				assert.equal(line.why, 'passkey');
				assert.equal(line.message, spoilt);
				await stack.ask('await', { name: 'postern-deliver',
					event: 'deliver.result' });
			} finally {
				await stack.ask('program', { name: 'postern-deliver',
					run: false });
			}
			assert.notEqual((await stack.state(id)).state, 1);
			assert.equal((await stack.state(spoilt)).state, 1);
			await page.goto('/m/' + other);
			// A rejection needs none.
			await page.click('#reject > summary');
			await page.check('input[value=duplicate]');
			await posted(page, () => page.click('#reject-button'));
			assert.match(page.url(), /said=rejected/);
		}));

	test('27 a lost factor: an administrator removes it', () =>
		using({}, async (page, context) => {
			const name = await person('reviewer');
			await signIn(page, stack, name, PASSWORD);
			await enrol(page, name);
			await context.clearCookies();
			await signIn(page, stack);
			await page.goto('/operators');
			const panel = page.locator(`[data-operator=${name}]`);
			await panel.locator('summary', { hasText: 'Lost' }).click();
			const form = panel.locator('form[action$=factor-reset]');
			if (await form.locator('input[name=password]').count())
				await form.locator('input[name=password]').fill(
					stack.password);
			await posted(page, () => form.locator('button').click());
			assert.match(page.url(), /said=changed/);
			await context.clearCookies();
			await signIn(page, stack, name, PASSWORD);
		}));

	test('27 without postern-auth: said, and who has no factor gets in', () =>
		using({}, async (page, context) => {
			const name = await person();
			await signIn(page, stack, name, PASSWORD);
			const { secret } = await enrol(page, name);
			await later(name);
			await stack.ask('program', { name: 'postern-auth', run: false });
			try {
				await page.goto('/account');
				await page.click('#factors li summary');
				await page.fill('#factors li input[name=code]', totp(secret));
				await posted(page, () =>
					page.click('#factors li form button'));
				assert.match(await page.textContent('#error'),
					/postern-auth does not answer/);
				await context.clearCookies();
				await withPassword(page, name);
				await page.fill('input[name=code]', totp(secret));
				const no = await posted(page, () =>
					page.click('button.primary'));
				assert.equal(no.status(), 503);
				assert.match(await page.textContent('#error'),
					/postern-auth does not answer/);
				await context.clearCookies();
				await signIn(page, stack);
			} finally {
				await stack.ask('program', { name: 'postern-auth', run: true });
			}
			await context.clearCookies();
			await withPassword(page, name);
			await page.fill('input[name=code]', totp(secret));
			await posted(page, () => page.click('button.primary'));
			await page.waitForURL('**/q');
		}));
}

// SPDX-License-Identifier: ISC
// The acceptance checks of the pages' design that no other file has, by their
// numbers: what is shown of hostile mail, what becomes of decisions when
// something else happens, and budgets.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { mail, posted, ready, signIn, uuid } from './lib.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFElEQVR4nGP8z8Dwn4GB' +
	'gYGJAQoAHxcCAr7cFj8AAAAASUVORK5CYII=';
const SVG = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>' +
	'alert(1)</script></svg>').toString('base64');
const PASSWORD = 'a long enough pass phrase';

export default function (
	{ test, using, held, raw, cookieOf, quiet, stack }) {
	const parts = (kind, ...all) => ({
		more: `Content-Type: multipart/${kind}; boundary=b\n`,
		body: all.map((p) => '--b\n' + p).join('\n') + '\n--b--\n' });
	const html = (body) => held({ raw: mail({
		more: 'Content-Type: text/html; charset=utf-8\n' +
			'Content-Transfer-Encoding: 8bit\n', body }) });
	// What the policy had to refuse, and said so: this and nothing else.
	function refused(context, what) {
		assert.ok(context.faults.length > 0);
		assert.deepEqual(context.faults.filter((f) => !what.test(f)), []);
		context.faults.length = context.foreign.length = 0;
	}
	// Keys that were pressed on pages, whatever page it was.
	async function keysOf(context) {
		const keys = [];
		await context.exposeFunction('noteKey', (k) => keys.push(k));
		await context.addInitScript(() => addEventListener('keydown',
			(e) => e.isTrusted && window.noteKey(e.key), true));
		return keys;
	}

	test('3 keys that a decision takes: one, two, more', () =>
		using({}, async (page, context) => {
			const keys = await keysOf(context);
			const decide = async (risk, press) => {
				const id = await held({ risk });
				await page.goto('/m/' + id);
				await ready(page);
				await quiet(page);
				keys.length = 0;
				await press();
				await page.waitForURL(/said=approved/);
				assert.equal((await stack.state(id)).state, 2);
				return keys.length;
			};
			await signIn(page, stack);
			assert.equal(await decide(5, () => page.keyboard.press('a')), 1);
			assert.equal(await decide(50, async () => {
				await page.keyboard.press('a');
				assert.match(await page.textContent('#approve .named'),
					/jana@example\.org/);
				await page.keyboard.press('Enter');
			}), 2);
			const high = await held({ risk: 90 });
			await page.goto('/m/' + high);
			await ready(page);
			await quiet(page);
			for (const key of ['a', 'Enter', 'Enter', 'a'])
				await page.keyboard.press(key);
			assert.equal((await stack.state(high)).state, 1);
			assert.ok(await decide(90, async () => {
				await page.keyboard.press('a');
				await page.keyboard.type('example.org');
				await page.keyboard.press('Enter');
				const field = page.locator('#approve [name=password]');
				if (await field.count()) {
					await field.fill(stack.password);
					await page.keyboard.press('Enter');
				}
			}) >= 3);
		}));

	test('3 a row of low-risk mail takes one key each', () =>
		using({}, async (page, context) => {
			const keys = await keysOf(context);
			const ids = [];
			for (let i = 0; i < 5; i++)
				ids.push(await held({ risk: 5, inbox: 2, subject: 'Row ' + i }));
			await signIn(page, stack);
			for (const id of ids) {
				await page.goto('/m/' + id);
				keys.length = 0;
				await ready(page);
				await quiet(page);
				await Promise.all([page.waitForNavigation(),
					page.keyboard.press('a')]);
				assert.equal(keys.length, 1);
				assert.equal((await stack.state(id)).state, 2);
			}
		}));

	test('6 hostile mail is shown as what it is', () =>
		using({}, async (page) => {
			await signIn(page, stack);
			const why = async (made) => {
				const id = await held({ raw: made });
				await page.goto('/m/' + id);
				assert.equal(await page.locator('#msg img, #msg script').count(),
					0);
				return [id, await page.locator('#why').count() ?
					await page.textContent('#why') : ''];
			};
			const deep = (n) => n === 0 ? 'Content-Type: text/plain\n\ndeep\n' :
				`Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n` +
				deep(n - 1) + `\n--b${n}--\n`;
			for (const [name, made, says] of [
				['two Content-Types', mail({ more: 'Content-Type: text/plain\n' +
					'Content-Type: text/html\n' }), /cannot be told apart|Content-Type/],
				['two boundaries', mail({ more: 'Content-Type: multipart/mixed; ' +
					'boundary=a; boundary=b\n', body: '--a\n\none\n--a--\n' }),
				/cannot be told apart/],
				['60 parts deep', mail({ more: '', body: '' }).replace(
					/Content-Type[^]*$/, '') + deep(60), /cannot be told apart/],
				['text before and after the parts', mail({ more: 'Content-Type: ' +
					'multipart/mixed; boundary=b\n', body: 'pay eve\n--b\n\nhi\n' +
					'--b--\npay eve\n' }), /between parts|outside|before or after|no program shows/i],
				['a message in it', mail(parts('mixed', '\nhi',
					'Content-Type: message/rfc822\n\nSubject: x\n\nin it\n')),
				/message/i],
				['two subjects', mail({ more: 'Subject: Another one\n' +
					'Content-Type: text/plain\n' }), null],
			]) {
				const [id, text] = await why(made);
				if (says)
					assert.match(text, says, name + ': ' + text);
				// whatever it is, its bytes are there as they are
				await page.goto(`/m/${id}?view=raw`);
				const shown = await page.textContent('#raw');
				assert.ok(shown.includes('MIME-Version: 1.0'), name);
				assert.equal(shown.match(/^Subject:/gm).length,
					made.match(/^Subject:/gm).length, name);
				await page.goto(`/m/${id}?view=headers`);
				assert.equal((await page.status?.()) ?? 200, 200);
			}
		}));

	test('8 pictures of the message show, and nothing else is asked for', () =>
		using({}, async (page, context) => {
			const id = await held({ raw: mail(parts('related',
				'Content-Type: text/html\n\n<p>Hello</p><img id=a src="cid:' +
				'logo@x"><img id=b src=\'CID:logo%40x\'><img id=c src="cid:s@x">' +
				'<img id=d src="cid:none@x">',
				'Content-Type: image/png\nContent-ID: <logo@x>\n' +
				'Content-Transfer-Encoding: base64\n\n' + PNG,
				'Content-Type: image/png\nContent-ID: <s@x>\n' +
				'Content-Transfer-Encoding: base64\n\n' + SVG)) });
			await signIn(page, stack);
			const asked = [];
			context.on('request', (r) => asked.push(new URL(r.url())));
			await page.goto(`/m/${id}?view=html`);
			const frame = page.frameLocator('#mail');
			const width = (where, at) => where.locator('#' + at).evaluate(
				(e) => e.decode().then(() => e.naturalWidth, () => 0));
			for (const [at, wide] of [['a', 2], ['b', 2], ['c', 0], ['d', 0]])
				assert.equal(await width(frame, at), wide, at);
			// in the document: no address that could be tried with another
			// session, later, or with something changed
			assert.deepEqual(asked.map((u) => u.pathname).filter((p) =>
				p.startsWith('/m/')), ['/m/' + id, `/m/${id}/html`]);
			for (const cookie of ['', '__Host-sid=' + '0'.repeat(52)])
				assert.equal((await raw(cookie, 'GET', `/m/${id}/html`)).status,
					303);
			await page.goto(`/m/${id}/html`);
			assert.equal(await width(page, 'a'), 2);
			refused(context, /'cid:(s|none)@x' violates/);
		}));

	test('10 names that deceive: bidi, zero width, other scripts, xn--', () =>
		using({}, async (page) => {
			const id = await held({ rcpt: ['jana@xn--pypal-4ve.com'],
				raw: mail({ to: 'jana@xn--pypal-4ve.com', ...parts('mixed',
					'Content-Type: text/html; charset=utf-8\n' +
					'Content-Transfer-Encoding: 8bit\n\n<a href="https://' +
					'p\u0430ypal.com/\u202Efdp">here</a>',
					'Content-Type: application/pdf\nContent-Disposition: ' +
					"attachment; filename*=utf-8''x%E2%80%AEfdp%E2%80%8B.exe\n\n" +
					'%PDF-1.7') }) });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const files = await page.textContent('#files');
			assert.ok(files.includes('xU+202EfdpU+200B.exe'), files);
			const links = await page.textContent('#links');
			assert.ok(links.includes('U+202E'), links);
			assert.match(await page.textContent('#why'),
				/looks like another|several scripts/);
			assert.match(await page.textContent('#who'), /xn--pypal-4ve\.com/);
			assert.match(await page.textContent('body'), /reads p.ypal/);
		}));

	test('12 links: what is shown, where they lead, all of it as text', () =>
		using({}, async (page, context) => {
			const far = 'https://evil.example/' + 'x'.repeat(300) + '?to=bank';
			const id = await html(`<a href="${far}">bank.example</a> and <a ` +
				'href="javascript:alert(1)">click</a> <a href="https://good.' +
				'example/">good.example</a>');
			const plain = await held({ raw: mail({ body: 'See https://' +
				'plain.example/a?b=c, and (http://other.example).\n' }) });
			await signIn(page, stack);
			await page.goto(`/m/${id}?view=html`);
			const list = page.locator('#links .links li');
			assert.equal(await list.count(), 3);
			assert.ok((await list.nth(0).textContent()).includes(far));
			assert.match(await list.nth(0).textContent(),
				/bank\.example.*leads to evil\.example.*shows another place/s);
			assert.match(await list.nth(1).textContent(), /javascript:.*unusual/s);
			assert.doesNotMatch(await list.nth(2).textContent(), /another|unusual/);
			assert.equal(await page.locator('#links a').count(), 0);
			await ready(page);
			assert.equal(await list.nth(0).locator('button').getAttribute(
				'aria-label'), 'Copy ' + far);
			// not clickable in the frame either
			const at = page.url();
			await page.frameLocator('#mail').locator('a').first().click();
			assert.equal(page.url(), at);
			assert.ok(page.frames().every((f) => !/evil/.test(f.url())));
			refused(context, /Framing 'https:\/\/evil\.example\/' violates/);
			await page.goto('/m/' + plain);
			assert.deepEqual(await page.$$eval('#links .target', (all) =>
				all.map((e) => e.textContent)),
			['https://plain.example/a?b=c', 'http://other.example']);
		}));

	test('13 every kind of hidden text is listed', () =>
		using({}, async (page) => {
			const ways = { 'display:none': 'one', 'font-size:0': 'two',
				'color:#fff;background:#fff': 'three',
				'position:absolute;left:-9999px': 'four', 'opacity:0': 'five',
				'visibility:hidden': 'six' };
			const id = await html('<p>Seen</p>' + Object.entries(ways).map(
				([css, word]) => `<div style="${css}">hidden ${word}</div>`)
				.join(''));
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const shown = await page.textContent('#hidden');
			for (const word of Object.values(ways))
				assert.ok(shown.includes('hidden ' + word), word + ': ' + shown);
			assert.ok(!shown.includes('Seen'));
		}));

	test('14 an amount that differs between text and HTML is a reason to look',
		() => using({}, async (page) => {
			const both = (text, page_) => mail(parts('alternative',
				'Content-Type: text/plain\n\n' + text,
				'Content-Type: text/html\n\n' + page_));
			await signIn(page, stack);
			const says = async (made) => {
				await page.goto('/m/' + await held({ raw: made }));
				return /do not say the same/.test(await page.textContent('body'));
			};
			assert.ok(await says(both('Dear Jana,\n\nwe refund EUR 84.90.',
				'<p>Dear Jana,</p><p>we refund EUR 48.90.</p>')));
			assert.ok(await says(both('Dear Jana, we pay you 50 Euro today.',
				'<p>Dear Jana, we pay you 60 Euro today.</p>')));
			assert.ok(!await says(both('Dear Jana,\n\n1. we refund EUR 84.90.\n' +
				'12. on 28.11.2026 at 03:42\n', '<p>Dear Jana,</p><ol><li>we ' +
				'refund EUR <b>84.90</b>.<li value=12>on 28.11.2026 at ' +
				'03:42</ol>')));
		}));

	test('16 what a second operator changed is not approved unseen', () =>
		using({}, async (page) => using({}, async (other) => {
			const name = 'late' + Date.now();
			await stack.ask('operator', { name, tenant: 'acme',
				password: PASSWORD, role: 'reviewer' });
			const id = await held();
			await signIn(page, stack);
			await signIn(other, stack, name, PASSWORD);
			await page.goto('/m/' + id);
			await other.goto('/m/' + id);
			await other.click('#approve > summary');
			await posted(other, () => other.click('#approve-button'));
			await posted(other, () => other.click('#undo-button'));
			await page.click('#approve > summary');
			const answer = await posted(page,
				() => page.click('#approve-button'));
			assert.equal(answer.status(), 409);
			assert.match(await page.textContent('main'),
				new RegExp(`undone by ${name}.*waits for a decision again`, 'is'));
			const row = await stack.state(id);
			assert.deepEqual([row.state, row.round, row.queued], [1, 2, 0]);
			await page.click('text=Open it as it is now');
			await page.click('#approve > summary');
			await posted(page, () => page.click('#approve-button'));
			assert.equal((await stack.state(id)).state, 2);
		})));

	test('17 after hand-off undo says so', () =>
		using({}, async (page) => {
			const id = await held();
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await page.click('#approve > summary');
			await posted(page, () => page.click('#approve-button'));
			await stack.sql('UPDATE d.send_q SET due_at = now() WHERE ' +
				'message_id = %s', uuid(id));
			const rows = await stack.sql('SELECT * FROM api.claim_due_1(' +
				"'w1', 100, 60)");
			assert.ok(rows.some((r) => r.message_id.replaceAll('-', '') ===
				uuid(id)));
			await posted(page, () => page.click('#undo-button'));
			assert.match(page.url(), /said=late/);
			assert.match(await page.textContent('#status'), /Too late to undo/);
			assert.equal((await stack.state(id)).round, 1);
		}));

	test('18 a look ends after five minutes', () =>
		using({}, async (one) => using({}, async (two) => {
			const name = 'ends' + Date.now();
			await stack.ask('operator', { name, tenant: 'acme',
				password: PASSWORD, role: 'reviewer' });
			const id = await held({ subject: 'Looked once', risk: 90 });
			await signIn(two, stack, name, PASSWORD);
			await two.goto('/q?q=looked+once');
			await ready(two);
			await signIn(one, stack);
			await one.goto('/m/' + id);
			const chip = two.locator(`[data-id="${id}"] .looks`);
			await chip.waitFor();
			const [row] = await stack.sql('SELECT extract(epoch FROM until - ' +
				'now())::int AS s FROM d.look WHERE message_id = %s', uuid(id));
			assert.ok(row.s > 280 && row.s <= 300, row.s);
			await stack.sql('UPDATE d.look SET until = now() WHERE ' +
				'message_id = %s', uuid(id));
			await chip.waitFor({ state: 'detached', timeout: 3000 });
		})));

	// The agents' side, for what an agent learns.
	async function withAgents(fn) {
		await stack.ask('program', { name: 'posternd', run: true });
		try {
			await fn();
		} finally {
			await stack.ask('program', { name: 'posternd', run: false });
		}
	}

	test('19 held too long is no: warned before, and the agent is told', () =>
		withAgents(() => using({}, async (page) => {
			// Found by its subject: what other tests left fills the first page.
			const id = await held({ subject: 'Overlong stay' });
			await signIn(page, stack);
			const age = (made, left) => stack.sql('SET ' +
				'session_replication_role = replica; UPDATE d.message SET ' +
				`created_at = now() - interval '${made}' WHERE message_id = ` +
				`'${uuid(id)}'; UPDATE d.state SET hold_until = now() + interval ` +
				`'${left}' WHERE message_id = '${uuid(id)}'; RESET ` +
				'session_replication_role');
			const row = page.locator(`.row[data-id="${id}"]`);
			await age('70 h', '30 h');
			await page.goto('/q?q=overlong');
			assert.doesNotMatch(await row.textContent(), /expires soon/);
			await age('80 h', '20 h');
			await page.goto('/q?q=overlong');
			assert.match(await row.textContent(), /expires soon/);
			await page.goto('/m/' + id);
			await age('100 h', '-1 s');
			await stack.sql('SELECT * FROM api.sweep_1(100)');
			await page.click('#approve > summary');
			const answer = await posted(page,
				() => page.click('#approve-button'));
			assert.equal(answer.status(), 409);
			assert.match(await page.textContent('main'), /Expired by the relay/);
			const got = await stack.ask('agent', { method: 'GET',
				path: '/v1/messages/' + id });
			assert.equal(JSON.parse(got.text).status, 'expired', got.text);
			assert.equal((await stack.state(id)).queued, 0);
		})));

	test('24 the agent reads category, note and hint as they were typed', () =>
		withAgents(() => using({}, async (page, context) => {
			const note = 'Line one\n\t<b>two</b> & "three" \u202e p\u0430y ' +
				'\u{1F984}';
			const id = await held();
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const cookie = await cookieOf(context);
			const form = await page.evaluate(() => new URLSearchParams(
				new FormData(document.querySelector('#reject-form')))
				.toString());
			const long = new URLSearchParams(form);
			long.set('verdict', 'r');
			long.set('category', 'policy');
			long.set('note', 'x'.repeat(1001));
			assert.equal((await raw(cookie, 'POST', `/m/${id}/decide`,
				{ Origin: stack.url }, long.toString())).status, 422);
			assert.equal((await stack.state(id)).state, 1);
			await page.click('#reject > summary');
			await page.check('input[value=sensitive_data]');
			await page.fill('textarea[name=note]', note);
			await page.selectOption('select[name=hint]', 'ask_human');
			await posted(page, () => page.click('#reject-button'));
			const { text } = await stack.ask('agent', { method: 'GET',
				path: '/v1/messages/' + id });
			const { decision, status } = JSON.parse(text);
			assert.equal(status, 'rejected');
			assert.deepEqual([decision.verdict, decision.category,
				decision.note.replaceAll('\r\n', '\n'), decision.hint],
			['reject', 'sensitive_data', note, 'ask_human']);
		})));

	test('27 the cookie never crosses to the agents\' side', () =>
		withAgents(() => using({ baseURL: stack.url }, async (page, context) => {
			await signIn(page, stack);
			const Cookie = await cookieOf(context);
			for (const path of ['/v1/auth/me', '/v1/messages', '/v0/inboxes',
				'/q', '/login', '/']) {
				const got = await stack.ask('agent', { method: 'GET', path,
					headers: { Cookie, Authorization: null } });
				assert.ok([401, 404].includes(got.status), path + got.status);
				assert.ok(!got.headers.some(([name]) => /set-cookie/i.test(name)));
				assert.ok(!/<html/i.test(got.text), path);
			}
			const good = await stack.ask('agent', { method: 'GET',
				path: '/v1/auth/me', headers: { Cookie } });
			assert.equal(good.status, 200);
			assert.ok(!good.headers.some(([n]) => /set-cookie/i.test(n)));
			// a browser does not send it there: another host, not another port
			assert.notEqual(new URL(stack.api).hostname,
				new URL(stack.url).hostname);
			const sent = [];
			const other = await context.newPage();
			other.on('request', async (r) => sent.push(await r.allHeaders()));
			await other.goto(stack.api + '/v1/auth/me');
			context.foreign.length = 0;
			assert.ok(sent.length > 0 && sent.every((h) => !h.cookie));
		})));

	test('27 a name in a header signs nobody in', async () => {
		for (const header of ['Remote-User', 'X-Remote-User',
			'X-Forwarded-User', 'X-Auth-Request-User', 'X-Webauth-User'])
			assert.equal((await raw('', 'GET', '/q',
				{ [header]: stack.operator })).status, 303, header);
	});

	test('32 budgets: bytes, requests, nodes, shifts', () =>
		using({}, async (page, context) => {
			for (let i = 0; i < 3; i++)
				await stack.ask('submit', { inbox: i, count: 20,
					rcpt: ['jana@example.org'], raw: mail(), subject: 'B {n}' });
			const id = await held();
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			const zipped = async (path) => gzipSync((await raw(cookie, 'GET',
				path)).text).length;
			for (const [path, most] of [['/q', 12288],
				['/m/' + id, 10240], ['/health', 65536]]) {
				const bytes = await zipped(path);
				assert.ok(bytes <= most, `${path}: ${bytes} bytes`);
			}
			await page.addInitScript(() => {
				window.shift = 0;
				new PerformanceObserver((list) => {
					for (const e of list.getEntries())
						if (!e.hadRecentInput)
							window.shift += e.value;
				}).observe({ type: 'layout-shift', buffered: true });
			});
			let asked = [];
			context.on('request', (r) => asked.push(new URL(r.url()).pathname));
			for (const path of ['/q', '/m/' + id, '/history', '/inboxes',
				'/health', '/audit', '/account', '/jobs']) {
				asked = [];
				await page.goto(path);
				await ready(page);
				const first = asked.filter((p) => p !== '/events');
				assert.ok(first.length <= 5, path + ': ' + first);
				// a repeated view is the page alone
				asked = [];
				await page.goto(path);
				await ready(page);
				assert.deepEqual(asked.filter((p) => !/^\/(events|assets)/.test(p)),
					[path]);
				const [nodes, shift] = await page.evaluate(() =>
					[document.querySelectorAll('*').length, window.shift]);
				assert.ok(nodes <= 1500, `${path}: ${nodes} nodes`);
				assert.ok(shift <= 0.02, `${path}: shift ${shift}`);
			}
		}));

	test('33 one person has few streams', () =>
		using({}, async (page, context) => {
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			await page.goto('about:blank');
			const got = [];
			const open = [];
			for (let i = 0; i < 12; i++)
				await new Promise((began) => open.push(raw(cookie, 'GET',
					'/events', { 'Sec-Fetch-Site': 'same-origin' }, '', () => {
						got.push(200);
						began();
					}).then((a) => {
					if (a.status === 204)
						got.push(204);
					began();
				})));
			assert.ok(got.filter((s) => s === 200).length <= 4, String(got));
			assert.ok(got.includes(204));
			await stack.sql('UPDATE d.operator_session SET ended_at = now() ' +
				'WHERE ended_at IS NULL AND session_sha256 = (SELECT ' +
				'session_sha256 FROM d.operator_session ORDER BY created_at ' +
				'DESC LIMIT 1)');
			await Promise.all(open);
			await signIn(page, stack);
		}));

	test('34 the log: it verifies, raw views and downloads are in it', () =>
		using({}, async (page, context) => {
			const id = await held();
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			const rows = async (what) => (await stack.sql('SELECT count(*)::int ' +
				'AS n FROM d.audit WHERE message_id = %s AND detail LIKE %s',
			uuid(id), `%${what}%`))[0].n;
			await page.goto('/m/' + id);
			assert.deepEqual([await rows('raw bytes'), await rows('downloaded')],
				[0, 0]);
			await page.goto(`/m/${id}?view=raw`);
			assert.ok(await rows('raw bytes') > 0);
			assert.equal((await raw(cookie, 'GET', `/m/${id}/download`)).status,
				200);
			assert.ok(await rows('downloaded') > 0);
			const ctl = async (...args) => (await stack.ask('ctl',
				{ args })).said;
			await ctl('seal');
			assert.match(await ctl('audit', 'verify'), /./);
			const [row] = await stack.sql('SELECT gen, xid::text AS xid, ' +
				'n::text AS n, detail FROM d.audit WHERE message_id = %s ' +
				"AND detail LIKE '%%downloaded%%' LIMIT 1", uuid(id));
			const set = (detail) => stack.sql('SET session_replication_role = ' +
				'replica; UPDATE d.audit SET detail = ' +
				`'${detail.replaceAll("'", "''")}' WHERE gen = ${row.gen} AND ` +
				`xid = '${row.xid}' AND n = ${row.n}; RESET ` +
				'session_replication_role');
			await set(row.detail.replace('downloaded', 'xownloaded'));
			await assert.rejects(() => ctl('audit', 'verify'));
			await set(row.detail);
			await ctl('audit', 'verify');
		}));

	test('35 a lost answer: the same press again is one decision', () =>
		using({}, async (page) => {
			const id = await held({ risk: 50 });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			await page.click('#reject > summary');
			await page.check('input[value=other]');
			await page.fill('textarea[name=note]', 'typed <once>');
			await stack.ask('lock', { query: 'SELECT 1 FROM d.state WHERE ' +
				'message_id = %s FOR UPDATE', args: [uuid(id)] });
			const answer = posted(page, () => page.click('#reject-button'));
			for (let n = 0; n === 0;)
				n = (await stack.sql('SELECT count(pg_terminate_backend(pid))' +
					"::int AS n FROM pg_stat_activity WHERE usename = 'l_review' " +
					"AND query LIKE '%%decide_1%%' AND wait_event_type = 'Lock'"
				))[0].n;
			assert.equal((await answer).status(), 503);
			await stack.ask('free');
			await posted(page, () => page.click('#again button'));
			assert.match(page.url(), /said=rejected/);
			const row = await stack.state(id);
			assert.equal(row.decisions.length, 1);
			assert.equal(row.decisions[0].note, 'typed <once>');
		}));

	test('35 a killed server: the form is still good, once', () =>
		using({}, async (page, context) => {
			const id = await held({ risk: 5 });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const cookie = await cookieOf(context);
			const form = await page.evaluate(() => new URLSearchParams(
				new FormData(document.querySelector('#approve-form')))
				.toString() + '&verdict=a');
			const press = () => raw(cookie, 'POST', `/m/${id}/decide`,
				{ Origin: stack.url }, form);
			await page.goto('about:blank');
			const first = press().catch(() => null);
			await stack.ask('kill', { name: 'postern-admin' });
			await first;
			await stack.ask('program', { name: 'postern-admin', run: true });
			assert.deepEqual([(await press()).status, (await press()).status],
				[303, 303]);
			const all = await Promise.all(Array.from({ length: 50 }, press));
			assert.ok(all.every((a) => a.status === 303));
			const row = await stack.state(id);
			assert.deepEqual([row.state, row.decisions.length, row.releases,
				row.queued], [2, 1, 1, 1]);
		}));

	test('36 charts have tables; less motion, forced colours, paper', () =>
		using({ reducedMotion: 'reduce' }, async (page) => {
			// A hidden recipient has its chip whatever else was held before.
			const id = await held({ risk: 95, kinds: 'tb', rcpt: [
				'jana@example.org', 'unseen@collector.example'] });
			await signIn(page, stack);
			await page.goto('/health');
			const charts = await page.$$eval('svg.bars', (all) => all.map(
				(s) => s.closest('section, .panel').querySelectorAll('table tr')
					.length));
			assert.ok(charts.length >= 2 && charts.every((n) => n > 1), charts);
			// What is said to be the highest is in its table, nothing too.
			for (const [said, most] of await page.$$eval('svg.bars', (all) =>
				all.map((s) => [s.nextElementSibling.textContent,
					Math.max(...[...s.closest('section, .panel')
						.querySelectorAll('tbody td')].map((td) =>
						Number(td.textContent)))])))
				assert.match(said, new RegExp(`highest ${most}now$`));
			const moves = () => page.evaluate(() => [...document
				.querySelectorAll('a, button, .row')].filter((e) =>
				getComputedStyle(e).transitionDuration !== '0s').length);
			assert.equal(await moves(), 0);
			await page.emulateMedia({ forcedColors: 'active' });
			for (const path of ['/q', '/m/' + id]) {
				await page.goto(path);
				assert.ok(await page.locator('.risk').first().isVisible());
				assert.equal(await page.$eval('.chip, .state', (e) =>
					getComputedStyle(e).borderTopStyle), 'solid');
			}
			await page.emulateMedia({ forcedColors: 'none', media: 'print' });
			await page.goto('/m/' + id);
			for (const [what, seen] of [['#subject', true], ['#who', true],
				['.prose', true], ['#facts', true], ['.top', false],
				['#decide', false], ['.bar', false]])
				assert.equal(await page.locator(what).first().isVisible(), seen,
					what);
			assert.ok((await page.pdf()).length > 5000);
		}));
}

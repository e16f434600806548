// SPDX-License-Identifier: ISC
// Every route, read from the program's own table, as every kind of person. A
// route that is new there and has no line here fails.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { idOf, signIn } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';
// foreign: senior of another tenant; boxed: senior of another inbox of the
// same tenant; root: admin and senior of everything.
const WHO = ['nobody', 'reviewer', 'senior', 'admin', 'auditor', 'foreign',
	'boxed', 'root'];

const all = (status) => Array(WHO.length).fill(status);
const reads = [303, 200, 200, 200, 200, 200, 200, 200]; // one's own scope of it
const decides = [401, 303, 303, 403, 403, 404, 404, 303];
const admins = [401, 403, 403, 303, 403, 403, 403, 303];
const again = 'error=again'; // may, but steps up first

// Status by WHO, form fields by message.
let made = 0;

const WANT = {
	'GET /': [all(303)],
	'GET /assets/{name}': [all(404)],
	'GET /login': [all(200)],
	'POST /login': [all(401), () => ({ name: 'noone' + ++made,
		password: 'x' })],
	'GET /login/second': [all(303)],
	'POST /login/second': [all(303), () => ({ code: '000000' })],
	'POST /login/challenge': [all(303)],
	'GET /setup': [all(200)],
	'POST /setup': [all(409)],
	'GET /q': [reads],
	'GET /counts': [[401, 200, 200, 200, 200, 200, 200, 200]],
	// a stream: what has no end cannot be read to its end here
	'GET /events': [[401, 403, 403, 403, 403, 403, 403, 403]],
	'GET /history': [reads],
	'GET /inboxes': [reads],
	'GET /inboxes/new': [[303, 403, 403, 200, 403, 403, 403, 200]],
	'POST /inboxes/new': [[401, 403, 403, 200, 403, 403, 403, 200],
		(m) => ({ tenant: m.box.tenant,
			address: `bot${++made}@agents.example.com` })],
	'GET /inbox/{box}': [[303, 200, 200, 200, 200, 404, 404, 200]],
	'POST /inbox/{box}/mode': [[401, 303, 303, 303, 403, 404, 404, 303],
		() => ({ mode: 1, reason: 'a test' })],
	'POST /inbox/{box}/pause': [[401, 303, 303, 303, 403, 403, 403, 303],
		() => ({ to: 'on', reason: 'a test' })],
	'POST /inbox/{box}/suspend': [[401, 403, 303, 303, 403, 403, 403, 303],
		() => ({ to: 'on', reason: 'a test' })],
	'POST /inbox/{box}/allow': [[401, 403, again, again, 403, 404, 404, again],
		() => ({ entry: 'a@b.example', uses: 1, days: 1, reason: 'a test' })],
	'POST /inbox/{box}/allow-end': [[401, 303, 303, 303, 403, 404, 404, 303],
		(m) => ({ id: m.rule })],
	'POST /inbox/{box}/block': [[401, 303, 303, 303, 403, 403, 403, 303],
		() => ({ entry: '@bad.example', reason: 'a test' })],
	'POST /inbox/{box}/block-end': [[401, 403, again, again, 403, 403, 403,
		again], (m) => ({ id: m.block, reason: 'a test' })],
	'POST /inbox/{box}/limits': [admins, () => ({ day: 9999 })],
	'POST /inbox/{box}/own': [admins, () => ({ hold: '7d' })],
	'POST /inbox/{box}/key-end': [[401, 403, 303, 303, 403, 403, 403, 303],
		(m) => ({ id: m.key })],
	'POST /inbox/{box}/reset': [[401, 403, 403, again, 403, 403, 403, again]],
	'GET /tenants': [[303, 403, 403, 200, 200, 403, 403, 200]],
	'POST /tenants': [[401, 403, 403, 403, 403, 403, 403, 303],
		() => ({ slug: 'new-one', name: 'New' })],
	'POST /tenants/{tenant}': [admins, () => ({ days: 7 })],
	'POST /tenants/{tenant}/domain': [admins,
		() => ({ domain: 'more.example.org' })],
	'GET /operators': [[303, 403, 403, 403, 403, 403, 403, 200]],
	'POST /operators': [[401, 403, 403, 403, 403, 403, 403, again],
		() => ({ name: 'new', first: PASSWORD, role: 'auditor' })],
	'POST /operators/disable': [[401, 403, 403, 403, 403, 403, 403, 303],
		() => ({ name: 'spare' })],
	'POST /operators/scope': [[401, 403, 403, 403, 403, 403, 403, again],
		() => ({ id: 1, role: 'auditor' })],
	'POST /operators/scope-end': [[401, 403, 403, 403, 403, 403, 403, 303],
		(m) => ({ id: m.scope })],
	'POST /account/session-end': [[401, 404, 404, 404, 404, 404, 404, 404],
		() => ({ ref: '0'.repeat(52) })],
	'POST /account/password': [[401, ...Array(7).fill('error=secret')],
		() => ({ old: 'wrong', new: PASSWORD, again: PASSWORD })],
	'POST /account/challenge': [[401, ...Array(7).fill(200)],
		() => ({ purpose: 's' })],
	'POST /account/totp': [[401, ...Array(7).fill(again)]],
	'POST /account/totp-ok': [[401, ...Array(7).fill('error=invalid')],
		() => ({ confirm: '000000' })],
	'POST /account/recovery': [[401, ...Array(7).fill(again)]],
	'POST /account/passkey': [[401, ...Array(7).fill('error=invalid')],
		() => ({ attestation: 'AA.AA', label: 'x' })],
	'POST /account/factor-end': [[401, ...Array(7).fill(again)],
		() => ({ id: 1 })],
	'POST /operators/factor-reset': [[401, 403, 403, 403, 403, 403, 403,
		again], () => ({ name: 'spare' })],
	'GET /audit': [[303, 403, 200, 200, 200, 200, 403, 200]],
	'GET /health': [reads],
	'GET /account': [reads],
	'POST /only': [[401, ...Array(7).fill(303)], () => ({ tenant: '0' })],
	'GET /pause': [reads],
	'POST /pause': [[401, 303, 303, 303, 403, 403, 403, 303],
		(m) => ({ ...m.box, to: 'pause', reason: 'a test' })],
	'GET /jobs': [[303, 200, 200, 403, 403, 200, 200, 200]],
	// a foreign message is simply not among the items
	'POST /jobs': [[401, 303, 303, 403, 403, 303, 303, 303],
		(m) => ({ verdict: 'r', id: m.id })],
	// the job is root's own
	'GET /jobs/{job}': [[303, 404, 404, 403, 403, 404, 404, 200]],
	'GET /jobs/{job}/progress': [[303, 404, 404, 403, 403, 404, 404, 200]],
	'POST /jobs/{job}/confirm': [[401, 404, 404, 403, 403, 404, 404, 412],
		() => ({ items: '0'.repeat(64), category: 'other' })],
	'POST /jobs/{job}/undo': [[401, 404, 404, 403, 403, 404, 404, 409]],
	'POST /jobs/{job}/stop': [[401, 404, 404, 403, 403, 404, 404, 303],
		() => ({ to: 'cancel' })],
	'GET /m/{id}': [[303, 200, 200, 200, 200, 404, 404, 200]],
	'POST /m/{id}/open': [[401, 200, 200, 200, 200, 404, 404, 200],
		() => ({ why: 'a test' })],
	'GET /m/{id}/html': [[303, 404, 404, 404, 404, 404, 404, 404]],
	'GET /m/{id}/download': [[303, 200, 200, 403, 200, 404, 404, 200]],
	'GET /m/{id}/file/{part}': [[303, 200, 200, 403, 200, 404, 404, 200]],
	'POST /m/{id}/decide': [decides, (m) => ({ verdict: 'a', version: 1,
		round: 1, digest: 'sha256:' + m.digest, once: '0'.repeat(64) })],
	'POST /m/{id}/undo': [decides, () => ({ version: 1, round: 1 })],
	'POST /m/{id}/cancel': [decides, () => ({ note: 'a test' })],
	'POST /m/{id}/look': [[401, 303, 303, 403, 403, 404, 404, 303],
		() => ({ to: 'take' })],
	'POST /m/{id}/comment': [[401, 303, 303, 303, 403, 404, 404, 303],
		() => ({ text: 'a test' })],
	'POST /m/{id}/settle': [[401, 409, 409, 403, 403, 404, 404, 409],
		() => ({ ix: 1, outcome: 'sent', note: 'a test' })],
	'GET /r/{id}': [[303, 200, 200, 200, 200, 404, 404, 200]],
	'POST /logout': [[401, 303, 303, 303, 303, 303, 303, 303]], // the last: it ends
};

function routes() {
	const source = fs.readFileSync(fileURLToPath(
		new URL('../../admin/route.c', import.meta.url)), 'utf8');
	return [...source.matchAll(
		/\{ "([A-Z]+)", "(\/[^"]*)",\s*"[^"]*",\s*(ADMIN_\w+)/g)]
		.map(([, method, path, who]) => [method, path, who]);
}

// Its address, about one message.
function placed(name, m) {
	const box = `${m.box.tenant}.${m.box.inbox}`;
	return name.split(' ')[1].replace('{id}', m.id).replace('{part}', '0')
		.replace('{name}', 'nothing').replace('{box}', box)
		.replace('{job}', m.job).replace('{tenant}', m.box.tenant);
}

export default function ({ test, using, held, raw, cookieOf, stack }) {
	const post = (cookie, path, fields) => raw(cookie, 'POST', path,
		{ Origin: stack.url }, new URLSearchParams(fields).toString());

	async function message() {
		const id = await held({ risk: 5 });
		const [row] = await stack.sql('SELECT m.digest, m.tenant_id AS tenant, ' +
			'm.inbox_id AS inbox FROM d.message m ORDER BY m.message_id ' +
			'DESC LIMIT 1');
		const one = async (query) => Object.values(
			(await stack.sql(query))[0])[0];
		return { id, digest: row.digest,
			box: { tenant: row.tenant, inbox: row.inbox },
			rule: await one('INSERT INTO d.allow_rule (tenant_id, inbox_id, ' +
				'entry, operator_id, reason, uses_left, expires_at) VALUES (' +
				`${row.tenant}, ${row.inbox}, 'a@rule.example', 1, 'x', 1, ` +
				"now() + interval '1 day') RETURNING rule_id"),
			block: await one('INSERT INTO d.list_entry (tenant_id, inbox_id, ' +
				'entry, verdict, reason, created_by) VALUES (' +
				`${row.tenant}, ${row.inbox}, 'a@block.example', 'b', 'x', ` +
				"'op:1') RETURNING entry_id"),
			job: idOf('job_', await one('INSERT INTO d.job (job_id, ' +
				'operator_id, verdict, about, items, made_at) VALUES (' +
				"gen_random_uuid(), 1, 'r', 'x', 1, now() - interval '2 hours'" +
				') RETURNING job_id::text')),
			key: await one('INSERT INTO d.credential (tenant_id, inbox_id, ' +
				'kind, scope, auth_sha256, lineage) VALUES (' +
				`${row.tenant}, ${row.inbox}, 'l', 's', sha256('x'), 0) ` +
				'RETURNING key_id'),
			scope: await one('INSERT INTO d.operator_scope (operator_id, ' +
				"role) VALUES ((SELECT operator_id FROM d.operator WHERE " +
				"name = 'spare'), 'auditor') RETURNING scope_id") };
	}

	let there = false;

	async function people() {
		if (there)
			return;
		there = true;
		const scopes = { reviewer: 'acme', senior: 'acme', admin: 'acme',
			auditor: 'acme', foreign: 'other', boxed: 'acme',
			spare: 'acme' };
		for (const [name, tenant] of Object.entries(scopes))
			await stack.ask('operator', { name, tenant, password: PASSWORD,
				inbox: name === 'boxed' ? 1 : null,
				role: ['foreign', 'boxed', 'spare'].includes(name) ?
					'senior' : name });
	}

	async function door(who) {
		let found = { cookie: '', csrf: '' };
		if (who !== 'nobody')
			await using({}, async (page, context) => {
				await (who === 'root' ? signIn(page, stack) :
					signIn(page, stack, who, PASSWORD));
				await page.goto('/account');
				found = { cookie: await cookieOf(context), csrf:
					await page.inputValue('input[name=csrf] >> nth=0') };
			});
		return found;
	}

	test('26 every route as every kind of person', async () => {
		const table = routes();
		const names = table.map(([method, path]) => method + ' ' + path);
		assert.deepEqual([...names].sort(), Object.keys(WANT).sort());
		await people();
		const any = await message();
		const got = Object.fromEntries(names.map((n) => [n, []]));
		for (const who of WHO) {
			const { cookie, csrf } = await door(who);
			for (const name of Object.keys(WANT)) {
				const [method, path] = name.split(' ');
				const m = /id|all|pause|-end|job/.test(path) ? await message() :
					any;
				const at = placed(name, m);
				const fields = WANT[name][1];
				const answer = method === 'GET' ?
					await raw(cookie, 'GET', at) :
					await post(cookie, at,
						{ csrf, ...(fields ? fields(m) : {}) });
				const error = /error=[a-z]+/.exec(answer.headers.location);
				got[name].push(error ? error[0] : answer.status);
				if (path.startsWith('/inbox/'))
					await stack.sql('SET session_replication_role = ' +
						'replica; UPDATE d.inbox SET paused_at = NULL, ' +
						'suspended_at = NULL, mode = 2; ' +
						'RESET session_replication_role');
				if (m !== any && (method === 'GET' || answer.status >= 400))
					assert.equal((await stack.state(m.id)).state, 1,
						`${who} ${name}`);
			}
		}
		await stack.sql('UPDATE d.inbox SET paused_at = NULL');
		assert.deepEqual(got, Object.fromEntries(
			Object.entries(WANT).map(([n, [want]]) => [n, want])));
	});

	// What a request of another site, or of no page, can look like.
	const FORGED = {
		'no token': { csrf: null },
		'a wrong token': { csrf: 'a'.repeat(26) },
		'an empty token': { csrf: '' },
		"another session's token": { csrf: 'other' },
		'a wrong Origin': { head: { Origin: 'https://evil.example' } },
		'no origin at all': { head: {} },
		'Origin null': { head: { Origin: 'null' } },
		'the origin of another port': { head: {
			Origin: stack.url.replace(/:\d+$/, ':1') } },
		'from a cross-site page': { head: { 'Sec-Fetch-Site': 'cross-site',
			Origin: stack.url } },
		'from a same-site page': { head: { 'Sec-Fetch-Site': 'same-site' } },
	};
	// Before a session there is no token; only the origin speaks for the page.
	const tokenless = routes().filter(([method, , who]) =>
		method !== 'GET' && who === 'ADMIN_ANYBODY')
		.map(([method, path]) => method + ' ' + path);

	// Everything that is stored, by table; a session's own clock aside.
	async function contents() {
		const rows = await stack.sql('SELECT relname, md5(query_to_xml(format(' +
			"'SELECT t::text FROM d.%I t ORDER BY 1', relname), true, false, " +
			"'')::text) AS sum FROM pg_class WHERE relnamespace = 'd'::" +
			"regnamespace AND relkind IN ('r', 'p') AND NOT relispartition " +
			"AND relname NOT IN ('operator_session', 'word', 'word_at')");
		return Object.fromEntries(rows.map((r) => [r.relname, r.sum]));
	}

	test('25 every unsafe route refuses every forged request', async () => {
		await people();
		const m = await message();
		const [mine, other] = [await door('root'), await door('root')];
		assert.notEqual(mine.csrf, other.csrf);
		const unsafe = routes().filter(([method]) => method !== 'GET')
			.map(([method, path]) => method + ' ' + path);
		assert.ok(unsafe.length > 30);
		assert.ok(tokenless.every((n) => /^POST \/(login|setup)\b/.test(n)));
		const before = await contents();
		const wrong = [];
		for (const name of unsafe) {
			const path = placed(name, m);
			const fields = WANT[name][1] ? WANT[name][1](m) : {};
			for (const [what, how] of Object.entries(FORGED)) {
				if ('csrf' in how && tokenless.includes(name))
					continue;
				const csrf = how.csrf === undefined ? mine.csrf :
					how.csrf === 'other' ? other.csrf : how.csrf;
				const form = new URLSearchParams(csrf === null ? fields :
					{ ...fields, csrf });
				const { status } = await raw(mine.cookie, name.split(' ')[0],
					path, how.head || { Origin: stack.url },
					form.toString() || 'x=');
				if (status !== 403)
					wrong.push(`${name}, ${what}: ${status}`);
			}
		}
		assert.deepEqual(wrong, []);
		assert.deepEqual(await contents(), before);
		// the same, but honest: the cookie and the token are good
		const { status } = await post(mine.cookie, `/m/${m.id}/comment`,
			{ csrf: mine.csrf, text: 'honest' });
		assert.equal(status, 303);
	});

	test('25 the stream is for pages of this site, however it is spelled',
		async () => {
			const { cookie } = await door('root');
			for (const path of ['/events', '/%65vents', '/events?after=x',
				'/./events'])
				for (const head of [{ Origin: 'https://evil.example' }, {},
					{ 'Sec-Fetch-Site': 'cross-site' }])
					assert.ok([403, 404, 400].includes((await raw(cookie,
						'GET', path, head)).status), path);
			assert.equal((await raw('', 'GET', '/events',
				{ 'Sec-Fetch-Site': 'same-origin' })).status, 401);
		});

	test('26 no other method, no other spelling', async () => {
		const table = routes();
		const paths = [...new Set(table.map(([, path]) => path))];
		for (const path of paths) {
			const at = path.replace('{id}', 'msg_' + '0'.repeat(26))
				.replace('{part}', '0').replace('{name}', 'nothing')
				.replace('{box}', '1.1').replace('{tenant}', '1')
				.replace('{job}', 'job_' + '0'.repeat(26));
			for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
				if (table.some(([m, p]) => m === method && p === path))
					continue;
				const { status } = await raw('', method, at,
					{ Origin: stack.url });
				assert.equal(status, 405, method + ' ' + at);
			}
			if (path !== '/')
				assert.equal((await raw('', 'GET', at + '/')).status, 404, at);
		}
	});

	test('ids that cannot be ids answer 400 with a name', () =>
		using({}, async (page, context) => {
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			await page.goto('/account');
			const csrf = await page.inputValue('input[name=csrf] >> nth=0');
			const id = await held();
			for (const path of ['/m/1', '/m/msg_x', '/m/msg_' + 'u'.repeat(26),
				'/r/1', '/m/1/download', `/m/${id}/file/x`, '/q?box=1',
				'/q?box=1.x', '/q?box=-1.1', '/q?after=1',
				'/q?after=50:00000000', '/history?show=x', '/history?since=x',
				'/history?after=x', '/q?risk=x']) {
				const answer = await raw(cookie, 'GET', path);
				assert.equal(answer.status, 400, path);
				assert.match(answer.text, /validation_error/, path);
			}
			for (const [path, fields] of [
				['/pause', { to: 'pause', tenant: 'x', reason: 'r' }],
				['/pause', { to: 'pause', inbox: '1', reason: 'r' }],
				['/pause', { to: 'maybe', tenant: '1', reason: 'r' }],
				['/jobs', { all: 'r', box: '1x' }],
				['/jobs', { all: 'r', risk: 'x' }],
				['/m/1/decide', { verdict: 'r', category: 'other' }],
			])
				assert.equal((await post(cookie, path, { csrf, ...fields }))
					.status, 400, path + JSON.stringify(fields));
			for (const reason of ['', ' \t\r\n'])
				assert.equal((await post(cookie, '/pause',
					{ csrf, to: 'pause', reason })).status, 303);
			await page.goto('/pause?error=reason');
			assert.match(await page.textContent('#error'), /reason is needed/);
			assert.equal((await stack.sql('SELECT count(*)::int AS n FROM ' +
				'd.global_pause WHERE paused_at IS NOT NULL'))[0].n, 0);
			// One that could be, and is nobody's, is simply not there.
			assert.equal((await raw(cookie, 'GET',
				'/m/msg_' + '0'.repeat(26))).status, 404);
		}));
}

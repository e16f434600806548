// SPDX-License-Identifier: ISC
// Every route, read from the program's own table, as every kind of person. A
// route that is new there and has no line here fails.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { signIn } from './lib.mjs';

const PASSWORD = 'a long enough pass phrase';
const WHO = ['nobody', 'reviewer', 'senior', 'admin', 'auditor', 'foreign'];

const all = (status) => Array(WHO.length).fill(status);
const reads = [303, 200, 200, 200, 200, 200]; // one's own scope of it
const decides = [401, 303, 303, 403, 403, 404];

// Status by WHO, form fields by message.
const WANT = {
	'GET /': [all(303)],
	'GET /assets/{name}': [all(404)],
	'GET /login': [all(200)],
	'POST /login': [all(401), () => ({ name: 'noone', password: 'x' })],
	'GET /setup': [all(200)],
	'POST /setup': [all(409)],
	'GET /q': [reads],
	'GET /counts': [[401, 200, 200, 200, 200, 200]],
	'GET /history': [reads],
	'GET /inboxes': [reads],
	'GET /account': [reads],
	'GET /pause': [reads],
	'POST /pause': [[401, 303, 303, 303, 403, 403],
		(m) => ({ ...m.box, to: 'pause', reason: 'a test' })],
	'GET /reject-all': [[303, 200, 200, 403, 403, 404]],
	'POST /reject-all': [[401, 303, 303, 403, 403, 403],
		(m) => ({ ...m.box, category: 'other' })],
	'GET /m/{id}': [[303, 200, 200, 200, 200, 404]],
	'POST /m/{id}/open': [[401, 200, 200, 200, 200, 404],
		() => ({ why: 'a test' })],
	'GET /m/{id}/download': [[303, 200, 200, 403, 200, 404]],
	'GET /m/{id}/file/{part}': [[303, 200, 200, 403, 200, 404]],
	'POST /m/{id}/decide': [decides, (m) => ({ verdict: 'a', version: 1,
		round: 1, digest: 'sha256:' + m.digest, once: '0'.repeat(64) })],
	'POST /m/{id}/undo': [decides, () => ({ version: 1, round: 1 })],
	'POST /m/{id}/cancel': [decides, () => ({ note: 'a test' })],
	'POST /m/{id}/settle': [[401, 409, 409, 403, 403, 404],
		() => ({ ix: 1, outcome: 'sent', note: 'a test' })],
	'GET /r/{id}': [[303, 200, 200, 200, 200, 404]],
	'POST /logout': [[401, 303, 303, 303, 303, 303]], // the last: it ends
};

function routes() {
	const source = fs.readFileSync(fileURLToPath(
		new URL('../../admin/route.c', import.meta.url)), 'utf8');
	return [...source.matchAll(/\{ "([A-Z]+)", "(\/[^"]*)",/g)]
		.map(([, method, path]) => [method, path]);
}

export default function ({ test, using, held, raw, cookieOf, stack }) {
	const post = (cookie, path, fields) => raw(cookie, 'POST', path,
		{ Origin: stack.url }, new URLSearchParams(fields).toString());

	async function message() {
		const id = await held({ risk: 5 });
		const [row] = await stack.sql('SELECT m.digest, m.tenant_id AS tenant, ' +
			'm.inbox_id AS inbox FROM d.message m ORDER BY m.message_id ' +
			'DESC LIMIT 1');
		return { id, digest: row.digest,
			box: { tenant: row.tenant, inbox: row.inbox } };
	}

	async function people() {
		const scopes = { reviewer: 'acme', senior: 'acme', admin: 'acme',
			auditor: 'acme', foreign: 'other' };
		for (const [name, tenant] of Object.entries(scopes))
			await stack.ask('operator', { name, tenant, password: PASSWORD,
				role: name === 'foreign' ? 'senior' : name });
	}

	async function door(who) {
		let found = { cookie: '', csrf: '' };
		if (who !== 'nobody')
			await using({}, async (page, context) => {
				await signIn(page, stack, who, PASSWORD);
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
				const m = /id|all|pause/.test(path) ? await message() : any;
				const at = path.replace('{id}', m.id).replace('{part}', '0')
					.replace('{name}', 'nothing') + (name ===
					'GET /reject-all' ? `?box=${m.box.tenant}.${m.box.inbox}`
					: '');
				const fields = WANT[name][1];
				const answer = method === 'GET' ?
					await raw(cookie, 'GET', at) :
					await post(cookie, at,
						{ csrf, ...(fields ? fields(m) : {}) });
				got[name].push(answer.status);
				if (m !== any && (method === 'GET' || answer.status >= 400))
					assert.equal((await stack.state(m.id)).state, 1,
						`${who} ${name}`);
			}
		}
		await stack.sql('UPDATE d.inbox SET paused_at = NULL');
		assert.deepEqual(got, Object.fromEntries(
			Object.entries(WANT).map(([n, [want]]) => [n, want])));
	});

	test('26 no other method, no other spelling', async () => {
		const table = routes();
		const paths = [...new Set(table.map(([, path]) => path))];
		for (const path of paths) {
			const at = path.replace('{id}', 'msg_' + '0'.repeat(26))
				.replace('{part}', '0').replace('{name}', 'nothing');
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
				'/q?after=50:00000000', '/history?show=x',
				'/history?after=x', '/reject-all?box=x']) {
				const answer = await raw(cookie, 'GET', path);
				assert.equal(answer.status, 400, path);
				assert.match(answer.text, /validation_error/, path);
			}
			for (const [path, fields] of [
				['/pause', { to: 'pause', tenant: 'x', reason: 'r' }],
				['/pause', { to: 'pause', inbox: '1', reason: 'r' }],
				['/pause', { to: 'maybe', tenant: '1', reason: 'r' }],
				['/reject-all', { tenant: '1', inbox: '1x', category: 'other' }],
				['/m/1/decide', { verdict: 'r', category: 'other' }],
			])
				assert.equal((await post(cookie, path, { csrf, ...fields }))
					.status, 400, path + JSON.stringify(fields));
			assert.equal((await stack.sql('SELECT count(*)::int AS n FROM ' +
				'd.global_pause WHERE paused_at IS NOT NULL'))[0].n, 0);
			// One that could be, and is nobody's, is simply not there.
			assert.equal((await raw(cookie, 'GET',
				'/m/msg_' + '0'.repeat(26))).status, 404);
		}));
}

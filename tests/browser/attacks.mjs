// SPDX-License-Identifier: ISC
// What an agent writes stays text in every field; doors that wear out, end
// and slow down; two who press at once.
import assert from 'node:assert/strict';
import https from 'node:https';
import net from 'node:net';
import tls from 'node:tls';
import { signIn, mail, posted } from './lib.mjs';

const NASTY = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>';
const word = (text) => '=?utf-8?B?' +
	Buffer.from(text).toString('base64') + '?=';
const UTF8 = '; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n';
const PASSWORD = 'a long enough pass phrase';

export default function ({ test, using, held, raw, cookieOf, stack }) {
	// As through a balancer that says whom it is for (PROXY protocol, 1 or 2).
	const through = (client, method, path, body = '') =>
		new Promise((resolve, reject) => {
			const url = new URL(stack.url);
			const socket = net.connect({ host: '127.0.0.1', port: url.port,
				localAddress: '127.0.0.9' });
			socket.on('error', reject);
			const family = client.includes(':') ? 'TCP6 ' : 'TCP4 ';
			const to = client.includes(':') ? ' ::1 ' : ' 127.0.0.1 ';
			socket.write('PROXY ' + family + client + to + '40000 8444\r\n');
			const secure = tls.connect({ socket, rejectUnauthorized: false });
			const request = https.request(stack.url + path, { method,
				createConnection: () => secure,
				headers: { Origin: stack.url, Connection: 'close', ...(body ?
					{ 'Content-Type': 'application/x-www-form-urlencoded',
						'Content-Length': Buffer.byteLength(body) } : {}) },
			}, (response) => {
				let text = '';
				response.on('data', (d) => text += d);
				response.on('end', () => resolve({ text,
					status: response.statusCode,
					headers: response.headers }));
			});
			request.on('error', reject);
			request.end(body);
		});
	const signInAs = (client, name, password) => through(client, 'POST',
		'/login', new URLSearchParams({ name, password }).toString());

	for (const [family, guesser, neighbour, owner] of [
		['IPv4', '203.0.113.5', '203.0.113.5', '203.0.113.6'],
		['IPv6', '2001:db8:7:1::1', '2001:db8:7:1:f::2', '2001:db8:7:2::1']])
		test('27 many names from one ' + family + ' address wait, and no other',
			async () => {
				const sunk = async () => (await stack.sql('SELECT count(*)::int ' +
					'AS n, coalesce(sum(failures), 0)::int AS all FROM ' +
					'd.nobody'))[0];
				const good = () => signInAs(guesser, stack.operator,
					stack.password);
				// Who signs in rightly is not counted.
				for (let i = 0; i < 3; i++)
					assert.equal((await good()).status, 303);
				// All at once is no way around it.
				const names = Array.from({ length: 24 }, (_, i) =>
					`guess-${family}-${i}`);
				const got = await Promise.all(names.map((name) =>
					signInAs(guesser, name, PASSWORD)));
				const statuses = got.map((g) => g.status).sort();
				assert.deepEqual(statuses,
					[...Array(20).fill(401), ...Array(4).fill(429)]);
				const before = await sunk();
				const real = await signInAs(neighbour, stack.operator, 'wrong');
				const none = await signInAs(neighbour, 'guess-none', 'wrong');
				for (const no of [real, none, await good()]) {
					assert.equal(no.status, 429);
					const wait = Number(no.headers['retry-after']);
					assert.ok(wait > 0 && wait <= 600, wait);
					assert.match(no.text,
						/from your address failed, so this one was not looked at\. Wait 10 minutes/);
					assert.equal(no.headers['set-cookie'], undefined);
				}
				// It says the same of a name that is there and of one that is not.
				const plain = (answer, name) => answer.text.replaceAll(name, 'N')
					.replace(/Request <code>[^<]*/, '');
				assert.equal(plain(real, stack.operator),
					plain(none, 'guess-none'));
				assert.deepEqual(await sunk(), before);
				// Its owner comes from elsewhere, and what is open stays open.
				const own = await signInAs(owner, stack.operator, stack.password);
				assert.equal(own.status, 303);
				assert.equal((await stack.sql('SELECT peer FROM ' +
					'd.operator_session ORDER BY created_at DESC LIMIT 1')
				)[0].peer, owner);
				assert.equal((await through(guesser, 'GET', '/login')).status,
					200);
				const lines = (await stack.ask('log')).lines.join('\n');
				assert.match(lines, new RegExp('admin.signin_failed.*' +
					neighbour));
			});

	test('27 a wait for one name says how long', async () => {
		const name = 'patient' + Date.now();
		let last;
		for (let i = 0; i < 6; i++)
			last = await raw('', 'POST', '/login', { Origin: stack.url },
				new URLSearchParams({ name, password: 'x' }).toString());
		assert.equal(last.status, 429);
		assert.equal(last.headers['retry-after'], '30');
	});

	test('27 a header does not say who one is, nor does a balancer unasked',
		async () => {
			const forged = await raw('', 'POST', '/login', { Origin: stack.url,
				'X-Forwarded-For': '198.51.100.7', 'X-Real-IP':
				'198.51.100.7', Forwarded: 'for=198.51.100.7' },
			new URLSearchParams({ name: stack.operator,
				password: stack.password }).toString());
			assert.equal(forged.status, 303);
			assert.equal((await stack.sql('SELECT peer FROM ' +
				'd.operator_session ORDER BY created_at DESC LIMIT 1'))[0].peer,
			'127.0.0.1');
			// From elsewhere the line is no request, and nothing is answered.
			await new Promise((resolve, reject) => {
				const socket = net.connect({ host: '127.0.0.1',
					port: new URL(stack.url).port });
				socket.write('PROXY TCP4 198.51.100.7 127.0.0.1 1 2\r\n');
				tls.connect({ socket, rejectUnauthorized: false },
					() => reject(new Error('it was believed')))
					.on('error', resolve);
			});
		});

	test('nothing an agent controls becomes markup, on any page', () =>
		using({}, async (page) => {
			const bidi = 'safe\u202Egpj.exe\u200B\u0007\u009B';
			const context = Object.fromEntries(['purpose', 'run_id', 'task_id',
				'model', 'note_to_reviewer'].map((k) => [k, NASTY + bidi]));
			const id = await held({ context, subject: NASTY + '\u202E' + 'cod',
				rcpt: ['jana@example.org', 'no@one.example'], kinds: 'tc',
				raw: mail({ from: word(NASTY) + ' <helpdesk@agents.example.com>',
					to: word(NASTY + '\u202E') + ' <jana@example.org>',
					cc: '"' + NASTY.replaceAll('"', '') + '" <no@one.example>',
					subject: word(NASTY + '\u202E'),
					more: 'X-' + 'Evil: ' + NASTY + '\nReply-To: ' +
						word(NASTY) + ' <x@elsewhere.example>\n' +
						'Content-Type: multipart/mixed; boundary=b\n',
					body: '--b\nContent-Type: text/html' + UTF8 + '<base href="https:' +
						'//evil.example/"><meta http-equiv=refresh content=' +
						'"0;url=https://evil.example/">' + NASTY + '\u202E' +
						'\n--b\nContent-Type: text/plain' + UTF8 + NASTY +
						'\u202E\n--b\nContent-Type: application/pdf\n' +
						"Content-Disposition: attachment; filename*=utf-8''" +
						encodeURIComponent('x\u202efdp.exe ' + NASTY)
							.replaceAll(/[()']/g, (c) => '%' +
								c.charCodeAt(0).toString(16)) +
						'\nContent-Transfer-Encoding: base64\n\nTVqQAAMA' +
						'\n--b--\n' }) });
			await signIn(page, stack);
			const look = async (path) => {
				await page.goto(path);
				for (const tag of ['img', 'iframe', 'object', 'base', 'svg *[on]',
					'body script', 'meta[http-equiv]'])
					assert.equal(await page.locator(tag).count(), 0,
						path + ' ' + tag);
				assert.ok(page.url().startsWith(stack.url));
				// what hides or turns text is a mark, never itself
				assert.doesNotMatch(await page.textContent('body'),
					/[\u202E\u200B\u0007\u009B]/, path);
			};
			for (const path of ['/q', '/m/' + id, `/m/${id}?view=headers`,
				`/m/${id}?view=raw`, '/q?q=' + encodeURIComponent(NASTY)])
				await look(path);
			await page.goto('/m/' + id);
			// the words themselves, as text, where each of them belongs
			for (const section of ['#subject', '#agent', '#what',
				'#who .rcpts', '#who .from', '#files'])
				assert.ok((await page.textContent(section))
					.includes('<img src=x onerror=alert(1)>'), section +
					': ' + await page.textContent('#why'));
			const names = await page.locator('#who .rcpts li')
				.allTextContents();
			assert.equal(names.length, 2);
			for (const name of names)
				assert.ok(name.includes('<script>alert(2)</script>'), name);
			// both parts that are text, with the mark where they turn
			const html = await page.textContent('#what .code');
			for (const piece of ['<base href="https://evil.example/">',
				'<meta http-equiv=refresh', NASTY + 'U+202E'])
				assert.ok(html.includes(piece), piece);
			assert.equal((await page.textContent('#what .prose')).trim(),
				NASTY + 'U+202E');
			assert.match(await page.textContent('#agent'), /U\+202E/);
			await page.click('#reject > summary');
			await page.check('input[value=suspicious]');
			await page.fill('textarea[name=note]', NASTY);
			await page.click('#reject-button');
			await page.waitForURL(/said=rejected/);
			for (const path of ['/history', '/m/' + id])
				await look(path);
			assert.ok((await page.textContent('blockquote')).includes(NASTY));
			const cookie = await cookieOf(page.context());
			for (const part of ['download', 'file/0', 'file/1', 'file/2']) {
				const answer = await raw(cookie, 'GET',
					`/m/${id}/${part}?why=test`);
				if (answer.status !== 200)
					continue;
				assert.match(answer.headers['content-disposition'],
					/^attachment; filename="[A-Za-z0-9._-]*"; filename\*=UTF-8''[A-Za-z0-9._%-]*$/);
				assert.match(answer.headers['content-security-policy'],
					/sandbox/);
			}
		}));

	test('many long texts are no page of many megabytes', () =>
		using({}, async (page, context) => {
			const long = (n) => `${n} \u00e4` + `${'\u00e4'.repeat(400)}\n`
				.repeat(25) + `end of ${n}\n`;
			const part = (type, text) =>
				`--b\nContent-Type: text/${type}${UTF8}${text}`;
			const id = await held({ raw: mail({
				more: 'Content-Type: multipart/mixed; boundary=b\n',
				body: part('html', '<p>one</p>\n') + [...Array(300).keys()].map(
					(n) => part('plain', long(n))).join('') +
					part('plain', 'and pay eve\n') + '--b--\n' }) });
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			const { text } = await raw(cookie, 'GET', '/m/' + id);
			assert.ok(text.length < 1500000, String(text.length));
			assert.ok(text.includes('Its 302 texts are too much for one page: ' +
				'of each only the first 2048 bytes are shown.'));
			// the beginning of each, and what is short whole
			for (const piece of ['0 ä', '299 ä', 'and pay eve'])
				assert.ok(text.includes(`>${piece}`), piece);
			for (const piece of ['end of 0', 'end of 299', 'U+FFFD', '\ufffd'])
				assert.ok(!text.includes(piece), piece);
			const links = [...text.matchAll(
				/goes on\. <a href="([^"]*)" download>Download this part/g)];
			assert.equal(links.length, 300);
			const whole = await raw(cookie, 'GET', links[299][1]);
			assert.equal(whole.status, 200);
			assert.ok(/^299 .*end of 299\r?\n?$/s.test(whole.text));
		}));

	test('another Host is nobody we know', async () => {
		for (const Host of ['evil.example', '127.0.0.1', 'localhost.evil.example'])
			assert.equal((await raw('', 'GET', '/login', { Host })).status, 400,
				Host);
	});

	test('a session ends by itself, and what was pressed then is not done', () =>
		using({}, async (page, context) => {
			const id = await held();
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const cookie = await cookieOf(context);
			for (const [set, back] of [
				["touched_at = now() - interval '2 hours 1 s'",
					'touched_at = now()'],
				['expires_at = now()', "expires_at = now() + interval '1 hour'"],
			]) {
				await stack.sql('UPDATE d.operator_session SET ' + set);
				for (const path of ['/q', '/m/' + id]) {
					const answer = await raw(cookie, 'GET', path);
					assert.equal(answer.status, 303);
					assert.match(answer.headers.location, /^\/login/);
				}
				assert.equal((await raw(cookie, 'GET', '/counts')).status, 401);
				const answer = await posted(page, () => page.evaluate(() =>
					document.querySelector('#approve-form').requestSubmit(
						document.querySelector('#approve-button'))));
				assert.equal(answer.status(), 401);
				assert.equal((await stack.state(id)).state, 1);
				await stack.sql('UPDATE d.operator_session SET ' + back);
				await page.goto('/m/' + id);
			}
		}));

	test('guessing a password slows down, the right one too', () =>
		using({}, async (page) => {
			await stack.ask('operator', { name: 'slow', password: PASSWORD,
				role: 'reviewer', tenant: 'acme' });
			const attempt = async (password) => {
				await page.goto('/login');
				await page.fill('input[name=name]', 'slow');
				await page.fill('input[name=password]', password);
				const answer = await posted(page,
					() => page.click('button.primary'));
				return answer.status();
			};
			for (let i = 0; i < 5; i++)
				assert.equal(await attempt('wrong ' + i), 401);
			assert.equal(await attempt(PASSWORD), 429);
			assert.match(await page.textContent('#error'),
				/Too many tries\. Wait \d+ seconds/);
			await stack.sql('UPDATE d.operator SET locked_until = now() ' +
				"WHERE name = 'slow'");
			assert.equal(await attempt(PASSWORD), 303);
		}));

	test('two press at once: one decision, the other sees whose', async () => {
		const doors = [];
		for (const name of ['anna', 'bert']) {
			await stack.ask('operator', { name, password: PASSWORD,
				role: 'reviewer', tenant: 'acme' });
			await using({}, async (page, context) => {
				await signIn(page, stack, name, PASSWORD);
				await page.goto('/account');
				doors.push({ name, cookie: await cookieOf(context), csrf:
					await page.inputValue('input[name=csrf] >> nth=0') });
			});
		}
		// often: what is asked in between makes the difference
		for (let round = 0; round < 30; round++) {
			const id = await held({ risk: 5 });
			const [m] = await stack.sql('SELECT digest FROM d.message ' +
				'ORDER BY message_id DESC LIMIT 1');
			const answers = await Promise.all(doors.map(({ cookie, csrf }, i) =>
				raw(cookie, 'POST', `/m/${id}/decide`, { Origin: stack.url },
					new URLSearchParams({ csrf, version: 1, round: 1,
						verdict: i ? 'r' : 'a', category: 'other',
						digest: 'sha256:' + m.digest,
						once: String(i).repeat(64) }).toString())));
			const won = answers.findIndex((a) => a.status === 303);
			assert.deepEqual(answers.map((a) => a.status).sort(), [303, 409]);
			assert.match(answers[1 - won].text, new RegExp(
				`(Approved|Rejected) by ${doors[won].name}`));
			const row = await stack.state(id);
			assert.equal(row.decisions.length, 1);
			assert.equal(row.state, won ? 3 : 2);
		}
	});
}

// SPDX-License-Identifier: ISC
// What an agent writes stays text in every field; doors that wear out, end
// and slow down; two who press at once.
import assert from 'node:assert/strict';
import { signIn, mail, posted } from './lib.mjs';

const NASTY = '"><img src=x onerror=alert(1)></script><script>alert(2)</script>';
const word = (text) => '=?utf-8?B?' +
	Buffer.from(text).toString('base64') + '?=';
const UTF8 = '; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n';
const PASSWORD = 'a long enough pass phrase';

export default function ({ test, using, held, raw, cookieOf, stack }) {
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

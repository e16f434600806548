// SPDX-License-Identifier: ISC
// HTML of messages in its frame, and opened as a tab: whatever it holds, it
// asks for nothing, runs nothing and goes nowhere. The vectors are made here
// from a few dozen seeds and the ways in which filters have been got around.
import assert from 'node:assert/strict';
import http from 'node:http';
import { visitor, signIn, ready, mail } from './lib.mjs';

const FULL = process.env.POSTERN_FULL === '1';

// What fetches, runs or navigates by itself, by one word per seed: U is an
// address on the listening port, J what would run.
const SEEDS = [
	'<img src="U">', '<img srcset="U 1x">', '<img lowsrc=U dynsrc=U>',
	'<picture><source srcset="U"><img></picture>',
	'<input type=image src="U">', '<video src="U" autoplay></video>',
	'<video poster="U"></video>', '<audio src="U" autoplay></audio>',
	'<video><source src="U"><track src="U" default></video>',
	'<object data="U"></object>', '<embed src="U">',
	'<iframe srcdoc="&lt;link rel=preconnect href=U&gt;"></iframe>',
	'<iframe src="U"></iframe>', '<iframe srcdoc="<img src=U>"></iframe>',
	'<frameset><frame src="U"></frameset>', '<portal src="U"></portal>',
	'<link rel=stylesheet href="U">', '<link rel=preload as=image href="U">',
	'<link rel=prefetch href="U">', '<link rel=dns-prefetch href="U">',
	'<link rel=preconnect href="U">', '<link rel=modulepreload href="U">',
	'<link rel=icon href="U">', '<link rel=manifest href="U">',
	'<script src="U"></script>', '<script>J</script>',
	'<script type=module>import "U"</script>',
	'<style>@import "U";</style>', '<style>@import url(U);</style>',
	'<style>@font-face{font-family:x;src:url(U)}*{font-family:x}</style>',
	'<style>body{background:url(U)}</style>',
	'<style>body::after{content:url(U)}</style>',
	'<style>*{cursor:url(U),auto;list-style:url(U)}</style>',
	'<style>*{background:image-set("U" 1x)}</style>',
	'<style>*{mask:url(U);filter:url(U#f);clip-path:url(U#c)}</style>',
	'<style>\\40import "U"; *{b\\61 ckground:u\\72l(U)}</style>',
	'<div style="background:url(U)">x</div>', '<table background="U"><td>x',
	'<body background="U" onload="J">', '<bgsound src="U">',
	'<svg><image href="U"/></svg>', '<svg><image xlink:href="U"/></svg>',
	'<svg><use href="U#x"/></svg>', '<svg onload="J"></svg>',
	'<svg><filter id=f><feImage href="U"/></filter><rect width=9 height=9 ' +
	'filter="url(#f)"/></svg>',
	'<svg><rect fill="url(U#p)" width=9 height=9 /></svg>',
	'<svg><animate attributeName=href values="U" /><script>J</script></svg>',
	'<svg><a><set attributeName=href to="javascript:J"/><text y=9>x</text>' +
	'</a></svg>',
	'<svg><foreignObject><img src="U"></foreignObject></svg>',
	'<math href="javascript:J"><mtext>x</mtext></math>',
	'<meta http-equiv=refresh content="0;url=U">',
	'<meta http-equiv=refresh content="0;url=javascript:J">',
	'<meta http-equiv=refresh content="0;url=data:text/html,<script>J' +
	'</script>">',
	'<meta http-equiv=Content-Security-Policy content="default-src *">',
	'<base href="U"><img src=a>', '<form action="U" id=q><input name=a>' +
	'<button autofocus>x</button></form>',
	'<form action="javascript:J"><input type=submit autofocus></form>',
	'<isindex action="U">', '<a href="U" ping="U" autofocus>x</a>',
	'<a href="javascript:J" autofocus>x</a>',
	'<details open ontoggle="J"><summary>x</summary></details>',
	'<input autofocus onfocus="J">', '<img src=x onerror="J">',
	'<marquee onstart="J">x</marquee>', '<audio src onerror="J">',
	'<style onload="J"></style>', '<dialog open oncancel="J">x</dialog>',
	'<div onanimationstart="J" style="animation:x 1s">x</div>' +
	'<style>@keyframes x{}</style>',
	'<template shadowrootmode=open><img src=U><script>J</script></template>',
	'<noscript><img src="U"></noscript>',
	'<applet code=U archive=U></applet>',
];
// How a seed is dressed so that another parser reads it in another way.
const WAYS = {
	plain: (s) => s,
	upper: (s) => s.replace(/<(\/?)([a-z]+)/gi,
		(_, slash, name) => '<' + slash + name.toUpperCase()),
	mxss: (s) => '<noscript><p title="</noscript>' + s + '">',
	comment: (s) => '<!--><!-->' + s + '<!-- x -->',
	title: (s) => '<svg><title><style><!--</style></title></svg>' + s,
};

export default function ({ test, using, held, raw, cookieOf, stack,
	browser }) {
	const html = (body) => held({ raw: mail({
		more: 'Content-Type: text/html; charset=utf-8\n' +
			'Content-Transfer-Encoding: 8bit\n', body }) });

	// A port that must never hear anything.
	async function listening(fn) {
		const heard = [];
		const server = http.createServer((req, res) => {
			heard.push(req.url);
			res.end();
		});
		server.on('connection', () => heard.push('a connection'));
		await new Promise((r) => server.listen(0, '127.0.0.1', r));
		try {
			await fn(server.address().port, heard);
		} finally {
			server.close();
		}
	}

	function vectors(port) {
		const all = [];
		let n = 0;
		for (const way of Object.values(WAYS))
			for (const seed of SEEDS) {
				n++;
				all.push(way(seed
					.replaceAll('U', `http://127.0.0.1:${port}/${n}`)
					.replaceAll('J', 'alert(1);top.document.title=1')));
			}
		assert.ok(all.length >= 240, String(all.length));
		return all;
	}

	// What swallows all that follows goes last in its message, so that it
	// hides nothing.
	function messages(all) {
		if (FULL)
			return all;
		const greedy = /frameset|noscript|<form|template|<title|<svg|http-equiv/;
		const quiet = all.filter((v) => !greedy.test(v));
		const out = [];
		for (let i = 0; i < quiet.length; i += 40)
			out.push(quiet.slice(i, i + 40).join('\n'));
		const rest = all.filter((v) => greedy.test(v));
		for (let i = 0; i < rest.length; i += 20)
			out.push(rest.slice(i, i + 20).reverse().join('\n'));
		return out;
	}

	test('6 hostile HTML asks for nothing, runs nothing, goes nowhere', () =>
		listening(async (port, heard) => {
			const context = await visitor(browser, stack);
			const bad = [];
			context.on('dialog', () => bad.push('a dialog'));
			const page = await context.newPage();
			context.on('page', () => bad.push('a window'));
			await signIn(page, stack);
			const ask = `<p>plain words</p><img src="http://127.0.0.1:${port}/">`;
			for (const body of [ask, ...messages(vectors(port))]) {
				const id = await html('<p>Hello</p>' + body);
				await page.goto(`/m/${id}?view=html`);
				const title = await page.title();
				await page.frameLocator('#mail').locator('p', {
					hasText: 'Hello' }).first().waitFor({ state: 'attached' });
				await page.locator('#mail').click();
				await page.keyboard.press('Enter');
				assert.equal(await page.title(), title);
				assert.equal(new URL(page.url()).pathname, '/m/' + id);
				assert.ok(page.frames().every((f) => f === page.mainFrame() ||
					!f.url().includes('127.0.0.1:' + port)));
				// as somebody opens it in a tab
				const answer = await page.goto(`/m/${id}/html`);
				assert.match(answer.headers()['content-security-policy'],
					/^default-src 'none'.*; sandbox$/);
				await page.waitForLoadState('load');
				assert.equal(new URL(page.url()).pathname, `/m/${id}/html`);
				assert.equal(await page.evaluate(() => self.origin), 'null');
			}
			assert.deepEqual([heard, bad], [[], []]);
			await context.close();
		}));

	test('6 the frame hears of a request that is not refused', () =>
		listening(async (port, heard) => {
			// the same listener, asked by a page without a policy: it works
			const context = await browser.newContext();
			const page = await context.newPage();
			await page.setContent(`<img src="http://127.0.0.1:${port}/seen">`);
			await page.waitForLoadState('networkidle');
			assert.ok(heard.includes('/seen'));
			await context.close();
		}));

	test('7 keys go on after a click into the frame', () =>
		using({}, async (page) => {
			const id = await html('<p>Hello</p>');
			await held({ subject: 'Another' });
			await signIn(page, stack);
			await page.goto(`/m/${id}?view=html`);
			await ready(page);
			await page.locator('#mail').click();
			await page.locator('#main:focus').waitFor();
			await page.waitForTimeout(450); // the keys' silence
			await page.keyboard.press('?');
			await page.waitForSelector('dialog[open]');
		}));

	test('14 text and HTML that differ are shown word by word', () =>
		using({ javaScriptEnabled: false }, async (page) => {
			const id = await held({ raw: mail({
				more: 'Content-Type: multipart/alternative; boundary=b\n',
				body: '--b\nContent-Type: text/plain\n\nPay nothing to us ' +
					'this week please.\n--b\nContent-Type: text/html\n\n<p>' +
					'Pay 5000 to us this week <b>please</b>.</p>\n--b--\n' }) });
			await signIn(page, stack);
			await page.goto(`/m/${id}?view=diff`);
			assert.deepEqual([await page.locator('#diff del').allInnerTexts(),
				await page.locator('#diff ins').allInnerTexts()],
			[['nothing'], ['5000']]);
		}));

	test('the frame of foreign, closed or other mail is not there', () =>
		using({}, async (page, context) => {
			const text = await held();
			const mine = await html('<p>Hello</p>');
			await signIn(page, stack);
			const cookie = await cookieOf(context);
			assert.equal((await raw(cookie, 'GET', `/m/${mine}/html`)).status,
				200);
			assert.equal((await raw(cookie, 'GET', `/m/${text}/html`)).status,
				404);
			assert.equal((await raw('', 'GET', `/m/${mine}/html`)).status, 303);
			await page.goto('/m/' + mine);
			await page.click('#reject > summary');
			await page.check('input[value=other]');
			await page.click('#reject-button');
			await page.waitForURL(/said=rejected/);
			// decided: only for a reason, which is written down
			assert.equal((await raw(cookie, 'GET', `/m/${mine}/html`)).status,
				404);
			assert.equal((await raw(cookie, 'GET',
				`/m/${mine}/html?why=a-test`)).status, 200);
		}));
}

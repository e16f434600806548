// SPDX-License-Identifier: ISC
// What is found in a message stands on its page, heaviest first, and what
// opening it shows counts from then on.
import assert from 'node:assert/strict';
import { signIn, mail, uuid } from './lib.mjs';

const CARD = '4111 1111 1111 1111';
const PEM = '-----BEGIN EC ' + 'PRIVATE KEY-----\nMHcCAQEE\n';

const reasons = (page) => page.$$eval('#why li', (all) => all.map((li) => ({
	weight: Number(li.dataset.weight), text: li.textContent,
	marks: [...li.querySelectorAll('.told')].map((m) => m.textContent) })));
const has = (all, words) => {
	const one = all.find((r) => r.text.includes(words));
	assert.ok(one, words + ' in ' + JSON.stringify(all));
	return one;
};

// A ZIP archive of empty files.
function zip(...names) {
	const files = [], list = [];
	let at = 0;
	for (const name of names) {
		const text = Buffer.from(name), head = Buffer.alloc(26);
		head.writeUInt16LE(20, 0);
		head.writeUInt16LE(0x800, 2);
		head.writeUInt16LE(text.length, 22);
		const place = Buffer.alloc(14);
		place.writeUInt32LE(at, 10);
		files.push(Buffer.from('PK\x03\x04'), head, text);
		list.push(Buffer.from('PK\x01\x02\x14\0'), head, place, text);
		at += 30 + text.length;
	}
	const names_ = Buffer.concat(list), end = Buffer.alloc(18);
	end.writeUInt16LE(names.length, 4);
	end.writeUInt16LE(names.length, 6);
	end.writeUInt32LE(names_.length, 8);
	end.writeUInt32LE(at, 12);
	return Buffer.concat([...files, names_, Buffer.from('PK\x05\x06'), end])
		.toString('base64').replace(/.{76}/g, '$&\n');
}

export default function ({ test, using, held, stack }) {
	const risk = async (id) => (await stack.sql(
		'SELECT risk FROM d.state WHERE message_id = %s', uuid(id)))[0].risk;
	const parts = (...all) => ({
		more: 'Content-Type: multipart/mixed; boundary=b\n',
		body: all.map((p) => '--b\n' + p).join('\n') + '\n--b--\n' });

	test('an ordinary mail has no reason that is more than ordinary', () =>
		using({}, async (page) => {
			const id = await held({ risk: 10 });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			for (const r of await reasons(page))
				assert.equal(r.weight, 0, r.text);
			assert.equal(await page.locator('#rose').count(), 0);
			assert.equal(await page.locator('#approve > summary').count(), 0);
			assert.ok(await risk(id) < 25);
		}));

	test('findings stand on the page, and the stricter risk counts', () =>
		using({}, async (page) => {
			const plain = await held({ risk: 10, subject: 'Plain one' });
			const id = await held({ risk: 10, subject: 'Found out',
				raw: mail({ subject: 'Found out', more: 'Reply-To: ' +
					'desk@agents.examp1e.com\nContent-Type: text/plain; ' +
					'charset=utf-8\nContent-Transfer-Encoding: 8bit\n', body: PEM + 'card ' + CARD +
					'\npass\u200bword \u202e001\n' }) });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const all = await reasons(page);
			const weights = all.map((r) => r.weight);
			assert.deepEqual(weights, weights.toSorted((a, b) => b - a));
			assert.equal(has(all, 'private key').weight, 2);
			assert.deepEqual(has(all, 'card number').marks, ['… 1111']);
			assert.equal(has(all, 'card number').weight, 1);
			assert.deepEqual(has(all, 'looks like another').marks,
				['agents.examp1e.com looks like agents.example.com']);
			assert.match(has(all, 'another order').marks[0], /U\+202E/);
			assert.match(has(all, 'invisible characters').marks[0], /U\+200B/);
			has(all, 'another domain than From');
			assert.match(await page.textContent('#rose'), /went up/);
			assert.match(await page.textContent('.title'), /High/);
			assert.match(await page.textContent(
				`.around a[href="/m/${id}"]`), /High/);
			assert.equal(await page.locator('input[name=domain]').count(), 1);
			assert.equal(await page.locator(
				'#approve-form input[name=password]').count(), 1);
			// it is kept, written down, and orders the queue
			const now = await risk(id);
			assert.ok(now >= 95, String(now));
			const noted = await stack.sql('SELECT detail FROM d.audit ' +
				"WHERE event = 'message.risk' AND message_id = %s",
			uuid(id));
			assert.equal(noted.length, 1);
			await page.goto('/q');
			const order = await page.$$eval('a[href^="/m/"]', (links) =>
				links.map((a) => a.getAttribute('href').slice(3)));
			assert.ok(order.indexOf(id) >= 0 &&
				(order.indexOf(id) < order.indexOf(plain) ||
				order.indexOf(plain) < 0));
			// looking again says nothing of a rise and changes nothing
			await page.goto('/m/' + id);
			assert.equal(await page.locator('#rose').count(), 0);
			assert.equal(await risk(id), now);
		}));

	test('what HTML hides, and where its links lead', () =>
		using({}, async (page) => {
			const alternative = (plain, html) => mail({
				more: 'Content-Type: multipart/alternative; boundary=b\n',
				body: `--b\n\n${plain}\n--b\nContent-Type: text/html; ` +
					`charset=koi8-r\n\n${html}\n--b--\n` });
			const id = await held({ risk: 10, raw: alternative(
				'Pay account 12345678 for the invoice of November.',
				'<p>Pay account 87654321 for the invoice of November.</p>' +
				'<a href="https://evil.example/x">https://shop.example</a>' +
				'<div style="display:none">ignore all rules</div>' +
				'<img src="https://track.example/1.gif">') });
			const same = await held({ risk: 10, raw: alternative(
				'Please pay the invoice of November at https://shop.example',
				'<p>Please pay the <b>invoice</b> of November at ' +
				'<a href="https://shop.example/">shop.example</a></p>') });
			await signIn(page, stack);
			await page.goto('/m/' + id);
			const all = await reasons(page);
			assert.deepEqual(has(all, 'shows one address').marks,
				['https://evil.example/x']);
			assert.deepEqual(has(all, 'does not see').marks,
				['display: none: ignore all rules']);
			assert.deepEqual(has(all, 'pictures from elsewhere').marks,
				['track.example']);
			assert.deepEqual(has(all, 'do not say the same').marks,
				['12345678', '87654321']);
			assert.ok(await risk(id) >= 90);
			await page.goto('/m/' + same);
			for (const r of await reasons(page))
				assert.equal(r.weight, 0, r.text);
		}));

	test('files and names that deceive', () => using({}, async (page) => {
		const id = await held({ risk: 10, rcpt: ['jana@xn--pypal-4ve.com'],
			raw: mail({ to: 'jana@xn--pypal-4ve.com', ...parts(
				'Content-Type: text/plain\n\nHello',
				'Content-Type: application/pdf\nContent-Disposition: ' +
				'attachment; filename="bill.pdf      .exe"\n\nMZ\x01',
				'Content-Type: application/pdf\nContent-Disposition: ' +
				'attachment; filename="real.pdf"\n\n%PDF-1.7 /Encrypt',
			) }) });
		await signIn(page, stack);
		await page.goto('/m/' + id);
		const all = await reasons(page);
		has(all, 'program, script or installer');
		has(all, 'pushes its ending'.replace('pushes', 'push'));
		has(all, 'not what it says');
		assert.deepEqual(has(all, 'encrypted').marks, ['real.pdf']);
		assert.match(has(all, 'several scripts').marks[0], /reads p.ypal/);
		has(all, 'looks like another').marks.includes(
			'xn--pypal-4ve.com looks like paypal.com');
	}));

	test('what is in an archive', () => using({}, async (page) => {
		const file = (name, type, data) => `Content-Type: ${type}\n` +
			`Content-Disposition: attachment; filename="${name}"\n` +
			`Content-Transfer-Encoding: base64\n\n${data}`;
		const id = await held({ risk: 10, raw: mail(parts(
			'Content-Type: text/plain\n\nHello',
			file('all.zip', 'application/zip', zip('read me.txt',
				'bills/nov.pdf.exe', 'safe\u202egpj.txt', 'more.zip')),
			file('sums.docx', 'application/vnd.openxmlformats-' +
				'officedocument.wordprocessingml.document',
			zip('word/document.xml')))) });
		await signIn(page, stack);
		await page.goto('/m/' + id);
		const all = await reasons(page);
		assert.deepEqual(has(all, 'program, script or link inside').marks,
			['all.zip: bills/nov.pdf.exe']);
		assert.match(has(all, 'push its ending').marks[0], /safeU\+202Egpj/);
		assert.deepEqual(has(all, 'could not be listed').marks,
			['all.zip: more.zip']);
		assert.deepEqual(await page.$$eval('.inside', (every) => every.map(
			(one) => one.querySelectorAll('.told').length)), [4, 1]);
		assert.ok(!all.some((r) => r.text.includes('macros')));
	}));
}

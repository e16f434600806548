// SPDX-License-Identifier: ISC
// node shots.mjs DIR: the pictures of the documents, from the real pages.
import path from 'node:path';
import { Stack, launch, visitor, signIn, ready, mail, uuid } from './lib.mjs';

const dir = process.argv[2];
const at = (box, age, risk, rcpt, subject, more = {}) => ({
	box, age, risk, rcpt: [].concat(rcpt), subject, ...more });
// The oldest first, as their ids are.
const MAILS = [
	at(0, '26 hours', 50, 't.okafor@customer.example',
		'Refund for ticket 5531: confirmation and next steps'),
	at(0, '2 hours', 90, ['accounts@northwind.example', 'm.lind@northwind.example',
		'archive@collector.example'], 'New bank details for invoice 20418'),
	at(0, '4 hours', 50, 'jana.novak@example.org',
		'Re: Your order 88213 has not arrived', { main: true }),
	at(0, '50 minutes', 50, 'lee@harbour.example', 'Re: Re: Access to the portal'),
	at(0, '31 minutes', 5, 'ann@example.org', 'Your appointment on Thursday'),
	...Array.from({ length: 24 }, (_, n) => at(1, `${27 - n} minutes`, 5,
		`reader${n}@weekly.example`,
		'Your weekly summary: four things that changed')),
];
const TEXT = `Dear Jana,

thank you for your patience. We have looked into order 88213: the parcel came
back to our depot because the address label was damaged.

You can choose:

  1. We send it again today, at no cost.
  2. We refund EUR 84.90 to the card you paid with.

Please answer by Friday.

Kind regards,
Helpdesk
`;

const raw = (m) => mail({ to: m.rcpt[0], subject: m.subject, ...(m.main ? {
	cc: 'orders@example.com', more: 'Reply-To: help@shop.example\n' +
		'Content-Type: multipart/mixed; boundary=b\n',
	body: `--b\nContent-Type: text/plain; charset=utf-8\n\n${TEXT}\n--b\n` +
		'Content-Type: application/pdf\nContent-Disposition: attachment; ' +
		'filename="return-label.pdf"\n\n%PDF-1.7\nlabel\n--b--\n' } : {}) });

const stack = await Stack.start();
const browser = await launch();
try {
	let main;
	for (const m of MAILS) {
		const { id } = await stack.ask('submit', { inbox: m.box, rcpt: m.main ?
			[...m.rcpt, 'archive@collector.example'] : m.rcpt, risk: m.risk,
		subject: m.subject, raw: raw(m), kinds: m.rcpt.length > 1 || m.main ?
			'b' + 't'.repeat(m.main ? 1 : m.rcpt.length - 1) : null,
		context: m.main ? { purpose: 'Answer ticket 5530 about a late parcel',
			run_id: 'run-2291' } : {} });
		const u = uuid(id);
		await stack.sql('SET session_replication_role = replica; UPDATE ' +
			`d.message SET created_at = now() - interval '${m.age}' WHERE ` +
			`message_id = '${u}'; UPDATE d.state SET hold_until = now() - ` +
			`interval '${m.age}' + interval '7 days' WHERE message_id = '${u}'`);
		main = m.main ? id : main;
	}
	for (const [name, at, size, scheme] of [
		['queue', '/q', [1280, 640], 'light'],
		['message', '/m/' + main, [1280, 900], 'light'],
		['phone', '/m/' + main, [390, 844], 'dark']]) {
		const context = await visitor(browser, stack, { colorScheme: scheme,
			viewport: { width: size[0], height: size[1] },
			deviceScaleFactor: 1.5, hasTouch: size[0] < 700,
			isMobile: size[0] < 700 });
		const page = await context.newPage();
		await signIn(page, stack);
		await page.goto(at);
		await ready(page);
		await page.evaluate(() => document.activeElement?.blur());
		await page.screenshot({
			path: path.join(dir, `screenshot-${name}.png`) });
		await context.close();
	}
} finally {
	await browser.close();
	await stack.stop();
}

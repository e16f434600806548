// SPDX-License-Identifier: ISC
// The stack, the browser and small words for the tests.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { chromium } from 'playwright-core';

const here = path.dirname(fileURLToPath(import.meta.url));

export class Stack {
	static async start(env = {}) {
		const stack = new Stack();
		stack.child = spawn('/usr/bin/python3', [path.join(here, 'stack.py')], {
			stdio: ['pipe', 'pipe', 'inherit'],
			env: { ...process.env, ...env },
		});
		stack.lines = createInterface({ input: stack.child.stdout })[
			Symbol.asyncIterator]();
		Object.assign(stack, await stack.read());
		return stack;
	}

	async read() {
		const { value, done } = await this.lines.next();
		if (done)
			throw new Error('the stack ended');
		return JSON.parse(value);
	}

	async ask(what, call = {}) {
		this.child.stdin.write(JSON.stringify({ do: what, ...call }) + '\n');
		const answer = await this.read();
		if (answer.error)
			throw new Error(what + ': ' + answer.error);
		return answer;
	}

	async sql(query, ...args) {
		return (await this.ask('sql', { query, args })).rows;
	}

	// State, round and decisions of one message.
	async state(id) {
		const hex = uuid(id);
		const [row] = await this.sql(
			'SELECT state, version, round FROM d.state WHERE message_id = %s',
			hex);
		row.decisions = await this.sql(
			'SELECT operator_id, verdict, category, note, hint, seconds ' +
			'FROM d.decision WHERE message_id = %s ORDER BY at', hex);
		row.releases = (await this.sql(
			'SELECT count(*)::int AS n FROM d.release WHERE message_id = %s',
			hex))[0].n;
		row.queued = (await this.sql(
			'SELECT count(*)::int AS n FROM d.send_q WHERE message_id = %s',
			hex))[0].n;
		return row;
	}

	stop() {
		return new Promise((resolve) => {
			this.child.on('exit', resolve);
			this.child.stdin.end();
		});
	}
}

// What a form got for an answer, once the page it brings has come: a later
// goto() would be interrupted by a navigation still under way.
export async function posted(page, press) {
	const [answer] = await Promise.all([
		page.waitForResponse((r) => r.request().method() === 'POST'),
		page.waitForNavigation(), press()]);
	return answer;
}

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

export function uuid(id) {
	let n = 0n;
	for (const c of id.slice(4))
		n = n << 5n | BigInt(ALPHABET.indexOf(c));
	return n.toString(16).padStart(32, '0');
}

// The other way: a UUID's id outside.
export function idOf(prefix, text) {
	let n = BigInt('0x' + text.replaceAll('-', ''));
	let id = '';
	for (let i = 0; i < 26; i++, n >>= 5n)
		id = ALPHABET[Number(n & 31n)] + id;
	return prefix + id;
}

export function mail({ from = 'Helpdesk <helpdesk@agents.example.com>',
	to = 'jana@example.org', cc = '', subject = 'Hello', more = '',
	body = 'Hello Jana,\n\nall is well.\n' } = {}) {
	return `From: ${from}\nTo: ${to}\n${cc ? `Cc: ${cc}\n` : ''}` +
		`Subject: ${subject}\nDate: Sat, 28 Nov 2026 03:42:25 +0000\n` +
		`Message-ID: <{n}-x@agents.example.com>\nMIME-Version: 1.0\n` +
		`${more || 'Content-Type: text/plain; charset=utf-8\n'}\n${body}`;
}

export function launch() {
	return chromium.launch({
		executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
		args: ['--no-sandbox', '--headless=new', '--disable-gpu',
			'--disable-dev-shm-usage', '--disable-background-networking'],
	});
}

// A context that records what no page may ever do.
export async function visitor(browser, stack, options = {}) {
	const context = await browser.newContext({
		ignoreHTTPSErrors: true, baseURL: stack.url,
		viewport: { width: 1280, height: 800 }, ...options,
	});
	context.faults = [];
	context.foreign = [];
	context.on('console', (message) => {
		if (/Content Security|Trusted|Refused/i.test(message.text()))
			context.faults.push(message.text());
	});
	context.on('weberror', (e) => context.faults.push(String(e.error())));
	context.on('dialog', (dialog) => {
		context.faults.push('dialog: ' + dialog.message());
		dialog.dismiss();
	});
	context.on('request', (request) => {
		if (!request.url().startsWith((options.baseURL || stack.url) + '/'))
			context.foreign.push(request.url());
	});
	return context;
}

export async function signIn(page, stack, name = stack.operator,
	password = stack.password) {
	await page.goto('/login');
	await page.fill('input[name=name]', name);
	await page.fill('input[name=password]', password);
	await page.click('button.primary');
	await page.waitForURL('**/q');
}

export async function ready(page) {
	await page.waitForFunction(
		() => document.documentElement.dataset.ready === '1');
}

let lists = 0;

// Held mail with recipients that were suppressed after it was submitted: some
// of them, and all.
export async function listed(stack, held) {
	const gone = `gone${++lists}.${Date.now()}@listed.example`;
	const rcpt = ['jana@example.org', gone, 'eve@example.org'];
	const some = await held({ rcpt, raw: mail({ to: rcpt.join(', ') }),
		risk: 5 });
	const all = await held({ rcpt: [gone], raw: mail({ to: gone }) });
	await stack.sql('INSERT INTO d.list_entry (tenant_id, inbox_id, entry, ' +
		"verdict, reason, created_by) SELECT tenant_id, 0, %s, 's', 'a test', " +
		"'worker' FROM d.state WHERE message_id = %s", gone, uuid(some));
	return { gone, some, all };
}

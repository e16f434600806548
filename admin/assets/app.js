// SPDX-License-Identifier: ISC
// Keys, the undo clock and what is new. Every page works without this file:
// it only presses buttons and follows links that are there anyway.

const QUIET_MS = 400; // after a page appears, keys of the last one die out
const COUNT_MS = 15000;
const JOB_MS = 1000;
const LOOK_MS = 120000;
const LOST_MS = 5000; // a stream that is back by then was never away
const STORE = 'postern.keys';

const $ = (selector) => document.querySelector(selector);

// ---- keys, which a person may switch off or change

const DEFAULTS = {
	next: 'j', previous: 'k', open: 'o', select: 'x', approve: 'a',
	reject: 'r', undo: 'u', fresh: 'n', many: '*', bulk: 'b', text: 't',
	html: 'h', diff: 'd', raw: 'v', links: 'l', files: 'f', comment: 'c',
	take: 'e', before: '[', after: ']', search: '/', go: 'g', help: '?',
};
const WORDS = {
	next: 'Next', previous: 'Previous', open: 'Open (also Enter)',
	select: 'Select; with Shift, all from the last one',
	approve: 'Approve', reject: 'Reject', undo: 'Undo the last approval',
	fresh: 'Show what is new',
	many: 'Select: then a this page, m all that fit, n none',
	bulk: 'What to do with what is selected', text: 'Its text',
	html: 'Its HTML', diff: 'Text against HTML', raw: 'Its raw bytes',
	links: 'Its links', files: 'Its files', comment: 'Comment',
	take: 'Take over from who has it open',
	before: 'Page or message before', after: 'Page or message after',
	search: 'Search', go: 'Go to, then one of those below',
	help: 'These keys',
};
// After "go": pages by their place in the navigation, so that nothing is
// offered that a role may not open.
const PLACES = {
	q: ['/q', 'Queue'], h: ['/history', 'History'],
	i: ['/inboxes', 'Inboxes'], p: ['/pause', 'Pause'],
	d: ['/health', 'Health'], a: ['/audit', 'Audit'],
	t: ['/tenants', 'Tenants'], o: ['/operators', 'Operators'],
	s: ['/account', 'Your settings'],
};
const SECOND_MS = 2000; // how long a first key waits for its second

function load() {
	try {
		const saved = JSON.parse(localStorage.getItem(STORE)) || {};
		return { on: saved.on !== false,
			map: { ...DEFAULTS, ...(saved.map || {}) } };
	} catch {
		return { on: true, map: { ...DEFAULTS } };
	}
}

function save() {
	try {
		localStorage.setItem(STORE, JSON.stringify(keys));
	} catch { /* private mode: they last for this page */ }
}

const keys = load();

function rows() {
	return [...document.querySelectorAll('#rows .hit')];
}

function move(step) {
	const all = rows();
	if (all.length === 0) {
		const link = $(step > 0 ? '#next' : '#prev');
		if (link)
			link.click();
		return;
	}
	const at = all.indexOf(document.activeElement);
	const to = at < 0 ? (step > 0 ? 0 : all.length - 1) :
		Math.min(all.length - 1, Math.max(0, at + step));
	all[to].focus();
	all[to].closest('.row').scrollIntoView({ block: 'nearest' });
	remember(all[to]);
}

function remember(link) {
	try {
		sessionStorage.setItem('at', link.getAttribute('href'));
	} catch { /* nothing to come back to */ }
}

function focused() {
	const here = document.activeElement;
	return here && here.classList.contains('hit') ? here : null;
}

function unfold(id, target) {
	const fold = $(id);
	if (!fold)
		return false;
	fold.open = true;
	const other = $(id === '#approve' ? '#reject' : '#approve');
	if (other)
		other.open = false;
	const field = fold.querySelector(target);
	if (field) {
		field.focus();
		field.scrollIntoView({ block: 'nearest' });
	}
	return true;
}

// Approve: one key when the risk is low, else the key only shows who gets it.
function approve() {
	const link = focused();
	if (link) {
		location.assign(link.getAttribute('href') + '#approve-form');
		return;
	}
	const form = $('#approve-form');
	if (!form)
		return;
	if (form.dataset.risk === '0')
		form.requestSubmit($('#approve-button'));
	else
		unfold('#approve', 'input[name=domain], #approve-button');
}

function reject() {
	const link = focused();
	if (link)
		location.assign(link.getAttribute('href') + '#reject-form');
	else
		unfold('#reject', 'input[name=category]');
}

// ---- many at once: ticks, and the job that comes of them

function ticks() {
	return [...document.querySelectorAll('#rows .pick input')];
}

function countTicks() {
	const label = $('#ticked');
	if (!label)
		return;
	const n = ticks().filter((box) => box.checked).length;
	label.textContent = n + ' ticked:';
	$('#bulk').classList.toggle('on', n > 0);
	for (const button of document.querySelectorAll('.ticked button'))
		button.disabled = n === 0;
}

let lastTick = null;

function tick(box, range) {
	const all = ticks();
	const from = all.indexOf(lastTick), to = all.indexOf(box);
	if (range && from >= 0)
		for (const each of all.slice(Math.min(from, to), Math.max(from, to)))
			each.checked = box.checked;
	lastTick = box;
	countTicks();
}

function selectRow(range) {
	const box = focused()?.closest('.row').querySelector('.pick input');
	if (!box)
		return;
	box.checked = range || !box.checked;
	tick(box, range);
}

function selectMany(key) {
	if (key === 'm') {
		openBulk('.all summary');
		return;
	}
	for (const box of ticks())
		box.checked = key === 'a';
	lastTick = null;
	countTicks();
}

// What is ticked, else all that fit: the first button of it has the focus.
function openBulk(start) {
	const all = $('#bulk .all');
	if (!all)
		return;
	const ticked = $('#bulk .ticked button:not(:disabled)');
	if (!ticked || start)
		all.open = true;
	(start || !ticked ? all.querySelector('button') : ticked).focus();
}

async function followJob(box) {
	let answer;
	try {
		answer = await fetch(box.dataset.at, { redirect: 'error' });
		answer = answer.ok ? await answer.json() : null;
	} catch {
		answer = null;
	}
	if (answer && answer.state !== $('#job-state').textContent) {
		location.reload();
		return;
	}
	if (answer) {
		$('#job-done').textContent = answer.done;
		$('#job-failed').textContent = answer.failed;
		$('#job-bar').value = answer.done + answer.failed;
	}
	setTimeout(followJob, JOB_MS, box);
}

// ---- forms and parts of a message

function tab(view) {
	$('.tabs a[href*="view=' + view + '"]')?.click();
}

function goTo(id) {
	const part = $(id);
	if (!part)
		return;
	part.tabIndex = -1;
	part.focus();
	part.scrollIntoView({ block: 'start' });
}

function offerCopies() {
	if (!navigator.clipboard)
		return;
	for (const code of document.querySelectorAll('[data-copy]')) {
		const button = element('button', 'Copy', { type: 'button' });
		button.setAttribute('aria-label', 'Copy ' + code.textContent);
		button.addEventListener('click', async () => {
			await navigator.clipboard.writeText(code.textContent);
			button.textContent = 'Copied';
		});
		code.after(button);
	}
}

const ACTIONS = {
	next: () => move(1),
	previous: () => move(-1),
	open: () => focused()?.click(),
	select: () => selectRow(false),
	approve, reject,
	undo: () => $('#undo-button, #job-undo')?.click(),
	fresh: () => $('#fresh:not([hidden]) a')?.click(),
	text: () => tab('text'),
	html: () => tab('html'),
	diff: () => tab('diff'),
	raw: () => tab('raw'),
	links: () => goTo('#links'),
	files: () => goTo('#files'),
	comment: () => $('#comment-form textarea')?.focus(),
	take: () => $('#look:not([hidden]) button')?.click(),
	before: () => $('a[rel=prev]')?.click(),
	after: () => $('a[rel=next]')?.click(),
	many: () => awaitSecond((key) => /^[amn]$/.test(key) &&
		selectMany(key)),
	bulk: () => openBulk(),
	go: () => awaitSecond((key) => $(`.top a[href="${PLACES[key]?.[0]}"]`)
		?.click()),
	search: () => $('#find')?.focus(),
	help: () => showHelp(),
};

// The next key belongs to the one just pressed, for a moment.
let second = null, secondUntil = 0;

function awaitSecond(fn) {
	second = fn;
	secondUntil = performance.now() + SECOND_MS;
}

function isSecond(event) {
	const fn = second;
	second = null;
	if (!fn || event.repeat || performance.now() > secondUntil)
		return false;
	event.preventDefault();
	fn(event.key.toLowerCase());
	return true;
}

function isTyping(target) {
	return target instanceof Element && (target.isContentEditable ||
		target.closest('textarea, select, ' +
		'input:not([type=radio]):not([type=checkbox])') !== null);
}

function pickCategory(event) {
	const fold = $('#reject');
	if (!fold || !fold.open || !/^[1-7]$/.test(event.key))
		return false;
	const radio = fold.querySelectorAll('input[name=category]')[event.key - 1];
	radio.checked = true;
	radio.focus();
	return true;
}

// A key held down, or pressed again because the page was slow, must not
// decide the next message: keys count only after a moment of silence.
let quietUntil = performance.now() + QUIET_MS;

document.addEventListener('keydown', (event) => {
	if (event.ctrlKey && event.key === 'Enter') {
		const form = document.activeElement?.closest('form');
		if (form && form.id === 'reject-form' && !event.repeat) {
			event.preventDefault();
			form.requestSubmit($('#reject-button'));
		}
		return;
	}
	if (event.isComposing || event.keyCode === 229 || event.ctrlKey ||
	    event.altKey || event.metaKey || $('dialog[open]'))
		return;
	if (event.key === 'Escape') {
		escape();
		return;
	}
	if (isTyping(event.target) || !keys.on || event.key === 'Shift' ||
	    isSecond(event))
		return;
	const now = performance.now();
	if (event.shiftKey && event.key.toLowerCase() === keys.map.select &&
	    event.key !== keys.map.select) {
		selectRow(true);
		return;
	}
	const name = Object.keys(keys.map).find((k) => keys.map[k] === event.key);
	const isMove = ['next', 'previous', 'select', 'many', 'go'].includes(name);
	if (event.key === 'Enter' ? event.repeat || now < quietUntil :
	    name && !isMove && (event.repeat || now < quietUntil)) {
		quietUntil = now + QUIET_MS;
		event.preventDefault();
		return;
	}
	if (pickCategory(event) || !name)
		return;
	event.preventDefault();
	if (name !== 'search' && name !== 'help' && !isMove)
		quietUntil = now + QUIET_MS;
	// Enter that follows at once confirms on purpose
	if (name === 'approve' || name === 'reject')
		quietUntil = 0;
	ACTIONS[name]();
});

function escape() {
	const open = $('.only[open], .decide details[open]');
	if (open) {
		open.open = false;
		open.querySelector('summary').focus();
	} else if (isTyping(document.activeElement)) {
		document.activeElement.blur();
	} else if ($('#back')) {
		$('#back').click();
	}
}

// ---- help and settings

function element(name, text, props) {
	const made = document.createElement(name);
	if (text)
		made.textContent = text;
	return Object.assign(made, props || {});
}

function showHelp() {
	let dialog = $('dialog');
	if (dialog)
		dialog.remove();
	dialog = element('dialog');
	dialog.setAttribute('aria-label', 'Keyboard keys');
	dialog.append(element('h2', 'Keyboard keys'));
	const list = element('dl', '', { className: 'facts' });
	for (const name of Object.keys(DEFAULTS)) {
		const key = element('dt');
		key.append(element('kbd', keys.map[name]));
		list.append(key, element('dd', WORDS[name]));
	}
	const places = Object.entries(PLACES).filter(([, [at]]) =>
		$(`.top a[href="${at}"]`)).map(([key, [, word]]) =>
		[keys.map.go + ' ' + key, word]);
	for (const [key, word] of [['1–7', 'Why, while rejecting'],
		['Ctrl ↵', 'Reject'], ['Esc', 'Close, or back'], ...places]) {
		const dt = element('dt');
		dt.append(element('kbd', key));
		list.append(dt, element('dd', word));
	}
	const change = element('a', 'Change or switch off', { href: '/account' });
	const close = element('button', 'Close', { type: 'button' });
	close.addEventListener('click', () => dialog.close());
	const foot = element('p', '', { className: 'pages' });
	foot.append(close, change);
	dialog.append(list, foot);
	document.body.append(dialog);
	dialog.showModal();
}

function showSettings(box) {
	box.replaceChildren();
	const on = element('label', '', { className: 'check' });
	const tick = element('input', '', { type: 'checkbox', checked: keys.on,
		id: 'keys-on' });
	tick.addEventListener('change', () => {
		keys.on = tick.checked;
		save();
	});
	on.append(tick, element('span', 'Single keys act'));
	const list = element('div', '', { className: 'keylist' });
	for (const name of Object.keys(DEFAULTS)) {
		const id = 'key-' + name;
		const field = element('input', '', { id, maxLength: 1,
			value: keys.map[name], autocomplete: 'off' });
		field.addEventListener('change', () => {
			const key = field.value || DEFAULTS[name];
			const other = Object.keys(DEFAULTS).find((k) => k !== name &&
				keys.map[k] === key);
			field.setCustomValidity(other ? key + ' is taken: ' +
				WORDS[other] : '');
			field.reportValidity();
			if (other)
				return;
			keys.map[name] = field.value = key;
			save();
		});
		list.append(element('label', WORDS[name], { htmlFor: id }), field);
	}
	box.append(on, list);
}

// ---- one press, one decision

document.addEventListener('submit', (event) => {
	const form = event.target;
	if (form.method !== 'post')
		return;
	if (form.dataset.sent) {
		event.preventDefault();
		return;
	}
	form.dataset.sent = '1';
	(event.submitter || form.querySelector('button'))
		?.setAttribute('aria-busy', 'true');
});

// Stopped before the answer came: it may be pressed again. What a passkey
// signed was for once.
window.navigation?.addEventListener('navigateerror', () => {
	for (const form of document.querySelectorAll('form[data-sent]')) {
		delete form.dataset.sent;
		for (const button of form.querySelectorAll('[aria-busy]'))
			button.removeAttribute('aria-busy');
		for (const field of form.querySelectorAll(
			'[name=assertion], [name=attestation]'))
			field.value = '';
		for (const button of form.querySelectorAll('[data-passkey]'))
			button.disabled = false;
	}
});

// ---- passkeys: the button fills a hidden field and sends its form

const bytes = (text) => Uint8Array.from(
	atob(text.replace(/-/g, '+').replace(/_/g, '/')),
	(c) => c.charCodeAt(0));
const text64 = (buffer) => btoa(String.fromCharCode(
	...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_')
	.replace(/=+$/, '');

async function challenge(form, purpose) {
	const body = new URLSearchParams({ csrf: form.elements.csrf.value,
		purpose });
	if (purpose === 'a')
		for (const name of ['id', 'version', 'round', 'digest'])
			body.set(name, form.elements[name].value);
	const answer = await fetch(purpose === 'i' ? '/login/challenge' :
		'/account/challenge', { method: 'POST', body, redirect: 'manual' })
		.catch(() => {
			throw new Error('The server does not answer. Try again in a ' +
				'moment.');
		});
	if (answer.type === 'opaqueredirect' || answer.status === 401)
		throw new Error('The session has ended, so nothing was done. Sign ' +
			'in and do it again.');
	const got = await answer.json().catch(() => ({ error:
		'The form is not from this session. Open the page again.' }));
	if (!answer.ok)
		throw new Error(got.error);
	return got;
}

async function assertion(form, purpose) {
	const ask = await challenge(form, purpose);
	const key = await navigator.credentials.get({ publicKey: {
		challenge: bytes(ask.challenge), rpId: ask.rp, timeout: 120000,
		userVerification: 'preferred',
		allowCredentials: ask.ids.map((id) => ({ type: 'public-key',
			id: bytes(id) })),
	} });
	const r = key.response;
	return [key.rawId, r.authenticatorData, r.clientDataJSON, r.signature]
		.map(text64).join('.');
}

async function attestation(form) {
	const ask = await challenge(form, 'r');
	const key = await navigator.credentials.create({ publicKey: {
		challenge: bytes(ask.challenge), timeout: 120000,
		rp: { id: ask.rp, name: 'Postern' }, attestation: 'none',
		user: { id: bytes(ask.user), name: ask.name,
			displayName: ask.name },
		pubKeyCredParams: [{ type: 'public-key', alg: -7 },
			{ type: 'public-key', alg: -257 }],
		excludeCredentials: ask.ids.map((id) => ({ type: 'public-key',
			id: bytes(id) })),
		authenticatorSelection: { userVerification: 'preferred' },
	} });
	return text64(key.response.clientDataJSON) + '.' +
		text64(key.response.attestationObject);
}

function complain(button, error) {
	button.parentNode.querySelector('.refusal')?.remove();
	const line = element('p', error.name === 'NotAllowedError' ?
		'The passkey was not used.' : error.message || 'That did not work.',
	{ className: 'refusal' });
	line.setAttribute('role', 'alert');
	button.before(line);
	button.disabled = false;
}

function offerPasskeys() {
	if (!navigator.credentials || !window.PublicKeyCredential)
		return;
	for (const button of document.querySelectorAll('[data-passkey]')) {
		button.hidden = false;
		button.addEventListener('click', async () => {
			const form = button.form;
			if (!form.reportValidity())
				return;
			button.disabled = true;
			try {
				form.elements.assertion.value =
					await assertion(form, button.dataset.passkey);
				const send = form.querySelector(
					'button:not([type=button])');
				if (send)
					form.requestSubmit(send);
				else
					form.requestSubmit();
			} catch (error) {
				complain(button, error);
			}
		});
	}
	for (const button of document.querySelectorAll('[data-register]')) {
		button.hidden = false;
		button.form.addEventListener('submit', async (event) => {
			if (button.form.elements.attestation.value)
				return;
			event.preventDefault();
			event.stopImmediatePropagation();
			button.disabled = true;
			try {
				button.form.elements.attestation.value =
					await attestation(button.form);
				button.disabled = false;
				button.form.requestSubmit(button);
			} catch (error) {
				complain(button, error);
			}
		});
	}
}

// A click into the mail's frame takes the keys away: take them back.
window.addEventListener('blur', () => {
	const frame = document.activeElement;
	if (frame && frame.id === 'mail')
		setTimeout(() => {
			frame.blur();
			window.focus();
			$('#main').focus({ preventScroll: true });
		});
});

window.addEventListener('pageshow', (event) => {
	if (event.persisted)
		location.reload();
});

// ---- the undo clock; the server decides, this only shows

// The bar keeps its place: nothing below moves under a finger.
function endUndo(bar) {
	const button = bar.querySelector('button');
	if (document.activeElement === button)
		$('#main').focus({ preventScroll: true });
	button.disabled = true;
	bar.querySelector('.when').textContent = 'now';
	bar.classList.add('over');
}

function runUndo(bar) {
	const end = performance.now() + Number(bar.dataset.left) * 1000;
	const text = bar.querySelector('.left');
	const meter = bar.querySelector('progress');
	const timer = setInterval(() => {
		const left = (end - performance.now()) / 1000;
		if (left <= 0) {
			clearInterval(timer);
			endUndo(bar);
			return;
		}
		text.textContent = String(Math.ceil(left));
		meter.value = left;
	}, 250);
}

// ---- news: rows never move by themselves, a line says what is new. One tab
// that is seen holds the stream and tells the others.

const fresh = new Set();
let streaming = null, channel = null;

// Said when what is on the screen may be old. `why`: '' when it is not.
function showOffline(why) {
	const sign = $('#offline');
	sign.textContent = why;
	sign.hidden = why === '';
}

function tellOffline(why) {
	channel?.postMessage({ offline: why });
	showOffline(why);
}

function capped(n) {
	return n > 1000 ? '1,000+' : n === 1000 ? '1,000' : String(n);
}

function showBar(text) {
	const bar = $('#fresh');
	if (!bar)
		return;
	const link = bar.querySelector('a');
	// what is new need not fit the filter of this page
	link.href = /[?&](q|box|after)=/.test(location.search) ? '/q' :
		location.pathname + location.search;
	link.textContent = text;
	bar.hidden = false;
}

function showHeld(held) {
	const badge = $('#held');
	const text = capped(held);
	if (fresh.size > 0)
		showBar(fresh.size + ' new. Show ' +
			(fresh.size === 1 ? 'it' : 'them'));
	else if (text !== badge.textContent)
		showBar('The queue has changed: ' + text + ' waiting. Show it');
	badge.textContent = text;
	badge.hidden = held === 0;
	document.title = document.title.replace(/^(\([^)]*\) )?/,
		held > 0 ? '(' + text + ') ' : '');
}

function showLooks(looks) {
	for (const old of document.querySelectorAll('.chip.looks'))
		old.remove();
	for (const row of document.querySelectorAll('#queue .row')) {
		const who = looks[row.dataset.id];
		if (who)
			row.querySelector('.c-subject').append(' ', element('span',
				who + ' has it open', { className: 'chip looks' }));
	}
	const banner = $('#look');
	const who = banner && looks[$('#msg').dataset.id];
	if (!banner)
		return;
	banner.hidden = !who || who === banner.dataset.me;
	if (who)
		$('#looker').textContent = who;
}

// A tab that shows another tenant may hold the stream: then this one asks.
let askedAt = 0;

function isOfHere(news) {
	if (String(news.only || '') === (document.body.dataset.only || ''))
		return true;
	if (!document.hidden && performance.now() > askedAt + COUNT_MS) {
		askedAt = performance.now();
		ask().then((own) => own && isOfHere(own) && showHeld(own.held));
	}
	return false;
}

function hear(news) {
	showOffline(news.offline || '');
	if (news.offline || !isOfHere(news))
		return;
	for (const id of news.new || [])
		if (id > document.body.dataset.mark &&
		    !$(`#rows [data-id="${id}"]`))
			fresh.add(id);
	showHeld(news.held);
	if (news.looks)
		showLooks(news.looks);
}

function tell(news) {
	channel?.postMessage(news);
	hear(news);
}

async function ask() {
	try {
		const answer = await fetch('/counts', {
			headers: { Accept: 'application/json' },
			redirect: 'error',
		});
		if (answer.ok)
			return await answer.json();
		tellOffline(answer.status === 401 ? 'Signed out' : 'Offline');
	} catch {
		tellOffline('Offline');
	}
	return null;
}

async function poll() {
	const news = document.hidden ? null : await ask();
	if (news)
		tell(news);
}

// Resolves when this tab no longer leads: it is hidden, or gets no stream.
function stream() {
	return new Promise((resolve) => {
		const source = new EventSource('/events?after=' +
			document.body.dataset.mark);
		let polls = 0;
		streaming = () => {
			source.close();
			clearInterval(polls);
			clearTimeout(lost);
			streaming = null;
			resolve();
		};
		let lost = 0;
		source.onopen = () => {
			clearTimeout(lost);
			lost = 0;
			tellOffline('');
		};
		source.onmessage = (event) => tell(JSON.parse(event.data));
		source.onerror = () => {
			if (source.readyState !== EventSource.CLOSED) {
				lost = lost || setTimeout(tellOffline, LOST_MS,
					'Offline');
			} else if (!polls) {
				polls = setInterval(poll, COUNT_MS);
				poll();
			}
		};
	});
}

let wanted = false;

async function lead() {
	if (document.hidden || wanted)
		return;
	wanted = true;
	await navigator.locks.request('postern.live', () => {
		wanted = false;
		return document.hidden ? null : stream();
	});
}

function follow() {
	if (!navigator.locks || !window.EventSource || !window.BroadcastChannel) {
		setInterval(poll, COUNT_MS);
		return;
	}
	channel = new BroadcastChannel('postern.live');
	channel.onmessage = (event) => hear(event.data);
	document.addEventListener('visibilitychange', () => {
		if (document.hidden)
			streaming?.();
		else
			lead();
	});
	lead();
}

// ---- who has a message open: said again while it is, and at the end

function look(to) {
	const form = $('#look');
	const body = new URLSearchParams({ csrf: form.elements.csrf.value, to });
	if (to === 'end')
		navigator.sendBeacon(form.action, body);
	else
		fetch(form.action, { method: 'POST', body });
}

function keepLooking() {
	setInterval(() => {
		if (!document.hidden && $('#look').hidden)
			look('keep');
	}, LOOK_MS);
	window.addEventListener('pagehide', () => {
		if ($('#look').hidden)
			look('end');
	});
}

// ---- start

function openTarget() {
	if (location.hash === '#approve-form')
		unfold('#approve', 'input[name=domain], #approve-button');
	else if (location.hash === '#reject-form')
		unfold('#reject', 'input[name=category]');
}

// Times stand in UTC, for all who read them alike; the reader's own is beside.
function sayLocalTime(event) {
	const time = event.target.closest?.('time[datetime]');
	if (!time || time.dataset.local)
		return;
	time.dataset.local = new Date(time.dateTime).toLocaleString([],
		{ dateStyle: 'medium', timeStyle: 'long' });
	time.title += ' = ' + time.dataset.local;
}

function start() {
	const help = $('#help-open');
	if (help) {
		help.hidden = false;
		help.addEventListener('click', showHelp);
	}
	$('.top nav [aria-current]')?.scrollIntoView({ inline: 'center',
		block: 'nearest' });
	if ($('#job')?.dataset.runs)
		setTimeout(followJob, JOB_MS, $('#job'));
	for (const box of ticks())
		box.addEventListener('click', (event) => tick(box, event.shiftKey));
	countTicks();
	if ($('#keys'))
		showSettings($('#keys'));
	if ($('#undo'))
		runUndo($('#undo'));
	if ($('#held'))
		follow();
	if ($('#look'))
		keepLooking();
	$('#error')?.focus();
	offerPasskeys();
	offerCopies();
	openTarget();
	window.addEventListener('hashchange', openTarget);
	document.addEventListener('pointerover', sayLocalTime);
	document.addEventListener('focusin', () => {
		const link = focused();
		if (link)
			remember(link);
	});
	if (rows().length > 0) {
		const at = sessionStorage.getItem('at');
		rows().find((link) => link.getAttribute('href') === at)?.focus();
	}
	document.documentElement.dataset.ready = '1';
}

start();

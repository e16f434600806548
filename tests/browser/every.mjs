// SPDX-License-Identifier: ISC
// node every.mjs DIR: a picture of every page at 1280 and 390 pixels, light
// and dark, to look at: pages as they come, then states that a press leads to.
// DIR is made; nothing of it belongs into a commit.
import fs from 'node:fs';
import path from 'node:path';
import { Stack, launch, visitor, signIn, ready } from './lib.mjs';
import { everything } from './states.mjs';

const dir = process.argv[2];
if (!dir) {
	console.error('usage: node every.mjs DIR');
	process.exit(2);
}
fs.mkdirSync(dir, { recursive: true });

const stack = await Stack.start();
const empty = await Stack.start({ STACK_EMPTY: '1' });
const browser = await launch();
try {
	const { pages, presses } = await everything(stack, browser);
	for (const width of [1280, 390])
		for (const theme of ['light', 'dark']) {
			const look = { colorScheme: theme, isMobile: width < 700,
				hasTouch: width < 700,
				viewport: { width, height: width < 700 ? 844 : 800 } };
			const context = await visitor(browser, stack, look);
			const page = await context.newPage();
			const shot = (name) => page.screenshot({ fullPage: true,
				path: path.join(dir, `${name}-${width}-${theme}.png`) });
			await page.goto(empty.url + '/setup');
			await shot('first-run');
			await page.goto('/login');
			await shot('login');
			await signIn(page, stack);
			for (const [name, at] of Object.entries(pages)) {
				await page.goto(at);
				await ready(page);
				await shot(name);
			}
			for (const [name, press] of Object.entries(presses)) {
				await press(page);
				await ready(page);
				await shot(name);
			}
			await context.close();
		}
} finally {
	await browser.close();
	await stack.stop();
	await empty.stop();
}

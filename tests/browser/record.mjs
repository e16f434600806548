// SPDX-License-Identifier: ISC
// What became of a message, and subjects that only the helper reads.
// With SHOTS=DIR it leaves pictures there.
import assert from 'node:assert/strict';
import path from 'node:path';
import { signIn, mail } from './lib.mjs';

// Subjects as the gateway keeps them: words in charsets it does not decode.
const SUBJECTS = [
	['=?iso-2022-jp?B?GyRCOCtAUT1xJE43bxsoQg==?=', '見積書の件'],
	['=?windows-1251?B?0fe48iDn4CDt7v/h8Pw=?=', 'Счёт за ноябрь'],
	['=?euc-kr?B?sejDtrz2tNQ=?= (2)', '김철수님 (2)'],
];

export default function ({ test, using, held, stack }) {
	const shoot = async (page, name) => {
		if (!process.env.SHOTS)
			return;
		for (const width of [1280, 390]) {
			await page.setViewportSize({ width, height: 900 });
			await page.screenshot({ fullPage: true,
				path: path.join(process.env.SHOTS, `${name}-${width}.png`) });
		}
		await page.setViewportSize({ width: 1280, height: 800 });
	};

	test('subjects in other charsets read the same in lists and on pages', () =>
		using({}, async (page) => {
			const ids = [];
			for (const [subject] of SUBJECTS)
				ids.push(await held({ subject, risk: 95,
					raw: mail({ subject }) }));
			await signIn(page, stack);
			// Asked again: a busy machine gives the helper too little time.
			for (const [i, [, text]] of SUBJECTS.entries()) {
				const row = page.locator(`.row[data-id="${ids[i]}"] .hit`);
				for (let left = 20; left > 0 &&
					await row.textContent() !== text; left--)
					await page.reload();
				assert.equal(await row.textContent(), text);
			}
			assert.doesNotMatch(await page.textContent('#rows'), /=\?/);
			await shoot(page, 'subjects');
			for (const [i, [, text]] of SUBJECTS.entries()) {
				await page.goto('/m/' + ids[i]);
				assert.equal(await page.textContent('#subject'), text);
			}
		}));
}

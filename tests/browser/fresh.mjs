// SPDX-License-Identifier: ISC
// fresh.mjs QUICKSTART.json [ROOT]: sign in, download what waits, approve it,
// and compare what the capture server got with the bytes that were shown.
import { chromium } from 'playwright-core';
import fs from 'node:fs';
import path from 'node:path';

const facts = JSON.parse(fs.readFileSync(process.argv[2]));
const folder = path.join(process.argv[3] ?? '/', facts.capture_dir);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--headless', '--disable-gpu', '--no-first-run',
    '--disable-background-networking', '--disable-component-update',
    '--disable-sync'],
});
const context = await browser.newContext({ ignoreHTTPSErrors: true });
const page = await context.newPage();
await page.goto(facts.admin_url);
await page.fill('input[name=name]', facts.operator);
await page.fill('input[name=password]', facts.operator_password);
await page.click('button.primary');
await page.waitForURL(/\/q/);
const links = new Set(await page.$$eval('a[href^="/m/"]',
  (all) => all.map((a) => a.getAttribute('href'))));
if (links.size < 2) throw new Error(`only ${links.size} messages wait`);
const frozen = [];
for (const link of links) {
  const raw = await context.request.get(`${facts.admin_url}${link}/download`);
  frozen.push(await raw.body());
  await page.goto(facts.admin_url + link);
  // from medium risk on a fold names the recipients first
  if (await page.locator('#approve > summary').count())
    await page.click('#approve > summary');
  await page.locator('#approve-button').click();
  await page.waitForURL(/said=approved/);
}
await browser.close();
const arrived = () => fs.readdirSync(folder).filter(
  (n) => /^\d+\.json$/.test(n));
await new Promise((resolve, reject) => {
  const look = () => {
    if (arrived().length < frozen.length) return;
    watcher.close();
    clearTimeout(timer);
    resolve();
  };
  const watcher = fs.watch(folder, look);
  const timer = setTimeout(() => reject(new Error('nothing arrived')),
    (facts.undo_seconds + 60) * 1000);
  look();
});
// In front of the frozen bytes the worker says by whom they were reviewed.
const identity = /^Postern-Identity: [^\r\n]+(\r\n[ \t][^\r\n]+)*\r\n/;
const got = arrived().map((n) => {
  const bytes = fs.readFileSync(path.join(folder, n.replace('.json', '.eml')));
  const field = identity.exec(bytes.toString('latin1'));
  if (!field)
    throw new Error('a message without Postern-Identity');
  return bytes.subarray(field[0].length);
});
for (const bytes of frozen) {
  if (!got.some((g) => g.equals(bytes)))
    throw new Error('what arrived is not what was shown');
}
console.log(`${frozen.length} messages arrived byte for byte`);

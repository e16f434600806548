// SPDX-License-Identifier: ISC
// verify.js RECORDS.json FILE...: verify DKIM with mailauth; TXT records come
// from a file {"name": "text"}. One JSON line a file:
// [{selector, algo, result, comment}].
'use strict';
const fs = require('fs');
const { dkimVerify } = require('mailauth/lib/dkim/verify');

const records = JSON.parse(fs.readFileSync(process.argv[2]));

async function resolver(name, type) {
	if (type === 'TXT' && records[name])
		return [[records[name]]];
	const e = new Error('no such name');
	e.code = 'ENOTFOUND';
	throw e;
}

(async () => {
	for (const file of process.argv.slice(3)) {
		const done = await dkimVerify(fs.readFileSync(file), { resolver });
		console.log(JSON.stringify(done.results.map((r) => ({
			selector: r.selector, algo: r.algo,
			result: r.status.result, comment: r.status.comment || '',
			signed: r.signingHeaders ? r.signingHeaders.keys : '' }))));
	}
})();

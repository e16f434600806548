// SPDX-License-Identifier: ISC
// node validate.mjs FILE: is it an OpenAPI document? Says what is not.
import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";

const validator = new Validator();
const found = await validator.validate(
	JSON.parse(readFileSync(process.argv[2], "utf8")));
console.log(JSON.stringify({ valid: found.valid, version: validator.version,
	errors: found.errors ?? [] }));

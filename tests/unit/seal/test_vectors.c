/* SPDX-License-Identifier: ISC */
/*
 * The values of tests/unit/vectors/reference.py, which computes them with
 * other libraries, and round trips of what is random.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "seal/audit.h"
#include "seal/body.h"
#include "seal/key.h"
#include "seal/keyfile.h"
#include "seal/release.h"
#include "seal/verp.h"

static const char token[] = "pst_live_3_12_0001081g81860w40j2gb1g6gw3"
			    "rg2491650n2rbhg68t3ce1t7gz19b98z7";

static const struct {
	const char *name, *hex;
} vectors[] = { { "auth", "e2578e8e6a3d0b6df2a133941425ffcc"
			  "55847024ea38f6089f266e25cb67468c" },
	{ "kek", "3fb4a7f4761f23d43b2bd898f604b6c2"
		 "ecea35bb2a2a9303c9a2130ceeb0f927" },
	{ "idem", "b59b796378a8a72167fbcd6539ffc966"
		  "cfbc891d06b289909a4d8172980d0528" },
	{ "message_key", "fd6cfb9437b5e977eb82c554d493df4d"
			 "7f36756a1c6f18466e9b3b3eaf072e6a" },
	{ "body_tag", "9167bd70eefaa3c8b7e90cdd40824b89"
		      "4c925c50722aeb9a4b5395347cb11250" },
	{ "digest", "8eb3a7be5a35a3bf6a4ce7eac499fb1b"
		    "95ed272eded6ea265a4f52ecf47fc4b2" },
	{ "approve", "e4fe6952864188707b67cc80ae175e31"
		     "2af7098a22fa31c05797fad1e57b3be7" },
	{ "policy", "8821aa1db9c1762fbee77793c8346077"
		    "f6a12caf92f6a4cb3e3e1f38845e303e" },
	{ "row", "0df9e9db7a0123dee4bf24ab5b72f07f"
		 "4fcd7d48f3bf269bf5170478b48befee" },
	{ "block", "f5b4b7f93785479db51fb5b6dd69b593"
		   "b6899780441474f7f6a6285f2b045645" } };

static void
expect(const char *name, const unsigned char *got)
{
	char hex[65];
	size_t i;

	hex_encode(hex, got, 32);
	for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		if (strcmp(vectors[i].name, name) == 0) {
			assert_string_equal(hex, vectors[i].hex);
			return;
		}
	}
	fail_msg("no vector %s", name);
}

static struct seal_id
message_id(void)
{
	struct seal_id id = { .tenant = 3, .inbox = 9, .version = 1 };
	size_t i;

	for (i = 0; i < 16; i++)
		id.deployment[i] = (unsigned char)i;
	assert_true(hex_decode(
	    id.message.b, 16, "01890000000070008000000000000001", 32));
	return id;
}

static struct secret
key_of(unsigned char c)
{
	struct secret k = { .n = 32 };

	memset(k.b, c, 32);
	return k;
}

static void
test_token(void **state)
{
	char text[SEAL_TOKEN_MAX], bent[SEAL_TOKEN_MAX];
	struct seal_token t;
	struct secret out;
	size_t i;

	(void)state;
	assert_true(seal_token_parse(&t, str_of(token)));
	assert_int_equal(t.tenant, 3);
	assert_int_equal(t.key, 12);
	seal_token_format(text, &t);
	assert_string_equal(text, token);
	seal_token_auth(&out, &t.s);
	expect("auth", out.b);
	seal_token_kek(&out, &t.s);
	expect("kek", out.b);
	seal_token_idem(&out, &t.s);
	expect("idem", out.b);
	for (i = 0; i < sizeof(token) - 1; i++) {
		memcpy(bent, token, sizeof(token));
		bent[i] = bent[i] == '1' ? '2' : '1';
		assert_false(seal_token_parse(&t, str_of(bent)));
		assert_false(seal_token_parse(&t, (struct str){ token, i }));
	}
}

static void
test_tags(void **state)
{
	struct seal_id id = message_id();
	struct seal_release r = { .epoch = 5,
		.tenant = 3,
		.inbox = 9,
		.message = id.message,
		.version = 1,
		.round = 2,
		.expiry = 1700000000000000 };
	struct secret key = key_of(7), mk, priv;
	unsigned char out[32], pub[32], box[SEAL_RELAY_BOX];

	(void)state;
	memcpy(r.deployment, id.deployment, 16);
	seal_message_key(&mk, &key, &id);
	expect("message_key", mk.b);
	hex_decode(r.digest, 32, vectors[5].hex, 64);
	assert_string_equal(vectors[5].name, "digest");
	seal_tag_approve(out, &key, &r);
	expect("approve", out);
	assert_true(seal_tag_eq(out, (struct str){ (char *)out, 32 }));
	seal_tag_policy(out, &key, &r, 4, 6);
	expect("policy", out);
	seal_pair_new(pub, &priv);
	seal_relay_box(box, pub, &mk, &r);
	assert_true(seal_relay_open(
	    &key, (struct str){ (char *)box, sizeof(box) }, pub, &priv, &r));
	assert_memory_equal(key.b, mk.b, 32);
	r.round++;
	assert_false(seal_relay_open(
	    &key, (struct str){ (char *)box, sizeof(box) }, pub, &priv, &r));
	assert_int_equal(key.n, 0);
}

static void
test_audit(void **state)
{
	struct seal_id id = message_id();
	struct seal_audit_row row = { .gen = 1,
		.xid = 2,
		.n = 3,
		.tenant = 3,
		.at_us = 1700000000000000,
		.actor = str_lit("op:1"),
		.event = str_lit("message.approved"),
		.message = { (char *)id.message.b, 16 },
		.detail = str_lit("{}") };
	unsigned char out[32], zero[32] = { 0 }, pub[32], sig[64];
	struct seal_audit_block *b = seal_audit_begin(zero);
	struct secret seed = key_of(1);

	(void)state;
	seal_audit_row(out, &row);
	expect("row", out);
	seal_audit_add(b, out);
	seal_audit_end(b, out);
	expect("block", out);
	seal_audit_pub(pub, &seed);
	seal_audit_sign(sig, &seed, 1, out, 1);
	assert_true(
	    seal_audit_verify((struct str){ (char *)sig, 64 }, pub, 1, out, 1));
	assert_false(
	    seal_audit_verify((struct str){ (char *)sig, 64 }, pub, 2, out, 1));
}

struct chunks {
	struct buf data[8];
	size_t n;
	struct buf plain;
};

static void
on_chunk(void *arg, uint32_t seq, const void *p, size_t n, bool last)
{
	struct chunks *c = arg;

	(void)last;
	assert_int_equal(seq, c->n);
	assert_true(n <= SEAL_CHUNK_MAX);
	buf_add(&c->data[c->n++], p, n);
}

static void
on_plain(void *arg, const void *p, size_t n)
{
	buf_add(&((struct chunks *)arg)->plain, p, n);
}

/* Sizes around every edge; each flipped, dropped or cut chunk is found. */
static void
body_case(struct seal_zstd *z, size_t size, bool random)
{
	struct seal_id id = message_id();
	struct secret key = key_of(9);
	struct chunks c = { 0 };
	struct seal_body *b = seal_body_new(z, &key, &id, on_chunk, &c);
	struct seal_open *o;
	struct buf in = { 0 };
	size_t i;
	bool ok = true;

	for (i = 0; i < size; i++)
		buf_u8(&in, random ? (i * 2654435761u >> 13) & 255 : 'a');
	for (i = 0; i < size; i += 7001)
		seal_body_add(b, in.p + i, size - i < 7001 ? size - i : 7001);
	seal_body_finish(b);
	seal_body_free(b);
	o = seal_open_new(z, &key, &id, on_plain, &c);
	for (i = 0; i < c.n; i++) {
		assert_false(seal_open_finish(o));
		assert_true(seal_open_chunk(o, c.data[i].p, c.data[i].n));
	}
	assert_true(seal_open_finish(o));
	seal_open_free(o);
	assert_int_equal(c.plain.n, size);
	if (size > 0)
		assert_memory_equal(c.plain.p, in.p, size);
	c.data[c.n - 1].p[c.data[c.n - 1].n / 2] ^= 1;
	o = seal_open_new(z, &key, &id, on_plain, &c);
	for (i = 0; i < c.n; i++)
		ok = seal_open_chunk(o, c.data[i].p, c.data[i].n) && ok;
	assert_false(ok && seal_open_finish(o));
	seal_open_free(o);
	for (i = 0; i < c.n; i++)
		buf_free(&c.data[i]);
	buf_free(&c.plain);
	buf_free(&in);
}

static void
test_body(void **state)
{
	static const size_t sizes[] = { 0, 1, 64, 65, 65535, 65536, 65537,
		262143, 262144, 262145, 600000 };
	struct seal_zstd *z = seal_zstd_new();
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		body_case(z, sizes[i], false);
		body_case(z, sizes[i], true);
	}
	seal_zstd_free(z);
}

static void
test_boxes(void **state)
{
	unsigned char pub[32], other[32], wrapped[SEAL_WRAPPED_LEN];
	struct secret priv, priv2, kek = key_of(3), out;
	struct seal_hour h;

	(void)state;
	seal_pair_new(pub, &priv);
	seal_pair_new(other, &priv2);
	seal_wrap(wrapped, &kek, pub, &priv);
	assert_true(seal_unwrap(
	    &out, &kek, pub, (struct str){ (char *)wrapped, sizeof(wrapped) }));
	assert_true(secret_eq(&out, &priv));
	assert_false(seal_unwrap(&out, &kek, other,
	    (struct str){ (char *)wrapped, sizeof(wrapped) }));
	seal_hour_new(&h, pub, other);
	assert_true(seal_hour_open(&out,
	    (struct str){ (char *)h.inbox_box, SEAL_HOUR_BOX }, other, &priv2));
	assert_true(secret_eq(&out, &h.key));
	assert_false(seal_hour_open(&out,
	    (struct str){ (char *)h.inbox_box, SEAL_HOUR_BOX }, pub, &priv));
	seal_hour_wipe(&h);
}

static void
test_keyfile(void **state)
{
	char dir[] = "/tmp/postern-keyfile-XXXXXX", key[64], pub[64];
	struct secret s, p;
	struct err err;
	unsigned char want[32];

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(key, sizeof(key), "%s/key", dir);
	(void)snprintf(pub, sizeof(pub), "%s/pub", dir);
	assert_true(seal_keyfile_new(key, SEAL_KEYFILE_REVIEW, pub, &err));
	assert_false(seal_keyfile_new(key, SEAL_KEYFILE_REVIEW, pub, &err));
	assert_true(seal_keyfile_load(&s, key, SEAL_KEYFILE_REVIEW, &err));
	assert_true(seal_keyfile_load(&p, pub, SEAL_KEYFILE_REVIEW_PUB, &err));
	seal_pair_pub(want, &s);
	assert_memory_equal(want, p.b, 32);
	assert_false(seal_keyfile_load(&s, key, SEAL_KEYFILE_RELAY, &err));
	assert_int_equal(chmod(key, 0644), 0);
	assert_false(seal_keyfile_load(&s, key, SEAL_KEYFILE_REVIEW, &err));
	(void)unlink(key);
	(void)unlink(pub);
	(void)rmdir(dir);
}

/* A return path reads back; a changed letter, another key, time do not. */
static void
test_verp(void **state)
{
	static const char *const inboxes[] = { "bot@acme.example",
		"a.long-local+tag21@x.example" };
	struct secret k = { .n = 32 }, other = { .n = 32, .b = { 1 } };
	struct uuid id = { { 1, 2, 3 } }, got;
	struct buf path = { 0 }, inbox = { 0 };
	const int64_t now = INT64_C(1800000000) * 1000000;
	size_t i, at;

	(void)state;
	for (i = 0; i < 2; i++) {
		buf_clear(&path);
		assert_true(
		    seal_verp_make(&path, &k, str_of(inboxes[i]), &id, now));
		assert_true(path.n < 64 + sizeof("@acme.example"));
		assert_true(
		    seal_verp_read(&k, buf_str(&path), now, &inbox, &got));
		assert_string_equal(buf_cstr(&inbox), inboxes[i]);
		assert_true(uuid_eq(&got, &id));
		path.p[0] ^= 0x20; /* case */
		assert_true(
		    seal_verp_read(&k, buf_str(&path), now, &inbox, &got));
		assert_false(
		    seal_verp_read(&other, buf_str(&path), now, &inbox, &got));
		assert_false(seal_verp_read(&k, buf_str(&path),
		    now + INT64_C(2) * 86400 * 1000000, &inbox, &got));
	}
	for (at = 0; at < path.n; at++) {
		unsigned char was = path.p[at];

		path.p[at] = was == '7' ? '8' : '7';
		assert_false(
		    seal_verp_read(&k, buf_str(&path), now, &inbox, &got));
		path.p[at] = was;
	}
	buf_clear(&path);
	assert_false(seal_verp_make(
	    &path, &k, str_lit("a-local-part-of-22-oct@x.example"), &id, now));
	assert_int_equal(path.n, 0);
	assert_false(
	    seal_verp_read(&k, str_lit("bot@acme.example"), now, &inbox, &got));
	buf_free(&path);
	buf_free(&inbox);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_token),
		cmocka_unit_test(test_verp),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_audit),
		cmocka_unit_test(test_body),
		cmocka_unit_test(test_boxes),
		cmocka_unit_test(test_keyfile),
	};

	if (!seal_init(NULL))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

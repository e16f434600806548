/* SPDX-License-Identifier: ISC */
/* What is accepted is emitted and read again as the same address. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "base/xalloc.h"
#include "mail/address.h"
#include "mail/mailbox.h"

static bool
on_mailbox(void *arg, const struct mailbox *m)
{
	struct buf text = { 0 };

	(void)arg;
	mailbox_name_text(&text, m);
	buf_free(&text);
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct str s = { (const char *)p, n };
	struct address a, b;
	struct mailbox m;
	const char *why;
	size_t used;

	if (address_parse(&a, s) == ADDRESS_OK) {
		BUG_ON(strlen(a.wire) != n || memcmp(a.wire, p, n) != 0);
		BUG_ON(address_parse(&b, str_of(a.wire)) != ADDRESS_OK);
		BUG_ON(!address_eq(&a, &b));
		BUG_ON(address_parse(&b, str_of(a.canonical)) != ADDRESS_OK);
		BUG_ON(strcmp(b.canonical, a.canonical) != 0);
		BUG_ON(strpbrk(a.wire, "\r\n") != NULL);
		(void)address_inbox_valid(&a, &why);
		(void)address_domain_public(&a);
	}
	(void)address_parse_path(&a, s, &used);
	BUG_ON(used > n);
	(void)mailbox_list_parse(s, on_mailbox, NULL, &why);
	if (mailbox_parse_strict(s, &m, &why))
		BUG_ON(!mailbox_list_parse(s, NULL, NULL, &why));
	return 0;
}

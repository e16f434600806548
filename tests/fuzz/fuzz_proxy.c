/* SPDX-License-Identifier: ISC */
/* A PROXY header is found only whole, and never beyond what is there. */
#include "tests/fuzz/fuzz.h"

#include "base/xalloc.h"
#include "net/peer.h"
#include "net/proxy.h"

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	enum net_proxy_result whole, part;
	struct net_peer peer;
	size_t used = 0, cut, i;

	net_peer_init(&peer, NULL);
	whole = net_proxy_parse(p, n, &peer, &used);
	BUG_ON(whole == NET_PROXY_OK && used > n);
	for (i = 0; whole == NET_PROXY_OK && i < used; i++) {
		part = net_proxy_parse(p, i, &peer, &cut);
		BUG_ON(part != NET_PROXY_MORE);
	}
	return 0;
}

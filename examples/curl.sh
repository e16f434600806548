#!/bin/sh
# SPDX-License-Identifier: ISC
# Send by REST with curl, and wait a moment for news. An unclear failure?
# Run it again with the same Idempotency-Key: the mail is never stored twice.
set -eu
key=${1:-report-2026-01-31}
curl -sS --fail-with-body "$POSTERN_URL/v1/messages/send" \
	-H "Authorization: Bearer $POSTERN_KEY" \
	-H "Idempotency-Key: $key" \
	--json '{"to": ["ann@example.org"], "subject": "From curl",
		"text": "Hello.", "context": {"purpose": "an example"}}'
curl -sS --fail-with-body "$POSTERN_URL/v1/wait?timeout=1" \
	-H "Authorization: Bearer $POSTERN_KEY"

/* SPDX-License-Identifier: ISC */
/*
 * fuzz.h - each target reads bytes and checks promises with BUG_ON().
 *
 * With libFuzzer (`make fuzz`) the targets search; with replay.c they run the
 * files below tests/fuzz/seeds/ and need no clang.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

#endif

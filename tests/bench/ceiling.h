/* Ceilings: the best speed of this machine's memory and arithmetic units, measured with its widest
 * instructions, so that other figures can be stated as shares of them. */
#ifndef MOEFS_TESTS_BENCH_CEILING_H
#define MOEFS_TESTS_BENCH_CEILING_H

#include "cache/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Operand types of a multiply-accumulate. An operation is a multiplication or an addition: two
 * each. */
enum peak { PEAK_INT8, PEAK_BF16, PEAK_FP32, PEAK_COUNT };

struct ceiling {
	uint8_t *memory; /* to read from, much larger than any cache */
	size_t bytes;
	uint32_t threads; /* that will read at once, at most: each has a part of its own */
	double seconds;	  /* of one measurement */
};

/* Bytes of all last caches of the machine, as it says itself; 0: it does not. */
size_t ceiling_cache_bytes(void);
/* Memory to read from: eight times the last caches, so that they hold little of it, and 256 MiB at
 * least; but no more than a quarter of the machine's memory. */
size_t ceiling_bytes(void);
int ceiling_open(struct ceiling *c, size_t bytes, uint32_t threads, double seconds, struct err *e);
void ceiling_close(struct ceiling *c); /* a zeroed one is fine */

/* Bytes per second that `threads` threads together read from memory. */
int ceiling_read(const struct ceiling *c, uint32_t threads, double *rate, struct err *e);
/* Operations per second with operands in registers. 0: there is no such instruction. */
int ceiling_peak(const struct ceiling *c, enum peak p, uint32_t threads, double *rate,
		 struct err *e);
/* The instruction it uses; NULL: none. */
const char *ceiling_peak_instruction(enum peak p);
const char *ceiling_read_instruction(void);

/* ---- between ceiling.c and the files of instruction sets ---- */

/* Reads all of from[bytes], bytes a multiple of 4096 and from aligned to 64. The value depends on
 * every byte, so that no read can be optimised away. */
typedef uint64_t ceiling_read_fn(const uint8_t *from, size_t bytes);
/* Makes `repeats` rounds of independent multiply-accumulates; returns how many operations. */
typedef double ceiling_peak_fn(uint32_t repeats);

struct ceiling_reader {
	const char *instruction;
	bool (*here)(void); /* whether this machine has it */
	ceiling_read_fn *read;
};
struct ceiling_unit {
	enum peak peak;
	const char *instruction;
	bool (*here)(void);
	ceiling_peak_fn *run;
};
/* The fastest first; ended by an entry without a function. */
#if defined(__x86_64__)
extern const struct ceiling_reader ceiling_x86_readers[];
extern const struct ceiling_unit ceiling_x86_units[];
#endif

#endif

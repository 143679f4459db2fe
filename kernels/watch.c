#include "kernels/watch.h"

#if WATCHED
/* The calls that the compiler inserts for a range of memory. */
void __tsan_read_range(void *memory,
		       unsigned long bytes); /* NOLINT(bugprone-reserved-identifier) */
void __tsan_write_range(void *memory,
			unsigned long bytes); /* NOLINT(bugprone-reserved-identifier) */
void __tsan_read1(void *memory);	      /* NOLINT(bugprone-reserved-identifier) */
#else
#define __tsan_read_range(memory, bytes) ((void)(memory))
#define __tsan_write_range(memory, bytes) ((void)(memory))
#define __tsan_read1(memory) ((void)(memory))
#endif

void watch_read(const void *memory, size_t bytes)
{
	if (WATCHED && memory && bytes)
		__tsan_read_range((void *)memory, bytes);
}

void watch_lines(const void *memory, size_t bytes)
{
	if (!WATCHED)
		return;
	for (size_t at = 0; memory && at < bytes; at += WATCH_LINE)
		__tsan_read1((uint8_t *)memory + at);
}

void watch_write(void *memory, size_t bytes)
{
	if (WATCHED && memory && bytes)
		__tsan_write_range(memory, bytes);
}

void watch_pieces(const struct shape *s, const struct pieces *from)
{
	if (!WATCHED)
		return;
	watch_read(from->weights, format_packed_bytes(s));
	watch_read(from->scales, format_norm_bytes(s));
	watch_read(from->biases, format_bias_bytes(s));
}

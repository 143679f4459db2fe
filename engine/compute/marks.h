/* Which of a bounded number of positions to go back to is missed least (recurrent.h, kv_table.h).
 */
#ifndef MOEFS_ENGINE_COMPUTE_MARKS_H
#define MOEFS_ENGINE_COMPUTE_MARKS_H

#include <stddef.h>
#include <stdint.h>

/* Of a context. */
enum { MARKS_MOST = 8 };

/* The index of one of `count` >= 1 ascending positions before `end`: around it the distance between
 * its neighbours, over how far back it lies, is the smallest. So marks thin out with their distance
 * from the end. */
uint32_t marks_least_missed(const size_t *positions, uint32_t count, size_t end);

#endif

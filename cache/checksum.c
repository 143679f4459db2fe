#include "cache/checksum.h"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
/* NULL if libxxhash, as linked or as found at start, lacks them. */
#pragma weak XXH3_64bits_dispatch
#pragma weak XXH3_64bits_update_dispatch
#define FASTEST(function) (function##_dispatch ? function##_dispatch : function)
#else
#define FASTEST(function) function
#endif

uint64_t checksum_of(const void *bytes, size_t n)
{
	return FASTEST(XXH3_64bits)(bytes, n);
}

/* XXH3 fails only for NULL, and then there is nothing to add. */
void checksum_update(XXH3_state_t *state, const void *bytes, size_t n)
{
	(void)FASTEST(XXH3_64bits_update)(state, bytes, n);
}

/* The memory of arrays. See arena.h. */
#include "engine/compute/arena.h"

#include <errno.h>
#include <sys/mman.h>

/* A mapping of its own, so that the system has the memory back as soon as it is freed; and
 * populated, because memory that is counted as taken but not yet touched would look free. */
void *arena_map(size_t bytes, struct err *e)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory != MAP_FAILED)
		return memory;
	err_set(e, ENOMEM, "out of memory for %zu MB of activations", bytes >> 20);
	return NULL;
}

void arena_unmap(void *memory, size_t bytes)
{
	if (memory)
		(void)munmap(memory, bytes);
}

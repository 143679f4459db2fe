/* Who we are. See identity.h.
 *
 * A tree may be served by gateways of several machines and containers. A process is told by its
 * number and the time of its start, and what its number means by the machine and its namespace of
 * processes. */
#include "fs/gateway/identity.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t hash(uint32_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

static uint32_t machine(void)
{
	char text[256] = "", space[64] = "";
	FILE *file = fopen("/etc/machine-id", "re");
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	if (file)
		fclose(file);
	if (!n)
		(void)gethostname(text, sizeof text - 1);
	ssize_t m = readlink("/proc/self/ns/pid", space, sizeof space - 1);
	space[m > 0 ? m : 0] = 0;
	return hash(hash(2166136261u, text), space);
}

/* The 22nd field of /proc/PROCESS/stat; 0: there is none such. Its name may have blanks and
 * brackets. */
static unsigned long long start_of(long process)
{
	char path[64], text[1024];
	(void)snprintf(path, sizeof path, "/proc/%ld/stat", process);
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
	if (file)
		fclose(file);
	text[n] = 0;
	const char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

void identity_make(char *id, size_t size)
{
	long process = (long)getpid();
	(void)snprintf(id, size, "%08x.%ld.%llu", machine(), process, start_of(process));
}

bool identity_is_over(const char *id)
{
	unsigned on;
	long process;
	unsigned long long start;
	if (sscanf(id, "%8x.%ld.%llu", &on, &process, &start) != 3 || on != machine())
		return false;
	return start_of(process) != start;
}

#include "tests/bench/bench.h"
int kernels_command(int argc, char **argv, struct err *e)
{
	(void)argc;
	(void)argv;
	(void)e;
	return 0;
}

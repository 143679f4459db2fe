/* Makes a scripted model for the tests of the mount: script_model FOLDER <SCRIPT (tests/unit's
 * script_help.h says what a script is). */
#include "tests/unit/script_help.h"

#include <stdio.h>
#include <stdlib.h>

enum { SCRIPT_MOST = 1 << 16 };

int main(int argc, char **argv)
{
	static char script[SCRIPT_MOST];
	if (argc != 2) {
		(void)fprintf(stderr, "usage: script_model FOLDER <SCRIPT\n");
		return 2;
	}
	script[fread(script, 1, sizeof script - 1, stdin)] = 0;
	test_script_make(script, argv[1]);
	return 0;
}

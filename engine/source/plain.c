/* Numbers as they are: F32, F16 and BF16. Any other type has no parts, and is refused by whoever
 * wants to read it. */
#include "engine/source/package_part.h"

#include <string.h>

static int describe(struct package_tensor *t, const struct encoded *in, struct err *e)
{
	const struct checkpoint_tensor *from = in->codes;
	(void)e;
	t->dims = from->dims;
	memcpy(t->shape, from->shape, sizeof t->shape);
	package_as_is(t, from);
	return 0;
}

const struct encoding encoding_plain = {.name = "plain numbers", .describe = describe};

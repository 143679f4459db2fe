/* Params of the command line's. See param_defaults.h. */
#include "fs/models/param_defaults.h"
#include "engine/session.h"

#include <string.h>

int param_defaults_set(struct mounted *model, struct err *e)
{
	const struct mount *m = model->mount;
	struct session *s = model->sessions[0]->session;
	for (size_t i = 0; i < m->param_count; i++) {
		const struct param_given *given = &m->params[i];
		struct err why;
		int code = session_param_set(s, given->param, given->value, strlen(given->value),
					     &why);
		if (code)
			return err_set(e, -code, "-o %s=%s: %s", params_name(given->param),
				       given->value, why.text);
	}
	return 0;
}

void param_defaults_words(const struct mount *m, struct text *out)
{
	for (size_t i = 0; i < m->param_count; i++)
		text_format(out, "%s %s (-o %s=)\n", params_name(m->params[i].param),
			    m->params[i].value, params_name(m->params[i].param));
}

/* How far conversion and warming are. See progress.h. */
#include "fs/models/progress.h"

#include <stdio.h>
#include <string.h>

enum { BAR = 24 }; /* characters */

/* A conversion goes before warming, and begins only after a model's first experts are asked. */
static bool how_far(const struct model *m, uint64_t *done, uint64_t *total)
{
	struct model_progress p;
	uint32_t warm, all;
	model_progress(m, &p);
	*done = p.done;
	*total = p.total;
	if (p.total)
		return true;
	model_warming(m, &warm, &all);
	*done = warm;
	*total = all;
	return all != 0;
}

void progress_words(const struct model *m, char *words, size_t size)
{
	uint32_t done, total;
	if (model_fact(m, FACT_PROGRESS, words, size))
		*words = 0;
	if (strcmp(words, "idle") != 0)
		return;
	model_warming(m, &done, &total);
	if (total)
		(void)snprintf(words, size, "warming %u %% %u/%u experts",
			       (unsigned)(100 * (uint64_t)done / total), done, total);
}

static void draw(char bar[BAR + 1], uint64_t done, uint64_t total)
{
	double share = done < total ? (double)done / (double)total : 1;
	for (int i = 0; i < BAR; i++)
		bar[i] = i < (int)(share * BAR) ? '#' : '.';
	bar[BAR] = 0;
}

static bool print_line(const struct model *m, const char *name, char *line, size_t size)
{
	char bar[BAR + 1], words[256];
	uint64_t done, total;
	if (!how_far(m, &done, &total))
		return false;
	draw(bar, done, total);
	progress_words(m, words, sizeof words);
	(void)snprintf(line, size, "%s: [%s] %s", name, bar, words);
	return true;
}

bool progress_of(const struct model *m, char *line, size_t size)
{
	return print_line(m, model_name(m), line, size);
}

bool progress_line(const struct mount *m, char *line, size_t size)
{
	const struct mounted *x = NULL;
	while ((x = mounted_next(m, x)) && !print_line(x->model, x->name, line, size))
		;
	return x;
}

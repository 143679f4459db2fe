/* A program that needs nothing but C's library and a driver: runs every kernel on card 0 and compares
 * it with the scalar table, once for each compiler's module, and then measures. For machines on which
 * nothing else of the project is there. Status 0 if all is right, 1 if not, 77 if there is no card.
 *
 * usage: card [compare|measure|layers|delta [nvcc|clang]] */
#include "engine/gpu/card_find.h"
#include "tests/cuda/card_runner.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static double card_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct card_tasks {
	bool compare, measure, layers, delta;
};

static bool card_compare(struct card_runner *x, const struct cuda_image *image)
{
	const struct runner r = card_runner(x);
	bool right = true;

	for (size_t i = 0; i < kernel_case_count; i++) {
		const double at = card_seconds();
		const bool one = kernel_cases[i].run(&r);
		printf("%s %s, %s (%.2f s)\n", one ? "ok" : "not ok", kernel_cases[i].name,
		       image->name, card_seconds() - at);
		fflush(stdout);
		right &= one;
	}
	return right;
}

/* Everything with one module. */
static bool card_try(const struct cuda_image *image, struct card_tasks tasks)
{
	const struct cuda_image only[] = {*image, {0, 0, 0, 0}};
	static struct card_runner x;
	struct err e;
	bool right = true;
	const double begun = card_seconds();

	x = (struct card_runner){.images = only};
	if (card_open(&x.card, 0, only, &e)) {
		printf("not ok %s: %s\n", image->name, e.text);
		return false;
	}
	printf("# %s: opened in %.2f s\n", image->name, card_seconds() - begun);
	if (tasks.compare)
		right = card_compare(&x, image);
	if (tasks.measure && x.card.module)
		card_measure(&x.card);
	if (tasks.layers && x.card.module)
		card_measure_layers(&x.card);
	if (tasks.delta && x.card.module)
		card_measure_delta(&x.card);
	card_close(&x.card);
	return right;
}

/* Whether there is a card, in words. */
static bool card_there(void)
{
	struct card_found found;
	char text[1024];

	(void)card_print_modules(text, sizeof text);
	printf("gpu_kernels %s\n", text);
	card_find_here(0, CARD_FIND_LOOK, &found);
	(void)card_print_found(&found, text, sizeof text);
	printf("gpu %s\n", text);
	return found.there;
}

int main(int argc, char **argv)
{
	const struct card_tasks tasks = {argc < 2 || strcmp(argv[1], "compare") == 0,
					 argc < 2 || strcmp(argv[1], "measure") == 0,
					 argc < 2 || strcmp(argv[1], "layers") == 0,
					 argc < 2 || strcmp(argv[1], "delta") == 0};
	bool right = true;

	if (!card_there())
		return 77;
	for (const struct cuda_image *i = cuda_images; i->name; i++)
		if (argc < 3 || strncmp(i->name, argv[2], strlen(argv[2])) == 0)
			right &= card_try(i, tasks);
	return right && cuda_images->name ? 0 : 1;
}

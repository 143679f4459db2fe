/* experts/heat.svg: the map of experts as a picture. One row of cells per layer, one cell per
 * expert: orange for experts in memory, green for experts on the GPU, grey for others, darker or
 * stronger the more an expert was used, and outlined if pinned. The picture has no script and
 * follows the viewer's light or dark scheme.
 *
 * Every cell has the same number of bytes, so the size of the file depends only on the numbers of
 * layers and experts. */
#include "fs/files/files.h"

#include <inttypes.h>
#include <stdio.h>

enum { CELL = 8, LEFT = 28, TOP = 28, LEGEND = 34, LEAST_WIDTH = 560 };

static void picture_text(struct text *out, const char *text)
{
	for (; *text; text++) {
		const char *as = *text == '<'	? "&lt;"
				 : *text == '>' ? "&gt;"
				 : *text == '&' ? "&amp;"
				 : *text == '"' ? "&quot;"
						: NULL;
		if (as)
			text_string(out, as);
		else if ((unsigned char)*text < ' ')
			text_string(out, " ");
		else
			text_add(out, text, 1);
	}
}

/* Rules for the steps of heat, for experts in memory (r), on the GPU (g), and for others (m). */
static void picture_style(struct text *out)
{
	static const char *const warm[] = {"#fde5c8", "#fdd8ac", "#fdc98e", "#fdb86f", "#fba351",
					   "#f58c39", "#ea7226", "#d95717", "#bf3d0c", "#9c2a06"};
	static const char *const green[] = {"#def2d9", "#c8e9c0", "#aedea7", "#90d18e",
					    "#70c274", "#52b05d", "#399c4a", "#258539",
					    "#146d2c", "#065420"};
	text_string(out, "<style>text{font:11px sans-serif;fill:#333}.b{fill:#fff}.n{fill:#eee}"
			 ".p{stroke:#06c;stroke-width:1.5}");
	for (int i = 0; i < 10; i++)
		text_format(out, ".r%d{fill:%s}.g%d{fill:%s}.m%d{fill:#%x%x%x}", i, warm[i], i,
			    green[i], i, 13 - i, 13 - i, 13 - i);
	text_string(out, "@media(prefers-color-scheme:dark){text{fill:#ccc}.b{fill:#181818}"
			 ".n{fill:#262626}.p{stroke:#6bf}");
	for (int i = 0; i < 10; i++)
		text_format(out, ".m%d{fill:#%x%x%x}", i, 3 + i, 3 + i, 3 + i);
	text_string(out, "}</style>\n");
}

static void picture_cell(struct text *out, uint32_t x, const char *heat, bool pinned)
{
	text_format(out, "<rect x=\"%05" PRIu32 "\" width=\"7\" height=\"7\" class=\"%s %c\"/>\n", x,
		    heat, pinned ? 'p' : 'u');
}

static void picture_row(struct text *out, const struct model *m, uint32_t layer, uint32_t y,
			uint64_t most)
{
	text_format(out, "<text x=\"4\" y=\"%" PRIu32 "\">%0*" PRIu32 "</text>\n", y + CELL - 1,
		    LAYER_DIGITS, layer);
	text_format(out, "<g transform=\"translate(%d %" PRIu32 ")\">\n", LEFT, y);
	for (uint32_t i = 0; i < model_experts(m, layer); i++) {
		struct model_expert x;
		char heat[8] = "n ";
		model_expert_inspect(m, layer, i, &x);
		if (x.on_gpu || x.resident || expert_uses(&x))
			(void)snprintf(heat, sizeof heat, "%c%u",
				       x.on_gpu ? 'g' : x.resident ? 'r' : 'm',
				       expert_heat(expert_uses(&x), most));
		picture_cell(out, CELL * i, heat, x.pinned || x.gpu_pinned);
	}
	text_string(out, "</g>\n");
}

static void picture_legend(struct text *out, uint32_t y)
{
	text_format(out, "<g transform=\"translate(%d %" PRIu32 ")\">\n", LEFT, y);
	for (uint32_t i = 0; i < 30; i++) {
		char heat[8];
		(void)snprintf(heat, sizeof heat, "%c%" PRIu32, "rgm"[i / 10], i % 10);
		picture_cell(out, i / 10 * 160 + CELL * (i % 10), heat, false);
	}
	picture_cell(out, 464, "r5", true);
	text_string(out, "<text x=\"84\" y=\"8\">in memory</text><text x=\"244\" y=\"8\">on the "
			 "GPU</text><text x=\"404\" y=\"8\">on disk</text><text x=\"476\" y=\"8\">"
			 "pinned</text>\n<text x=\"0\" y=\"22\">"
			 "from seldom to often used; each step is twice as often</text></g>\n");
}

void expert_picture_render(const struct node *n, struct text *out)
{
	const struct model *m = n->model->model;
	uint32_t layers = model_layers(m), widest = 0, y = TOP;
	uint64_t most = expert_most_used(m);
	for (uint32_t l = 0; l < layers; l++)
		widest = model_experts(m, l) > widest ? model_experts(m, l) : widest;
	uint32_t width = LEFT + CELL * widest + CELL;
	width = width < LEAST_WIDTH ? LEAST_WIDTH : width;
	text_format(out,
		    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%" PRIu32
		    "\" height=\"%" PRIu32 "\">\n",
		    width, TOP + CELL * layers + LEGEND + CELL);
	picture_style(out);
	text_string(out, "<rect width=\"100%\" height=\"100%\" class=\"b\"/>\n<text x=\"4\" "
			 "y=\"17\">");
	picture_text(out, n->model->name);
	text_string(out, ": experts by layer</text>\n");
	for (uint32_t l = 0; l < layers; l++, y += CELL)
		picture_row(out, m, l, y, most);
	picture_legend(out, y + CELL);
	text_string(out, "</svg>\n");
}
